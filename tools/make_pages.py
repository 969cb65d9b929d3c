"""Fill in what the pages show between markers: the demonstration, the speeds, variances and coverage.

`tools/make_pages.py demo` runs the demonstration with a seed and saves its picture, `bench` runs the
benchmark, `variances` computes the table of docs/dithered.md and `coverage` that of docs/intervals.md (an
hour). Tests compare the pages with what is printed today.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from bisample.planning.compare import compare, short

ROOT = Path(__file__).resolve().parent.parent


def fill(page: str, name: str, content: str) -> None:
    """Replace what stands between <!-- name --> and <!-- /name --> in a page."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{page} has no place marked <!-- {name} -->")
    path.write_text(pattern.sub(lambda m: m[1] + content.strip("\n") + "\n" + m[2], text), encoding="utf-8")


def run(command: list[str]) -> str:
    """What a command of ours prints."""
    finished = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603
    return finished.stdout


def demo() -> str:
    """What the demonstration prints with a seed, as a text block and its picture."""
    command = [sys.executable, "-m", "bisample", "demo", "--seed", "1", "--out", "docs/demo.png"]
    printed = run(command)
    text = printed.partition("\npicture:")[0].rstrip()
    picture = "![what people hold, what the collector receives, what it learns](docs/demo.png)"
    return f"```text\n{text}\n```\n\n{picture}"


_RUNS = 3
# What a reader of the README asks; the rest `make bench` prints.
_SHOWN = (
    "bisample speed / copyto",
    "bisample speed / plain NumPy",
    "dithered speed / copyto",
    "bisample, all cores / one thread",
    "tally speed / copyto",
    "extra memory, MiB",
    "scalar privatize, microseconds",
    "from bisample import BiSample / import numpy",
    "estimate of 2000 reports, 3 x 4 table, ms",
    "estimate of 2000 reports, dithered, epsilon = 2, ms",
)


def bench() -> str:
    """Bars of the benchmark as a table: of several runs the worst, so that a reader's machine repeats it."""
    runs = [json.loads(run([sys.executable, "bench/speed.py"])) for _ in range(_RUNS)]
    lines = ["| | measured | at least / at most |", "|---|---|---|"]
    for name in _SHOWN:
        bar = runs[0]["bars"][name]["bar"]
        measured = [found["bars"][name]["measured"] for found in runs]
        worst = min(measured) if bar.startswith(">=") else max(measured)
        lines.append(f"| {name} | {worst:.3g} | {bar} |")
    slowest, slowest_all = (
        min(found["million values a second"][name] for found in runs)
        for name in ("privatize bisample", "privatize bisample, all cores")
    )
    found = (
        f"BiSample privatized at least {slowest:.0f} million values a second on one core, and"
        f" {slowest_all:.0f} million on two."
    )
    return "\n".join([*lines, "", found])


def coverage() -> str:
    """How often intervals hold the truth: an hour."""
    command = [sys.executable, "tools/interval_coverage.py", "--repetitions", "4000", "--jobs", "2"]
    return "\n" + run(command)


def variances() -> str:
    """n * variance of mean / missing rate of the mechanisms that take refusals, and the best possible."""
    lines = [
        "| epsilon | BiSample-MD | three-state | PrivKV | dithered | best |",
        "|---|---|---|---|---|---|",
    ]
    for epsilon in (0.1, 0.5, 1, 2, 3, 4, 6, 8):
        found = compare(epsilon)
        shown = {
            row.mechanism: f"{short(row.mean)} / {short(row.missing_rate)}"
            for row in found.rows
            if row.mechanism != "dithered" or "the default" in row.note
        }
        cells = [shown[name] for name in ("bisample", "three-state", "privkv", "dithered")]
        cells.append(f"{short(found.best_mean)} / {short(found.best_missing_rate)}")
        lines.append(f"| {epsilon} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Fill in the parts that are named."""
    parts = {
        "demo": ("README.md", demo),
        "bench": ("docs/speed.md", bench),
        "variances": ("docs/dithered.md", variances),
        "coverage": ("docs/intervals.md", coverage),
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="+", choices=sorted(parts))
    for name in parser.parse_args().part:
        page, content = parts[name]
        fill(page, name, content())


if __name__ == "__main__":
    main()
