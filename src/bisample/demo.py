"""The demonstration: 100,000 people's ages, some of whom decline, privatized and estimated."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import MissingExtraError, ParameterError
from .estimate import Estimate, Interval
from .exact import whole
from .mechanisms import BiSample, Harmony
from .pictures import pyplot, save
from .preference import fake_top, preferences, prepare_values
from .solve import Counts, Floats

__all__ = ["Demonstration", "add_arguments", "demonstrate", "run"]

_POPULATION_SEED = 2020


@dataclass(frozen=True)
class Demonstration:
    """What one run of the demonstration held, counted and found."""

    ages: Floats  # everybody's, which no collector sees
    answers: Floats  # NaN where somebody declined
    mechanism: BiSample
    tally: Counts
    estimate: Estimate
    faked_mean: float  # what Harmony makes of it if those who decline say the highest age instead

    @property
    def true_mean(self) -> float:
        """The mean of those who answer."""
        return float(np.nanmean(self.answers))

    @property
    def true_rate(self) -> float:
        """The share of people who answer."""
        return float(np.mean(~np.isnan(self.answers)))


def demonstrate(n: int = 100_000, epsilon: float = 4.0, seed: int | None = None) -> Demonstration:
    """Draw people from ADULT's ages with preferences of their own, privatize, tally and estimate.

    The people are the same every time; the reports are drawn with secure randomness, or with `seed`.

    >>> found = demonstrate(n=20_000, seed=1)
    >>> abs(found.estimate.mean - found.true_mean) < 4 * found.estimate.mean_error
    True
    """
    from .paper.data import adult_ages

    people = np.random.default_rng(_POPULATION_SEED)
    ages = people.choice(adult_ages(), n)
    lower, upper = 17.0, 90.0
    answers = prepare_values(ages, epsilon, preferences(n, people))
    if np.isnan(answers).all():
        raise ParameterError(f"nobody answers at epsilon = {epsilon:g}: take a smaller one, or more people")
    mechanism = BiSample(epsilon, lower, upper)
    tally = mechanism.tally(mechanism.privatize(answers, rng=seed))
    harmony = Harmony(epsilon, lower, upper)
    faked = harmony.estimate(harmony.tally(harmony.privatize(fake_top(answers, upper), rng=seed)))
    assert faked.mean is not None
    return Demonstration(ages, answers, mechanism, tally, mechanism.estimate(tally), faked.mean)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The demonstration's own options."""
    parser.add_argument("--people", type=int, default=100_000, help="how many (default: %(default)s)")
    parser.add_argument("--epsilon", type=float, default=4.0, help="default: %(default)s")
    parser.add_argument(
        "--seed", type=int, help="make the same reports every time (default: secure randomness)"
    )
    parser.add_argument("--out", default="bisample-demo.png", help="the picture (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON, for a program to read")


def run(arguments: argparse.Namespace) -> int:
    """Privatize the ages of 100,000 people, some of whom decline, and print truth beside estimate."""
    people = whole(arguments.people, 100, "--people")
    found = demonstrate(people, arguments.epsilon, arguments.seed)
    estimate = found.estimate
    if arguments.json:
        truth = {"mean": found.true_mean, "answer_rate": found.true_rate}
        print(json.dumps({"truth": truth, "estimate": estimate.to_dict(), "tally": found.tally.tolist()}))
    else:
        print(_text(found))
    try:
        _draw(found, Path(arguments.out))
    except MissingExtraError as missing:
        print(f"no picture: {missing}", file=sys.stderr)
    else:
        if not arguments.json:
            print(f"\npicture: {arguments.out}")
    return 0


def _text(found: Demonstration) -> str:
    e = found.estimate
    low, high = e.mean_interval or (float("nan"),) * 2
    rate_low, rate_high = e.answer_rate_interval or (float("nan"),) * 2
    mean = "undefined" if e.mean is None else f"{e.mean:.2f}"
    rate = "undefined" if e.answer_rate is None else f"{e.answer_rate:.1%}"
    codes = found.mechanism.table.codes
    received = ", ".join(f"{code}: {count:,}" for code, count in zip(codes, found.tally, strict=True))
    level = f"{e.level:.0%} interval"
    return "\n".join(
        [
            f"{e.n:,} people are asked their age at epsilon = {e.epsilon:g}. Those who find that too little",
            "privacy decline, and their devices say so in two random bits, like everybody's.",
            "",
            f"{'':24}{'truth':>10}{'estimate':>12}   {level}",
            f"{'mean age of answers':24}{found.true_mean:>10.2f}{mean:>12}   {low:.2f} to {high:.2f}",
            f"{'answer rate':24}{found.true_rate:>10.1%}{rate:>12}   {rate_low:.1%} to {rate_high:.1%}",
            "",
            f"reports received: {received}",
            f"proven privacy: epsilon <= {found.mechanism.epsilon_upper}",
            f"had those people said 90 instead, the mean would have come out as {found.faked_mean:.2f}",
        ]
    )


def _draw(found: Demonstration, path: Path) -> None:
    """Three panels: what people hold, what the collector receives, what it learns."""
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
    received.bar(found.mechanism.table.codes, found.tally, color="#888888", width=0.6)
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
    panel: Any, value: float | None, interval: Interval | None, truth: float, unit: float, label: str
) -> None:
    """An estimate with its interval on a line, and the truth across it."""
    panel.axvline(truth * unit, color="black", lw=1, ls="--")
    if interval is not None:
        low, high = interval[0] * unit, interval[1] * unit
        panel.plot([low, high], [0, 0], color="#4477aa", lw=3, solid_capstyle="butt")
        reach = 2 * max(high - truth * unit, truth * unit - low)
        panel.set_xlim(truth * unit - reach, truth * unit + reach)
    if value is not None:
        panel.plot(value * unit, 0, "o", color="#4477aa", ms=7)
    panel.set(yticks=[], ylim=(-1, 1), xlabel=label)
    panel.spines["left"].set_visible(False)
