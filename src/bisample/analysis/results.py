"""Estimates as they are handed on: what they say, how they print, and as plain data.

Estimates are raw: unbiased, and so sometimes outside the possible range. `projected()` moves them
into it, by name. What cannot be estimated is None, and `undefined` says why.

Errors and intervals are those for a population that the respondents are a sample of; for the
respondents themselves they are a little wide.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from bisample.protocol.exact import bound_text

if TYPE_CHECKING:
    from .solve import Floats

__all__ = ["ChoiceEstimate", "Estimate", "Interval", "NumberEstimate"]

Interval: TypeAlias = tuple[float, float]

_RAW = "the raw estimate lies outside what is possible"


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate:
    """What every estimate says: of which reports, how many answered, and what is doubtful about it.

    `epsilon` is what the table is proven to keep. `undefined` says why a field is None, `warnings` where
    the reports are ones that the mechanism could hardly have produced.
    """

    mechanism: str
    epsilon: float
    n: int
    level: float
    question: str | None = None
    subject: Mapping[str, str] = field(default_factory=dict)
    answer_rate: float | None = None
    answer_rate_error: float | None = None
    answer_rate_interval: Interval = (0.0, 1.0)
    missing_rate: float | None = None
    missing_rate_error: float | None = None
    missing_rate_interval: Interval = (0.0, 1.0)
    undefined: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy does not pickle
        plain = {name: dict(v) if isinstance(v, Mapping) else v for name, v in vars(self).items()}
        return _made, (type(self), plain)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def to_json(self, indent: int | None = 2) -> str:
        """All fields as JSON; what is undefined is null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_row(self) -> dict[str, Any]:
        """A flat dict for a row of a dataframe: an interval becomes `_low` and `_high`, an option a column.

        So does each name of the subject; one that is taken, such as `n`, becomes `subject_n`.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=1)
        >>> row = m.estimate(m.tally_of([300, 200, 260, 240], {"country": "CN"})).to_row()
        >>> row["country"], row["n"], sorted(name for name in row if name.startswith("mean"))
        ('CN', 1000, ['mean', 'mean_error', 'mean_high', 'mean_low'])
        """
        row: dict[str, Any] = {}
        for name, value in self.to_dict().items():
            if name == "subject":
                continue
            if name in ("undefined", "warnings"):
                row[name] = "; ".join(dict.fromkeys(value.values() if isinstance(value, dict) else value))
            elif name.endswith("_interval") and not isinstance(value, dict):
                row[name.replace("_interval", "_low")], row[name.replace("_interval", "_high")] = value
            elif isinstance(value, dict):
                for option, part in value.items():
                    column = f"proportion_{option}"
                    if isinstance(part, list):
                        row[f"{column}_low"], row[f"{column}_high"] = part
                    else:
                        row[column + "_error" * name.endswith("_error")] = part
            else:
                row[name] = value
        about = {
            f"subject_{name}" if name in row else name: text
            for name, text in self.subject.items()
            if row.get(name) != text
        }
        return about | row

    def projected(self) -> Self:
        """The same with the rates moved into [0, 1]; no longer unbiased."""
        return replace(
            self,
            answer_rate=_into(self.answer_rate, 0.0, 1.0),
            missing_rate=_into(self.missing_rate, 0.0, 1.0),
        )

    def _heading(self) -> str:
        what = f"{self.question}: " if self.question else ""
        said = ("question", self.question)
        about = "".join(f", {name} = {text}" for name, text in self.subject.items() if (name, text) != said)
        reports = f"{self.n:,} report{'s' * (self.n != 1)}"
        return f"{what}{self.mechanism}, epsilon = {bound_text(self.epsilon)}{about}, {reports}"

    def _rate_lines(self) -> list[str]:
        return [
            self._line("answer rate", "answer_rate", percent=True),
            self._line("missing rate", "missing_rate", percent=True),
            *(f"  warning: {warning}" for warning in self.warnings),
        ]

    def _line(self, label: str, name: str, percent: bool = False) -> str:
        value, error, interval = (getattr(self, name + part) for part in ("", "_error", "_interval"))
        return f"  {label:<28}{_readable(value, error, interval, self.level, percent)}{self._why(name)}"

    def _why(self, name: str) -> str:
        return f" ({self.undefined[name]})" if name in self.undefined else ""


