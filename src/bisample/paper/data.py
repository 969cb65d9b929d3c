"""The four data sets of the paper's table 2, and a loader for one's own column.

ADULT is the age column of the training file of UCI Adult (B. Becker and R. Kohavi, 1996,
https://doi.org/10.24432/C5XW20, CC BY 4.0), kept here as its histogram, which is all of it.

This module imports nothing but NumPy and the core, so that a demonstration can use the ages.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from bisample.analysis.solve import Floats
from bisample.device.answers import read_numbers
from bisample.errors import AnswerError, ParameterError
from bisample.files import numbers_from_text, read_column

__all__ = [
    "DATASETS",
    "DataSet",
    "adult_ages",
    "from_file",
    "load_column",
    "scale",
    "stream",
]

# The paper does not print the sizes of its drawn data sets; 10**5 is what its figure 6 has in the middle.
DRAWN = 100_000


def stream(seed: int, *names: object) -> np.random.Generator:
    """A generator of its own for every list of names: the order of work and who shares it change nothing.

    >>> bool(stream(1, "EXP").random() == stream(1, "EXP").random())
    True
    >>> bool(stream(1, "EXP").random() == stream(1, "GAUSS").random())
    False
    """
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=16).digest()
    words = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    # SFC64 is NumPy's fastest generator: drawing preferences and fakes is a third of all the work.
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=words)))


@dataclass(frozen=True)
class DataSet:
    """A named set of values in [-1, 1]: drawn from a law at any size, or read at its own size.

    >>> adult = DATASETS[-1]
    >>> values = adult.values(seed=1)
    >>> adult.name, len(values), round(float(values.mean()), 4)
    ('ADULT', 32561, -0.4087)
    """

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    size: int = DRAWN
    fixed: bool = False  # read from a file: its size cannot be chosen
    paper_mean: float | None = None
    about: str = ""

    def values(self, seed: int, n: int | None = None) -> Floats:
        """The values of n people (default: the data set's size), the same for the same seed and n."""
        n = self.size if n is None else n
        if self.fixed and n != self.size:
            raise ParameterError(f"{self.name} has {self.size} rows, not {n}: leave n out")
        return _drawn(self, seed, n)


# A task of the largest figure needs one data set at a time, and each is up to 25 MB.
@lru_cache(maxsize=2)
def _drawn(data: DataSet, seed: int, n: int) -> Floats:
    values = data.draw(stream(seed, "data", data.name, n), n)
    values.setflags(write=False)
    return values


def scale(values: Floats) -> Floats:
    """Scale to [-1, 1] by the smallest and the largest value, as the paper does for EXP and ADULT.

    >>> scale(np.array([17.0, 90.0, 53.5]))
    array([-1.,  1.,  0.])
    """
    low, high = float(values.min()), float(values.max())
    if not low < high:
        raise AnswerError("all values of the column are equal: there is nothing to estimate")
    scaled = 2 * ((values - low) / (high - low)) - 1
    result: Floats = np.clip(scaled, -1, 1)
    return result


@lru_cache(maxsize=1)
def _age_counts() -> tuple[tuple[int, int], ...]:
    text = resources.files(__package__).joinpath("adult_age_counts.csv").read_text("utf-8")
    return tuple((int(row["age"]), int(row["count"])) for row in csv.DictReader(text.splitlines()))


def adult_ages() -> Floats:
    """The 32,561 ages of UCI Adult's training file, sorted (Becker and Kohavi 1996, CC BY 4.0).

    >>> ages = adult_ages()
    >>> len(ages), ages.min(), ages.max(), round(float(ages.mean()), 2)
    (32561, np.float64(17.0), np.float64(90.0), 38.58)
    """
    ages, counts = zip(*_age_counts(), strict=True)
    return np.repeat(np.array(ages, dtype=np.float64), counts)


def _exponential(rng: np.random.Generator, n: int) -> Floats:
    return scale(rng.exponential(0.1, n))


def _gauss(rng: np.random.Generator, n: int) -> Floats:
    clipped: Floats = np.clip(rng.normal(0.5, 0.1, n), -1, 1)
    return clipped


def _uniform(rng: np.random.Generator, n: int) -> Floats:
    return rng.uniform(-1, 1, n)


def _adult(_rng: np.random.Generator, _n: int) -> Floats:
    return scale(adult_ages())


# Table 2. A new line here is a new panel in figure 4 and a new row in table 2.
DATASETS = (
    DataSet("EXP", _exponential, paper_mean=-0.831, about="exponential, scale 0.1, min-max scaled"),
    DataSet("GAUSS", _gauss, paper_mean=0.499, about="normal, mean 0.5, sd 0.1, clipped to [-1, 1]"),
    DataSet("UNIFORM", _uniform, paper_mean=-0.001, about="uniform on [-1, 1]"),
    DataSet("ADULT", _adult, 32_561, fixed=True, paper_mean=-0.409, about="age in UCI Adult, min-max scaled"),
)


def load_column(path: str | Path, column: str) -> Floats:
    r"""The numbers of one column of a CSV or Parquet file; empty cells are left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("name,age\nAnn,31\nBob,\nCleo,45\n")
    ...     load_column(file, "age")
    array([31., 45.])
    """
    pieces: list[Floats] = []
    row = 1
    for piece in read_column(path, column):
        texts = any(isinstance(entry, str) for entry in piece)
        held = numbers_from_text(piece, row) if texts else read_numbers(piece).values
        pieces.append(np.asarray(held, dtype=np.float64))
        row += len(piece)
    values: Floats = np.concatenate(pieces) if pieces else np.empty(0)
    values = values[~np.isnan(values)]
    if not len(values) or not np.isfinite(values).all():
        raise AnswerError(
            f"column {column!r} of {path} must hold finite numbers, at least one: clean it or name another"
        )
    return values


def from_file(path: str | Path, column: str) -> DataSet:
    r"""One's own column as a data set beside the paper's, min-max scaled to [-1, 1].

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("age\n31\n38\n45\n")
    ...     from_file(file, "age").values(seed=1)
    array([-1.,  0.,  1.])
    """
    path = Path(path).resolve()
    values = load_column(path, column)
    # The digest is in the name of every point, so that results of another file are never taken for these.
    digest = hashlib.blake2b(values.tobytes(), digest_size=4).hexdigest()
    return DataSet(
        f"{column} {digest}",
        _OwnColumn(path, column),
        len(values),
        fixed=True,
        about=f"column {column} of {path.name}, min-max scaled",
    )


@dataclass(frozen=True)
class _OwnColumn:
    """Reads a column. Equal to its copies in other processes, so that each reads the file once."""

    path: Path
    column: str

    def __call__(self, _rng: np.random.Generator, _n: int) -> Floats:
        return scale(load_column(self.path, self.column))
