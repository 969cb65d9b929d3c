"""Tallies in, estimates with standard errors and intervals out. Where a tally came from is unknown here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bisample.errors import ParameterError, ReportError, shown
from bisample.protocol.domain import Range
from bisample.protocol.exact import real

from .intervals import EVERYBODY, intervals
from .plausibility import warnings_of
from .results import ChoiceEstimate, Estimate, Interval, NumberEstimate
from .solve import Solution, solve, system, variances
from .tally import Tally
from .variance import ratio_variance, row_shares, targets

if TYPE_CHECKING:
    from bisample.protocol.domain import Options
    from bisample.protocol.mechanism import Mechanism

    from .solve import Floats

__all__ = ["estimate", "normal_quantile"]


def normal_quantile(level: float) -> float:
    """The z with P(|Z| <= z) = level for a standard normal Z.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    if not 0 < (value := real(level)) < 1:
        raise ParameterError(f"level must be between 0 and 1, for example 0.95, not {shown(level)}")
    from statistics import NormalDist  # 10 ms to import, and only needed here

    return -NormalDist().inv_cdf((1 - value) / 2)  # and not (1 + level) / 2, which rounds to 1


def estimate(
    mechanism: Mechanism,
    tallies: Iterable[Tally],
    level: float = 0.95,
    questions: Sequence[str | None] | None = None,
) -> list[Estimate]:
    """One estimate for each tally of a mechanism; see `Mechanism.estimates`."""
    z = normal_quantile(level)
    if isinstance(tallies, Tally) or not isinstance(tallies, Iterable):
        raise ReportError("estimates takes a list of tallies: estimate(tally) is for one")
    tallies = list(tallies)
    counts = np.array([_of(mechanism, tally).counts for tally in tallies], dtype=np.int64)
    if not len(counts):
        return []
    if isinstance(questions, str):
        raise ParameterError("questions must be a list of names, one a tally, not a text")
    names = list(questions or [None] * len(tallies))
    if len(names) != len(tallies):
        raise ParameterError(f"questions must be as many as tallies, {len(tallies)}, not {len(names)}")
    domain = mechanism.domain
    wanted, pairs, bounds = _wanted(domain)
    solution = solve(mechanism.table, counts, wanted)
    found = intervals(mechanism.table, counts, wanted, pairs, bounds, z, solution)
    warnings = warnings_of(mechanism.table, counts)
    made: list[Estimate] = []
    for r, tally in enumerate(tallies):
        common: dict[str, Any] = {
            "mechanism": mechanism.name,
            "epsilon": mechanism.epsilon_upper,
            "n": int(solution.n[r]),
            "level": real(level),
            "question": names[r] or tally.subject.get("question"),
            "subject": tally.subject,
            "warnings": warnings[r],
        }
        reader = _Reader(mechanism, solution, r, [(float(low), float(high)) for low, high in found[r]])
        common |= reader.rate()
        kind: type[Estimate] = NumberEstimate if isinstance(domain, Range) else ChoiceEstimate
        specific = reader.number(domain) if isinstance(domain, Range) else reader.choice(domain)
        made.append(kind(**common, **specific, undefined=reader.undefined))
    return made


def _of(mechanism: Mechanism, tally: object) -> Tally:
    if isinstance(tally, Tally):
        return tally.of(mechanism)
    raise ReportError(
        f"estimate takes a tally, not a {type(tally).__name__}: m.estimate(m.tally(reports)) if these are"
        " reports, m.estimate(m.tally_of(counts)) if these are counts, one a code"
    )


# --- What is asked of the numerics ------------------------------------------------------------------


@lru_cache(maxsize=64)
def _wanted(domain: Range | Options) -> tuple[Floats, Any, Floats]:
    """Functionals, and the pairs of them whose ratios get intervals, with what is possible for each.

    Of a number: its mean, the sum of all answers by the person (in `_size`), the answer rate. Of a choice:
    each option's proportion, the answer rate.
    """
    wanted = targets(domain)
    answered = len(wanted) - 1
    if isinstance(domain, Range):
        centre, half = _centre_and_half(domain)
        size = _size(domain)
        wanted = np.vstack([wanted, (half * wanted[0] + centre * wanted[1]) / size])
        pairs = [(0, 1), (2, EVERYBODY), (1, EVERYBODY)]
        least, most = domain.lower, domain.upper
        if domain.refusal:
            least, most = min(0.0, least), max(0.0, most)
        bounds = [(-1.0, 1.0), (least / size, most / size), (0.0, 1.0)]
    else:
        pairs = [*((i, answered) for i in range(answered)), (answered, EVERYBODY)]
        bounds = [(0.0, 1.0)] * len(pairs)
    return wanted, np.array(pairs), np.array(bounds)


def _centre_and_half(domain: Range) -> tuple[float, float]:
    return (domain.upper + domain.lower) / 2, (domain.upper - domain.lower) / 2


