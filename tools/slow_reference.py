"""The definitions, slowly: what is drawn and what is estimated, in integers and fractions.

Not the sampler's code and not the estimator's: a second opinion, from which vectors/ is made. Where
this and the library disagree, one of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

TOTAL_BITS, WORD_BITS, TIE_BITS = 48, 16, 32
TOTAL = 1 << TOTAL_BITS
DIGITS = 12  # of the estimates written: so many do not depend on the machine

Data = dict[str, Any]


class TooFewBytesError(Exception):
    """The random bytes ran out."""


class Reader:
    """Little-endian words from a string of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int, signed: bool = False) -> int:
        if len(self.data) < size:
            raise TooFewBytesError
        word, self.data = self.data[:size], self.data[size:]
        return int.from_bytes(word, "little", signed=signed)


# Estimates of the targets, None where the blocks that have reports do not tell, and their covariance.
Solved = tuple[Sequence[Fraction | None], list[list[Fraction]]]


def cumulated(row: list[int]) -> list[int]:
    """The upper end of each code's part of the line from 0 to 2**48."""
    ends, end = [], 0
    for weight in row:
        end += weight
        ends.append(end)
    return ends


def cuts(table: Data) -> list[int]:
    """Where the code changes in any row."""
    return sorted({end for row in table["weights"] for end in cumulated(row)[:-1]})


def is_tie(table: Data, word: int) -> bool:
    """Whether any row's code changes inside the word's part of the line: not the own row's only."""
    return any(cut >> TIE_BITS == word and cut % (1 << TIE_BITS) for cut in cuts(table))


def position_of(description: Data, table: Data, answer: Any) -> Fraction:
    """Where a number lies, in gaps between anchors: 0 at lower, (anchors - 1) at upper."""
    lower, upper = Fraction(description["lower"]), Fraction(description["upper"])
    return (Fraction(answer) - lower) / (upper - lower) * (len(table["anchors"]) - 1)


def row_of(description: Data, table: Data, answer: Any, anchor_word: int) -> int:
    """The row that an answer goes to."""
    if answer is None:
        return len(table["rows"]) - 1
    if table["anchors"] is None:
        return next(i for i, o in enumerate(description["options"]) if o == answer)
    position = position_of(description, table, answer)
    above = math.ceil(position - Fraction(1, 2) - Fraction(anchor_word, 1 << 32))
    return max(0, min(above, len(table["anchors"]) - 1))


def draw(description: Data, table: Data, answers: list[Any], data: bytes) -> list[int]:
    """The codes of up to 131,072 answers: all anchor words, then all code words, then all ties."""
    reader = Reader(data)
    numeric = table["anchors"] is not None
    anchor_words = [reader.take(4, signed=True) if numeric else 0 for _ in answers]
    rows = [row_of(description, table, a, w) for a, w in zip(answers, anchor_words, strict=True)]
    words = [reader.take(2) for _ in answers]
    codes = []
    for row, word in zip(rows, words, strict=True):
        more = reader.take(4) if is_tie(table, word) else 0
        point = (word << TIE_BITS) + more
        codes.append(next(c for c, end in enumerate(cumulated(table["weights"][row])) if point < end))
    assert not reader.data, "bytes were left over"
    return codes


