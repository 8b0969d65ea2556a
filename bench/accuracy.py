#!/usr/bin/env python3
"""The built-in model's held-out exact match, through the program: the text rows of the table in its card.

    bench/accuracy.py build/release/dctms [-n 300] [--model F] [--draft]

The samples are the ones of the card: the same generator, seed and order. An answer counts when the greedy text equals
the reference, the end token included. Exits 1 when a row differs from the card by more than one point.
"""
import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRAIN = os.path.join(ROOT, "models", "tiny-vl", "train")
sys.path.insert(0, TRAIN)
sys.dont_write_bytecode = True
import make_data as D  # noqa: E402

# Row of the card, expected share: tiny-vl, draft.
CARD = {"p1": (1.000, 1.000), "p2": (0.957, 0.815), "p3": (1.000, 1.000), "p4": (1.000, 1.000), "p5_short": (0.933, 0.725),
        "p5_mid": (0.853, 0.390), "p5_long": (0.807, 0.330), "talk": (0.877, 0.895)}


def samples(n, seed=99):
    """The held-out turns in the order in which the card's evaluation drew them."""
    r = random.Random(seed)
    rows = [(t, [D.draw(t, r, True) for _ in range(n)]) for t in ("p1", "p2", "p3", "p4")]
    for name, lo, hi in (("p5_short", 3, 9), ("p5_mid", 10, 20), ("p5_long", 21, 36)):
        rows.append((name, [D.draw_p5(r, True, r.randint(lo, hi), 1)[0] for _ in range(n)]))
    rows.append(("talk", [D.draw("talk", r, True) for _ in range(n)]))
    return rows


def answer(dctms, model, question):
    out = subprocess.run([dctms, "run", "-m", model, "-c", "1280", "-n", "256", "-t", "1", "-ctk", "f32", "-ctv", "f32", "--temp", "0", "--json", "-p", question],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"dctms failed ({out.returncode}): {out.stderr}")
    result = json.loads(out.stdout)
    return result["text"] if result["finish_reason"] == "stop" else None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dctms")
    ap.add_argument("-n", type=int, help="samples a task (default: 300, of the draft model 200, as in the card)")
    ap.add_argument("--model", default=os.path.join(ROOT, "models", "tiny-vl", "tiny-vl-f16.gguf"))
    ap.add_argument("--draft", action="store_true", help="the draft model's column of the card")
    args = ap.parse_args()
    column = 1 if args.draft else 0
    model = os.path.join(ROOT, "models", "tiny-vl", "tiny-draft-f16.gguf") if args.draft else args.model
    worst = 0.0
    print(f"{'task':10} {'card':>6} {'here':>6}")
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, turns in samples(args.n or (200 if args.draft else 300)):
            good = sum(pool.map(lambda t: answer(args.dctms, model, t[0]) == t[1], turns))
            here, card = good / len(turns), CARD[name][column]
            worst = max(worst, abs(here - card))
            print(f"{name:10} {card:6.3f} {here:6.3f}", flush=True)
    print(f"largest difference {worst:.3f}")
    sys.exit(0 if worst <= 0.0101 else 1)


if __name__ == "__main__":
    main()
