#!/usr/bin/env bash
# The table of docs/ACCURACY.md: synthetic models, after a 200-token prompt 64 positions, dctms and a peer against the oracle.
#
#   NODE_PEER=/folder bench/peers/accuracy.sh build/release/dctms build/release/dctms_oracle WORKDIR [NAME:TYPE ...]
set -eu
dctms=$1 oracle=$2 work=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- qwen2.5-0.5b:F16 qwen2.5-0.5b:Q8_0 qwen2.5-0.5b:Q4_0 qwen2.5-0.5b:Q4_K_M qwen2.5-0.5b:Q5_K_M qwen2.5-0.5b:Q6_K \
    llama-3.2-1b:Q4_K_M qwen3-0.6b:Q8_0 gemma-3-1b:Q8_0
mkdir -p "$work"
"$here/words.py" >"$work/text.txt"
for item in "$@"; do
    name=${item%%:*} type=${item##*:}
    model=$work/$name-$type.gguf
    [ -f "$model" ] || "$dctms" synth "$name" --type "$type" -o "$model"
    # Exactly 264 ids: 200 of a prompt, then 64 positions whose predictions are compared.
    "$dctms" tokenize --ids --special -m "$model" -f "$work/text.txt" | cut -d' ' -f1-264 >"$work/ids.txt"
    "$oracle" "$model" "$work/ids.txt" "$work/oracle.logits" 200
    "$dctms" score -m "$model" --ids-file "$work/ids.txt" --save-logits "$work/dctms.logits" >/dev/null
    peer=""
    if [ -n "${NODE_PEER:-}" ]; then
        node "$here/logits.mjs" "$model" "$work/ids.txt" 200 "$work/peer.logits"
        peer="llama.cpp=$work/peer.logits"
    fi
    echo "## $name $type"
    python3 "$here/logits.py" "$work/oracle.logits" dctms="$work/dctms.logits" $peer
done
