"""Each sentence of the paper's evaluation that numbers can test: the test, a verdict, the numbers.

A test is a list of comparisons, one for each place where the sentence should show. All hold: the
claim holds. None: it does not. Else it holds in part, and the numbers say where not. The sentences are
given in sense, not in the paper's words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .experiments import Metric, Quantity
from .measures import Measure, Measures

__all__ = ["Claim", "judge"]

HOLDS, IN_PART, FAILS, NOT_RUN = "holds", "holds in part", "does not hold", "not run"

_FAKING = ("harmony-top", "harmony-rnd", "piecewise-top", "piecewise-rnd")
# From epsilon = 3 on, at least 9 % of people with preferences N(5, 1.5) would fake.
_MANY_FAKES = 3.0


@dataclass(frozen=True)
class Claim:
    """A sentence, where it is tested, the verdict, what was found, and the test with its numbers."""

    sentence: str
    where: str
    verdict: str
    finding: str
    test: str
    numbers: str


@dataclass(frozen=True)
class _Check:
    """One comparison: where, whether it holds, and the number that decides."""

    place: str
    holds: bool
    number: float


def judge(measures: Measures) -> list[Claim]:
    """All claims, on whatever experiments were run.

    >>> {claim.verdict for claim in judge(Measures(()))}
    {'not run'}
    """
    return [test(measures) for test in _TESTS]


def _verdict(checks: Sequence[_Check]) -> str:
    good = sum(check.holds for check in checks)
    if not checks:
        return NOT_RUN
    return HOLDS if good == len(checks) else IN_PART if good else FAILS


def _claim(
    sentence: str,
    where: str,
    test: str,
    checks: Sequence[_Check],
    finding: str,
    numbers: Callable[[], str],
    reason: str = "",
) -> Claim:
    """`finding` has a {} for how many of the places; `reason` is why not all of them."""
    verdict = _verdict(checks)
    if verdict == NOT_RUN:
        return Claim(sentence, where, verdict, "", test, "")
    end = f"; {reason}." if reason and verdict != HOLDS else "."
    return Claim(sentence, where, verdict, finding.format(_share(checks)) + end, test, numbers())


def _share(checks: Sequence[_Check]) -> str:
    good = sum(check.holds for check in checks)
    return f"all {len(checks)}" if good == len(checks) else f"{good or 'none'} of {len(checks)}"


def _range(checks: Sequence[_Check]) -> str:
    """The smallest and the largest number, and where they are."""
    if not checks:
        return "no point"
    low, high = min(checks, key=lambda c: c.number), max(checks, key=lambda c: c.number)
    return f"{low.number:.3g} ({low.place}) to {high.number:.3g} ({high.place})"


def _count(checks: Sequence[_Check]) -> str:
    return f"{sum(c.holds for c in checks)} of {len(checks)}"


def _where_not(checks: Sequence[_Check], most: int = 4) -> str:
    """The places where it does not hold, with their numbers."""
    bad = [check for check in checks if not check.holds]
    if not bad:
        return ""
    listed = "; ".join(f"{check.place}: {check.number:.3g}" for check in bad[:most])
    return f" Not so at {listed}" + (f" and {len(bad) - most} more." if len(bad) > most else ".")


def _pairs(
    measures: Measures, experiment: str, first: str, second: str, quantity: Quantity = "mean"
) -> list[tuple[Measure, Measure]]:
    """Two contestants' rows at the same points, where both have a number."""
    pairs: list[tuple[Measure, Measure]] = []
    for panel in measures.panels(experiment):
        others = {row.x: row for row in measures.line(experiment, panel, second, quantity)}
        for row in measures.line(experiment, panel, first, quantity):
            other = others.get(row.x)
            if other is not None and row.mse is not None and other.mse is not None:
                pairs.append((row, other))
    return pairs


def _place(row: Measure) -> str:
    place = f"{row.data}, epsilon {row.epsilon:g}"
    if row.missing_rate is not None:
        place += f", missing {row.missing_rate:g}"
    return place


def _ratio(a: float | None, b: float | None) -> float:
    assert a is not None
    assert b is not None
    return a / b if b else math.inf


def _alike(measures: Measures) -> Claim:
    checks: list[_Check] = []
    late: list[_Check] = []
    for way in ("top", "rnd"):
        for pm, harmony in _pairs(measures, "figure-4", f"piecewise-{way}", f"harmony-{way}"):
            ratio = _ratio(pm.ae, harmony.ae)
            check = _Check(f"{_place(pm)}, {way.upper()}", 0.8 <= ratio <= 1.25, ratio)
            checks.append(check)
            if pm.epsilon >= _MANY_FAKES and not (pm.data == "UNIFORM" and way == "rnd"):
                late.append(check)
    return _claim(
        "PM and Harmony are close to each other.",
        "figure 4",
        "AE of PM between 0.8 and 1.25 times Harmony's, at every epsilon, both kinds of fakes",
        checks,
        "At {} points their errors differ by at most a quarter",
        lambda: (
            f"{_count(checks)} points. PM / Harmony: {_range(checks)}. From epsilon = 3 on, where the fakes'"
            f" bias rules (all but RND on UNIFORM): {_range(late)}."
        ),
        "where noise rules, PM's reports vary more than Harmony's at small epsilon, and far less at large",
    )


