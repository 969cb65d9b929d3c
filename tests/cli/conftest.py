"""The command line as people meet it: in this process with streams of its own, or in another one."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from click.testing import CliRunner

from bisample.cli.main import main


@dataclass(frozen=True)
class Run:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def bisample():
    """Runs a command in this process."""

    def run(*arguments, stdin=None):
        with CliRunner().isolation(input=stdin) as (out, err, _):
            code = main([str(argument) for argument in arguments])
            sys.stdout.flush()
            return Run(code, out.getvalue().decode(), err.getvalue().decode())

    return run


@pytest.fixture(scope="session")
def started():
    """Starts a command in a process of its own."""

    def start(*arguments, env=None, **settings):
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            [sys.executable, "-m", "bisample", *map(str, arguments)],
            env={**os.environ, **(env or {})},
            **{**streams, **settings},
        )

    return start


RANGE = ("--epsilon", 2, "--lower", 17, "--upper", 90)


@dataclass(frozen=True)
class People:
    """A file of 20,000 people, and the truth about them."""

    path: object
    mean: float
    rate: float
    tea: float
    refusals: int


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    rng = np.random.default_rng(1)
    ages = rng.integers(17, 91, 20_000)
    declined = rng.random(20_000) < 0.3
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "age", "drink"])
        for i, age in enumerate(ages):
            drink = "" if declined[i] else "tea" if age > 40 else "coffee"
            writer.writerow([f"p{i}", "" if declined[i] else age, drink])
    given = ages[~declined]
    rate = len(given) / len(ages)
    return People(path, float(given.mean()), rate, float((given > 40).mean()), int(declined.sum()))


@pytest.fixture
def made(tmp_path, bisample):
    """A file of reports, made from a column written here."""

    def make(name, *options, ages=(31, 45, None), mechanism=RANGE):
        answers = tmp_path / f"answers of {name}"
        answers.write_text("age\n" + "".join(f"{'NA' if age is None else age}\n" for age in ages))
        out = tmp_path / name
        done = bisample("privatize", answers, "--column", "age", *mechanism, "--out", out, *options)
        assert done.code == 0, done.err
        answers.unlink()
        return out

    return make
