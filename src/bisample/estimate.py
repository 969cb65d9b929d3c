"""(table, tally) -> estimates with standard errors and intervals. Where the tally came from is unknown here.

Estimates are raw: unbiased, and so sometimes outside the possible range. `projected()` moves them
into it, by name. What cannot be estimated is None, and `undefined` says why.

Errors and intervals are those for a population that the respondents are a sample of; for the
respondents themselves they are a little wide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from .errors import ParameterError
from .exact import real
from .solve import Floats, Solution, solve
from .table import Table

__all__ = ["ChoiceEstimate", "Estimate", "estimate_choice", "estimate_number", "normal_quantile"]

Interval: TypeAlias = tuple[float, float]


def normal_quantile(level: float) -> float:
    """The z with P(|Z| <= z) = level for a standard normal Z.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    if not 0 < (value := real(level)) < 1:
        raise ParameterError(f"level must be between 0 and 1, for example 0.95, not {level!r}")
    from statistics import NormalDist  # 10 ms to import, and only needed here

    return -NormalDist().inv_cdf((1 - value) / 2)  # and not (1 + level) / 2, which rounds to 1


@dataclass(frozen=True, kw_only=True)
class _Common:
    """What every estimate says about itself."""

    mechanism: str
    epsilon: float
    n: int
    level: float
    question: str | None = None
    answer_rate: float | None = None
    answer_rate_error: float | None = None
    answer_rate_interval: Interval | None = None
    missing_rate: float | None = None
    missing_rate_error: float | None = None
    missing_rate_interval: Interval | None = None
    undefined: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)

    def to_json(self, indent: int | None = 2) -> str:
        """All fields as JSON; what is undefined is null."""
        return json.dumps(self.to_dict(), indent=indent, default=str)

    def _heading(self) -> str:
        what = f"{self.question}: " if self.question else ""
        return f"{what}{self.mechanism}, epsilon = {self.epsilon:g}, {self.n:,} reports"

    def _line(self, label: str, name: str, percent: bool = False) -> str:
        value, error, interval = (getattr(self, name + part) for part in ("", "_error", "_interval"))
        return f"  {label:<28}" + _readable(value, error, interval, self.level, percent) + self._why(name)

    def _why(self, name: str) -> str:
        return f" ({self.undefined[name]})" if name in self.undefined else ""


@dataclass(frozen=True, kw_only=True)
class Estimate(_Common):
    """What a tally says of a number: the mean among those who answer, and how many do.

    The mean is that of the people who answer, which is not that of everybody when willingness to
    answer goes with the value.

    >>> from bisample import BiSample
    >>> m = BiSample(epsilon=1, lower=17, upper=90)
    >>> print(m.estimate([300, 200, 260, 240]))
    bisample, epsilon = 1, 1,000 reports
      mean of those who answer    62.04 +- 3.41 (95% interval 55.49 to 69.10)
      sum of all answers          45,926 +- 4,425 (95% interval 37,253 to 54,600)
      answer rate                 74.0% +- 6.8% (95% interval 60.8% to 87.3%)
      missing rate                26.0% +- 6.8% (95% interval 12.7% to 39.2%)
    """

    lower: float
    upper: float
    mean: float | None = None
    mean_error: float | None = None
    mean_interval: Interval | None = None
    total: float | None = None
    total_error: float | None = None
    total_interval: Interval | None = None

    def __str__(self) -> str:
        return "\n".join(
            [
                self._heading(),
                self._line("mean of those who answer", "mean"),
                self._line("sum of all answers", "total"),
                self._line("answer rate", "answer_rate", percent=True),
                self._line("missing rate", "missing_rate", percent=True),
            ]
        )

    def projected(self) -> Estimate:
        """The same with the mean moved into [lower, upper] and the rates into [0, 1]; no longer unbiased.

        >>> from bisample import BiSample
        >>> e = BiSample(epsilon=1, lower=0, upper=1).estimate([500, 0, 0, 500])
        >>> round(e.mean, 3), e.projected().mean
        (1.582, 1.0)
        """
        return replace(
            self,
            mean=_into(self.mean, self.lower, self.upper),
            answer_rate=_into(self.answer_rate, 0.0, 1.0),
            missing_rate=_into(self.missing_rate, 0.0, 1.0),
        )


