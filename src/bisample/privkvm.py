"""PrivKVM (Ye et al., IEEE S&P 2019) for one key: PrivKV, iterated to take off its bias.

PrivKV's mean is biased towards the mean of the fakes that refusals send: E m = alpha m + (1 - alpha)
m_fake. PrivKVM lets the fakes take the last round's mean. Real rounds ask everybody again and spend
budget; virtual rounds only correct on the server. The original's algorithm for virtual rounds was
not to be had: the one here is a reconstruction from that expectation.

The estimators are the original's, clipping and bias included. `PrivKV` in `mechanisms` has the same
reports and an unbiased estimate with intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .answers import check_range, read_numbers
from .errors import AnswerError, ReportError
from .exact import check_epsilon, whole
from .mechanisms import PrivKV
from .randomness import generator
from .solve import check_tally

__all__ = ["PrivKVM", "PrivKVMEstimate"]


@dataclass(frozen=True)
class PrivKVMEstimate:
    """The original's estimates: clipped, biased, and without intervals."""

    n: int
    mean: float | None
    missing_rate: float | None
    rounds: tuple[float | None, ...] = ()


class PrivKVM:
    """PrivKVM with real and virtual rounds; `rounds=1, virtual=0` is plain PrivKV.

    >>> tally = [400, 150, 450]
    >>> plain, corrected = PrivKVM(epsilon=4).estimate(tally), PrivKVM(epsilon=4, virtual=5).estimate(tally)
    >>> round(plain.mean, 3), round(corrected.mean, 3), round(plain.missing_rate, 3)
    (0.657, 0.708, 0.369)
    """

    name = "privkvm"

    def __init__(
        self, epsilon: float, lower: float = -1.0, upper: float = 1.0, *, rounds: int = 1, virtual: int = 0
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.lower, self.upper = check_range(lower, upper)
        self.rounds, self.virtual = whole(rounds, 1, "rounds"), whole(virtual, 0, "virtual")
        # Half of epsilon for the key, in the first round only; the other half in equal parts for the
        # value of each round. Together they are epsilon.
        self._p1 = 1 / (1 + math.exp(-self.epsilon / 2))
        self._p2 = 1 / (1 + math.exp(-self.epsilon / (2 * self.rounds)))

    def __repr__(self) -> str:
        return (
            f"PrivKVM(epsilon={self.epsilon!r}, lower={self.lower!r}, upper={self.upper!r},"
            f" rounds={self.rounds}, virtual={self.virtual})"
        )

    def estimate(self, tally: object) -> PrivKVMEstimate:
        """From one round of reports (codes <0,0>, <1,-1>, <1,+1>, as `PrivKV` counts them)."""
        if self.rounds != 1:
            raise ReportError(
                "a tally holds one round: with rounds > 1 use simulate(), which asks everybody again"
            )
        counts = check_tally(PrivKV.build(self.epsilon), tally)
        return self._finish(
            int(counts.sum()), [self._round_mean(int(counts[1]), int(counts[2]))], int(counts[0])
        )

    def simulate(self, values: object, *, rng: np.random.Generator | int) -> PrivKVMEstimate:
        """All real rounds with everybody, then the virtual ones. NaN is a refusal.

        >>> values = np.where(np.arange(100_000) % 10 < 3, np.nan, 0.5)
        >>> e = PrivKVM(epsilon=4, rounds=4).simulate(values, rng=1)
        >>> abs(e.missing_rate - 0.3) < 0.02, abs(e.mean - 0.5) < 0.05
        (True, True)
        """
        draw = generator(rng)
        held = read_numbers(values).to_floats()
        if ((held < self.lower) | (held > self.upper)).any():
            raise AnswerError(
                f"an answer lies outside [{self.lower:g}, {self.upper:g}]: widen lower and upper"
            )
        n = len(held)
        scaled = 2 * (held - self.lower) / (self.upper - self.lower) - 1
        refused = np.isnan(scaled)
        # The key is perturbed once and kept: asking again would spend budget again.
        key = (draw.random(n) < self._p1) != refused
        faked = key & refused
        means: list[float | None] = []
        fake = None  # round 1 draws each fake from U[-1, 1]
        for _ in range(self.rounds):
            sent = scaled.copy()
            sent[faked] = draw.uniform(-1, 1, int(faked.sum())) if fake is None else fake
            up = draw.random(n) < (1 + np.where(key, sent, 0)) / 2
            up ^= draw.random(n) >= self._p2
            means.append(self._round_mean(int((~up & key).sum()), int((up & key).sum())))
            fake = means[-1]
        return self._finish(n, means, n - int(key.sum()))

    def _round_mean(self, minus: int, plus: int) -> float | None:
        """The calibrated mean of one round: counts corrected for the flips, clipped to [0, N]."""
        total = minus + plus
        if not total:
            return None  # nobody sent a value
        n_minus, n_plus = (
            min(max((count + (self._p2 - 1) * total) / (2 * self._p2 - 1), 0.0), float(total))
            for count in (minus, plus)
        )
        return (n_plus - n_minus) / total

    def _finish(self, n: int, means: list[float | None], absent: int) -> PrivKVMEstimate:
        if not n:
            return PrivKVMEstimate(0, None, None)
        rate = ((n - absent) / n + self._p1 - 1) / (2 * self._p1 - 1)
        mean = means[-1]
        if mean is not None:
            # m(r) = m(1) + (1 - alpha) m(r-1): the fakes of round r take the mean of round r - 1.
            possible = min(max(rate, 0.0), 1.0)
            alpha = possible * self._p1 / (possible * self._p1 + (1 - possible) * (1 - self._p1))
            first = mean
            for _ in range(self.virtual):
                mean = min(max(first + (1 - alpha) * mean, -1.0), 1.0)
                means.append(mean)
        centre, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        rounds = tuple(None if m is None else centre + half * m for m in means)
        return PrivKVMEstimate(n, rounds[-1], 1 - rate, rounds)
