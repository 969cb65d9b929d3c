"""Write expected.json from a finished quick run: `python tests/paper/make_expected.py FOLDER`.

Do this only when draws or formulas were meant to change, and look at the difference. Simulated errors
are those of seed 1 to 0.1 %: a hundred times finer than chance, and coarse enough for another machine's
last digits. What the formulas say depends on the draws of EXP, GAUSS and UNIFORM alone.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

KEPT = {
    "figure-4.csv": ("epsilon", {"0.1", "1", "5", "10"}, ("ae", "theory_ae")),
    "figure-5.csv": ("missing_rate", {"0.1", "0.5", "0.9"}, ("mse", "theory_mse")),
    "figure-6.csv": ("n", {"10000", "1000000"}, ("mse", "theory_mse")),
}
KEY = ["data", "n", "epsilon", "missing_rate", "quantity", "contestant"]


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def make(folder):
    files = {
        "table-2.csv": {
            "key": ["name"],
            "rows": [
                [r["name"], "mean", float(r["mean"]), {"abs": 1e-6}] for r in read(folder / "table-2.csv")
            ],
        },
        "figure-3.csv": {
            "key": ["epsilon"],
            "rows": [
                [r["epsilon"], "share", float(r["theory"]), {"abs": 0.007}]
                for r in read(folder / "figure-3.csv")
            ],
        },
    }
    for name, (axis, kept, columns) in KEPT.items():
        files[name] = {
            "key": KEY,
            "rows": [
                [*(row[k] for k in KEY), column, float(row[column]), {"rel": 1e-3}]
                for row in read(folder / name)
                if row[axis] in kept
                for column in columns
                if row[column]
            ],
        }
    return {"seed": 1, "files": files}


if __name__ == "__main__":
    made = json.dumps(make(Path(sys.argv[1])))
    # One row a line: a difference can be read.
    made = made.replace("[[", "[\n[").replace("], [", "],\n[").replace("]]", "]\n]")
    Path(__file__).with_name("expected.json").write_text(made + "\n", encoding="utf-8")