@dataclass(frozen=True, kw_only=True)
class ChoiceEstimate(_Common):
    """What a tally says of a choice: the proportion of each option among those who answer.

    >>> from bisample import KRandomizedResponse
    >>> m = KRandomizedResponse(epsilon=2, options=["tea", "coffee"])
    >>> print(m.estimate([550, 300, 150]))
    k-rr, epsilon = 2, 1,000 reports
      tea                         69.6% +- 2.2% (95% interval 65.3% to 73.9%)
      coffee                      30.4% +- 2.2% (95% interval 26.1% to 34.7%)
      answer rate                 93.6% +- 1.7% (95% interval 90.4% to 96.9%)
      missing rate                6.4% +- 1.7% (95% interval 3.1% to 9.6%)
    """

    proportions: dict[Hashable, float | None] = field(default_factory=dict)
    proportions_error: dict[Hashable, float | None] = field(default_factory=dict)
    proportions_interval: dict[Hashable, Interval | None] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self._heading()]
        for option, value in self.proportions.items():
            error, interval = self.proportions_error[option], self.proportions_interval[option]
            lines.append(f"  {option!s:<28}" + _readable(value, error, interval, self.level, percent=True))
        lines[-1] += self._why("proportions")
        lines.append(self._line("answer rate", "answer_rate", percent=True))
        lines.append(self._line("missing rate", "missing_rate", percent=True))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data, options as text."""
        data = asdict(self)
        for name in ("proportions", "proportions_error", "proportions_interval"):
            data[name] = {str(option): value for option, value in data[name].items()}
        return data

    def projected(self) -> ChoiceEstimate:
        """The same with the proportions moved to the nearest that are >= 0 and sum to 1; no longer unbiased.

        >>> from bisample import KRandomizedResponse
        >>> e = KRandomizedResponse(epsilon=1, options=["a", "b"]).estimate([900, 50, 50])
        >>> e.projected().proportions
        {'a': 1.0, 'b': 0.0}
        """
        raw = [value for value in self.proportions.values() if value is not None]
        proportions = self.proportions
        if len(raw) == len(self.proportions):
            proportions = dict(zip(self.proportions, _onto_simplex(np.array(raw)).tolist(), strict=True))
        return replace(
            self,
            proportions=proportions,
            answer_rate=_into(self.answer_rate, 0.0, 1.0),
            missing_rate=_into(self.missing_rate, 0.0, 1.0),
        )


def estimate_number(
    table: Table,
    tally: object,
    *,
    lower: float,
    upper: float,
    level: float,
    mechanism: str,
    epsilon: float,
    question: str | None = None,
) -> Estimate:
    """Mean, total and rates of a number whose anchors are spread from lower to upper."""
    z = normal_quantile(level)
    solution = solve(table, tally, number_targets(table))
    rate = _rate(table, solution, 1, z)
    ratio = _ratio(table, solution, 0, 1, z, (-1.0, 1.0))
    centre, half = (upper + lower) / 2, (upper - lower) / 2
    result: dict[str, Any] = {"undefined": dict(rate["undefined"])}
    if solution.known.all() and solution.n:
        # total = sum over those who answered of centre + half * v
        weights = solution.n * np.array([half, centre])
        total = float(weights @ solution.values)
        error = math.sqrt(max(0.0, float(weights @ solution.covariance @ weights)))
        result |= {
            "total": total,
            "total_error": error,
            "total_interval": (total - z * error, total + z * error),
        }
    else:
        result["undefined"]["total"] = _reason(table, solution)
    if ratio.why:
        result["undefined"]["mean"] = ratio.why
    return Estimate(
        mechanism=mechanism,
        epsilon=epsilon,
        question=question,
        n=solution.n,
        level=level,
        lower=lower,
        upper=upper,
        mean=None if ratio.value is None else centre + half * ratio.value,
        mean_error=None if ratio.error is None else half * ratio.error,
        mean_interval=(centre + half * ratio.interval[0], centre + half * ratio.interval[1]),
        **(rate | result),
    )


def estimate_choice(
    table: Table,
    tally: object,
    *,
    options: tuple[Hashable, ...],
    level: float,
    mechanism: str,
    epsilon: float,
    question: str | None = None,
) -> ChoiceEstimate:
    """Proportions of the options among those who answer, and the answer rate."""
    z = normal_quantile(level)
    solution = solve(table, tally, choice_targets(table))
    rate = _rate(table, solution, len(options), z)
    ratios = [_ratio(table, solution, i, len(options), z, (0.0, 1.0)) for i in range(len(options))]
    undefined = dict(rate["undefined"])
    if ratios[0].why:
        undefined["proportions"] = ratios[0].why
    return ChoiceEstimate(
        mechanism=mechanism,
        epsilon=epsilon,
        question=question,
        n=solution.n,
        level=level,
        proportions={o: r.value for o, r in zip(options, ratios, strict=True)},
        proportions_error={o: r.error for o, r in zip(options, ratios, strict=True)},
        proportions_interval={o: r.interval for o, r in zip(options, ratios, strict=True)},
        **(rate | {"undefined": undefined}),
    )


def number_targets(table: Table) -> Floats:
    """The functionals of a number: the sum of the scaled values, and the answer rate.

    >>> from bisample import BiSample
    >>> number_targets(BiSample(epsilon=1).table)
    array([[-1.,  1.,  0.],
           [ 1.,  1.,  0.]])
    """
    assert table.anchors is not None
    answered = np.ones(len(table.rows))
    values = np.zeros(len(table.rows))
    values[: len(table.anchors)] = table.anchors
    if table.refusal:
        answered[-1] = 0
    return np.vstack([values, answered])


def choice_targets(table: Table) -> Floats:
    """The functionals of a choice: the share of each option, and the answer rate."""
    count = len(table.rows) - table.refusal
    shares = np.eye(count, len(table.rows))
    return np.vstack([shares, shares.sum(axis=0)])


@dataclass(frozen=True)
class _Ratio:
    value: float | None
    error: float | None
    interval: Interval
    why: str = ""


def _ratio(table: Table, solution: Solution, top: int, bottom: int, z: float, bounds: Interval) -> _Ratio:
    """S / A with Fieller's interval, which keeps its level where A is small (the delta method does not).

    {m : (S - mA)^2 <= z^2 (V_S - 2mC + m^2 V_A)}, cut to what is possible. Where that leaves no
    single interval, the honest one is all that is possible.
    """
    if not (solution.n and solution.known[top] and solution.known[bottom]):
        return _Ratio(None, None, bounds, _reason(table, solution))
    s, a = float(solution.values[top]), float(solution.values[bottom])
    v_s, v_a = float(solution.covariance[top, top]), float(solution.covariance[bottom, bottom])
    c = float(solution.covariance[top, bottom])
    if a <= 0:
        return _Ratio(None, None, bounds, "the estimated answer rate is not positive")
    interval = bounds
    square, cross, rest = a * a - z * z * v_a, s * a - z * z * c, s * s - z * z * v_s
    if square > 0:
        root = math.sqrt(max(0.0, cross * cross - square * rest))
        interval = _within(((cross - root) / square, (cross + root) / square), bounds)
    elif square < 0 and cross * cross > square * rest:
        # The set is all but what lies between the roots; often only one side of it is possible.
        root = math.sqrt(cross * cross - square * rest)
        below, above = (cross + root) / square, (cross - root) / square
        if below < bounds[0] <= above <= bounds[1]:
            interval = (above, bounds[1])
        elif bounds[0] <= below <= bounds[1] < above:
            interval = (bounds[0], below)
    m = s / a
    error = math.sqrt(max(0.0, v_s - 2 * m * c + m * m * v_a)) / a
    return _Ratio(m, error, interval)


def _rate(table: Table, solution: Solution, row: int, z: float) -> dict[str, Any]:
    """The fields of the answer rate and of its complement."""
    if not (solution.n and solution.known[row]):
        why = _reason(table, solution)
        whole = (0.0, 1.0)
        return {
            "answer_rate_interval": whole,
            "missing_rate_interval": whole,
            "undefined": {"answer_rate": why, "missing_rate": why},
        }
    rate, error = float(solution.values[row]), math.sqrt(max(0.0, float(solution.covariance[row, row])))
    if not table.refusal:
        rate, error = 1.0, 0.0  # by the table, not by the data
    low, high = _within((rate - z * error, rate + z * error), (0.0, 1.0))
    return {
        "answer_rate": rate,
        "answer_rate_error": error,
        "answer_rate_interval": (low, high),
        "missing_rate": 1 - rate,
        "missing_rate_error": error,
        "missing_rate_interval": (1 - high, 1 - low),
        "undefined": {},
    }


def _within(interval: Interval, bounds: Interval) -> Interval:
    """The part of an interval that is possible; all of it if none is, which says that something is wrong."""
    low, high = max(interval[0], bounds[0]), min(interval[1], bounds[1])
    return (low, high) if low <= high else interval


def _reason(table: Table, solution: Solution) -> str:
    if solution.n == 0:
        return "there are no reports"
    if not solution.empty_blocks:
        return "the table does not tell these answers apart"
    start = sum(table.blocks[: solution.empty_blocks[0]])
    codes = table.codes[start : start + table.blocks[solution.empty_blocks[0]]]
    return f"no report has one of the codes {', '.join(codes)}"


def _into(value: float | None, low: float, high: float) -> float | None:
    return None if value is None else min(max(value, low), high)


def _onto_simplex(values: Floats) -> Floats:
    """The nearest point with parts >= 0 that sum to 1."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected: Floats = np.maximum(values - excess[last], 0)
    return projected


def _readable(
    value: float | None, error: float | None, interval: Interval | None, level: float, percent: bool
) -> str:
    def show(x: float) -> str:
        return f"{x:.1%}" if percent else f"{x:,.{_digits(error or 0)}f}"

    if value is None or error is None or interval is None:
        text = "undefined"
        return (
            text
            if interval is None
            else f"{text}, {100 * level:g}% interval {show(interval[0])} to {show(interval[1])}"
        )
    low, high = show(interval[0]), show(interval[1])
    return f"{show(value)} +- {show(error)} ({100 * level:g}% interval {low} to {high})"


def _digits(error: float) -> int:
    """Decimals that show the error with three digits."""
    return 2 if error <= 0 else max(0, 2 - math.floor(math.log10(error)))
