"""The definitions, slowly: what is drawn and what is estimated, from a mechanism's JSON alone.

Not the sampler's code and not the estimator's: a second opinion, from which vectors/ is made. Where
this and the library disagree, one of them is wrong. Draws are in integers, positions in doubles as
vectors/README.md says, estimates in decimals of 60 digits, so that every machine writes the same files.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, islice, pairwise
from typing import Any, TypeVar

TOTAL_BITS, TIE_BITS = 48, 32
TOTAL = 1 << TOTAL_BITS
STEP = 1 << 32  # steps of a position in one unit of the anchors

Data = dict[str, Any]
Row = list[Decimal]
T = TypeVar("T")


class TooFewBytesError(Exception):
    """The random bytes ran out."""


class Reader:
    """Little-endian words without a sign from a string of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> int:
        if self.at + size > len(self.data):
            raise TooFewBytesError
        word = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return word


# --- Drawing ----------------------------------------------------------------------------------------


class Drawing:
    """Draws codes as vectors/README.md says. A step is a method, so that tests can get it wrong."""

    block = 131_072

    def __init__(self, mechanism: Data) -> None:
        domain, table = mechanism["domain"], mechanism["table"]
        self.refusal = domain["refusal"]
        self.anchors: list[int] = domain.get("anchors", [])
        self.options: list[str] = domain.get("options", [])
        if self.anchors:
            self.lower, self.upper = float(domain["lower"]), float(domain["upper"])
            self.scale = self.anchors[-1] * STEP / (self.upper - self.lower)
        self.ends = [list(accumulate(row)) for row in table["weights"]]
        self.cuts = sorted({end for ends in self.ends for end in ends[:-1]})
        self.tied = {cut >> TIE_BITS for cut in self.cuts if cut % (1 << TIE_BITS)}

    def position(self, value: float) -> int:
        """The value's integer: the only place where anything is rounded."""
        moved = value - self.lower
        scaled = moved * self.scale
        return self.held(math.floor(scaled + 0.5))

    def held(self, position: int) -> int:
        return max(0, min(position, self.anchors[-1] * STEP))

    def row(self, answer: Any, word: int) -> int:
        """The row that an answer goes to."""
        if answer is None:
            assert self.refusal, "no row for a refusal"
            return len(self.ends) - 1
        if self.options:
            return self.options.index(text_of(answer))
        position = self.position(float(answer))
        below = bisect_right(self.anchors, position // STEP) - 1
        rest = position - self.anchors[below] * STEP
        if rest == 0:
            return below
        gap = self.anchors[below + 1] - self.anchors[below]
        return below + self.rounds_up(word, gap, rest)

    def rounds_up(self, word: int, gap: int, rest: int) -> bool:
        return word * gap < rest

    def is_tie(self, word: int, row: int) -> bool:  # noqa: ARG002 - the respondent's own row must not matter
        """Whether any row's code changes inside the word's part of the line."""
        return word in self.tied

    def code(self, row: int, word: int, more: int) -> int:
        """The first code whose part of the line ends beyond the point."""
        return bisect_right(self.ends[row], (word << TIE_BITS) + more)

    def rounding_words(self, answers: Sequence[Any], reader: Reader) -> list[int]:
        return [reader.take(4) if self.anchors else 0 for _ in answers]

    def codes_of_block(self, answers: Sequence[Any], reader: Reader) -> list[int]:
        """All rounding words, then all code words, then the ties."""
        rounding = self.rounding_words(answers, reader)
        words = [reader.take(2) for _ in answers]
        rows = [self.row(answer, word) for answer, word in zip(answers, rounding, strict=True)]
        more = self.ties([self.is_tie(w, row) for w, row in zip(words, rows, strict=True)], reader)
        return [self.code(*each) for each in zip(rows, words, more, strict=True)]

    def ties(self, tied: list[bool], reader: Reader) -> list[int]:
        return [reader.take(4) if tie else 0 for tie in tied]

    def codes(self, answers: Sequence[Any], data: bytes) -> list[int]:
        """The codes of all answers, block after block; no byte may be left over."""
        reader = Reader(data)
        codes = []
        for start in range(0, len(answers), self.block):
            codes += self.codes_of_block(answers[start : start + self.block], reader)
        assert reader.at == len(data), "bytes were left over"
        return codes


def text_of(answer: Any) -> str:
    """The text by which an option is found, for what stands in vectors/: texts, booleans, a few numbers."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, bool):
        return "true" if answer else "false"
    return str(int(answer)) if answer == int(answer) else repr(answer)


# --- Many answers by a rule -------------------------------------------------------------------------


def generator(seed: int) -> Iterator[int]:
    """32-bit words: the upper halves of a linear congruential generator's states."""
    state = seed
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % (1 << 64)
        yield state >> 32


def answers_and_bytes(batch: Data) -> tuple[list[Any], bytes]:
    """What a batch by rule stands for: first its answers are picked, then come its bytes."""
    words = generator(batch["seed"])
    choose = batch["choose_from"]
    answers = [choose[word % len(choose)] for word in islice(words, batch["count"])]
    size = batch["bytes_used"]
    data = b"".join(word.to_bytes(4, "little") for word in islice(words, -(-size // 4)))
    return answers, data[:size]


# --- The claim --------------------------------------------------------------------------------------


def worst_ratio(mechanism: Data) -> Fraction:
    """The largest ratio of two weights of one code."""
    columns = zip(*mechanism["table"]["weights"], strict=True)
    return max(Fraction(max(column), min(column)) for column in columns)


def keeps(ratio: Fraction, epsilon: float) -> bool:
    """Whether a ratio is at most e^epsilon."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(ratio.numerator) <= Decimal(epsilon).exp() * ratio.denominator


def epsilon_upper(ratio: Fraction) -> float:
    """The smallest double that is not below the logarithm of a ratio."""
    with localcontext() as context:
        context.prec = 60
        logarithm = (Decimal(ratio.numerator) / ratio.denominator).ln()
        nearest = float(logarithm)
        return nearest if Decimal(nearest) >= logarithm else math.nextafter(nearest, math.inf)


# --- Estimates --------------------------------------------------------------------------------------

NONE, ONE = Decimal(0), Decimal(1)
RANK = Decimal("1e-22")  # of squares: what is less is zero by the table's structure
EM_STEPS, EM_TOLERANCE = 100, Decimal("1e-5")


def dot(one: Sequence[Decimal], other: Sequence[Decimal]) -> Decimal:
    return sum(map(Decimal.__mul__, one, other), NONE)


def targets_of(domain: Data) -> list[Row]:
    """What is estimated, as weights of the rows' shares; the answer rate is the last.

    Of a number: the sum of the answers scaled to [-1, 1], and the same in the answers' units.
    """
    held = len(domain["anchors"] if domain["kind"] == "range" else domain["options"])
    refused = [NONE] * domain["refusal"]
    answered = [ONE] * held + refused
    if domain["kind"] == "options":
        return [[Decimal(i == j) for j in range(held)] + refused for i in range(held)] + [answered]
    scaled = [2 * Decimal(anchor) / domain["anchors"][-1] - 1 for anchor in domain["anchors"]] + refused
    centre, half = centre_and_half(domain)
    return [scaled, [half * s + centre * a for s, a in zip(scaled, answered, strict=True)], answered]


def centre_and_half(domain: Data) -> tuple[Decimal, Decimal]:
    """Of the doubles that the texts are, not of the texts."""
    lower, upper = Decimal(float(domain["lower"])), Decimal(float(domain["upper"]))
    return (upper + lower) / 2, (upper - lower) / 2


class Equations:
    """W g = T on the codes of the blocks that have reports, W given that a report is in one of them."""

    def __init__(self, table: Data, counts: list[int]) -> None:
        ends = list(accumulate(table["blocks"], initial=0))
        full = [range(a, b) for a, b in pairwise(ends) if sum(counts[a:b])]
        mass = sum(table["weights"][0][c] for block in full for c in block)
        self.rows = [[Decimal(row[c]) / mass for block in full for c in block] for row in table["weights"]]
        self.columns = [list(column) for column in zip(*self.rows, strict=True)]
        self.counts = [counts[c] for block in full for c in block]
        starts = list(accumulate((len(block) for block in full), initial=0))
        self.blocks = [range(a, b) for a, b in pairwise(starts)]
        self.mass = [sum((self.rows[0][c] for c in block), NONE) for block in self.blocks]
        self.reports = [sum(self.counts[c] for c in block) for block in self.blocks]
        self.within = [
            Decimal(n) / total for n, total in zip(self.counts, self.over(self.reports), strict=True)
        ]
        self.frequencies = [f * mass for f, mass in zip(self.within, self.over(self.mass), strict=True)]
        equal = [ONE / len(self.rows)] * len(self.rows)
        self.fitted = self.under(equal)
        # Differences between blocks are always left free, and counting each block for itself uses them up.
        self.choice = len(self.columns) - len(self.pivots()) >= len(self.blocks)
        if self.choice:
            self.fit(equal)

    def over(self, numbers: Sequence[T]) -> list[T]:
        """Each block's number for each of its codes."""
        return [number for block, number in zip(self.blocks, numbers, strict=True) for _ in block]

    def under(self, shares: Row) -> Row:
        """The codes' probabilities under these shares of the rows."""
        return [dot(shares, column) for column in self.columns]

    def fit(self, shares: Row) -> None:
        """Expectation maximization from equal shares."""
        for _ in range(EM_STEPS):
            relative = [f / p for f, p in zip(self.frequencies, self.fitted, strict=True)]
            shares = [share * dot(row, relative) for share, row in zip(shares, self.rows, strict=True)]
            before, self.fitted = self.fitted, self.under(shares)
            moved = max(abs(p - q) for p, q in zip(self.fitted, before, strict=True))
            if moved <= EM_TOLERANCE * max(self.fitted):
                break

    def normal(self) -> list[Row]:
        """W D^-1 W', D the fitted probabilities."""
        divided = [[w / p for w, p in zip(row, self.fitted, strict=True)] for row in self.rows]
        return [[dot(one, other) for other in self.rows] for one in divided]

    def pivots(self) -> list[int]:
        """Rows that span all others: as many as the rank."""
        return eliminated(self.normal(), [])[0]

    def solved(self, right: list[Row]) -> list[Row]:
        """For each right side t some x with (W D^-1 W') x = t on the pivots' rows."""
        return eliminated(self.normal(), right)[1]

    def weights(self, targets: list[Row]) -> list[Row | None]:
        """g = D^-1 W' (W D^-1 W')^+ T, of least variance under D; None where W g = T has no solution."""
        found: list[Row | None] = []
        for target, x in zip(targets, self.solved(targets), strict=True):
            g = [p / q for p, q in zip(self.under(x), self.fitted, strict=True)]
            missed = max(abs(dot(row, g) - t) for row, t in zip(self.rows, target, strict=True))
            found.append(g if missed <= Decimal("1e-6") * max(ONE, *map(abs, target)) else None)
        return found

    def shares_for_errors(self) -> Row:
        """The shares of the codes within their blocks that variances are taken under."""
        if self.choice:
            # The frequencies' projection onto the rows' span in the norm of D^-1: one step of Fisher scoring.
            relative = [f / p for f, p in zip(self.frequencies, self.fitted, strict=True)]
            projected = self.under(self.solved([[dot(row, relative) for row in self.rows]])[0])
            scored = [max(p, q / 2) for p, q in zip(projected, self.fitted, strict=True)]
            sums = [sum((scored[c] for c in block), NONE) for block in self.blocks]
            return [p / total for p, total in zip(scored, self.over(sums), strict=True)]
        if 0 not in self.counts:
            return self.within
        # A code that nobody sent is not free of noise: the nearest share that can be.
        return [
            max(min(column) / mass, min(f, max(column) / mass))
            for f, column, mass in zip(self.within, self.columns, self.over(self.mass), strict=True)
        ]

    def covariance(self, weights: list[Row | None]) -> list[Row]:
        """The sum over blocks of mass^2 / reports times the covariance within the block."""
        shares = self.shares_for_errors()
        centred = []
        for g in weights:
            held = g or [NONE] * len(shares)
            means = [dot([held[c] for c in block], [shares[c] for c in block]) for block in self.blocks]
            centred.append([x - mean for x, mean in zip(held, self.over(means), strict=True)])
        scales = [mass**2 / n for mass, n in zip(self.mass, self.reports, strict=True)]
        spread = [share * scale for share, scale in zip(shares, self.over(scales), strict=True)]
        return [[dot([x * s for x, s in zip(g, spread, strict=True)], h) for h in centred] for g in centred]


def eliminated(matrix: list[Row], right: list[Row]) -> tuple[list[int], list[Row]]:
    """Gauss and Jordan on a symmetric matrix without negative eigenvalues: its pivots, a solution a side."""
    size = len(matrix)
    wide = [[*row, *(side[i] for side in right)] for i, row in enumerate(matrix)]
    largest = max(matrix[i][i] for i in range(size))
    left, pivots = set(range(size)), []
    while left:
        pivot = max(sorted(left), key=lambda i: wide[i][i])
        if wide[pivot][pivot] <= RANK * largest:
            break
        left.remove(pivot)
        pivots.append(pivot)
        wide[pivot] = [x / wide[pivot][pivot] for x in wide[pivot]]
        for i in range(size):
            if i != pivot and wide[i][pivot]:
                factor = wide[i][pivot]
                wide[i] = [x - factor * y for x, y in zip(wide[i], wide[pivot], strict=True)]
    solutions = [[wide[i][size + k] if i in pivots else NONE for i in range(size)] for k in range(len(right))]
    return pivots, solutions


def estimate(mechanism: Data, counts: list[int]) -> tuple[Data, bool]:
    """All values and errors of an estimate as doubles, and whether W g = T left a choice."""
    with localcontext() as context:
        context.prec = 60
        return _estimate(mechanism, counts)


def _estimate(mechanism: Data, counts: list[int]) -> tuple[Data, bool]:
    domain, n = mechanism["domain"], sum(counts)
    targets = targets_of(domain)
    values: list[Decimal | None] = [None] * len(targets)
    covariance: list[Row] = []
    choice = False
    if n:
        equations = Equations(mechanism["table"], counts)
        weights = equations.weights(targets)
        values = [None if g is None else dot(g, equations.frequencies) for g in weights]
        covariance, choice = equations.covariance(weights), equations.choice

    def linear(i: int) -> tuple[Decimal | None, Decimal | None]:
        return values[i], None if values[i] is None else covariance[i][i].sqrt()

    def ratio(i: int) -> tuple[Decimal | None, Decimal | None]:
        s, a = values[i], values[-1]
        if s is None or a is None or a <= 0:
            return None, None
        m = s / a
        v = covariance[i][i] - 2 * m * covariance[i][-1] + m * m * covariance[-1][-1]
        return m, max(v, NONE).sqrt() / a

    rate, rate_error = linear(-1)
    if rate is not None and not domain["refusal"]:
        rate, rate_error = ONE, NONE  # by the table, not by the data
    result: Data = {
        "n": n,
        "answer_rate": rate,
        "answer_rate_error": rate_error,
        "missing_rate": None if rate is None else 1 - rate,
        "missing_rate_error": rate_error,
    }
    if domain["kind"] == "options":
        ratios = [ratio(i) for i in range(len(targets) - 1)]
        result |= {"proportions": [m for m, _ in ratios], "proportions_error": [e for _, e in ratios]}
    else:
        centre, half = centre_and_half(domain)
        (m, error), (total, total_error) = ratio(0), linear(1)
        result |= {
            "mean": None if m is None else centre + half * m,
            "mean_error": None if error is None else half * error,
            "total": None if total is None else n * total,
            "total_error": None if total_error is None else n * total_error,
        }
    undefined = [
        name
        for name in ("answer_rate", "missing_rate", "mean", "total", "proportions")
        if name in result and None in (result[name] if isinstance(result[name], list) else [result[name]])
    ]
    return {name: _plain(value) for name, value in result.items()} | {"undefined": sorted(undefined)}, choice


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return float(f"{float(value):.12g}") if isinstance(value, Decimal) else value
