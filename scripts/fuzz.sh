#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds each, two at a time; findings stop it.
set -eu
build=$1
seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)
# Seeds: headers of the built-in models without their data; plans of one, of one context and of several.
make_seeds() {
    mkdir -p "$build/seeds/fuzz_gguf" "$build/seeds/fuzz_plan"
    for model in "$root"/models/tiny-vl/*.gguf; do
        head -c 49152 "$model" >"$build/seeds/fuzz_gguf/$(basename "$model")"
    done
    for steps in 64 32:16,64:8 16:32,32:16,64:8; do
        "$build/dctms" plan -m "$root/models/tiny-vl/tiny-draft-f16.gguf" --ctx-steps "$steps" -n 16 -t 2 \
            -o "$build/seeds/fuzz_plan/tiny-${steps//:/x}.plan" >/dev/null
    done
}
make_seeds
run_one() {
    target=$1
    name=$(basename "$target")
    mkdir -p "$build/corpus/$name"
    seeds=""
    for folder in "$build/seeds/$name" "$root/tests/fuzz/corpus/$name"; do
        [ ! -d "$folder" ] || seeds="$seeds $folder"
    done
    # shellcheck disable=SC2086
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/$name-" \
        "$build/corpus/$name" $seeds >"$build/$name.log" 2>&1 || { echo "FINDING in $name, see $build/$name.log" >&2; exit 1; }
    echo "$name: $(grep -a stat::number_of_executed_units "$build/$name.log" | awk '{print $2}') inputs, no finding"
}
export -f run_one
export build seconds root
printf '%s\n' "$build"/fuzz_* | grep -v '\.log$' | xargs -P 2 -I{} bash -c '[ -x {} ] && [ -f {} ] || exit 0; run_one {}'
