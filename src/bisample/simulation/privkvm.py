"""PrivKVM (Ye et al., IEEE S&P 2019) for one key: PrivKV, iterated to take off its bias.

PrivKV's mean is biased towards the mean of the fakes that refusals send: E m = alpha m + (1 - alpha)
m_fake, where alpha is the share of true answers among those who send a value. PrivKVM lets the fakes
take the last round's mean. Real rounds ask everybody again and spend budget; virtual rounds only correct
on the server. The original's algorithm for virtual rounds was not to be had: the one here is a
reconstruction from that expectation.

The key's budget is spent in the first real round. In later ones the key is perturbed anew with none, so
that half of the people send a value whether they answer or not, and alpha is the answer rate.

The estimators are the original's, clipping and bias included. `PrivKV` in the catalogue has the same
reports as one real round, and an unbiased estimate with intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bisample.analysis.tally import Tally
from bisample.catalogue import PrivKV
from bisample.device.randomness import Seed, generator
from bisample.errors import ReportError
from bisample.protocol.domain import Range
from bisample.protocol.exact import check_epsilon, whole
from bisample.protocol.mechanism import Mechanism

from .scaling import scaled

__all__ = ["PrivKVM", "PrivKVMEstimate"]


@dataclass(frozen=True)
class PrivKVMEstimate:
    """The original's estimates: clipped, biased, and without intervals; `rounds` are all rounds' means."""

    n: int
    mean: float | None
    missing_rate: float | None
    rounds: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class PrivKVM:
    """PrivKVM with real and virtual rounds; `rounds=1, virtual=0` is plain PrivKV.

    >>> tally = PrivKV(epsilon=4).tally_of([400, 150, 450])
    >>> plain, corrected = PrivKVM(epsilon=4).estimate(tally), PrivKVM(epsilon=4, virtual=5).estimate(tally)
    >>> round(plain.mean, 3), round(corrected.mean, 3), round(plain.missing_rate, 3)
    (0.657, 0.708, 0.369)
    """

    epsilon: float
    lower: float = -1.0
    upper: float = 1.0
    rounds: int = field(default=1, kw_only=True)
    virtual: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        domain = Range(self.lower, self.upper)
        put = object.__setattr__
        put(self, "epsilon", check_epsilon(self.epsilon))
        put(self, "lower", domain.lower)
        put(self, "upper", domain.upper)
        put(self, "rounds", whole(self.rounds, 1, "rounds"))
        put(self, "virtual", whole(self.virtual, 0, "virtual"))

    @cached_property
    def mechanism(self) -> Mechanism:
        """What a respondent sends in one real round of all of epsilon, and whose tallies `estimate` reads."""
        return PrivKV(self.epsilon, self.lower, self.upper)

    @property
    def budgets(self) -> tuple[tuple[float, float], ...]:
        """What each real round spends on the key and on the value; all together are epsilon.

        >>> PrivKVM(epsilon=4, rounds=2).budgets
        ((2.0, 1.0), (0.0, 1.0))
        """
        value = self.epsilon / (2 * self.rounds)
        return tuple((0.0 if later else self.epsilon / 2, value) for later in range(self.rounds))

    def estimate(self, tally: Tally) -> PrivKVMEstimate:
        """From one real round, as `PrivKV` of the same epsilon and range tallies it."""
        if self.rounds != 1:
            raise ReportError(
                "a tally holds one round: with rounds > 1 use simulate(), which asks everybody again"
            )
        if not isinstance(tally, Tally):
            raise ReportError(
                f"estimate takes a tally, not a {type(tally).__name__}: PrivKVM.mechanism tallies reports"
            )
        absent, minus, plus = tally.of(self.mechanism).counts.tolist()
        return self._finish(tally.n, [self._round_mean(minus, plus)], absent)

    def simulate(self, values: object, *, rng: Seed) -> PrivKVMEstimate:
        """All real rounds with everybody, then the virtual ones. None or NaN is a refusal.

        >>> values = np.where(np.arange(100_000) % 10 < 3, np.nan, 0.5)
        >>> e = PrivKVM(epsilon=4, rounds=4).simulate(values, rng=1)
        >>> abs(e.missing_rate - 0.3) < 0.02, abs(e.mean - 0.5) < 0.05
        (True, True)
        """
        draw = generator(rng)
        held = scaled(values, Range(self.lower, self.upper))
        n, refused = len(held), np.isnan(held)
        absent: list[int] = []
        means: list[float | None] = []
        fake = None  # round 1 draws each fake from U[-1, 1]
        for key_epsilon, value_epsilon in self.budgets:
            key = (draw.random(n) < _keep(key_epsilon)) != refused
            faked = key & refused
            sent = held.copy()
            sent[faked] = draw.uniform(-1, 1, int(faked.sum())) if fake is None else fake
            up = draw.random(n) < (1 + np.where(key, sent, 0)) / 2
            up ^= draw.random(n) >= _keep(value_epsilon)
            absent.append(n - int(key.sum()))
            means.append(self._round_mean(int((~up & key).sum()), int((up & key).sum())))
            fake = means[-1]
        return self._finish(n, means, absent[0])

    def _round_mean(self, minus: int, plus: int) -> float | None:
        """The calibrated mean of one round: counts corrected for the flips, clipped to [0, N]."""
        total = minus + plus
        if not total:
            return None  # nobody sent a value
        p2 = _keep(self.budgets[0][1])
        n_minus, n_plus = (
            min(max((count + (p2 - 1) * total) / (2 * p2 - 1), 0.0), float(total)) for count in (minus, plus)
        )
        return (n_plus - n_minus) / total

    def _finish(self, n: int, means: list[float | None], absent: int) -> PrivKVMEstimate:
        """The missing rate from the first round, whose key alone tells it, and the virtual rounds' means."""
        if not n:
            return PrivKVMEstimate(0, None, None)
        p1 = _keep(self.budgets[0][0])
        rate = ((n - absent) / n + p1 - 1) / (2 * p1 - 1)
        first, mean = means[0], means[-1]
        if first is not None and mean is not None:
            # m(r) = m(1) + (1 - alpha) m(r-1), alpha that of round 1: its fakes, whose mean is 0, take the
            # mean of the round before.
            possible = min(max(rate, 0.0), 1.0)
            alpha = possible * p1 / (possible * p1 + (1 - possible) * (1 - p1))
            for _ in range(self.virtual):
                mean = min(max(first + (1 - alpha) * mean, -1.0), 1.0)
                means.append(mean)
        centre, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        rounds = tuple(None if m is None else centre + half * m for m in means)
        return PrivKVMEstimate(n, rounds[-1], 1 - rate, rounds)


def _keep(epsilon: float) -> float:
    """The probability with which randomized response keeps a bit."""
    return 1 / (1 + math.exp(-epsilon))
