"""Speed as ratios within one run, as JSON: `make bench`.

Speeds of machines differ and wander; what is compared is measured in turns, in the same process, on
the same array, and medians are divided. The plain version is what people write today.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from bisample import BiSample, DitheredResponse, KRandomizedResponse, Mechanism
from bisample.catalogue import CATALOGUE, build

Array = np.ndarray[Any, np.dtype[Any]]
Bar = tuple[float, str, float]
MISSING = 0.3


def plain_bisample(values: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """The paper's algorithm 4 as a plain NumPy program, with its two calls of rng.random."""
    p = np.exp(epsilon) / (np.exp(epsilon) + 1)
    s = rng.random(len(values)) < 0.5
    sign = np.where(s, 1.0, -1.0)
    one = np.where(np.isnan(values), 1 - p, 0.5 + sign * values * (2 * p - 1) / 2)
    b = rng.random(len(values)) < one
    codes: Array = (2 * s + b).astype(np.uint8)
    return codes


def turns(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each job; the jobs take turns, so that a slow moment hits them all."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def answers_for(name: str, values: Array) -> tuple[Mechanism, Array]:
    """A mechanism of the catalogue at epsilon = 1, and answers that it takes, made from these values."""
    entry = CATALOGUE[name]
    if entry.domain == "range":
        return build(name, epsilon=1.0), values if entry.refusal else np.nan_to_num(values)
    if entry.refusal:
        return build(name, epsilon=1.0, options=range(8)), np.floor((values + 1) * 4).clip(0, 7)
    return build(name, epsilon=1.0), np.nan_to_num(values) > 0


def jobs_on(values: Array) -> dict[str, Callable[[], object]]:
    """copyto, the plain version, every mechanism's privatize on one thread, on all cores, and tally."""
    target = np.empty_like(values)
    rng = np.random.default_rng(1)
    jobs: dict[str, Callable[[], object]] = {
        "copyto": lambda: np.copyto(target, values),
        "plain NumPy": lambda: plain_bisample(values, 1.0, rng),
    }
    for name in CATALOGUE:
        mechanism, answers = answers_for(name, values)
        jobs[f"privatize {name}"] = lambda m=mechanism, a=answers: m.privatize(a, threads=1)  # type: ignore[misc]
    bisample, dithered = BiSample(1.0), DitheredResponse(2.0)
    jobs["privatize dithered, epsilon = 2"] = lambda: dithered.privatize(values, threads=1)
    jobs["privatize bisample, all cores"] = lambda: bisample.privatize(values)
    jobs["privatize dithered, epsilon = 2, all cores"] = lambda: dithered.privatize(values)
    reports = bisample.privatize(values)
    jobs["tally"] = lambda: bisample.tally(reports)
    return jobs


def extra_memory(values: Array) -> int:
    """Bytes that BiSample.privatize holds at its peak beyond its output, on one thread."""
    m = BiSample(1.0)
    m.privatize(values[:1000])
    tracemalloc.start()
    reports = m.privatize(values, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(peak - reports.nbytes)


def median_seconds(job: Callable[[], object], repeats: int) -> float:
    """The median time of one call, after one that is not counted."""
    job()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_ratios(repeats: int = 15) -> dict[str, float]:
    """Imports as multiples of `import numpy`, each in fresh processes, in turns."""
    program = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    statements = ("import numpy", "import bisample", "from bisample import BiSample")
    times: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(repeats):
        for statement, found in times.items():
            run = subprocess.run(  # noqa: S603 - a constant program
                [sys.executable, "-c", program.format(statement)], check=True, capture_output=True
            )
            found.append(float(run.stdout))
    numpy = statistics.median(times["import numpy"])
    return {statement: statistics.median(found) / numpy for statement, found in times.items()}


def estimate_bars() -> dict[str, Bar]:
    """Milliseconds of one estimate, and of 800 tallies in one call, with few reports and with many."""
    rng = np.random.default_rng(3)
    bars: dict[str, Bar] = {}
    for what, m, one, many in (
        ("3 x 4 table", BiSample(1.0), 10, 200),
        ("k-rr, 3 options", KRandomizedResponse(1.0, range(3)), 10, 200),
        ("dithered, epsilon = 2", DitheredResponse(2.0), 40, 2000),
    ):
        for n in (100, 2000):
            answers = rng.integers(0, 2, n)
            tallies = [m.tally(m.privatize(answers, rng=seed)) for seed in range(800)]
            single = median_seconds(lambda m=m, t=tallies[0]: m.estimate(t), 15)  # type: ignore[misc]
            bars[f"estimate of {n} reports, {what}, ms"] = (1e3 * single, "<=", one)
            together = median_seconds(lambda m=m, t=tallies: m.estimates(t), 3)  # type: ignore[misc]
            bars[f"800 estimates of {n} reports, {what}, ms"] = (1e3 * together, "<=", many)
    return bars


def measure(n: int, repeats: int) -> dict[str, Any]:
    """All measurements, each beside the bar it has to meet."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, n)
    values[rng.random(n) < MISSING] = np.nan
    seconds = turns(jobs_on(values), repeats)
    copyto, plain = seconds["copyto"], seconds["plain NumPy"]
    one_bisample, one_dithered = seconds["privatize bisample"], seconds["privatize dithered, epsilon = 2"]
    imports = import_ratios()
    scalar = BiSample(1.0)
    bars: dict[str, Bar] = {
        "bisample speed / copyto": (copyto / one_bisample, ">=", 0.15),
        "dithered speed / copyto": (copyto / one_dithered, ">=", 0.07),
        "bisample, all cores / one thread": (
            one_bisample / seconds["privatize bisample, all cores"],
            ">=",
            1.4,
        ),
        "dithered, all cores / one thread": (
            one_dithered / seconds["privatize dithered, epsilon = 2, all cores"],
            ">=",
            1.4,
        ),
        "tally speed / copyto": (copyto / seconds["tally"], ">=", 0.28),
        "extra memory, MiB": (extra_memory(values) / 2**20, "<=", 8),
        "scalar privatize, microseconds": (
            1e6 * median_seconds(lambda: scalar.privatize(0.5), 5000),
            "<=",
            30,
        ),
        "import bisample / import numpy": (imports["import bisample"], "<=", 1.5),
        "from bisample import BiSample / import numpy": (imports["from bisample import BiSample"], "<=", 1.5),
        "bisample speed / plain NumPy": (plain / one_bisample, ">=", 4),
    }
    for name in CATALOGUE:
        if name != "bisample":
            bars[f"{name} speed / plain NumPy"] = (plain / seconds[f"privatize {name}"], ">=", 1.5)
    bars |= estimate_bars()
    return {
        "values": n,
        "missing": MISSING,
        "million values a second": {name: round(n / s / 1e6, 1) for name, s in seconds.items()},
        "bars": {
            name: {
                "measured": float(f"{value:.3g}"),
                "bar": f"{sign} {bar:g}",
                "met": value >= bar if sign == ">=" else value <= bar,
            }
            for name, (value, sign, bar) in bars.items()
        },
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=16_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.n, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
