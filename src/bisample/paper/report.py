"""The report: tables, figures and claims in one page, as HTML that needs nothing else and as Markdown.

A report is a list of blocks, and each block knows how to be written in both.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bisample import __version__
from bisample.errors import FileError

from .agreement import Agreement
from .claims import Claim
from .data import DataSet
from .experiments import Experiment, Metric
from .measures import Measures

__all__ = [
    "DataRow",
    "agreement_rows",
    "build",
    "claims_table",
    "data_rows",
    "numbers_table",
    "picture_name",
    "update_readme",
    "write",
]

BEGIN, END = "<!-- paper:begin (written by bisample paper --readme) -->", "<!-- paper:end -->"


class Block(ABC):
    """A part of the report."""

    @abstractmethod
    def markdown(self) -> str: ...

    @abstractmethod
    def html(self, folder: Path) -> str: ...


@dataclass(frozen=True)
class Heading(Block):
    text: str
    level: int = 2

    def markdown(self) -> str:
        return f"{'#' * self.level} {self.text}"

    def html(self, folder: Path) -> str:  # noqa: ARG002
        return f"<h{self.level}>{html.escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Text(Block):
    text: str

    def markdown(self) -> str:
        return self.text

    def html(self, folder: Path) -> str:  # noqa: ARG002
        return f"<p>{html.escape(self.text)}</p>"


@dataclass(frozen=True)
class Table(Block):
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)

    def html(self, folder: Path) -> str:  # noqa: ARG002
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "\n".join(row(cells, "td") for cells in self.rows)
        return f"<table><thead>{row(self.header, 'th')}</thead>\n<tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Picture(Block):
    name: str
    caption: str

    def markdown(self) -> str:
        return f"![{self.caption}]({self.name}.png)\n\n*{self.caption}*"

    def html(self, folder: Path) -> str:
        data = base64.b64encode((folder / f"{self.name}.svg").read_bytes()).decode()
        caption = html.escape(self.caption)
        return (
            f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )


@dataclass(frozen=True)
class DataRow:
    """A row of table 2."""

    name: str
    about: str
    instances: int
    mean: float
    paper_mean: float | None


def data_rows(sets: Iterable[DataSet], seed: int) -> list[DataRow]:
    """Table 2: instances and means as drawn here, beside the paper's.

    >>> from .data import DATASETS
    >>> row = data_rows(DATASETS, seed=1)[-1]
    >>> row.instances, round(row.mean, 3), row.paper_mean
    (32561, -0.409, -0.409)
    """
    return [
        DataRow(data.name, data.about, data.size, float(data.values(seed).mean()), data.paper_mean)
        for data in sets
    ]


def picture_name(experiment: Experiment, metric: Metric) -> str:
    """The paper's metric has the figure's name; the other one says which it is.

    >>> from .experiments import experiments
    >>> [picture_name(experiments()[0], metric) for metric in ("ae", "mse")]
    ['figure-4', 'figure-4-mse']
    """
    return experiment.name if metric == experiment.metric else f"{experiment.name}-{metric}"


def claims_table(claims: Sequence[Claim]) -> Table:
    """The claims with verdicts, and what was found in a sentence each.

    >>> claim = Claim("A.", "figure 4", "holds", "At all 2 points a is larger.", "a > b", "2 > 1.")
    >>> print(claims_table([claim]).markdown())
    | claim | where | verdict | what was found |
    | --- | --- | --- | --- |
    | A. | figure 4 | **holds** | At all 2 points a is larger. |
    """
    return Table(
        ("claim", "where", "verdict", "what was found"),
        tuple((c.sentence, c.where, f"**{c.verdict}**", c.finding) for c in claims),
    )


def numbers_table(claims: Sequence[Claim]) -> Table:
    """How each claim was tested, and the numbers behind its verdict.

    >>> claim = Claim("A.", "figure 4", "holds", "At all 2 points a is larger.", "a > b", "2 > 1.")
    >>> print(numbers_table([claim]).markdown())
    | claim | where | test | numbers |
    | --- | --- | --- | --- |
    | A. | figure 4 | a > b | 2 > 1. |
    """
    return Table(
        ("claim", "where", "test", "numbers"),
        tuple((c.sentence, c.where, c.test, c.numbers) for c in claims),
    )


def agreement_rows(agreements: Sequence[Agreement], measures: Measures) -> tuple[tuple[str, ...], ...]:
    """For each contestant and quantity: the persons' runs on average, and the long runs by counts."""
    persons: dict[tuple[str, str], list[float]] = {}
    for row in measures.rows:
        if row.ae is not None and row.theory_ae is not None:
            persons.setdefault((row.contestant, row.quantity), []).append(row.ae / row.theory_ae)
    rows: list[tuple[str, ...]] = []
    for (name, quantity), ratios in persons.items():
        error = np.std(ratios) / np.sqrt(len(ratios))
        cells = [name, quantity.replace("_", " "), f"{np.mean(ratios):.3f} +- {error:.3f}"]
        mine = [a for a in agreements if (a.contestant, a.quantity) == (name, quantity)]
        known = [
            (a.ratio_mse, a.ratio_ae) for a in mine if a.ratio_mse is not None and a.ratio_ae is not None
        ]
        if known:
            mse, ae = np.array(known).T
            within = int(((np.abs(mse - 1) <= 0.1) & (np.abs(ae - 1) <= 0.1)).sum())
            cells += [f"{within} of {len(known)}", f"{mse.min():.3f} to {mse.max():.3f}"]
            cells += [f"{ae.min():.3f} to {ae.max():.3f}", str(len(mine) - len(known))]
        rows.append(tuple(cells + [""] * (7 - len(cells))))
    return tuple(rows)


