"""Which mechanism, by computed variance: the comparison table, and a recommendation that explains itself.

Nothing here is simulated: every number is the exact variance of the estimator at a stated population.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from bisample.catalogue import build, dithered_levels
from bisample.errors import ParameterError, shown
from bisample.protocol.exact import check_epsilon, real
from bisample.protocol.mechanism import Mechanism
from bisample.protocol.table import MAX_CODES

__all__ = [
    "POPULATIONS",
    "Compared",
    "Comparison",
    "Recommendation",
    "best_mean_variance",
    "best_rate_variance",
    "compare",
    "recommend",
    "short",
]

Objective = Literal["mean", "missing", "worst"]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_MIDDLES = (np.arange(200) + 0.5) / 200

# What people may hold, scaled to [-1, 1]: quantiles, so that every run computes the same.
POPULATIONS: Mapping[str, Floats] = MappingProxyType(
    {
        "gauss": np.array([NormalDist(0.5, 0.1).inv_cdf(p) for p in _MIDDLES]).clip(-1, 1),
        "exp": np.clip(-1 - 0.17 * np.log1p(-_MIDDLES), -1, 1),  # mean -0.83, as the paper's
        "uniform": 2 * _MIDDLES - 1,
        "two-point": np.array([-1.0, 1.0]),
        "all-lowest": np.array([-1.0]),
        "all-middle": np.array([0.0]),
        "all-highest": np.array([1.0]),
    }
)


for _values in POPULATIONS.values():
    _values.setflags(write=False)


@dataclass(frozen=True)
class Compared:
    """n times the variances of one mechanism's estimates, around the respondents' own mean and rate."""

    mechanism: str
    mean: float
    missing_rate: float | None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Every mechanism at one epsilon and one population, and what bounds them."""

    epsilon: float
    answer_rate: float
    population: str
    rows: tuple[Compared, ...]
    best_mean: float | None
    best_missing_rate: float

    @property
    def title(self) -> str:
        """What is compared where."""
        return (
            f"n * variance at epsilon = {self.epsilon:g}, {self.answer_rate:.0%} answering,"
            f" values: {self.population}, scaled to [-1, 1]"
        )

    def __str__(self) -> str:
        lines = [self.title, f"  {'':14}{'mean':>10}{'missing rate':>14}"]
        for row in self.rows:
            mean, missing = short(row.mean), short(row.missing_rate)
            lines.append(f"  {row.mechanism:14}{mean:>10}  {missing:>12}  {row.note}".rstrip())
        mean, missing = short(self.best_mean), short(self.best_missing_rate)
        lines.append(f"  {'best':14}{mean:>10}  {missing:>12}  with refusals, each alone, by its own channel")
        return "\n".join(lines)


def compare(epsilon: float, answer_rate: float = 0.7, population: str = "gauss") -> Comparison:
    """n * variance of mean and missing rate at one population, of every mechanism that `recommend` weighs.

    >>> print(compare(epsilon=2))
    n * variance at epsilon = 2, 70% answering, values: gauss, scaled to [-1, 1]
                          mean  missing rate
      bisample            3.41           1.3
      three-state         2.68         0.252
      privkv              10.3         0.921
      dithered            1.77         0.252  levels=2, steps=16
      dithered            1.61         0.324  levels=3, steps=16 (the default)
      dithered            1.77         0.395  levels=4, steps=16
      harmony             1.46             -  if everybody answers
      best                1.21         0.181  with refusals, each alone, by its own channel
    """
    epsilon = check_epsilon(epsilon)
    _check_answer_rate(answer_rate)
    values = POPULATIONS[_known(population)]
    default = dithered_levels(epsilon)
    rows = []
    for mechanism in _candidates(epsilon):
        v = mechanism.variance(values, answer_rate=answer_rate, realised=True)
        assert v.mean is not None
        is_default = _parameters(mechanism).get("levels") == default
        note = _listed(_parameters(mechanism)) + " (the default)" * is_default
        rows.append(Compared(mechanism.name, v.mean, v.answer_rate, note))
    everybody = build("harmony", epsilon=epsilon).variance(values, realised=True).mean
    assert everybody is not None
    rows.append(Compared("harmony", everybody, None, "if everybody answers"))
    stated = _best_channel()
    bounded = population == stated["population"] and answer_rate == stated["answer_rate"]
    best_mean = best_mean_variance(epsilon) if bounded else None
    return Comparison(epsilon, answer_rate, population, tuple(rows), best_mean, best_rate_variance(epsilon))


def short(value: float | None) -> str:
    """A variance with three digits and no exponent where it is large; a dash where there is none.

    >>> short(1021.4), short(0.03684), short(None)
    ('1,021', '0.0368', '-')
    """
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def best_rate_variance(epsilon: float) -> float:
    """n * variance of the missing rate by plain randomized response to "do you answer?": nothing is better.

    >>> round(best_rate_variance(2), 3)
    0.181
    """
    e = math.exp(check_epsilon(epsilon))
    return e / (e - 1) ** 2


