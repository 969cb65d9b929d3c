"""Fill in what the README shows between markers: the demonstration, the speeds, the claims.

`tools/make_readme.py demo` runs the demonstration with a seed and saves its picture, `bench` runs the
benchmark. A test compares the demonstration's text with what it prints today.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fill(name: str, content: str) -> None:
    """Replace what stands between <!-- name --> and <!-- /name --> in the README."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no place marked <!-- {name} -->")
    readme.write_text(pattern.sub(lambda m: m[1] + content.strip("\n") + "\n" + m[2], text), encoding="utf-8")


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


def bench() -> str:
    """The bars of the benchmark as a table."""
    command = [sys.executable, "bench/speed.py"]
    found = json.loads(run(command))
    lines = ["| | measured | at least / at most |", "|---|---|---|"]
    lines += [f"| {name} | {bar['measured']:.3g} | {bar['bar']} |" for name, bar in found["bars"].items()]
    speeds = found["million values a second"]
    lines += [
        "",
        f"In that run BiSample privatized {speeds['privatize bisample']:.0f} million values a second.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Fill in the parts that are named."""
    parts = {"demo": demo, "bench": bench}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="+", choices=sorted(parts))
    for name in parser.parse_args().part:
        fill(name, parts[name]())


if __name__ == "__main__":
    main()
