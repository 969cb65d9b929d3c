"""The demonstration: 100,000 people's ages, some of whom decline, privatized and estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bisample.analysis.results import NumberEstimate
from bisample.analysis.tally import SIMULATED
from bisample.catalogue import BiSample, Harmony
from bisample.errors import ParameterError
from bisample.paper.data import adult_ages
from bisample.protocol.exact import whole
from bisample.simulation.preferences import fake_top, preferences, prepare_values

from .pictures import pyplot, save

if TYPE_CHECKING:
    from bisample.analysis.results import Interval
    from bisample.analysis.tally import Tally
    from bisample.protocol.mechanism import Mechanism

__all__ = ["Demonstration", "demonstrate", "draw"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_POPULATION_SEED = 2020
_MOST_PEOPLE = 10_000_000  # all of them are held in memory


@dataclass(frozen=True, repr=False)
class Demonstration:
    """What one run of the demonstration held, counted and found."""

    ages: Floats  # everybody's, which no collector sees
    answers: Floats  # NaN where somebody declined
    mechanism: Mechanism
    tally: Tally
    estimate: NumberEstimate
    faked_mean: float  # what Harmony makes of it if those who decline say the highest age instead

    @property
    def true_mean(self) -> float:
        """The mean of those who answer."""
        return float(np.nanmean(self.answers))

    @property
    def true_rate(self) -> float:
        """The share of people who answer."""
        return float(np.mean(~np.isnan(self.answers)))

    def to_dict(self) -> dict[str, Any]:
        """Truth, estimate and tally as plain data."""
        truth = {"mean": self.true_mean, "answer_rate": self.true_rate}
        return {"truth": truth, "estimate": self.estimate.to_dict(), "tally": self.tally.to_dict()}

    def __str__(self) -> str:
        e = self.estimate
        (low, high), (rate_low, rate_high) = e.mean_interval, e.answer_rate_interval
        mean = "undefined" if e.mean is None else f"{e.mean:.2f}"
        rate = "undefined" if e.answer_rate is None else f"{e.answer_rate:.1%}"
        counts = enumerate(self.tally.counts)
        received = ", ".join(f"{_direction_and_bit(code)}: {count:,}" for code, count in counts)
        level = f"{e.level:.0%} interval"
        asked = f"{e.n:,} people are asked their age at epsilon = {e.epsilon:.4g}."
        return "\n".join(
            [
                f"{asked} Those who find that too little",
                "privacy decline, and their devices say so in two random bits, like everybody's.",
                "",
                f"{'':24}{'truth':>10}{'estimate':>12}   {level}",
                f"{'mean age of answers':24}{self.true_mean:>10.2f}{mean:>12}   {low:.2f} to {high:.2f}",
                f"{'answer rate':24}{self.true_rate:>10.1%}{rate:>12}   {rate_low:.1%} to {rate_high:.1%}",
                "",
                f"reports received: {received}",
                f"proven privacy: epsilon <= {self.mechanism.epsilon_upper}",
                f"had those people said 90 instead, the mean would have come out as {self.faked_mean:.2f}",
            ]
        )


def _direction_and_bit(code: int) -> str:
    s, b = divmod(code, 2)
    return f"s={s} b={b}"


def demonstrate(n: int = 100_000, epsilon: float = 4.0, seed: int | None = None) -> Demonstration:
    """Draw people from ADULT's ages with preferences of their own, privatize, tally and estimate.

    The people are the same every time; the reports are drawn with secure randomness, or with `seed`.

    >>> found = demonstrate(n=20_000, seed=1)
    >>> abs(found.estimate.mean - found.true_mean) < 4 * found.estimate.mean_error
    True
    """
    if whole(n, 100, "people") > _MOST_PEOPLE:
        raise ParameterError(f"people must be an integer from 100 to {_MOST_PEOPLE:,}, not {n:,}")
    if seed is not None:
        whole(seed, 0, "seed")
    people = np.random.default_rng(_POPULATION_SEED)
    ages = people.choice(adult_ages(), n)
    lower, upper = 17.0, 90.0
    answers = prepare_values(ages, epsilon, preferences(n, people))
    if np.isnan(answers).all():
        raise ParameterError(f"nobody answers at epsilon = {epsilon:g}: take a smaller one, or more people")
    mechanism = BiSample(epsilon, lower, upper)
    tally = mechanism.tally(mechanism.privatize(answers, rng=seed), None if seed is None else SIMULATED)
    harmony = Harmony(epsilon, lower, upper)
    faked = harmony.tally(harmony.privatize(fake_top(answers, upper), rng=seed))
    found, fooled = mechanism.estimate(tally), harmony.estimate(faked)
    assert isinstance(found, NumberEstimate)
    assert isinstance(fooled, NumberEstimate)
    assert fooled.mean is not None
    return Demonstration(ages, answers, mechanism, tally, found, fooled.mean)


def draw(found: Demonstration, path: str) -> None:
    """Three panels: what people hold, what the collector receives, what it learns.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(demonstrate(n=1_000, seed=1), f"{folder}/demo.png")
    ...     os.listdir(folder)
    ['demo.png']
    """
    plt = pyplot()
    figure, panels = plt.subplot_mosaic(
        [["held", "received", "mean"], ["held", "received", "rate"]],
        figsize=(12, 3.8),
        width_ratios=(1.2, 1, 1.2),
        layout="constrained",
    )
    declined = np.isnan(found.answers)
    held, received = panels["held"], panels["received"]
    held.hist(
        [found.ages[~declined], found.ages[declined]],
        bins=list(range(17, 94, 3)),
        stacked=True,
        color=["#4477aa", "#ccddee"],
        label=["answer", "decline"],
    )
    held.set(title="What people hold\n(never leaves their devices)", xlabel="age", ylabel="people")
    held.legend(frameon=False)
    codes = range(len(found.tally.counts))
    received.bar([_direction_and_bit(code) for code in codes], found.tally.counts, color="#888888", width=0.6)
    received.set(title="What the collector receives\n(two random bits each)", ylabel="reports")
    received.tick_params(axis="x", labelsize=8)
    e = found.estimate
    _learned(panels["mean"], e.mean, e.mean_interval, found.true_mean, 1, "mean age of those who answer")
    panels["mean"].set_title("What the collector learns\n(truth dashed, estimate with its interval)")
    panels["mean"].plot(found.faked_mean, 0, "x", color="#cc3311", ms=8, mew=2)
    panels["mean"].annotate(
        "had they said 90\ninstead of declining",
        (found.faked_mean, 0),
        (0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=8,
        color="#cc3311",
    )
    ends = [found.faked_mean - 3, found.faked_mean + 5, *panels["mean"].get_xlim()]
    panels["mean"].set_xlim(min(ends), max(ends))
    _learned(panels["rate"], e.answer_rate, e.answer_rate_interval, found.true_rate, 100, "answer rate, %")
    for panel in panels.values():
        panel.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _learned(
    panel: Any, value: float | None, interval: Interval, truth: float, unit: float, label: str
) -> None:
    """An estimate with its interval on a line, and the truth across it."""
    panel.axvline(truth * unit, color="black", lw=1, ls="--")
    low, high = interval[0] * unit, interval[1] * unit
    panel.plot([low, high], [0, 0], color="#4477aa", lw=3, solid_capstyle="butt")
    reach = 2 * max(high - truth * unit, truth * unit - low)
    panel.set_xlim(truth * unit - reach, truth * unit + reach)
    if value is not None:
        panel.plot(value * unit, 0, "o", color="#4477aa", ms=7)
    panel.set(yticks=[], ylim=(-1, 1), xlabel=label)
    panel.spines["left"].set_visible(False)
