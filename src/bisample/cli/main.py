"""Where the command line begins and ends: encodings, signals, errors, and the exit code."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from bisample.errors import BisampleError

from .commands import commands

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    It is 0; 1 where a claim does not hold, or, without a word, where nobody reads the output any more (a
    broken pipe); 2 with one line on standard error; 128 + the number of a signal.

    >>> main(["certify", "--mechanism", "rr", "--epsilon", "1"])
    rr satisfies 1-local differential privacy: proven bound 0.9999999999999838
      worst: code 0 is sent by 'false' with 205774696394005 / 2^48, by 'true' with 75700280316651 / 2^48
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an option or a file may be called what no terminal shows
            stream.reconfigure(errors="backslashreplace")
    try:
        with _ended_by_exceptions():
            told = None if arguments is None else list(arguments)  # None: those of the process
            code = commands.main(told, prog_name="bisample", standalone_mode=False)
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except click.Abort:  # Ctrl-C
        click.echo("bisample: stopped", err=True)
        return 128 + signal.SIGINT
    except (BisampleError, OSError) as problem:  # the system's: a full disk, for example
        click.echo(f"bisample: {' '.join(str(problem).split())}", err=True)
        return 2
    except MemoryError:
        click.echo("bisample: there is not enough memory for this: ask for less, or split the file", err=True)
        return 2
    return int(code or 0)  # of click's Exit; a command itself returns None


@contextmanager
def _ended_by_exceptions() -> Iterator[None]:
    """Signals to end become exceptions, as Ctrl-C does, so that nothing unfinished is left behind."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = []
    if threading.current_thread() is threading.main_thread():
        known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        taken = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]  # not under nohup
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