def build(
    pictures: Sequence[tuple[Experiment, Metric]],
    measures: Measures,
    claims: Sequence[Claim],
    agreements: Sequence[Agreement],
    data: Sequence[DataRow],
    *,
    preferences: bool,
    seed: int,
    repeats: int,
) -> list[Block]:
    """All blocks of the report."""
    blocks: list[Block] = [
        Heading("BiSample's experiments, run again", 1),
        Text(
            "Sun, Ye, Zhao, Lu and Yang, BiSample: Bidirectional Sampling for Handling Missing Data with"
            f" Local Differential Privacy, DASFAA 2020. Made by bisample {__version__}:"
            f" T = {repeats} repetitions, seed {seed}; every person is simulated."
        ),
        Heading("What the text says, tested"),
        claims_table(claims),
        Text("How each was tested, and the numbers:"),
        numbers_table(claims),
        *_how(measures),
        Heading("Table 2: data sets"),
        _data_table(data),
    ]
    if preferences:
        blocks += [
            Heading("Figure 3: preferences"),
            Picture("figure-3", "Preferred privacy budgets N(5, 1.5), and the rate of true answers."),
        ]
    headed: set[str] = set()
    for experiment, metric in pictures:
        if experiment.name not in headed:
            headed.add(experiment.name)
            blocks.append(Heading(f"{experiment.name.replace('-', ' ').capitalize()}: {experiment.title}"))
            if experiment.note:
                blocks.append(Text(experiment.note))
        name = {"ae": "Mean absolute error (AE)", "mse": "Mean squared error (the paper's Var)"}[metric]
        caption = (
            f"{name}: mean of {repeats} repetitions with its 95 % band; dashed: theory where there is a"
            " formula. (added) and (ours): not among the paper's own; ours is new."
        )
        blocks.append(Picture(picture_name(experiment, metric), caption))
    blocks += _agreement(agreements, measures)
    blocks += _undefined(measures)
    return blocks


_METHOD = (
    (
        "Errors are raw, in the scaled domain [-1, 1]; nothing is clipped but by PrivKVM's own estimator."
        " AE is the mean absolute error, and what the paper calls Var is the mean squared error."
    ),
    (
        "The true mean is that of all values of the data set, of people who decline as well: willingness is"
        " independent of values, and who happens to answer counts as error. The true missing rate is the"
        " share of people who declined in that repetition."
    ),
    (
        "A data set is drawn once for a seed and a size; preferences, refusals, fakes and reports are drawn"
        " anew in each repetition, and shared by all contestants but for the reports."
    ),
    (
        "PrivKVM is one real round and five virtual ones. The original's algorithm for virtual rounds was not"
        " to be had: it is a reconstruction, and plain PrivKV is run beside it."
    ),
)


def _how(measures: Measures) -> list[Block]:
    return [Heading("How it is measured"), *map(Text, _METHOD)] if measures.rows else []


