#!/usr/bin/env bash
# The main job on the built-in model.
set -eu
dctms=$1
say() { printf '\n$ dctms %s\n' "$*"; }
say plan -c 512 -n 128
"$dctms" plan -c 512 -n 128
say run -c 512 -n 128 --temp 0 -p '"What is the capital of France?"'
exec "$dctms" run -c 512 -n 128 --temp 0 -p "What is the capital of France?"