def invert(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss and Jordan, in fractions."""
    size = len(matrix)
    wide = [[*row, *(Fraction(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = next(r for r in range(i, size) if wide[r][i])
        wide[i], wide[pivot] = wide[pivot], wide[i]
        wide[i] = [x / wide[i][i] for x in wide[i]]
        for r in range(size):
            if r != i and wide[r][i]:
                factor = wide[r][i]
                wide[r] = [x - factor * y for x, y in zip(wide[r], wide[i], strict=True)]
    return [row[size:] for row in wide]


def targets_of(table: Data) -> list[list[Fraction]]:
    """What is estimated, as weights of the rows' shares; the answer rate is the last."""
    answered = [Fraction(not (table["refusal"] and i == len(table["rows"]) - 1)) for i in _rows(table)]
    if table["anchors"] is not None:
        values = [Fraction(a) for a in table["anchors"]] + [Fraction(0)] * table["refusal"]
        return [values, answered]
    return [[Fraction(i == j) for j in _rows(table)] for i in _rows(table) if answered[i]] + [answered]


def _rows(table: Data) -> range:
    return range(len(table["rows"]))


def solved(table: Data, counts: list[int]) -> Solved | None:
    """Estimates of the targets and their covariance; None where a block of codes has no reports.

    As many free codes as rows, so that the weights g of the codes are determined: W g = T. Each block
    is counted for itself, as the chance of entering it is known.
    """
    if leaves_a_choice(table):
        return solved_freely(table, counts)
    blocks, start = blocks_of(table)
    if any(sum(counts[c] for c in block) == 0 for block in blocks):
        return None
    weights = [[Fraction(w, TOTAL) for w in row] for row in table["weights"]]
    mass = [sum((weights[0][c] for c in block), Fraction(0)) for block in blocks]
    shares = [Fraction(counts[c], sum(counts[d] for d in block)) for block in blocks for c in block]
    # BiSample has a code more than rows, and a fair coin: one more equation makes g unique and
    # changes nothing, because f(s=0) and f(s=1) are 1/2 each by then.
    square = [list(row) for row in weights]
    if len(blocks) > 1:
        square.append([Fraction(1) if c in blocks[0] else Fraction(0) for c in range(start)])
    inverse = invert(square)
    extra = [Fraction(0)] * (len(square) - len(weights))
    codes = [
        [sum((inverse[c][r] * t for r, t in enumerate([*target, *extra])), Fraction(0)) for c in range(start)]
        for target in targets_of(table)
    ]
    frequencies = [shares[c] * mass[b] for b, block in enumerate(blocks) for c in block]
    values = [sum((g * f for g, f in zip(row, frequencies, strict=True)), Fraction(0)) for row in codes]
    if 0 in counts:  # a code that nobody sent is not free of noise: the nearest share that can be
        for b, block in enumerate(blocks):
            for c in block:
                possible = [row[c] / mass[b] for row in weights]
                shares[c] = max(min(possible), min(shares[c], max(possible)))
    covariance = [[Fraction(0)] * len(codes) for _ in codes]
    for b, block in enumerate(blocks):
        scale = mass[b] ** 2 / sum(counts[c] for c in block)
        means = [sum((row[c] * shares[c] for c in block), Fraction(0)) for row in codes]
        for i, gi in enumerate(codes):
            for j, gj in enumerate(codes):
                covariance[i][j] += scale * sum(
                    ((gi[c] - means[i]) * (gj[c] - means[j]) * shares[c] for c in block), Fraction(0)
                )
    return values, covariance


def blocks_of(table: Data) -> tuple[list[range], int]:
    """The codes of each block, and how many codes there are."""
    blocks, start = [], 0
    for size in table["blocks"]:
        blocks.append(range(start, start + size))
        start += size
    return blocks, start


def leaves_a_choice(table: Data) -> bool:
    """Whether W g = T has more solutions than counting each block for itself makes equal."""
    matrix = np.array(table["weights"]) / TOTAL
    return int(len(matrix[0]) - np.linalg.matrix_rank(matrix, tol=1e-11)) > len(table["blocks"]) - 1


def solved_freely(table: Data, counts: list[int]) -> Solved | None:
    """The same where W g = T leaves a choice: g = D^-1 W' (W D^-1 W')^+ T, D the fitted codes. In doubles."""
    blocks = [block for block in blocks_of(table)[0] if sum(counts[c] for c in block)]
    if not blocks:
        return None
    codes = [c for block in blocks for c in block]
    matrix = np.array(table["weights"], dtype=float)[:, codes]
    matrix /= matrix[0].sum()
    sizes = [len(block) for block in blocks]
    seen = np.array([counts[c] for c in codes], dtype=float)
    starts = np.cumsum([0, *sizes[:-1]])
    totals = np.repeat(np.add.reduceat(seen, starts), sizes)
    mass = np.repeat(np.add.reduceat(matrix[0], starts), sizes)
    frequencies = seen / totals * mass
    shares = np.full(len(matrix), 1 / len(matrix))
    fitted = shares @ matrix
    for _ in range(100):
        shares = shares * (matrix @ (frequencies / fitted))
        before, fitted = fitted, shares @ matrix
        if abs(fitted - before).max() <= 1e-5 * fitted.max():
            break
    targets = np.array([[float(t) for t in target] for target in targets_of(table)])
    scaled = matrix / np.sqrt(fitted)
    # D^-1 W' (W D^-1 W')^+ T is D^-1/2 (W D^-1/2)^+ T
    weights = (np.linalg.pinv(scaled, rcond=1e-11) @ targets.T).T / np.sqrt(fitted)
    known = np.abs(weights @ matrix.T - targets).max(axis=1) <= 1e-6
    if len(codes) - np.linalg.matrix_rank(matrix, tol=1e-11) > len(blocks) - 1:
        # One step of Fisher scoring: the projection of the frequencies onto the rows' span, in D^-1's norm.
        fit = np.linalg.lstsq(scaled.T, frequencies / np.sqrt(fitted), rcond=1e-11)[0]
        scored = np.maximum(fit @ matrix, fitted / 2)
        within = scored / np.repeat(np.add.reduceat(scored, starts), sizes)
    else:  # the blocks that are left leave no choice
        within = seen / totals
        if (seen == 0).any():
            within = np.clip(within, (matrix / mass).min(axis=0), (matrix / mass).max(axis=0))
    centred = weights - np.repeat(np.add.reduceat(weights * within, starts, axis=1), sizes, axis=1)
    covariance = (centred * (within * mass**2 / totals)) @ centred.T
    return (
        [Fraction(float(v)) if k else None for v, k in zip(weights @ frequencies, known, strict=True)],
        [[Fraction(float(v)) for v in row] for row in covariance],
    )


def root(x: Fraction) -> Fraction:
    """The square root of what is not negative, to 50 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).sqrt()) if x > 0 else Fraction(0)


def ratio(
    values: list[Fraction], covariance: list[list[Fraction]], top: int, z: Fraction, bounds: tuple[int, int]
) -> tuple[Fraction | None, Fraction | None, tuple[Fraction, Fraction]]:
    """S / A, its error, and Fieller's interval {m : (S - mA)^2 <= z^2 (V_S - 2mC + m^2 V_A)} in bounds."""
    whole = (Fraction(bounds[0]), Fraction(bounds[1]))
    s, a = values[top], values[-1]
    v_s, v_a, c = covariance[top][top], covariance[-1][-1], covariance[top][-1]
    if a <= 0:
        return None, None, whole
    m = s / a
    error = root(v_s - 2 * m * c + m * m * v_a) / a
    square, cross, rest = a * a - z * z * v_a, s * a - z * z * c, s * s - z * z * v_s
    inside = cross * cross - square * rest
    if square == 0 or inside <= 0:
        return m, error, whole
    ends = sorted((cross + sign * root(inside)) / square for sign in (-1, 1))
    if square > 0:
        return m, error, into((ends[0], ends[1]), whole)
    # Everything but what lies between the ends: one interval only if the range has one side of it.
    below, above = whole[0] <= ends[0] <= whole[1], whole[0] <= ends[1] <= whole[1]
    if above and ends[0] < whole[0]:
        return m, error, (ends[1], whole[1])
    if below and ends[1] > whole[1]:
        return m, error, (whole[0], ends[0])
    return m, error, whole


def into(interval: tuple[Fraction, Fraction], bounds: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    low, high = max(interval[0], bounds[0]), min(interval[1], bounds[1])
    return (low, high) if low <= high else interval


def estimate(description: Data, table: Data, counts: list[int], level: float) -> Data:
    """All fields of an estimate, from the definitions."""
    z = Fraction(-NormalDist().inv_cdf((1 - level) / 2))
    n, whole = sum(counts), (Fraction(0), Fraction(1))
    found = solved(table, counts) if n else None
    number = table["anchors"] is not None
    result: Data = {"n": n, "level": level}
    undefined = set()
    complete = None if found is None else [value for value in found[0] if value is not None]
    if found is None or complete is None or len(complete) < len(found[0]):
        complete = None
        undefined.add("total" if number else "proportions")
    if found is None or found[0][-1] is None:
        undefined |= {"answer_rate", "missing_rate"}
        rate = rate_error = None
        rate_interval = whole
    else:
        rate, rate_error = found[0][-1], root(found[1][-1][-1])
        if not table["refusal"]:
            rate, rate_error = Fraction(1), Fraction(0)
        rate_interval = into((rate - z * rate_error, rate + z * rate_error), whole)
    result |= {
        "answer_rate": rate,
        "answer_rate_error": rate_error,
        "answer_rate_interval": rate_interval,
        "missing_rate": None if rate is None else 1 - rate,
        "missing_rate_error": rate_error,
        "missing_rate_interval": (1 - rate_interval[1], 1 - rate_interval[0]),
    }
    if number:
        lower, upper = Fraction(description["lower"]), Fraction(description["upper"])
        centre, half = (upper + lower) / 2, (upper - lower) / 2
        m = error = total = total_error = total_interval = None
        interval = (Fraction(-1), Fraction(1))
        if found is not None and complete is not None:
            values, covariance = complete, found[1]
            m, error, interval = ratio(values, covariance, 0, z, (-1, 1))
            total = n * (half * values[0] + centre * values[1])
            v = half**2 * covariance[0][0] + 2 * half * centre * covariance[0][1]
            total_error = n * root(v + centre**2 * covariance[1][1])
            total_interval = (total - z * total_error, total + z * total_error)
        if m is None:
            undefined.add("mean")
        result |= {
            "mean": None if m is None else centre + half * m,
            "mean_error": None if error is None else half * error,
            "mean_interval": tuple(centre + half * end for end in interval),
            "total": total,
            "total_error": total_error,
            "total_interval": total_interval,
        }
    else:
        options = range(len(description["options"]))
        ratios = [
            (None, None, whole)
            if found is None or complete is None
            else ratio(complete, found[1], i, z, (0, 1))
            for i in options
        ]
        if ratios[0][0] is None:
            undefined.add("proportions")
        result |= {
            "proportions": [r[0] for r in ratios],
            "proportions_error": [r[1] for r in ratios],
            "proportions_interval": [r[2] for r in ratios],
        }
    digits = 7 if leaves_a_choice(table) else DIGITS
    return {name: _plain(value, digits) for name, value in result.items()} | {"undefined": sorted(undefined)}


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, Fraction):
        return float(f"{float(value):.{digits}g}")
    if isinstance(value, (tuple, list)):
        return [_plain(part, digits) for part in value]
    return value
