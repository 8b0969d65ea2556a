#!/usr/bin/env bash
# dctms against llama-bench on the same file, alternating; prints every round and the ratio of medians.
#
#   LLAMA_BENCH=/path/llama-bench bench/peers/speed.sh build/release/dctms MODEL.gguf [ROUNDS] [THREADS] [PROMPT] [GEN]
set -eu
dctms=$1 model=$2 rounds=${3:-5} threads=${4:-2} prompt=${5:-512} gen=${6:-128}
: "${LLAMA_BENCH:?name a llama-bench binary}"
ours_pp="" ours_tg="" peer_pp="" peer_tg=""
pick() { python3 -c '
import json, sys
for row in json.load(sys.stdin):
    if (row["n_prompt"] > 0) == (sys.argv[1] == "pp"): print(row["avg_ts"])' "$1"; }
for round in $(seq "$rounds"); do
    ours=$("$dctms" bench -m "$model" -p "$prompt" -n "$gen" -r 1 -t "$threads" -o json 2>/dev/null)
    peer=$("$LLAMA_BENCH" -m "$model" -p "$prompt" -n "$gen" -r 1 -t "$threads" -o json 2>/dev/null)
    a=$(pick pp <<<"$ours") b=$(pick tg <<<"$ours") c=$(pick pp <<<"$peer") d=$(pick tg <<<"$peer")
    printf 'round %d: pp%d %.2f / %.2f   tg%d %.2f / %.2f   (dctms / llama.cpp, tokens per second)\n' "$round" "$prompt" "$a" "$c" "$gen" "$b" "$d"
    ours_pp="$ours_pp $a" ours_tg="$ours_tg $b" peer_pp="$peer_pp $c" peer_tg="$peer_tg $d"
done
python3 - "$ours_pp" "$peer_pp" "$ours_tg" "$peer_tg" <<'PY'
import statistics, sys
op, pp, ot, pt = ([float(x) for x in a.split()] for a in sys.argv[1:])
for name, a, b in (("prefill", op, pp), ("decode", ot, pt)):
    each = sorted(x / y for x, y in zip(a, b))
    print(f"{name}: {statistics.median(a):.2f} / {statistics.median(b):.2f} = {statistics.median(a) / statistics.median(b):.3f}  (rounds {each[0]:.3f} to {each[-1]:.3f})")
PY