def _size(domain: Range) -> float:
    """The unit of the sum of all answers: with it no functional is so small that it looks like nothing."""
    return max(abs(domain.lower), abs(domain.upper))


class _Reader:
    """Reads one tally's estimates off the numerics, in the units of the answers."""

    def __init__(self, mechanism: Mechanism, solution: Solution, r: int, found: list[Interval]) -> None:
        self._mechanism, self._refusal = mechanism, mechanism.domain.refusal
        self._n = int(solution.n[r])
        self._values, self._covariance = solution.values[r], solution.covariance[r]
        self._known = solution.known[r]
        self._found = found
        self.undefined: dict[str, str] = {}

    def number(self, domain: Range) -> dict[str, Any]:
        centre, half = _centre_and_half(domain)
        mean, error = self._ratio(0, 1, "mean")
        low, high = self._found[0]
        total, total_error = self._linear(2, "total")
        least, most = self._found[1]
        unit = self._n * _size(domain)
        return {
            "lower": domain.lower,
            "upper": domain.upper,
            "mean": None if mean is None else centre + half * mean,
            "mean_error": None if error is None else half * error,
            # The ends themselves, and not what rounding makes of them.
            "mean_interval": tuple(
                min(float(np.interp(end, (-1, 1), (domain.lower, domain.upper))), domain.upper)
                for end in (low, high)
            ),
            "total": None if total is None else unit * total,
            "total_error": None if total_error is None else unit * total_error,
            "total_interval": (unit * least, unit * most),
        }

    def choice(self, domain: Options) -> dict[str, Any]:
        answered = len(domain.options)
        ratios = [self._ratio(i, answered, "proportions") for i in range(answered)]
        return {
            "proportions": {o: value for o, (value, _) in zip(domain.options, ratios, strict=True)},
            "proportions_error": {o: error for o, (_, error) in zip(domain.options, ratios, strict=True)},
            "proportions_interval": dict(zip(domain.options, self._found[:-1], strict=True)),
        }

    def rate(self) -> dict[str, Any]:
        answered = 1 if isinstance(self._mechanism.domain, Range) else len(self._mechanism.domain.options)
        rate, error = self._linear(answered, "answer_rate")
        low, high = self._found[-1]
        if "answer_rate" in self.undefined:
            self.undefined["missing_rate"] = self.undefined["answer_rate"]
        elif not self._refusal:
            rate, error, low, high = 1.0, 0.0, 1.0, 1.0  # by the table, not by the data
        return {
            "answer_rate": rate,
            "answer_rate_error": error,
            "answer_rate_interval": (low, high),
            "missing_rate": None if rate is None else 1 - rate,
            "missing_rate_error": error,
            "missing_rate_interval": (1 - high, 1 - low),
        }

    def _linear(self, i: int, name: str) -> tuple[float | None, float | None]:
        if not self._n or not self._known[i]:
            self.undefined[name] = self._too_few()
            return None, None
        return float(self._values[i]), math.sqrt(max(0.0, float(self._covariance[i, i])))

    def _ratio(self, top: int, bottom: int, name: str) -> tuple[float | None, float | None]:
        if not self._n or not (self._known[top] and self._known[bottom]):
            self.undefined[name] = self._too_few()
            return None, None
        s, a = float(self._values[top]), float(self._values[bottom])
        if a <= 0:
            self.undefined[name] = f"the estimated answer rate is not above 0: {self._too_few()}"
            return None, None
        return s / a, math.sqrt(max(0.0, ratio_variance(self._covariance, top, bottom, s / a, a)))

    def _too_few(self) -> str:
        """How many reports would do, where these leave something undefined."""
        if not self._n:
            return "there are no reports"
        enough = _enough(self._mechanism)
        if not enough:
            return "this table does not tell, however many reports there are"
        if self._n < enough:
            return f"too few reports: some {enough:,} would do if half of the people answer"
        return "these reports do not tell"


@lru_cache(maxsize=64)
def _enough(mechanism: Mechanism) -> int:
    """The reports at which an answer rate of 50 % is estimated four standard errors above 0, to two digits.

    0 where no number of reports will do.
    """
    domain, table = mechanism.domain, mechanism.table
    if not system(table, (), targets(domain)).known.all():
        return 0
    answered = list(domain.values) if isinstance(domain, Range) else list(domain.options)
    rate = 0.5 if domain.refusal else 1.0
    shares = row_shares(domain, answered, rate)
    v = float(variances(table, shares, targets(domain))[-1, -1])
    # And every block of the public coin wants some reports.
    thinnest = min(sum(table.weights[0][a:b]) / sum(table.weights[0]) for a, b in table.block_ends)
    needed = max(16 * v / rate**2, 8 / thinnest, 10)
    unit: int = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return math.ceil(needed / unit) * unit
