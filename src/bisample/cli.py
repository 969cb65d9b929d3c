"""The command line: a thin adapter over the core, about 15 lines a command."""

from __future__ import annotations

import argparse
import json
import operator
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__, demo
from .compare import POPULATIONS, compare, recommend
from .errors import AnswerError, BisampleError, FileError, ParameterError, ReportError
from .files import REPORT_COLUMN, Note, ReportWriter, numbers_from_text, read_column, read_note
from .mechanism import ChoiceMechanism, Mechanism, NumberMechanism, registered
from .mechanisms import from_description
from .paper import command as paper
from .pictures import draw_comparison
from .progress import ProgressBar
from .randomness import Rng, generator

__all__ = ["main"]

# What a mechanism is told on the command line.
_PARAMETERS = ("mechanism", "epsilon", "lower", "upper", "options", "levels", "steps", "share")

_EXAMPLES = """\
examples:
  bisample demo
  bisample privatize people.csv --column age --epsilon 1 --lower 17 --upper 90 --out reports.csv
  bisample estimate reports.csv
  bisample certify --epsilon 1 --json
  bisample paper --quick

An empty cell (in a file of one column an empty line), NA, N/A, NaN, null or none is a refusal, and is
sent like any answer: nobody can tell who declined.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 with one line on standard error.

    >>> main(["certify", "--mechanism", "rr", "--epsilon", "1"])
    rr satisfies 1-local differential privacy: proven bound 0.9999999999999838
      worst: code 0 is sent by 'False' with 205774696394005 / 2^48, by 'True' with 75700280316651 / 2^48
    0
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except BisampleError as problem:
        print(f"bisample: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        resumed = "; the same command goes on from here" if arguments.run is paper.run else ""
        print(f"bisample: stopped{resumed}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as problem:  # a full disk, for example
        print(f"bisample: {problem}", file=sys.stderr)
        return 2
    return code


def privatize(arguments: argparse.Namespace) -> int:
    """Turn a column of answers into a file of reports."""
    mechanism = _mechanism(arguments)
    rng = None if arguments.seed is None else generator(arguments.seed)
    counts = np.zeros(len(mechanism.table.codes), dtype=np.int64)
    options = [str(o) for o in mechanism.options] if isinstance(mechanism, ChoiceMechanism) else []
    with (
        ReportWriter.open(
            arguments.out, mechanism, simulated=rng is not None, answers=arguments.file
        ) as writer,
        ProgressBar("privatizing") as bar,
    ):
        for piece in read_column(arguments.file, arguments.column, bar.update, options):
            reports = _reports(mechanism, piece, writer.n + 1, rng, arguments.clip)
            writer.write(reports)
            counts += mechanism.tally(reports)
    if arguments.json:
        print(
            json.dumps(
                {"out": arguments.out, "reports": writer.n, "tally": counts.tolist(), **mechanism.describe()}
            )
        )
    else:
        secure = "secure randomness" if rng is None else "a seed: a simulation, which protects nobody"
        print(f"{writer.n:,} reports in {arguments.out}, made with {secure}")
        print(f"how they were made is in {arguments.out}.json: keep the two together")
        print(f"next: bisample estimate {arguments.out}")
    return 0


def estimate(arguments: argparse.Namespace) -> int:
    """Estimate the mean and the answer rate from a file of reports."""
    note = read_note(arguments.file)
    mechanism = _mechanism_of_reports(arguments, note)
    counts = np.zeros(len(mechanism.table.codes), dtype=np.int64)
    with ProgressBar("counting") as bar:
        for piece in read_column(arguments.file, arguments.column, bar.update):
            counts += mechanism.tally(_codes(piece))
    if note and counts.sum() != note.reports:
        raise ReportError(
            f"{arguments.file} has {counts.sum():,} reports, and its note says {note.reports:,}:"
            " it is not complete, or not the file that the note is about"
        )
    result = mechanism.estimate(counts, level=arguments.level)
    simulated = bool(note and note.simulated)
    if arguments.json:
        print(json.dumps({**result.to_dict(), "simulated": simulated}, indent=2))
    else:
        print(result)
        if simulated:
            print("  (made with a seed: a simulation)")
    return 0


def certify(arguments: argparse.Namespace) -> int:
    """Print a mechanism's privacy certificate."""
    mechanism = _mechanism(arguments, needs_range=False)
    claim = mechanism.certificate()
    if arguments.json:
        print(json.dumps(claim, indent=2))
        return 0
    worst = claim["worst"]
    print(
        f"{mechanism.name} satisfies {mechanism.epsilon:g}-local differential privacy:"
        f" proven bound {mechanism.epsilon_upper}"
    )
    by = [
        f"{row!r} with {weight} / 2^48" for row, weight in zip(worst["rows"], worst["weights"], strict=True)
    ]
    print(f"  worst: code {worst['code']} is sent by {by[0]}, by {by[1]}")
    return 0


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def compare_mechanisms(arguments: argparse.Namespace) -> int:
    """Print n * variance of mean and missing rate for every mechanism, and which one is recommended."""
    rate, population = arguments.answer_rate, arguments.population
    found = compare(arguments.epsilon, rate, population or "gauss")
    advice = recommend(arguments.epsilon, arguments.objective, rate, population)
    if arguments.out:
        draw_comparison(found, Path(arguments.out))
    if arguments.json:
        print(
            json.dumps({**asdict(found), "recommended": {**advice.description, "why": advice.why}}, indent=2)
        )
    else:
        print(found)
        print(f"recommended for the objective {arguments.objective!r}: {advice}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bisample",
        description="Sensitive numbers with refusals, under local differential privacy.",
        epilog=_EXAMPLES,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bisample {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser(
        "privatize", help="turn a column of answers into reports", description=privatize.__doc__
    )
    command.add_argument("file", help="CSV (with a header line, UTF-8) or Parquet file of answers")
    command.add_argument("--column", required=True, help="the column with the answers")
    command.add_argument(
        "--out", required=True, help="the file to write: .csv or .parquet; a note goes beside it"
    )
    command.add_argument(
        "--clip", action="store_true", help="move numbers outside the range to its nearest end"
    )
    command.add_argument("--seed", type=int, help="simulate with this seed: reproducible, and not private")
    _add_mechanism(command, epsilon_required=True)
    command.set_defaults(run=privatize)

    command = commands.add_parser(
        "estimate", help="estimates with intervals from reports", description=estimate.__doc__
    )
    command.add_argument("file", help="CSV or Parquet file of reports")
    command.add_argument(
        "--column", default=REPORT_COLUMN, help="the column with the reports (default: %(default)s)"
    )
    command.add_argument(
        "--level", type=float, default=0.95, help="level of the intervals (default: %(default)s)"
    )
    _add_mechanism(command, epsilon_required=False)
    command.set_defaults(run=estimate)

    command = commands.add_parser("certify", help="print the proof of privacy", description=certify.__doc__)
    _add_mechanism(command, epsilon_required=True)
    command.set_defaults(run=certify)

    command = commands.add_parser(
        "compare",
        help="what every mechanism costs, and a recommendation",
        description=compare_mechanisms.__doc__,
    )
    command.add_argument("--epsilon", type=float, required=True, help="the privacy parameter")
    command.add_argument(
        "--answer-rate", type=float, default=0.7, help="the share of people who answer (default: %(default)s)"
    )
    command.add_argument(
        "--population",
        choices=POPULATIONS,
        help="what people hold (default: gauss in the table; all of them for the recommendation)",
    )
    command.add_argument(
        "--objective",
        default="mean",
        choices=["mean", "missing", "worst"],
        help="what to recommend for: the mean, the missing rate, or the mean of the worst population",
    )
    command.add_argument("--out", help="also draw a picture: .png or .svg")
    command.add_argument("--json", action="store_true", help="print JSON, for a program to read")
    command.set_defaults(run=compare_mechanisms)

    command = commands.add_parser(
        "demo", help="100,000 people's ages, estimated", description=demo.run.__doc__
    )
    demo.add_arguments(command)
    command.set_defaults(run=demo.run)

    command = commands.add_parser("paper", help="the paper's experiments, in full", description=paper.__doc__)
    paper.add_arguments(command)
    command.set_defaults(run=paper.run)
    return parser


def _add_mechanism(command: argparse.ArgumentParser, *, epsilon_required: bool) -> None:
    note = "" if epsilon_required else "; without it the note beside the file says how it was made"
    names = sorted(registered())
    command.add_argument(
        "--epsilon",
        type=float,
        required=epsilon_required,
        help=f"the privacy parameter: smaller is safer{note}",
    )
    command.add_argument("--mechanism", choices=names, help="default: bisample")
    command.add_argument("--lower", type=float, help="the least answer a number can have")
    command.add_argument("--upper", type=float, help="the largest")
    command.add_argument(
        "--options", nargs="+", metavar="OPTION", help="the options of a choice (k-rr and rr)"
    )
    command.add_argument("--levels", type=int, help="of the dithered response (default: by epsilon)")
    command.add_argument("--steps", type=int, help="of the dithered response (default: 16)")
    command.add_argument("--share", type=float, help="of bisample in a mix with dithered (default: 0.5)")
    command.add_argument("--json", action="store_true", help="print JSON, for a program to read")


def _mechanism(arguments: argparse.Namespace, *, needs_range: bool = True) -> Mechanism:
    name = arguments.mechanism or "bisample"
    number = issubclass(registered()[name], NumberMechanism)
    unfit = {"options"} if number else {"lower", "upper", "levels", "steps", "share"}
    described: dict[str, Any] = {"mechanism": name}
    for parameter in _PARAMETERS[1:]:
        value = getattr(arguments, parameter)
        if value is not None and parameter in unfit:
            raise ParameterError(f"the mechanism {name} takes no --{parameter}")
        if value is not None:
            described[parameter] = value
    if number and needs_range and not {"lower", "upper"} <= described.keys():
        raise ParameterError(
            "--lower and --upper are needed: the least and the largest answer that can be given,"
            " chosen before looking at the answers"
        )
    if not number and "options" not in described and name != "rr":
        raise ParameterError("--options are needed: what can be chosen, for example --options tea coffee")
    return from_description(described)


def _mechanism_of_reports(arguments: argparse.Namespace, note: Note | None) -> Mechanism:
    """The mechanism that the note names; the options only where there is no note, or if they agree."""
    given = [name for name in _PARAMETERS if getattr(arguments, name) is not None]
    if note is None:
        if arguments.epsilon is None:
            raise FileError(
                f"there is no {arguments.file}.json to say how the reports were made:"
                " pass --mechanism, --epsilon and the range"
            )
        return _mechanism(arguments)
    if given and (arguments.epsilon is None or _mechanism(arguments) != note.mechanism):
        raise ParameterError(
            f"the reports were made by {note.mechanism}, says their note: leave --{given[0]} out"
        )
    return note.mechanism


def _reports(mechanism: Mechanism, piece: list[Any], first_row: int, rng: Rng, clip: bool) -> Any:
    """The reports of a piece of a column. Options are compared as text."""
    if isinstance(mechanism, NumberMechanism):
        textual = any(isinstance(entry, str) for entry in piece)
        numbers = numbers_from_text(piece, first_row) if textual else piece
        return mechanism.privatize(numbers, rng=rng, clip=clip)
    assert isinstance(mechanism, ChoiceMechanism)
    if clip:
        raise ParameterError("--clip is for numbers: a choice has no nearest end")
    options = {str(option): option for option in mechanism.options}
    if not {str(entry) for entry in piece if entry is not None} <= options.keys():
        raise AnswerError(f"an answer is not among the options {', '.join(options)}: add it to --options")
    answers = [None if entry is None else options[str(entry)] for entry in piece]
    return mechanism.privatize(answers, rng=rng)


def _codes(piece: list[Any]) -> Any:
    try:
        # A float is refused even if it is whole: the column may hold answers.
        codes = [int(code) if isinstance(code, str) else operator.index(code) for code in piece]
        return np.array(codes, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        pass  # raised below: what Python attaches to an error raised here would hold the entry
    raise AnswerError("a report is no integer: is this a file of reports, or of answers?")


if __name__ == "__main__":
    sys.exit(main())
