"""The commands. Each is told options, calls the core, and prints: the core says what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisample import __version__

from .mechanisms import LateCommand, is_told, mechanism_from, mechanism_options

if TYPE_CHECKING:
    from bisample.device.randomness import Rng
    from bisample.protocol.mechanism import Mechanism

__all__ = ["commands"]

_EXAMPLES = """\b
Examples:
  bisample demo
  bisample privatize people.csv --column age --epsilon 1 --lower 17 --upper 90 --out reports.csv
  bisample estimate reports.csv
  bisample certify --epsilon 1 --json
  bisample paper --quick

Files are CSV (UTF-8, a header line, commas) or Parquet; "-" is standard input or output. An empty
cell, NA, N/A, NaN, null or none is a refusal, and is sent like any answer: nobody can tell who declined.
In a file of one column so is an empty line, unless it is the file's last.
"""

_json = click.option("--json", "as_json", is_flag=True, help="print JSON, for a program to read")


@click.group(
    epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="bisample", message="%(prog)s %(version)s")
def commands() -> None:
    """Sensitive numbers with refusals, under local differential privacy."""


@commands.command(cls=LateCommand, later=partial(mechanism_options, required=True))
@click.argument("file")
@click.option("--column", required=True, help="the column with the answers")
@click.option("--out", required=True, help="the file to write: .csv, .parquet or .pq; a note goes beside it")
@click.option("--clip", is_flag=True, help="move numbers outside the range to its nearest end")
@click.option("--seed", type=int, help="simulate with this seed, from 0: reproducible, and not private")
@_json
def privatize(
    file: str, column: str, out: str, clip: bool, seed: int | None, as_json: bool, **told: Any
) -> None:
    """Turn a column of answers into a file of reports.

    How many refusals were read is printed on standard error, for whoever holds the answers alone.
    """
    from bisample.analysis.tally import SIMULATED
    from bisample.device.randomness import generator
    from bisample.files import STANDARD, read_column
    from bisample.protocol.exact import whole

    from .progress import progress
    from .reports import write_reports

    mechanism = mechanism_from(told, needs_range=True)
    rng = None if seed is None else generator(whole(seed, 0, "--seed"))
    subject = {"question": column, **({} if seed is None else SIMULATED)}
    refusals = 0
    with (
        progress("privatizing", file) as update,
        write_reports(out, mechanism, subject, answers=file) as writer,
    ):
        for piece in read_column(file, column, update, getattr(mechanism.domain, "options", ())):
            reports, missing = _privatized(mechanism, piece, writer.tally.n + 1, rng, clip)
            writer.write(reports)
            refusals += missing
    tally = writer.tally
    # Never on standard output: what goes there may travel with the reports, and of one person's file this
    # number is that person's answer.
    click.echo(
        f"{tally.n:,} answers read, {refusals:,} of them empty cells (refusals): this is not protected,"
        " keep it to yourself",
        err=True,
    )
    say = partial(click.echo, err=out == STANDARD)
    if as_json:
        say(json.dumps({"out": out, "reports": tally.n, "tally": tally.to_dict()}))
        return
    say(f"{tally.n:,} reports{'' if out == STANDARD else f' in {out}'}")
    say(f"made with {'secure randomness' if rng is None else 'a seed: a simulation, which protects nobody'}")
    if out != STANDARD:
        say(f"how they were made is in {out}.json: keep the two together")
        say(f"next: bisample estimate {out}")
    elif rng is not None:
        say("no note says so: estimate them with --simulated")


def _privatized(
    mechanism: Mechanism, piece: list[Any], first_row: int, rng: Rng, clip: bool
) -> tuple[Any, int]:
    """The reports of a piece of a column, and how many of its answers were missing."""
    import numpy as np

    from bisample.device.answers import is_missing, read_numbers
    from bisample.files import named_rows, numbers_from_text
    from bisample.protocol.domain import Range

    with named_rows(first_row):
        if not isinstance(mechanism.domain, Range):
            return mechanism.privatize(piece, rng=rng, clip=clip), sum(map(is_missing, piece))
        textual = any(isinstance(entry, str) for entry in piece)
        numbers = numbers_from_text(piece, first_row) if textual else piece
        missing = int(np.isnan(read_numbers(numbers).to_floats()).sum())
        return mechanism.privatize(numbers, rng=rng, clip=clip), missing


_noted = partial(mechanism_options, required=False, default="what the note beside the reports says")


@commands.command(cls=LateCommand, later=_noted)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--column", default="report", show_default=True, help="the column with the reports")
@click.option("--level", type=float, default=0.95, show_default=True, help="the level of the intervals")
@click.option("--projected", is_flag=True, help="move estimates into what is possible: no longer unbiased")
@click.option("--simulated", is_flag=True, help="the reports were made with a seed, where no note says it")
@_json
def estimate(
    files: tuple[str, ...],
    column: str,
    level: float,
    projected: bool,
    simulated: bool,
    as_json: bool,
    **told: Any,
) -> None:
    """Print estimates with intervals from files of reports.

    Several files of one question are added up. The note beside a file says how its reports were made;
    where there is none, the options do.
    """
    from .progress import progress
    from .reports import tally_files

    given = mechanism_from(told, needs_range=True) if is_told(told) else None
    with progress("counting", *files) as update:
        mechanism, tally = tally_files(files, column, mechanism=given, simulated=simulated, progress=update)
    found = mechanism.estimate(tally, level=level)
    if projected:
        found = found.projected()
    click.echo(found.to_json() if as_json else found)
    if not as_json and "simulated" in tally.subject:
        click.echo("  (made with a seed: a simulation)")


@commands.command(cls=LateCommand, later=partial(mechanism_options, required=False))
@click.argument("file", required=False)
@_json
def certify(file: str | None, as_json: bool, **told: Any) -> None:
    """Print the proof of a mechanism's privacy.

    The mechanism is the one that the options name, at --epsilon; or that of FILE, whoever made it: the JSON
    of a mechanism, or the note beside reports. Of FILE, --epsilon is a claim to check, and the exit code is
    1 if it does not hold.
    """
    epsilon = told["epsilon"]
    if file is not None:
        mechanism, name = _mechanism_of(file, told), f"the table of {file}"
    elif epsilon is None:
        raise click.UsageError("Missing option '--epsilon', or a FILE with a mechanism.")
    else:
        mechanism = mechanism_from(told, needs_range=False)
        name = mechanism.name
    claim = mechanism.certificate(epsilon)
    if as_json:
        click.echo(json.dumps(claim, indent=2))
    else:
        _print_claim(name, claim)
    if not claim.get("holds", True):
        raise click.exceptions.Exit(1)


def _mechanism_of(file: str, told: dict[str, Any]) -> Mechanism:
    from bisample.errors import ParameterError

    from .reports import read_mechanism

    if is_told({**told, "epsilon": None}):
        raise ParameterError(f"{file} says which mechanism it is: leave all options out but --epsilon")
    return read_mechanism(file)


def _print_claim(name: str, claim: dict[str, Any]) -> None:
    from bisample.protocol.exact import bound_text

    bound = claim["epsilon_upper"]
    epsilon = f"{claim['epsilon']:.15g}" if "epsilon" in claim else bound_text(bound)
    satisfies = "satisfies" if claim.get("holds", True) else "does not satisfy"
    click.echo(f"{name} {satisfies} {epsilon}-local differential privacy: proven bound {bound}")
    worst = claim["worst"]
    one, other = (
        f"by {row!r} with {weight} / 2^48"
        for row, weight in zip(worst["rows"], worst["weights"], strict=True)
    )
    click.echo(f"  worst: code {worst['code']} is sent {one}, {other}")


def _populations() -> list[click.Option]:
    from bisample.planning.compare import POPULATIONS

    text = "what people hold (default: gauss in the table, all of them for the recommendation)"
    return [click.Option(["--population"], type=click.Choice(list(POPULATIONS)), help=text)]


@commands.command(cls=LateCommand, later=_populations)
@click.option("--epsilon", type=float, required=True, help="the privacy parameter")
@click.option(
    "--answer-rate", type=float, default=0.7, show_default=True, help="the share of people who answer"
)
@click.option(
    "--objective",
    type=click.Choice(["mean", "missing", "worst"]),
    default="mean",
    show_default=True,
    help="recommend for the mean, the missing rate, or the mean of the worst population",
)
@click.option(
    "--expect",
    type=(float, float),
    metavar="MEAN SPREAD",
    help="where answers are expected on the scale from -1 to 1, by public figures: for the recommendation",
)
@click.option("--out", help="also draw a picture: .png or .svg")
@_json
def compare(
    epsilon: float,
    answer_rate: float,
    objective: Any,
    expect: tuple[float, float] | None,
    out: str | None,
    as_json: bool,
    population: str | None,
) -> None:
    """Print what every mechanism costs, and recommend one.

    The cost is n * variance of the mean and of the missing rate, computed and not simulated.
    """
    from bisample.files import STANDARD
    from bisample.planning import compare as planning

    found = planning.compare(epsilon, answer_rate, population or "gauss")
    advice = planning.recommend(epsilon, objective, answer_rate, population, expect)
    if out is not None:
        from .pictures import draw_comparison

        draw_comparison(found, out)
    say = partial(click.echo, err=out == STANDARD)
    if as_json:
        say(json.dumps({**asdict(found), "recommended": asdict(advice)}, indent=2))
    else:
        say(found)
        say(f"recommended for the objective {objective!r}: {advice}")


@commands.command()
@click.option("--people", type=int, default=100_000, show_default=True, help="how many")
@click.option("--epsilon", type=float, default=4.0, show_default=True, help="the privacy parameter")
@click.option("--seed", type=int, help="make the same reports every time (default: secure randomness)")
@click.option("--out", default="bisample-demo.png", show_default=True, help="the picture")
@_json
def demo(people: int, epsilon: float, seed: int | None, out: str, as_json: bool) -> None:
    """Print truth beside estimate, for 100,000 people's ages.

    Some of them decline, and all of them are privatized. What happened is drawn as well.
    """
    from bisample.errors import MissingExtraError
    from bisample.files import STANDARD

    from .demo import demonstrate, draw

    found = demonstrate(people, epsilon, seed)
    say = partial(click.echo, err=out == STANDARD)
    say(json.dumps(found.to_dict()) if as_json else found)
    try:
        draw(found, out)
    except MissingExtraError as missing:
        click.echo(f"no picture: {missing}", err=True)
    else:
        if not as_json:
            say(f"\npicture: {out}")


@commands.command()
@click.option(
    "--figure",
    "figures",
    type=int,
    multiple=True,
    default=(3, 4, 5, 6),
    show_default=True,
    help="only this figure; may be repeated",
)
@click.option("--repeats", type=int, help="repetitions of every point (default: 100, as in the paper)")
@click.option("--quick", is_flag=True, help="10 repetitions, without the largest n")
@click.option("--seed", type=int, default=1, show_default=True, help="the same seed gives the same numbers")
@click.option("--jobs", type=int, help="processes (default: one a core)")
@click.option(
    "--out", type=Path, default=Path("bisample-paper"), show_default=True, help="the folder to write to"
)
@click.option("--data", type=Path, help="a CSV or Parquet file of your own, for table 2 and figure 4")
@click.option("--column", help="the column of --data to take")
@click.option("--readme", type=Path, help="also write figure 4 and the claims into this file")
def paper(**settings: Any) -> None:
    """Run the paper's experiments, all or some, into a folder."""
    from bisample.paper.command import run

    try:
        run(**settings)
    except KeyboardInterrupt:
        click.echo("\nbisample: the same command goes on from here", err=True)
        raise