def _data_table(data: Sequence[DataRow]) -> Table:
    return Table(
        ("data set", "values", "instances", "mean", "mean in the paper"),
        tuple(
            (
                row.name,
                row.about,
                f"{row.instances:,}",
                f"{row.mean:.4f}",
                "" if row.paper_mean is None else f"{row.paper_mean:.3f}",
            )
            for row in data
        ),
    )


def _agreement(agreements: Sequence[Agreement], measures: Measures) -> list[Block]:
    if not agreements:
        return []
    repeats = agreements[0].repeats
    reasons = tuple(
        (a.contestant, a.point.name, a.theory.why, f"{a.simulated_ae:.3g}")
        for a in agreements
        if a.theory.mse is None
    )
    blocks: list[Block] = [
        Heading("Theory against simulation"),
        Text(
            "With the paper's T = 100 one mean squared error is known to 14 %, one mean absolute error to"
            " 8 %; so the figures' errors (persons) are averaged here over all points with a formula. Beside"
            " that, every"
            f" point of the mechanisms that allow it was repeated {repeats:,} times with people drawn as"
            " counts, which has the same distribution (a test compares it with the simulation of persons):"
            f" there one ratio has a standard error of {np.sqrt(2 / repeats):.1%} for MSE and"
            f" {np.sqrt((np.pi / 2 - 1) / repeats):.1%} for AE. The last column counts points without a"
            " formula."
        ),
        Table(
            (
                "contestant",
                "quantity",
                "persons: AE / theory",
                "counts: both within 10 %",
                "counts: MSE / theory",
                "counts: AE / theory",
                "no formula",
            ),
            agreement_rows(agreements, measures),
        ),
    ]
    if reasons:
        blocks += [
            Text(
                "No formula holds at these points. The mean is a ratio: where few answer, or its denominator"
                " may come near 0, it is far from normal, and averages of its errors hardly settle:"
            ),
            Table(("contestant", "point", "why", "AE found"), reasons),
        ]
    return blocks


def _undefined(measures: Measures) -> list[Block]:
    rows = tuple(
        (
            row.contestant,
            f"{row.experiment}, {row.data}",
            f"{row.epsilon:g}",
            str(row.n),
            f"{row.undefined} of {row.repeats}",
        )
        for row in measures.rows
        if row.undefined
    )
    text = (
        "In these runs the estimated answer rate was not positive, so there is no mean. They are left out of"
        " the averages above, which flatters the contestant at that point:"
        if rows
        else "Every estimate was defined."
    )
    blocks: list[Block] = [Heading("Undefined estimates"), Text(text)]
    return [*blocks, Table(("contestant", "where", "epsilon", "n", "undefined"), rows)] if rows else blocks


_CSS = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0 }
th, td { border-bottom: 1px solid #ccc; padding: 0.35rem 0.6rem; text-align: left; vertical-align: top }
figure { margin: 1.5rem 0 } img { width: 100% } figcaption { font-size: 0.85rem; color: #555 }
"""


def write(blocks: Sequence[Block], folder: Path) -> None:
    """report.html and report.md in the folder that holds the pictures."""
    (folder / "report.md").write_text("\n\n".join(b.markdown() for b in blocks) + "\n", encoding="utf-8")
    body = "\n".join(b.html(folder) for b in blocks).replace("**", "")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>BiSample's experiments</title><style>{_CSS}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
    (folder / "report.html").write_text(page, encoding="utf-8")


def update_readme(readme: Path, folder: Path, claims: Sequence[Claim], repeats: int) -> None:
    """Write figure 4 and the claims table between the README's markers; the picture goes to docs/."""
    try:
        text = readme.read_text(encoding="utf-8")
    except OSError as problem:
        raise FileError(f"{readme} cannot be read: {problem.strerror}") from problem
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise FileError(f"{readme} has no place for the claims: add the lines {BEGIN!r} and {END!r}")
    picture = readme.parent / "docs" / "figure-4.png"
    picture.parent.mkdir(exist_ok=True)
    shutil.copyfile(folder / "figure-4.png", picture)
    inside = (
        f"![Error of the mean against epsilon on four data sets](docs/{picture.name})\n\n"
        f"Figure 4 of the paper, run again with {repeats} repetitions; dashed: theory.\n\n"
        + claims_table(claims).markdown()
    )
    replaced = re.sub(
        f"{re.escape(BEGIN)}.*{re.escape(END)}",
        lambda _: f"{BEGIN}\n{inside}\n{END}",
        text,
        flags=re.DOTALL,
    )
    readme.write_text(replaced, encoding="utf-8")