def best_mean_variance(epsilon: float) -> float | None:
    """The least n * variance of the mean that any channel was found to have; None where none was computed.

    For an answer rate of 0.7 and values N(0.5, 0.1); interpolated between the computed epsilons.

    >>> round(best_mean_variance(2), 2)
    1.21
    """
    known = np.array(_best_channel()["points"])
    x = math.log(check_epsilon(epsilon))
    logs = np.log(known)
    if not logs[0, 0] <= x <= logs[-1, 0]:
        return None
    return float(np.exp(np.interp(x, logs[:, 0], logs[:, 1])))


@dataclass(frozen=True)
class Recommendation:
    """A mechanism by its name in the catalogue, with parameters, and why it was taken."""

    mechanism: str
    parameters: Mapping[str, Any]  # epsilon among them; not the range
    objective: Objective
    answer_rate: float
    variance: float
    why: str
    runners_up: Mapping[str, float] = field(default_factory=dict)

    def build(self, lower: float, upper: float) -> Mechanism:
        """The mechanism for answers in this range."""
        half, centre = (upper - lower) / 2, (upper + lower) / 2
        in_units = {"mean": lambda x: centre + half * x, "spread": lambda x: half * x}
        told = {name: in_units.get(name, lambda x: x)(value) for name, value in self.parameters.items()}
        return build(self.mechanism, **told, lower=lower, upper=upper)

    def __str__(self) -> str:
        return self.why


def recommend(
    epsilon: float,
    objective: Objective = "mean",
    answer_rate: float = 0.7,
    population: str | None = None,
    expect: tuple[float, float] | None = None,
) -> Recommendation:
    """The mechanism with the least variance, computed over the stated `POPULATIONS` or for one of them.

    "mean": the mean's variance, averaged (as geometric mean) over the populations. "missing": the
    missing rate's. "worst": the mean's variance at the population where it is largest. All are around
    the respondents' own mean and rate, for values scaled to [-1, 1].

    `expect`, a mean and a spread on that scale that are known from public figures or from a former private
    estimate, takes the place of the populations, and the focused response comes into question.

    >>> print(recommend(2))  # doctest: +NORMALIZE_WHITESPACE
    dithered (levels=2, steps=16): at epsilon = 2, 70% answering, over 7 populations,
    n * variance of the mean is on average 1.75, against 2.91 for bisample.
    >>> recommend(2, population="gauss").parameters["levels"]
    3
    >>> print(recommend(4, expect=(0.5, 0.1)))  # doctest: +NORMALIZE_WHITESPACE
    focused (mean=0.5, spread=0.1): at epsilon = 4, 70% answering, values: as expected,
    n * variance of the mean is 0.121, against 0.183 for dithered. If the guess is wrong, it costs:
    1.66 times dithered's variance where answers spread evenly, at most 2.2 times.
    """
    epsilon = check_epsilon(epsilon)
    if objective not in ("mean", "missing", "worst"):
        raise ParameterError(f"objective must be 'mean', 'missing' or 'worst', not {shown(objective)}")
    _check_answer_rate(answer_rate)
    if expect is not None:
        if population is not None:
            raise ParameterError("expect takes the place of a population: give one of the two")
        return _recommend_for(epsilon, objective, float(answer_rate), _checked_guess(expect))
    names = tuple(POPULATIONS) if population is None else (_known(population),)
    return _recommend(epsilon, objective, float(answer_rate), names)


@lru_cache
def _recommend(
    epsilon: float, objective: Objective, answer_rate: float, names: tuple[str, ...]
) -> Recommendation:
    where = f"over {len(names)} populations" if len(names) > 1 else f"values: {names[0]}"
    populations = [POPULATIONS[name] for name in names]
    return _least(list(_candidates(epsilon)), epsilon, objective, answer_rate, populations, where)


def _recommend_for(
    epsilon: float, objective: Objective, answer_rate: float, guess: tuple[float, float]
) -> Recommendation:
    mean, spread = guess
    focused = build("focused", epsilon=epsilon, mean=mean, spread=spread)
    normal = NormalDist(mean, max(spread, 1e-9))
    values = np.array([normal.inv_cdf(p) for p in _MIDDLES]).clip(-1, 1)
    candidates = [*_candidates(epsilon), focused]
    found = _least(candidates, epsilon, objective, answer_rate, [values], "values: as expected")
    if found.mechanism != "focused":
        return found
    even, most = _cost_of_a_wrong_guess(focused, build("dithered", epsilon=epsilon), answer_rate)
    return replace(
        found,
        parameters={"epsilon": epsilon, "mean": mean, "spread": spread},
        why=f"{found.why} If the guess is wrong, it costs: {short(even)} times dithered's variance where"
        f" answers spread evenly, at most {short(most)} times.",
    )


