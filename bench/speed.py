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

import bisample
from bisample import KRandomizedResponse, NumberMechanism, RandomizedResponse
from bisample.mechanism import registered

Array = np.ndarray[Any, np.dtype[Any]]
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


def jobs_on(values: Array) -> dict[str, Callable[[], object]]:
    """copyto, the plain version, every mechanism's privatize, and tally."""
    target = np.empty_like(values)
    rng = np.random.default_rng(1)
    complete = np.nan_to_num(values)
    grades = np.floor((values + 1) * 4).clip(0, 7)
    jobs: dict[str, Callable[[], object]] = {
        "copyto": lambda: np.copyto(target, values),
        "plain NumPy": lambda: plain_bisample(values, 1.0, rng),
    }
    for name, kind in registered().items():
        if issubclass(kind, NumberMechanism):
            mechanism: Any = kind(1.0)
            answers = values if mechanism.table.refusal else complete
        elif kind is KRandomizedResponse:
            mechanism, answers = kind(1.0, options=list(range(8))), grades
        else:
            mechanism, answers = RandomizedResponse(1.0), (complete > 0).astype(np.float64)
        jobs[f"privatize {name}"] = lambda m=mechanism, a=answers: m.privatize(a)  # type: ignore[misc]
    m = bisample.BiSample(1.0)
    reports = m.privatize(values)
    jobs["tally"] = lambda: m.tally(reports)
    return jobs


def extra_memory(values: Array) -> int:
    """Bytes that BiSample.privatize holds at its peak beyond its output."""
    m = bisample.BiSample(1.0)
    m.privatize(values[:1000])
    tracemalloc.start()
    reports = m.privatize(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(peak - reports.nbytes)


def scalar_microseconds(repeats: int = 5000) -> float:
    """The median time of one scalar privatize."""
    m = bisample.BiSample(1.0)
    m.privatize(0.5)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        m.privatize(0.5)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def import_ratio(repeats: int = 15) -> float:
    """`import bisample` as a multiple of `import numpy`, each in fresh processes, in turns."""
    program = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    times: dict[str, list[float]] = {"numpy": [], "bisample": []}
    for _ in range(repeats):
        for module, found in times.items():
            run = subprocess.run(  # noqa: S603 - a constant program
                [sys.executable, "-c", program.format(module)], check=True, capture_output=True
            )
            found.append(float(run.stdout))
    return statistics.median(times["bisample"]) / statistics.median(times["numpy"])


def measure(n: int, repeats: int) -> dict[str, Any]:
    """All measurements, each beside the bar it has to meet."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, n)
    values[rng.random(n) < MISSING] = np.nan
    seconds = turns(jobs_on(values), repeats)
    copyto, plain = seconds["copyto"], seconds["plain NumPy"]
    bars: dict[str, tuple[float, str, float]] = {
        "bisample speed / copyto": (copyto / seconds["privatize bisample"], ">=", 0.15),
        "bisample speed / plain NumPy": (plain / seconds["privatize bisample"], ">=", 4),
        "tally speed / copyto": (copyto / seconds["tally"], ">=", 0.15),
        "extra memory, MiB": (extra_memory(values) / 2**20, "<=", 8),
        "scalar privatize, microseconds": (scalar_microseconds(), "<=", 30),
        "import bisample / import numpy": (import_ratio(), "<=", 1.5),
    }
    for name in registered():
        if name != "bisample":
            bars[f"{name} speed / plain NumPy"] = (plain / seconds[f"privatize {name}"], ">=", 1.5)
    return {
        "values": n,
        "missing": MISSING,
        "million values a second": {name: round(n / s / 1e6, 1) for name, s in seconds.items()},
        "bars": {
            name: {
                "measured": round(value, 3),
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
