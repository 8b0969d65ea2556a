#!/usr/bin/env bash
# onnx-models.sh DCTMS DIR: plans every .onnx file below DIR and counts lifetimes, load and packing again with a few lines of
# Python that know nothing but the steps of `plan --json`. FILE.flags beside a file, when there is one, holds its flags (--dim,
# --input). Prints a row a file; exits 1 when any count differs. A file that cannot be shaped is listed and is no failure.
set -u
dctms=$1
dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/count.py" <<'PYTHON'
import json, sys

plan = json.load(open(sys.argv[1]))
values = {v["id"]: v for v in plan["values"]}
steps = plan["steps"]


def root(v):  # of values that share bytes
    while "view_of" in values[v] or "over" in values[v]:
        v = values[v].get("view_of", values[v].get("over"))
    return v


def content(v):  # the value that was computed into the bytes that v shows
    while "view_of" in values[v] and v in written:
        v = steps[written[v]]["reads"][0]
    return v


def wrong(what):
    sys.exit(f"{sys.argv[2]}: {what}")


# Lives from the steps alone: a buffer is live from the first step that touches any value in it to the last that does.
first, last, written = {}, {}, {}
for t, step in enumerate(steps):
    for v in step["reads"] + step["writes"]:
        if values[v]["region"] == "intermediate":
            first.setdefault(root(v), t)
            last[root(v)] = t
    for v in step["writes"]:
        written[v] = t
holds = {}  # whose content lies in a buffer: a value, and its views
for t, step in enumerate(steps):
    for v in step["reads"]:
        if v in written and holds[root(v)] != content(v):
            wrong(f"step {t} reads {v}, which was overwritten or not written yet")
    for v in step["writes"]:
        holds[root(v)] = content(v)
load = max((sum(values[b]["bytes"] for b in first if first[b] <= t <= last[b]) for t in range(len(steps))), default=0)
height = max((values[b]["offset"] + values[b]["bytes"] for b in first), default=0)
buffers = sorted(first)
for i, a in enumerate(buffers):
    for b in buffers[:i]:
        together = first[a] <= last[b] and first[b] <= last[a]
        lo, hi = values[a]["offset"], values[b]["offset"]
        if together and lo < hi + values[b]["bytes"] and hi < lo + values[a]["bytes"]:
            wrong(f"{a} and {b} share bytes while both are live")
c, e = plan["compile"], plan["envelope"]
if load != c["load_bytes"] or height != c["height_bytes"]:
    wrong(f"load {load} and height {height}, the plan says {c['load_bytes']} and {c['height_bytes']}")
if sum(e[k] for k in e if k != "m_max_bytes") != e["m_max_bytes"]:
    wrong("the envelope does not add up")
print(f"| {sys.argv[2]} | {plan['model']['nodes']} | {len(steps)} | {c['logical_tensors']} | {c['physical_buffers']} "
      f"| {load:,} | {height:,} | {'yes' if c['optimal'] else 'no'} | {e['m_max_bytes']:,} | {c['compile_ms']:.0f} |")
PYTHON
echo "| file | nodes | steps | values | buffers | load | height | proven | M_max | ms |"
echo "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|"
failed=0
while IFS= read -r file; do
    flags=()
    [ ! -f "$file.flags" ] || read -r -a flags <"$file.flags"
    if ! "$dctms" plan "$file" --json "${flags[@]}" >"$work/plan.json" 2>"$work/why"; then
        echo "| $(basename "$file") | not planned: $(tail -1 "$work/why") |"
        continue
    fi
    python3 "$work/count.py" "$work/plan.json" "$(basename "$file")" || failed=1
done < <(find -L "$dir" -name '*.onnx' | LC_ALL=C sort)
exit $failed
