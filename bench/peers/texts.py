#!/usr/bin/env python3
"""Texts of the built-in model as token ids: held-out conversations from the generator that it was trained with.

    texts.py DCTMS MODEL FOLDER [COUNT LENGTH]

Writes FOLDER/text-0.ids ... of LENGTH ids each; 5 of 400 unless given, for the model was trained to about 450 tokens.
"""
import os
import random
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "models", "tiny-vl", "train"))
sys.dont_write_bytecode = True
import make_data as D  # noqa: E402


def conversation(r, n_bytes):
    """Turns of every task until there are n_bytes of text."""
    turns, text = [], ""
    while len(text) < n_bytes:
        task = r.choice(("p1", "p2", "p3", "p4", "p5", "talk"))
        turns += D.draw_p5(r, True, r.randint(3, 9)) if task == "p5" else [D.draw(task, r, True)]
        text = "".join(part for part, _ in D.chat(turns))
    return text


def main():
    dctms, model, folder = sys.argv[1:4]
    count, length = map(int, sys.argv[4:6] or ("5", "400"))
    os.makedirs(folder, exist_ok=True)
    r = random.Random(3)
    for i in range(count):
        text = conversation(r, 8 * length)  # a token has about four bytes
        out = subprocess.run([dctms, "tokenize", "--ids", "--special", "-m", model, "-f", "-"], input=text, capture_output=True, text=True, check=True)
        ids = out.stdout.split()[:length]
        if len(ids) != length:
            sys.exit(f"text {i} has {len(ids)} ids only")
        with open(os.path.join(folder, f"text-{i}.ids"), "w") as f:
            print(*ids, file=f)


if __name__ == "__main__":
    main()
