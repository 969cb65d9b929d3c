"""The mechanisms: one builder each, citing its equation.

Equation and algorithm numbers are those of Sun et al., BiSample, DASFAA 2020, unless another paper
is named. A builder returns integer weights; everything else is shared by all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

from .errors import ParameterError
from .exact import TOTAL, check_epsilon, real, response_weights, share, whole
from .mechanism import ChoiceMechanism, Mechanism, NumberMechanism, registered
from .table import MAX_CODES, NO_ANSWER, Table

__all__ = [
    "BiSample",
    "DitheredResponse",
    "Harmony",
    "KRandomizedResponse",
    "Mix",
    "PrivKV",
    "RandomizedResponse",
    "ThreeState",
    "dithered_levels",
    "from_description",
    "mix",
]


class BiSample(NumberMechanism):
    """BiSample-MD: a number or a refusal as two bits, a public direction s and a private bit b.

    The first choice for small epsilon. Without refusals in the data it is the paper's algorithm 2.

    >>> m = BiSample(epsilon=1, lower=17, upper=90)
    >>> m.pairs([0, 3])
    array([[0, 0],
           [1, 1]], dtype=uint8)
    """

    name = "bisample"

    @staticmethod
    @lru_cache
    def build(epsilon: float) -> Table:
        """Algorithms 2 and 4. Code 2s + b; s is a fair coin.

        Pr[b=1] = 1/2 + (2s - 1) v (2p - 1) / 2, and 1 - p for a refusal, with p = e^eps / (e^eps + 1):
        at v = -1 and +1 that is p or 1 - p, so that both halves are randomized response.
        """
        p, (q,) = response_weights(TOTAL // 2, epsilon, 2)
        return Table(
            #  s=0: b=0, b=1; s=1: b=0, b=1
            [[q, p, p, q], [p, q, q, p], [p, q, p, q]],
            rows=("-1", "+1", NO_ANSWER),
            codes=("s=0 b=0", "s=0 b=1", "s=1 b=0", "s=1 b=1"),
            anchors=(-1, 1),
            refusal=True,
            blocks=(2, 2),
        )

    def pairs(self, reports: object) -> Any:
        """The paper's pairs <s, b>, one row a report."""
        import numpy as np

        self.tally(reports)  # refuses what is no report
        codes = np.atleast_1d(np.asarray(reports)).astype(np.uint8)
        return np.stack([codes >> 1, codes & 1], axis=1)


class ThreeState(NumberMechanism):
    """Round to -1 or +1, or say "no answer": three states through 3-ary randomized response.

    Better than BiSample on the missing rate, and from epsilon = 1 up mostly on the mean as well: not where
    nearly everybody answers, nor at epsilon = 1 where the mean lies near the middle of the range.

    >>> ThreeState(epsilon=1).table
    <Table 3 rows x 3 codes, epsilon <= 1>
    """

    name = "three-state"

    @staticmethod
    @lru_cache
    def build(epsilon: float) -> Table:
        """k-RR with k = 3: the state is kept with e^eps / (e^eps + 2)."""
        return Table(
            _response_rows(TOTAL, epsilon, 3),
            rows=("-1", "+1", NO_ANSWER),
            codes=("-1", "+1", NO_ANSWER),
            anchors=(-1, 1),
            refusal=True,
        )


class Harmony(NumberMechanism):
    """Duchi et al.'s mean of a number that everyone gives; it has no code for a refusal.

    >>> Harmony(epsilon=1).privatize(0.3) in (0, 1)
    True
    """

    name = "harmony"

    @staticmethod
    @lru_cache
    def build(epsilon: float) -> Table:
        """Pr[+c] = 1/2 + v / (2c), c = (e^eps + 1) / (e^eps - 1): rounding, then randomized response."""
        return Table(
            _response_rows(TOTAL, epsilon, 2), rows=("-1", "+1"), codes=("-c", "+c"), anchors=(-1, 1)
        )