@dataclass(frozen=True, kw_only=True, repr=False)
class NumberEstimate(Estimate):
    """What a tally says of a number: the mean among those who answer, and how many do.

    The mean is that of the people who answer, which is not that of everybody when willingness to
    answer goes with the value.

    >>> from bisample import BiSample
    >>> m = BiSample(epsilon=1, lower=17, upper=90)
    >>> print(m.estimate(m.tally_of([300, 200, 260, 240])))  # doctest: +ELLIPSIS
    bisample, epsilon = 1, 1,000 reports
      mean of those who answer    62.04 +- 3.41 (95% interval 5... to 6...)
      sum of all answers          45,926 +- 4,425 (95% interval 3... to 5...)
      answer rate                 74.0% +- 6.8% (95% interval 6...% to 8...%)
      missing rate                26.0% +- 6.8% (95% interval 1...% to 3...%)
    """

    lower: float
    upper: float
    mean: float | None = None
    mean_error: float | None = None
    mean_interval: Interval
    total: float | None = None
    total_error: float | None = None
    total_interval: Interval

    def __str__(self) -> str:
        return "\n".join(
            [
                self._heading(),
                self._line("mean of those who answer", "mean"),
                self._line("sum of all answers", "total"),
                *self._rate_lines(),
            ]
        )

    def projected(self) -> Self:
        """The same with mean, sum and rates moved into what is possible together; no longer unbiased.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=1, lower=0, upper=1)
        >>> e = m.estimate(m.tally_of([500, 0, 0, 500]))
        >>> round(e.mean, 3), e.projected().mean
        (1.582, 1.0)
        """
        moved, mean = super().projected(), _into(self.mean, self.lower, self.upper)
        if mean is not None and moved.answer_rate is not None and self.total is not None:
            return replace(moved, mean=mean, total=self.n * moved.answer_rate * mean)
        # Without a mean the sum can still be known: people who decline add nothing to it.
        least, most = min(0.0, self.lower), max(0.0, self.upper)
        return replace(moved, total=_into(self.total, self.n * least, self.n * most))


@dataclass(frozen=True, kw_only=True, repr=False)
class ChoiceEstimate(Estimate):
    """What a tally says of a choice: the proportion of each option among those who answer.

    >>> from bisample import KRandomizedResponse
    >>> m = KRandomizedResponse(epsilon=2, options=["tea", "coffee"])
    >>> print(m.estimate(m.tally_of([550, 300, 150])))  # doctest: +ELLIPSIS
    k-rr, epsilon = 2, 1,000 reports
      tea                         69.6% +- 2.2% (95% interval 65...% to 7...%)
      coffee                      30.4% +- 2.2% (95% interval 2...% to 3...%)
      answer rate                 93.6% +- 1.7% (95% interval 90...% to 9...%)
      missing rate                6.4% +- 1.7% (95% interval 3...% to 9...%)
    """

    proportions: Mapping[str, float | None]
    proportions_error: Mapping[str, float | None]
    proportions_interval: Mapping[str, Interval]

    def __str__(self) -> str:
        lines = [self._heading()]
        for option, value in self.proportions.items():
            error, interval = self.proportions_error[option], self.proportions_interval[option]
            lines.append(f"  {option:<28}" + _readable(value, error, interval, self.level, percent=True))
        lines[-1] += self._why("proportions")
        return "\n".join([*lines, *self._rate_lines()])

    def projected(self) -> Self:
        """The same with the proportions moved to the nearest that are >= 0 and sum to 1; no longer unbiased.

        >>> from bisample import KRandomizedResponse
        >>> m = KRandomizedResponse(epsilon=1, options=["a", "b"])
        >>> dict(m.estimate(m.tally_of([900, 50, 50])).projected().proportions)
        {'a': 1.0, 'b': 0.0}
        """
        raw = [value for value in self.proportions.values() if value is not None]
        proportions = self.proportions
        if len(raw) == len(self.proportions):
            proportions = dict(zip(self.proportions, _onto_simplex(np.array(raw)).tolist(), strict=True))
        return replace(super().projected(), proportions=proportions)


def _made(kind: type[Estimate], values: dict[str, Any]) -> Estimate:
    return kind(**values)


# --- How numbers print ------------------------------------------------------------------------------


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
    value: float | None, error: float | None, interval: Interval, level: float, percent: bool
) -> str:
    low, high = interval
    size = error or (high - low) / 20

    def show(x: float) -> str:
        if percent:
            return f"{x:.{_percent_digits(size)}%}"
        # An error below what a double tells apart from the value is no reason for more digits.
        return _shown(x, max(size, 1e-14 * max(abs(low), abs(high))))

    between = f"{100 * level:.15g}% interval {show(low)} to {show(high)}"
    if value is None or error is None:
        return f"undefined, {between}"
    slack = 1e-9 * max(abs(low), abs(high))
    word = "" if low - slack <= value <= high + slack else f"; {_RAW}"
    return f"{show(value)} +- {show(error)} ({between}{word})"


def _percent_digits(size: float) -> int:
    """One digit, or as many as it takes that an error of this size does not look like none."""
    return min(9, max(1, -math.floor(math.log10(100 * size)))) if size > 0 else 1


def _shown(x: float, finest: float) -> str:
    """Three digits of the error decide; very large and very small numbers get an exponent."""
    if finest <= 0:
        return f"{x:,.6g}"
    digits = 2 - math.floor(math.log10(finest))
    if digits > 9 or abs(x) >= 1e15:
        leading = digits + math.floor(math.log10(max(abs(x), finest)))
        return f"{x:.{max(2, min(15, leading))}e}" if x else "0"
    return f"{x:,.{max(0, digits)}f}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value
