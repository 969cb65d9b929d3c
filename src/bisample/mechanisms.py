"""The mechanisms: one builder each, citing its equation.

Equation and algorithm numbers are those of Sun et al., BiSample, DASFAA 2020, unless another paper
is named. A builder returns integer weights; everything else is shared by all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from .errors import ParameterError
from .exact import TOTAL, response_weights, share
from .mechanism import ChoiceMechanism, Mechanism, NumberMechanism, registered
from .table import NO_ANSWER, Table

__all__ = [
    "BiSample",
    "Harmony",
    "KRandomizedResponse",
    "PrivKV",
    "RandomizedResponse",
    "ThreeState",
    "from_description",
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

    Better than BiSample on the missing rate, and from epsilon = 1 up on the mean as well.

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

    >>> PrivKV(epsilon=1).epsilon_upper < 1  # a refusal's fake value hides a little more than is claimed
    True
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
