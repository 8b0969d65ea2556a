#!/usr/bin/env python3
"""400 common words in a random order, the same each time: a text for synthetic models, which know no language."""
import random

WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we when".split()

if __name__ == "__main__":
    r = random.Random(1)
    print(" ".join(r.choice(WORDS) for _ in range(400)), end="")
