#!/usr/bin/env python3
"""How far saved logits are from the oracle's, beside a peer's.

    logits.py [--row "CELL | CELL"] ORACLE[,ORACLE...] NAME=FILE[,FILE...] [NAME=FILE[,FILE...] ...]

Of every file the last rows are compared, as many as the oracle's file has; several files are several texts. Over these positions:
the mean absolute difference of the log-probabilities of the oracle's top 50, the mean of KL(oracle || file), and whether the top token
is the same wherever the oracle's gap between its best two exceeds twice the mean difference. One line a NAME, or with --row one row of
a table for all: the cells given, then KL of each and the ratio of the first two with its standard error (over the positions, taken as
independent), differences of each and the ratio, top-1 of each.
"""
import array
import heapq
import math
import os
import struct
import sys


class Logits:
    """A file of rows, read one at a time."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "rb")
        if self.file.read(8) != b"DCTLOGIT":
            self.file.seek(0)  # the oracle's own files have no magic
        self.rows, self.vocab = struct.unpack("<II", self.file.read(8))
        self.start = self.file.tell()
        if os.path.getsize(path) != self.start + 4 * self.rows * self.vocab:
            sys.exit(f"{path}: cut off")

    def row(self, i):
        data = array.array("f")
        self.file.seek(self.start + 4 * i * self.vocab)
        data.fromfile(self.file, self.vocab)
        return data


def log_softmax(row):
    """Log-probabilities, and probabilities. A peer's rows are logarithms already and are normalised again like all others."""
    exp, top = math.exp, max(row)
    weights = [exp(x - top) for x in row]
    total = math.fsum(weights)
    norm = top + math.log(total)
    return [x - norm for x in row], [w / total for w in weights]


class Truth:
    """What there is to know of one row of the oracle."""

    def __init__(self, row):
        self.log, self.p = log_softmax(row)
        self.best = heapq.nlargest(50, range(len(row)), key=self.log.__getitem__)  # of equals the first
        self.gap = self.log[self.best[0]] - self.log[self.best[1]]
        mean = math.fsum(row) / len(row)
        self.spread = math.sqrt(math.fsum([(x - mean) ** 2 for x in row]) / len(row))


class Score:
    """The sums of one engine."""

    def __init__(self, name, paths):
        self.name = name
        self.files = [Logits(p) for p in paths.split(",")]
        self.diff = 0.0
        self.kls = []   # of each position
        self.tops = []  # of each position: the oracle's gap, and whether the top token is the same

    def take(self, text, n_left, truth):
        source = self.files[text]
        log, _ = log_softmax(source.row(source.rows - n_left))
        self.kls.append(math.fsum([p * (t - q) for p, t, q in zip(truth.p, truth.log, log) if p > 0]))
        self.diff += sum(abs(log[t] - truth.log[t]) for t in truth.best) / len(truth.best)
        self.tops.append((truth.gap, log.index(max(log)) == truth.best[0]))

    def finish(self):
        n = len(self.tops)
        self.kl = math.fsum(self.kls) / n
        self.diff /= n
        wide = [same for gap, same in self.tops if gap > 2 * self.diff]
        self.top = f"{sum(wide)} of {len(wide)}"


def check_shapes(oracles, score):
    if len(score.files) != len(oracles):
        sys.exit(f"{score.name}: {len(score.files)} files, the oracle has {len(oracles)}")
    for truth, file in zip(oracles, score.files):
        if file.vocab != truth.vocab or file.rows < truth.rows:
            sys.exit(f"{file.path}: {file.rows} x {file.vocab}, the oracle has {truth.rows} x {truth.vocab}")


def kl_ratio(ours, theirs):
    """The ratio of two means over the same positions, and its standard error."""
    ratio = ours.kl / theirs.kl
    error = math.sqrt(math.fsum([(a - ratio * b) ** 2 for a, b in zip(ours.kls, theirs.kls)])) / (len(ours.kls) * theirs.kl)
    return f"{ratio:.2f} ± {error:.2f}"


def table_row(label, scores):
    """Cells for the first two engines; a peer that cannot read the file leaves dashes."""
    a, b = scores[0], scores[1] if len(scores) > 1 else None
    if b is None:
        cells = [f"{a.kl:.2e}", "-", "-", f"{a.diff:.4f}", "-", "-", a.top, "-"]
    else:
        cells = [f"{a.kl:.2e}", f"{b.kl:.2e}", kl_ratio(a, b), f"{a.diff:.4f}", f"{b.diff:.4f}", f"{a.diff / b.diff:.2f}", a.top, b.top]
    return "| " + " | ".join([label] + cells) + " |"


def main():
    args = sys.argv[1:]
    label = None
    if args[0] == "--row":
        label, args = args[1], args[2:]
    oracles = [Logits(p) for p in args[0].split(",")]
    scores = [Score(*item.split("=", 1)) for item in args[1:]]
    spread = 0.0
    for score in scores:
        check_shapes(oracles, score)
    for text, oracle in enumerate(oracles):
        for i in range(oracle.rows):
            truth = Truth(oracle.row(i))
            spread += truth.spread
            for score in scores:
                score.take(text, oracle.rows - i, truth)
    for score in scores:
        score.finish()
    if label is not None:
        print(table_row(label, scores))
        return
    n = sum(o.rows for o in oracles)
    print(f"oracle: {n} positions, standard deviation of its logits {spread / n:.2f}")
    for s in scores:
        print(f"{s.name}: mean |difference| of top 50 {s.diff:.6f}; mean KL {s.kl:.3e}; top-1 equal {s.top} where the gap is wide")


if __name__ == "__main__":
    main()
