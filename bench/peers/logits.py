#!/usr/bin/env python3
"""How far saved logits are from the oracle's, beside a peer's.

    logits.py ORACLE FIRST_ROW NAME=FILE [NAME=FILE ...]

For every row from FIRST_ROW on: the mean absolute difference of the log-probabilities of the oracle's top 50, and whether the top
token is the same wherever the oracle's gap between its best two exceeds twice the mean difference. One line a file.
"""
import array
import math
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        if f.read(8) != b"DCTLOGIT":
            f.seek(0)  # the oracle's own files have no magic
        rows, vocab = struct.unpack("<II", f.read(8))
        data = array.array("f")
        data.fromfile(f, rows * vocab)
    return rows, vocab, data


def log_softmax(row):
    top = max(row)
    norm = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - norm for x in row]


def main():
    rows, vocab, oracle = load(sys.argv[1])
    first = int(sys.argv[2])
    truth = {i: log_softmax(oracle[i * vocab:(i + 1) * vocab]) for i in range(first, rows)}
    best = {i: sorted(range(vocab), key=lambda v: (-t[v], v))[:50] for i, t in truth.items()}
    spread = []
    for i in truth:
        row = oracle[i * vocab:(i + 1) * vocab]
        mean = sum(row) / vocab
        spread.append(math.sqrt(sum((x - mean) ** 2 for x in row) / vocab))
    print(f"oracle: {len(truth)} positions, standard deviation of its logits {sum(spread) / len(spread):.2f}")
    for item in sys.argv[3:]:
        name, path = item.split("=", 1)
        r, v, data = load(path)
        if (r, v) != (rows, vocab):
            sys.exit(f"{path}: {r} x {v}, the oracle has {rows} x {vocab}")
        rows_here = {i: log_softmax(data[i * vocab:(i + 1) * vocab]) for i in truth}
        total = sum(abs(rows_here[i][t] - truth[i][t]) for i in truth for t in best[i])
        mean = total / (50 * len(truth))
        wide = [i for i in truth if truth[i][best[i][0]] - truth[i][best[i][1]] > 2 * mean]
        same = sum(max(range(vocab), key=lambda t: (rows_here[i][t], -t)) == best[i][0] for i in wide)
        print(f"{name}: mean |difference| of top 50 {mean:.6f}; top-1 equal {same} of {len(wide)} where the gap is wide")


if __name__ == "__main__":
    main()