class PrivKV(NumberMechanism):
    """PrivKV for one key (Ye et al., S&P 2019): half of epsilon says whether there is an answer, half which.

    Estimated here without bias, by the general estimator. The original's own biased estimator, and
    its iterations, are in `PrivKVM`.

    Its two halves never cost all of epsilon at once, because a refusal's fake value is a coin's:

    >>> round(PrivKV(epsilon=1).epsilon_upper, 2)
    0.72
    """

    name = "privkv"

    @staticmethod
    @lru_cache
    def build(epsilon: float) -> Table:
        """Key and value each by randomized response at eps / 2; codes <0,0>, <1,-1>, <1,+1>.

        A refusal that is turned into a key gets a fake value from U[-1, 1], which is -1 or +1 with
        1/2 each once it is rounded.
        """
        keep, (drop,) = response_weights(TOTAL, Fraction(epsilon) / 2, 2)
        same, (other,) = response_weights(keep, Fraction(epsilon) / 2, 2)
        fake = share(drop, 2)
        return Table(
            [[drop, same, other], [drop, other, same], [keep, *fake]],
            rows=("-1", "+1", NO_ANSWER),
            codes=("<0,0>", "<1,-1>", "<1,+1>"),
            anchors=(-1, 1),
            refusal=True,
        )


