"""Mechanisms written by hand: a table over a domain is all it takes, and no builder made these.

UNEVEN has anchors with gaps of 1, 3, 5 and 11, a refusal, and 5 codes. COIN has a public coin with two
blocks of unequal chance. Their weights are small integers times a power of two, plus a few, so that cuts
fall inside words and there are ties.
"""

from fractions import Fraction

import numpy as np

from bisample import Mechanism, Options, Range, Table
from bisample.device.randomness import Replay

# In 128ths, such that two scores of the codes tell the answers: SCORES are expected to be 3/64 (anchor - 10)
# for an answer and 0 for a refusal; ANSWERED 0 for an answer and -1/4 for a refusal.
_UNEVEN = [
    [37, 31, 28, 19, 13],
    [34, 31, 32, 17, 14],
    [30, 27, 36, 19, 16],
    [23, 23, 40, 21, 21],
    [15, 18, 24, 34, 37],
    [16, 32, 32, 32, 16],
]
SCORES = (-2, -1, 0, 1, 2)
ANSWERED = (1, -1, 0, -1, 1)
# Orthogonal to (1, 1, 1, 1, 1) and to both scores: whatever multiple is added, the expectations stay.
_NUDGE = (0, 3, -4, -1, 2)

UNEVEN = Mechanism(
    Table(
        [
            [n * 2**41 + 12_345 * (i + 1) * nudge for n, nudge in zip(row, _NUDGE, strict=True)]
            for i, row in enumerate(_UNEVEN)
        ]
    ),
    Range(5, 45, (0, 1, 4, 9, 20)),
)
# Code 4 from the row of 45 and from that of 5.
UNEVEN_RATIO = Fraction(37 * 2**41 + 123_450, 13 * 2**41 + 24_690)

# In 64ths: the coin says 24 (codes 0 and 1) or 40 (codes 2 to 4), whatever the row.
_COIN = [
    [16, 8, 20, 12, 8],
    [11, 13, 12, 13, 15],
    [8, 16, 9, 12, 19],
    [12, 12, 8, 24, 8],
]
COIN = Mechanism(
    Table(
        [[n * 2**42 + more for n, more in zip(row, (7, -7, 1, 1, -2), strict=True)] for row in _COIN],
        blocks=(2, 3),
    ),
    Range(-0.1, 0.2, (0, 2, 3)),
)
# Code 2 from the row of -0.1 and from that of a refusal.
COIN_RATIO = Fraction(20 * 2**42 + 1, 8 * 2**42 + 1)

# A choice, with fewer codes than rows.
FRUIT = Mechanism(
    Table([[2**46, 2**48 - 2**46], [2**47 - 1, 2**47 + 1], [2**47 + 3, 2**47 - 3]]),
    Options(["apple", "2", "true"], refusal=False),
)

HANDMADE = {"uneven": UNEVEN, "coin": COIN, "fruit": FRUIT}


def telling(domain):
    """A mechanism whose code is the row, for every 16-bit word but the first and the last."""
    last = domain.height - 1
    return Mechanism(Table([[1] * i + [2**48 - last] + [1] * (last - i) for i in range(last + 1)]), domain)


def rows_drawn(domain, answers, words):
    """The rows that numbers go to with these 32-bit words, seen from outside."""
    data = np.asarray(words, dtype="<u4").tobytes() + b"\x00\x80" * len(words)
    return telling(domain).privatize(answers, rng=Replay(data)).tolist()