def _bias_share(row: Measure) -> float:
    """The part of the squared error that is bias; 1 / repeats of it is chance."""
    assert row.bias is not None
    return row.bias**2 / row.mse if row.mse else 0.0


def _fakes_hurt(measures: Measures) -> Claim:
    checks = [
        _Check(f"{_place(row)}, {row.contestant}", _bias_share(row) > 0.5, _bias_share(row))
        for row in measures.of("figure-4")
        if row.contestant in _FAKING
        and row.epsilon >= _MANY_FAKES
        and not (row.data == "UNIFORM" and row.contestant.endswith("rnd"))
    ]
    worse = [
        _Check(_place(a), _ratio(a.ae, b.ae) > 1, _ratio(a.ae, b.ae))
        for name in _FAKING
        for a, b in _pairs(measures, "figure-4", name, "bisample")
        if 4 <= a.epsilon <= 8 and not (a.data == "UNIFORM" and name.endswith("rnd"))
    ]
    return _claim(
        "Fake answers, TOP as well as RND, hurt Harmony and PM.",
        "figure 4",
        "more than half of the squared error is bias, at every epsilon from 3 (all but RND on UNIFORM)",
        checks,
        "At {} points more than half of the squared error is the fakes' bias",
        lambda: (
            f"{_count(checks)} points; the bias's share is {_range(checks)}."
            f" For epsilon 4 to 8 their AE is {_range(worse)} times that of BiSample-MD." + _where_not(checks)
        ),
    )


def _harmless(measures: Measures) -> Claim:
    rows = [
        row
        for row in measures.of("figure-4")
        if row.data == "UNIFORM" and row.contestant in {"harmony-rnd", "piecewise-rnd"}
    ]
    checks = [
        _Check(f"{row.contestant}, epsilon {row.epsilon:g}", _bias_share(row) < 0.5, _bias_share(row))
        for row in rows
    ]
    return _claim(
        "On UNIFORM, RND fakes do no harm: they have the data's own mean.",
        "figure 4c",
        "less than half of the squared error is bias, at every epsilon",
        checks,
        "At {} points less than half of the squared error is bias",
        lambda: (
            f"{_count(checks)} points; the bias's share is {_range(checks)}. AE at epsilon = 10: "
            + ", ".join(f"{row.contestant} {row.ae:.2g}" for row in rows if row.epsilon == 10)
            + "."
            + _where_not(checks)
        ),
    )


def _grows_again(measures: Measures) -> Claim:
    checks: list[_Check] = []
    lows: dict[str, list[float]] = {}
    for panel in measures.panels("figure-4"):
        for name in ("bisample", "privkvm", "privkv", *_FAKING):
            line = [r for r in measures.line("figure-4", panel, name, "mean") if r.ae is not None]
            if line:
                best = min(line, key=lambda row: row.ae or 0.0)
                ratio = _ratio(line[-1].ae, best.ae)
                checks.append(_Check(f"{panel}, {name}", ratio > 1.5, ratio))
                lows.setdefault(name, []).append(best.epsilon)
    return _claim(
        "At large epsilon the error grows again, as fewer people answer truly.",
        "figure 4",
        "AE at epsilon = 10 is more than 1.5 times the smallest along the line",
        checks,
        "On {} lines the error at epsilon = 10 is more than 1.5 times the smallest",
        lambda: (
            f"{_count(checks)} lines; AE(10) / smallest AE: {_range(checks)}."
            " BiSample-MD is best at epsilon = "
            + ", ".join(f"{epsilon:g}" for epsilon in lows.get("bisample", []))
            + " on the data sets in order."
            + _where_not(checks)
        ),
        "fakes that have the data's own mean, as RND's on UNIFORM, do no harm",
    )


def _beats(measures: Measures, experiment: str, where: str, metric: Metric, reason: str) -> Claim:
    pairs = _pairs(measures, experiment, "privkvm", "bisample")
    checks = [
        _Check(_place(own), ratio > 1, ratio)
        for theirs, own in pairs
        for ratio in [_ratio(theirs.value(metric), own.value(metric))]
    ]
    unclear = [_overlap(theirs, own, metric) for theirs, own in pairs]
    clearly_worse = sum(
        not check.holds and not by_chance for check, by_chance in zip(checks, unclear, strict=True)
    )
    return _claim(
        "BiSample-MD estimates the mean better than PrivKVM.",
        where,
        f"{metric.upper()} of PrivKVM above BiSample-MD's, at every point",
        checks,
        "At {} points its error is the smaller one",
        lambda: (
            f"{_count(checks)} points; the 95 % bands overlap at {sum(unclear)}, and PrivKVM is better beyond"
            f" them at {clearly_worse}."
            f" PrivKVM / BiSample-MD: {_range(checks)}." + _where_not(checks)
        ),
        reason,
    )


def _overlap(a: Measure, b: Measure, metric: Metric) -> bool:
    """Whether chance could explain the difference."""
    x, y = a.band(metric), b.band(metric)
    return x is None or y is None or (x[0] <= y[1] and y[0] <= x[1])