class DitheredResponse(NumberMechanism):
    """The dithered response: rounding with a public threshold, whose noise is taken off again.

    Not in the paper. From epsilon = 1 up it is better than BiSample for the missing rate and for most
    means (at 1 not where the mean lies near the middle of the range), from 2 up mostly by large factors;
    see docs/dithered.md for the proof and for where it is not.

    >>> DitheredResponse(epsilon=2, lower=17, upper=90).table
    <Table 34 rows x 64 codes, epsilon <= 2>
    """

    name = "dithered"

    def __init__(
        self,
        epsilon: float,
        lower: float = -1.0,
        upper: float = 1.0,
        levels: int | None = None,
        steps: int = 16,
    ) -> None:
        levels = dithered_levels(epsilon) if levels is None else whole(levels, 2, "levels")
        super().__init__(epsilon, lower, upper, levels=levels, steps=whole(steps, 1, "steps"))

    @classmethod
    def fitting(cls, epsilon: float, lower: float = -1.0, upper: float = 1.0) -> DitheredResponse:
        """With the levels that suit epsilon and as many steps, up to 16, as a byte has codes for.

        >>> DitheredResponse.fitting(epsilon=10)
        DitheredResponse(epsilon=10.0, lower=-1.0, upper=1.0, levels=25, steps=9)
        """
        levels = min(dithered_levels(epsilon), MAX_CODES - 1)
        return cls(epsilon, lower, upper, levels=levels, steps=min(16, MAX_CODES // (levels + 1)))

    @staticmethod
    @lru_cache
    def build(epsilon: float, levels: int, steps: int) -> Table:
        """The level told through (k + 1)-ary randomized response y; code u (k + 1) + y.

        With u uniform and public the level is j = min(floor((v + 1) / gap + u), k - 1), or k for a
        refusal; y = j with e^eps / (e^eps + k), any other with 1 / (e^eps + k). For each u that is
        eps-LDP, and the answer has no part in u. With u in L equal steps, anchors lie L to a gap
        between levels, and the whole is a table.
        """
        ways = levels + 1
        if steps * ways > MAX_CODES:
            raise ParameterError(
                f"{levels} levels in {steps} steps make {steps * ways} codes, and a report is one byte:"
                f" take steps of at most {MAX_CODES // ways}, or fewer levels"
            )
        responses = [_response_rows(total, epsilon, ways) for total in share(TOTAL, steps)]
        anchors = steps * (levels - 1) + 1

        def level(anchor: int, u: int) -> int:
            return levels if anchor == anchors else min((anchor + u) // steps, levels - 1)

        numbers = [2 * i / (anchors - 1) - 1 for i in range(anchors)]
        said = [*(str(j) for j in range(levels)), NO_ANSWER]
        return Table(
            [
                [weight for u in range(steps) for weight in responses[u][level(anchor, u)]]
                for anchor in range(anchors + 1)
            ],
            rows=(*(f"{number:+.4g}" for number in numbers), NO_ANSWER),
            codes=[f"u={u} y={y}" for u in range(steps) for y in said],
            anchors=numbers,
            refusal=True,
            blocks=[ways] * steps,
        )


class Mix(NumberMechanism):
    """A public coin picks one of two mechanisms for each report; the estimates are pooled.

    Made by `mix`. The coin is one bit more in the code: the first mechanism's codes, then the second's.

    >>> mix(BiSample, DitheredResponse, share=0.25)(epsilon=0.5).table
    <Table 18 rows x 52 codes, epsilon <= 0.5>
    """

    name = "mix"

    def __init__(
        self,
        epsilon: float,
        lower: float = -1.0,
        upper: float = 1.0,
        first: str = "bisample",
        second: str = "dithered",
        share: float = 0.5,
    ) -> None:
        if not 0 < real(share) < 1:
            raise ParameterError(f"share must be between 0 and 1, not {share!r}")
        super().__init__(epsilon, lower, upper, first=first, second=second, share=real(share))

    @staticmethod
    @lru_cache
    def build(epsilon: float, first: str, second: str, share: float) -> Table:
        """Codes of `first` with probability `share`, of `second` with the rest.

        Either table is eps-LDP, and the coin has no part in the answer. Scaling a table's integers
        rounds them, so the tables are taken at an epsilon smaller by what the rounding cost.
        """
        kinds = [
            kind
            for name in (first, second)
            if (kind := registered().get(name)) and issubclass(kind, NumberMechanism) and kind is not Mix
        ]
        if len(kinds) < 2:
            raise ParameterError(
                f"mix takes the names of two mechanisms for numbers, not {first!r} and {second!r}"
            )
        part = Fraction(share).limit_denominator(10_000)
        if part in (0, 1):
            raise ParameterError(f"share counts in parts of 1/10000, and {share:g} is none or all of them")
        target, step = epsilon, math.ulp(epsilon)
        while True:
            tables = [kind(target).table for kind in kinds]
            table = _joined(tables, [part, 1 - part])
            if table.satisfies(epsilon):
                return table
            step = 2 * max(step, table.epsilon_upper - epsilon)
            target -= step


def mix(
    first: type[NumberMechanism], second: type[NumberMechanism], share: float
) -> Callable[..., NumberMechanism]:
    """A mechanism that is `first` with probability `share` and else `second`, by a public coin.

    >>> m = mix(BiSample, DitheredResponse, share=0.25)(epsilon=0.5, lower=0, upper=10)
    >>> m.estimate(m.tally(m.privatize([4.0] * 100_000, rng=1))).mean_interval[0] < 4
    True
    """
    return partial(Mix, first=first.name, second=second.name, share=share)


def _joined(tables: Sequence[Table], shares: Sequence[Fraction]) -> Table:
    """Tables side by side, each scaled by its share, on the anchors of the finest of them."""
    if len({table.refusal for table in tables}) > 1:
        raise ParameterError("mix takes two mechanisms that both take refusals, or neither")
    finest = max(tables, key=lambda table: len(table.anchors or ()))
    assert finest.anchors is not None
    blocks = [size for table in tables for size in table.blocks]
    masses = _apportioned(
        [part * mass for table, part in zip(tables, shares, strict=True) for mass in _block_masses(table)],
        TOTAL,
    )
    rows = []
    for i in range(len(finest.rows)):
        ideal = [
            part * weight
            for table, part in zip(tables, shares, strict=True)
            for weight in _row_at(table, i, len(finest.anchors))
        ]
        row: list[int] = []
        for size, mass in zip(blocks, masses, strict=True):
            row += _apportioned(ideal[len(row) : len(row) + size], mass)
        rows.append(row)
    return Table(
        rows,
        rows=finest.rows,
        codes=[f"{c + 1}: {code}" for c, table in enumerate(tables) for code in table.codes],
        anchors=finest.anchors,
        refusal=finest.refusal,
        blocks=blocks,
    )


def _block_masses(table: Table) -> list[int]:
    ends = list(accumulate(table.blocks, initial=0))
    return [sum(table.weights[0][start:end]) for start, end in pairwise(ends)]


def _row_at(table: Table, i: int, anchors: int) -> list[Fraction]:
    """The weights for the i-th of so many anchors: between the table's own anchors, the mix of two rows."""
    if i == anchors:
        return [Fraction(weight) for weight in table.weights[-1]]
    assert table.anchors is not None
    below, part = divmod(Fraction(i * (len(table.anchors) - 1), anchors - 1), 1)
    above = min(below + 1, len(table.anchors) - 1)
    return [
        (1 - part) * low + part * high
        for low, high in zip(table.weights[below], table.weights[above], strict=True)
    ]


def _apportioned(ideal: Sequence[Fraction], total: int) -> list[int]:
    """Integers that sum to total, in proportion to the ideal parts, by largest remainders."""
    scale = Fraction(total) / sum(ideal)
    parts = [math.floor(part * scale) for part in ideal]
    by_remainder = sorted(range(len(parts)), key=lambda i: parts[i] - ideal[i] * scale)
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def dithered_levels(epsilon: float) -> int:
    """The number of levels that suits an epsilon: k = round(1 + 0.84 e^(eps/3)), at least 2.

    >>> [dithered_levels(epsilon) for epsilon in (0.1, 1, 2, 4, 6, 8)]
    [2, 2, 3, 4, 7, 13]
    """
    return max(2, round(1 + 0.84 * math.exp(check_epsilon(epsilon) / 3)))


class RandomizedResponse(ChoiceMechanism):
    """Warner's randomized response to a yes/no question; it has no code for a refusal.

    >>> RandomizedResponse(epsilon=1).privatize(True) in (0, 1)
    True
    """

    name = "rr"

    def __init__(self, epsilon: float, options: Sequence[Hashable] = (False, True)) -> None:
        super().__init__(epsilon, options)
        if len(self.options) != 2:
            raise ParameterError(f"randomized response has 2 options, not {len(self.options)}: take k-rr")

    @staticmethod
    @lru_cache
    def build(epsilon: float, labels: tuple[str, ...]) -> Table:
        """Definition 2: the truth with p = e^eps / (e^eps + 1)."""
        return Table(_response_rows(TOTAL, epsilon, len(labels)), rows=labels, codes=labels)


class KRandomizedResponse(ChoiceMechanism):
    """k-ary randomized response among options, with "no answer" as one option more.

    >>> KRandomizedResponse(epsilon=1, options=["never", "once", "often"]).table
    <Table 4 rows x 4 codes, epsilon <= 1>
    """

    name = "k-rr"

    @staticmethod
    @lru_cache
    def build(epsilon: float, labels: tuple[str, ...]) -> Table:
        """The truth with e^eps / (e^eps + k), each of the k others with 1 / (e^eps + k)."""
        states = (*labels, NO_ANSWER)
        rows = _response_rows(TOTAL, epsilon, len(states))
        return Table(rows, rows=states, codes=states, refusal=True)


def from_description(description: Mapping[str, Any]) -> Mechanism:
    """The mechanism that `describe()` described.

    >>> from_description({"mechanism": "bisample", "epsilon": 1, "lower": 17, "upper": 90})
    BiSample(epsilon=1.0, lower=17.0, upper=90.0)
    """
    if not isinstance(description, Mapping):
        raise ParameterError(f"a description is what describe() returned, not a {type(description).__name__}")
    parameters = dict(description)
    name = parameters.pop("mechanism", None)
    kind = registered().get(name) if isinstance(name, str) else None
    if kind is None:
        raise ParameterError(f"mechanism must be one of {', '.join(sorted(registered()))}, not {name!r}")
    try:
        return kind(**parameters)
    except TypeError as problem:
        given = ", ".join(parameters)
        raise ParameterError(f"{name} cannot be made from {given}: {problem}") from problem


def _response_rows(total: int, epsilon: float, k: int) -> list[list[int]]:
    """The k rows of k-ary randomized response."""
    truth, others = response_weights(total, epsilon, k)
    return [[*others[:i], truth, *others[i:]] for i in range(k)]
