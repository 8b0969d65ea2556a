#!/usr/bin/env bash
# The table of every type in docs/ACCURACY.md: KL divergence from the oracle, of dctms and of a peer, on the same file.
#
#   [NODE_PEER=/folder] bench/peers/types.sh DCTMS ORACLE REQUANT WORKDIR [MODEL:TYPE ...]
#
# MODEL tiny-vl is the built-in model in that type, over TEXTS (5) held-out texts of 400 tokens; every other MODEL is made by
# `dctms synth` and compared at the last 64 positions of 264 ids. Of types that begin with mlx or hf a directory is made, which the
# peer cannot read. Files are made one at a time and removed.
set -eu
dctms=$1 oracle=$2 requant=$3 work=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
built_in=$here/../../models/tiny-vl/tiny-vl-f16.gguf
types="F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4"
if [ $# -eq 0 ]; then
    for type in $types; do set -- "$@" "tiny-vl:$type"; done
    for type in $types mlx-4bit; do set -- "$@" "qwen2.5-0.5b:$type"; done
fi
mkdir -p "$work"
"$here/words.py" >"$work/words.txt"
"$here/texts.py" "$dctms" "$built_in" "$work" "${TEXTS:-5}" 400

# compare LABEL MODEL FIRST IDS...: one row of the table, over the positions from FIRST on of each list of ids.
compare() {
    local label=$1 model=$2 first=$3 n=0 truths="" ours="" theirs=""
    shift 3
    for ids in "$@"; do
        "$oracle" "$model" "$ids" "$work/oracle-$n" "$first" 2>"$work/log"
        "$dctms" score -m "$model" --ids-file "$ids" --save-logits "$work/dctms-$n" >/dev/null 2>"$work/log"
        truths=$truths,$work/oracle-$n ours=$ours,$work/dctms-$n
        if [ -n "${NODE_PEER:-}" ] && [ -f "$model" ]; then
            node "$here/logits.mjs" "$model" "$ids" "$first" "$work/peer-$n" 2>"$work/log" && theirs=$theirs,$work/peer-$n
        fi
        n=$((n + 1))
    done
    python3 "$here/logits.py" --row "$label" "${truths#,}" dctms="${ours#,}" ${theirs:+llama.cpp="${theirs#,}"}
    rm -f "$work"/oracle-* "$work"/dctms-* "$work"/peer-*
}

echo "| model | type | KL, dctms | KL, llama.cpp | ratio | difference, dctms | difference, llama.cpp | ratio | top-1, dctms | top-1, llama.cpp |"
echo "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
for item in "$@"; do
    name=${item%%:*} type=${item##*:}
    model=$work/$name-$type.gguf
    case $type in mlx* | hf*) model=$work/$name-$type ;; esac
    if [ "$name" = tiny-vl ]; then
        "$requant" "$built_in" "$type" "$model"
        compare "$name | $type" "$model" 0 "$work"/text-*.ids
    else
        "$dctms" synth "$name" --type "$type" -o "$model" >/dev/null 2>"$work/log"
        "$dctms" tokenize --ids --special -m "$model" -f "$work/words.txt" | cut -d' ' -f1-264 >"$work/words.ids"
        compare "$name | $type" "$model" 200 "$work/words.ids"
    fi
    rm -rf "$model"
done