def _beats_in_figure_4(measures: Measures) -> Claim:
    reason = (
        "PrivKVM's mean is shrunk towards 0, which is where UNIFORM's lies, and clipped to [-1, 1], which"
        " helps where hardly anybody answers"
    )
    return _beats(measures, "figure-4", "figure 4", "ae", reason)


def _beats_in_figure_5(measures: Measures) -> Claim:
    reason = (
        "where the estimated answer rate is close to 0, BiSample-MD's raw ratio has no bound, and PrivKVM's"
        " mean is shrunk towards 0 and clipped to [-1, 1]"
    )
    return _beats(measures, "figure-5", "figure 5", "mse", reason)


def _rate_below_mean(measures: Measures) -> Claim:
    checks: list[_Check] = []
    for panel in measures.panels("figure-5"):
        for name in ("bisample", "privkvm"):
            means = {row.x: row.mse for row in measures.line("figure-5", panel, name, "mean")}
            for rate in measures.line("figure-5", panel, name, "missing_rate"):
                mean = means.get(rate.x)
                if rate.mse is not None and mean is not None:
                    ratio = _ratio(rate.mse, mean)
                    checks.append(_Check(f"{name}, {_place(rate)}", ratio < 1, ratio))
    return _claim(
        "The missing rate is estimated with a smaller error than the mean.",
        "figure 5",
        "MSE of the rate below that of the mean, BiSample-MD and PrivKVM, at every point",
        checks,
        "At {} points the rate's squared error is smaller than the mean's",
        lambda: f"{_count(checks)} points. Rate / mean: {_range(checks)}." + _where_not(checks),
    )


def _slope(line: Sequence[Measure]) -> float:
    """The slope of log MSE against log n; -1 is 1/n."""
    x = np.log([row.n for row in line])
    y = np.log([row.mse or math.nan for row in line])
    return float(np.polyfit(x, y, 1)[0])


def _slopes(measures: Measures, names: Sequence[str], quantity: Quantity) -> dict[str, float]:
    found: dict[str, float] = {}
    for panel in measures.panels("figure-6"):
        for name in names:
            line = measures.line("figure-6", panel, name, quantity)
            if len(line) > 1:
                found[name] = _slope(line)
    return found


def _falls(measures: Measures) -> Claim:
    quantities: tuple[Quantity, ...] = ("mean", "missing_rate")
    checks = [
        _Check(f"{name}, {quantity.replace('_', ' ')}", slope < -0.75, slope)
        for quantity in quantities
        for name, slope in _slopes(measures, ("bisample", "privkvm"), quantity).items()
    ]
    return _claim(
        "The errors of BiSample-MD and PrivKVM, mean and missing rate, fall as n grows.",
        "figure 6",
        "slope of log MSE against log n below -0.75 (1/n is -1)",
        checks,
        "On {} lines the squared error falls nearly as 1/n, or faster",
        lambda: (
            "Slopes: " + "; ".join(f"{c.place} {c.number:.2f}" for c in checks) + "." + _where_not(checks)
        ),
    )


def _flat(measures: Measures) -> Claim:
    found = _slopes(measures, _FAKING, "mean")
    checks = [_Check(name, slope > -0.25, slope) for name, slope in found.items()]
    last = {
        row.contestant: row.ae
        for row in sorted(measures.of("figure-6"), key=lambda row: row.n)
        if row.contestant in found
    }
    return _claim(
        "Those of Harmony and PM stay flat, because more people bring more fakes.",
        "figure 6a",
        "slope of log MSE against log n above -0.25",
        checks,
        "On {} lines more people hardly change the squared error: it is the fakes' bias",
        lambda: (
            "Slopes: "
            + "; ".join(f"{c.place} {c.number:.2f}, AE {last[c.place]:.3f} at the largest n" for c in checks)
            + "."
            + _where_not(checks)
        ),
    )


def _same_rate(measures: Measures) -> Claim:
    pairs = _pairs(measures, "figure-6", "privkvm", "bisample", "missing_rate")
    ratios = [_ratio(a.mse, b.mse) for a, b in pairs]
    checks = [
        _Check(f"n = {a.n:,}", _overlap(a, b, "mse"), ratio)
        for (a, b), ratio in zip(pairs, ratios, strict=True)
    ]
    return _claim(
        "On the missing rate there is no clear difference between BiSample-MD and PrivKVM.",
        "figure 6b",
        "the 95 % bands of their MSE overlap at every n",
        checks,
        "At {} sizes the 95 % bands of their errors overlap",
        lambda: (
            f"{_count(checks)} sizes; PrivKVM / BiSample-MD: {_range(checks)}, geometric mean"
            f" {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}." + _where_not(checks)
        ),
    )


_TESTS: tuple[Callable[[Measures], Claim], ...] = (
    _alike,
    _fakes_hurt,
    _harmless,
    _grows_again,
    _beats_in_figure_4,
    _beats_in_figure_5,
    _rate_below_mean,
    _falls,
    _flat,
    _same_rate,
)
