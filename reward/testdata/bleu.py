"""Writes bleu.json: sentence_bleu of sacreBLEU for hypotheses of several sorts.

    pip install sacrebleu==2.6.0 && python reward/testdata/bleu.py > reward/testdata/bleu.json
"""

import json
import random

import sacrebleu

WORDS = "the a cat dog sat ran on under red mat , . don't 3.5 1,000 state-of-the-art U.S. \"quoted\" (x) &amp; $5 50% Ünïcode".split()

cases = [
    ("the cat sat on the mat", ["the cat sat on the red mat"]),
    ("the cat sat on the mat", ["the cat sat on the mat"]),
    ("", ["a b c"]),
    ("x", ["y"]),
    ("cat", ["cat"]),
    ("the cat", ["the cat sat"]),
    ("The cat sat.", ["the cat sat."]),
    ("the the the the the the the", ["the cat is on the mat", "there is a cat on the mat"]),
    ("it costs $1,234.50, or 3-4 times more!", ["It costs $1,234.50 or 3-4 times more."]),
    ("a &amp;lt; b &quot;c&quot;", ["a < b \"c\""]),
    ("line one\nline two  ", ["line one line two"]),
    ("broken-\nword here", ["brokenword here"]),
    ("a b c d e f", ["a b c x e f", "a b y d e f g h"]),
    ("a b c d", ["a b c", "a b c d e"]),
    ("5.a .5 a.5 5.5 a-5 5-a", ["5 . a .5 a . 5 5.5 a-5 5 -a"]),
]
rng = random.Random(7)
for _ in range(25):
    hyp = " ".join(rng.choices(WORDS, k=rng.randint(1, 14)))
    refs = [" ".join(rng.choices(WORDS, k=rng.randint(1, 14))) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.7:
        words = hyp.split()
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        refs.append(" ".join(words))
    cases.append((hyp, refs))

rows = [{"answer": h, "targets": r, "score": sacrebleu.sentence_bleu(h, r).score / 100} for h, r in cases]
print("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]")