def _cost_of_a_wrong_guess(focused: Mechanism, other: Mechanism, answer_rate: float) -> tuple[float, float]:
    """The mean's variance relative to another mechanism's: for even answers, and where it is worst."""

    def relative(values: Floats, rate: float, *, realised: bool) -> float:
        one, two = (m.variance(values, answer_rate=rate, realised=realised).mean for m in (focused, other))
        assert one is not None
        assert two is not None
        return one / two

    # The worst are people who all hold the same and answer: nothing else adds to the variance.
    worst = max(relative(np.array([x]), 1.0, realised=False) for x in np.linspace(-1, 1, 65))
    return relative(POPULATIONS["uniform"], answer_rate, realised=True), worst


def _least(
    candidates: list[Mechanism],
    epsilon: float,
    objective: Objective,
    answer_rate: float,
    populations: list[Floats],
    where: str,
) -> Recommendation:
    scores = [(_score(m, objective, answer_rate, populations), m) for m in candidates]
    # Of candidates that differ by less than 1 % the first one wins: the list runs from simple to rich.
    least = min(score for score, _ in scores)
    score, best = next((s, m) for s, m in scores if s <= 1.01 * least)
    others: dict[str, float] = {}
    for other_score, mechanism in scores:
        others[mechanism.name] = min(other_score, others.get(mechanism.name, math.inf))
    what = {
        "mean": "n * variance of the mean is on average",
        "missing": "n * variance of the missing rate is on average",
        "worst": "n * variance of the mean is at worst",
    }[objective]
    if len(populations) == 1:
        what = what.removesuffix(" on average").removesuffix(" at worst")
    rival = {"bisample": "three-state", "focused": "dithered"}.get(best.name, "bisample")
    parameters = _parameters(best)
    shown = {k: v for k, v in parameters.items() if best.name != "focused" or k in ("mean", "spread")}
    why = (
        f"{best.name}{f' ({_listed(shown)})' if shown else ''}: at epsilon = {epsilon:g},"
        f" {answer_rate:.0%} answering, {where},"
        f" {what} {short(score)}, against {short(others[rival])} for {rival}."
    )
    return Recommendation(
        best.name, {"epsilon": epsilon, **parameters}, objective, answer_rate, score, why, others
    )


def _candidates(epsilon: float) -> Iterator[Mechanism]:
    """The mechanisms for numbers and refusals, from simple to rich, with the parameters that may suit."""
    for name in ("bisample", "three-state", "privkv"):
        yield build(name, epsilon=epsilon)
    usual = dithered_levels(epsilon)
    for levels in sorted({max(2, usual - 1), usual, min(usual + 1, MAX_CODES - 1)}):
        yield build("dithered", epsilon=epsilon, levels=levels)


def _score(
    mechanism: Mechanism, objective: Objective, answer_rate: float, populations: list[Floats]
) -> float:
    # Around the respondents' own mean and rate: what drawing the respondents adds is nobody's merit.
    found = [mechanism.variance(values, answer_rate=answer_rate, realised=True) for values in populations]
    if objective == "missing":
        return _geometric_mean([v.answer_rate or 0.0 for v in found])
    means = [v.mean or 0.0 for v in found]
    return max(means) if objective == "worst" else _geometric_mean(means)


def _geometric_mean(values: list[float]) -> float:
    """Populations where everything is noisy must not drown the others."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _checked_guess(expect: object) -> tuple[float, float]:
    try:
        mean, spread = map(real, expect)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        mean = spread = math.nan
    if not (-1 <= mean <= 1 and 0 <= spread <= 2):
        raise ParameterError(
            "expect must be a mean from -1 to 1 and a spread from 0 to 2, scaled as the values are, not"
            f" {shown(expect)}"
        )
    return mean, spread


def _check_answer_rate(answer_rate: object) -> None:
    if not 0 < real(answer_rate) <= 1:
        raise ParameterError(f"answer_rate must be above 0 and up to 1, not {shown(answer_rate)}")


def _known(population: object) -> str:
    if not isinstance(population, str) or population not in POPULATIONS:
        raise ParameterError(f"population must be one of {', '.join(POPULATIONS)}, not {shown(population)}")
    return population


def _parameters(mechanism: Mechanism) -> dict[str, Any]:
    """What its builder was told besides epsilon and the range."""
    assert mechanism.provenance is not None
    return {name: value for name, value in mechanism.provenance.parameters.items() if name != "epsilon"}


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


@lru_cache
def _best_channel() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("best_channel.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
