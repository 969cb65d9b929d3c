"""What only a process of its own can show: signals, pipes, terminals, encodings, and what is loaded."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

RANGE = ("--epsilon", 2, "--lower", 17, "--upper", 90)
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_who_is_stopped_leaves_nothing_behind(started, made, tmp_path, number, code):
    out = made("out.csv")
    older = {path.name: path.read_text() for path in tmp_path.iterdir()}
    process = started("privatize", "-", "--column", "age", *RANGE, "--out", out)
    process.stdin.write(b"age\n" + b"31\n" * 140_000)  # more than a piece
    process.stdin.flush()
    _until(lambda: any(path.stat().st_size for path in tmp_path.glob(".bisample-*/reports")))
    process.send_signal(number)
    said, error = process.communicate(timeout=20)
    assert process.returncode == code
    assert said == b""
    assert b"Traceback" not in error
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == older


def test_who_no_longer_reads_is_no_error_to_speak_of(started, tmp_path):
    answers = tmp_path / "people.csv"
    answers.write_text("age\n" + "31\n" * 200_000)
    process = started("privatize", answers, "--column", "age", *RANGE, "--out", "-")
    assert process.stdout.readline() == b"report\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 1
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "privatize - --column age --epsilon 2 --lower 17 --upper 90 --out r.csv <&-",
            "standard input is closed",
        ),
        ("estimate - --epsilon 2 --lower 17 --upper 90 <&-", "standard input is closed"),
        ("certify - <&-", "standard input is closed"),
        (
            "privatize p.csv --column age --epsilon 2 --lower 17 --upper 90 --out - >&-",
            "standard output is closed",
        ),
        ("compare --epsilon 1 --out - >&-", "standard output is closed"),
        ("privatize p.csv --column age --epsilon 2 --lower 17 --upper 99 --out - 2>&-", ""),
    ],
)
def test_streams_that_are_closed_are_named_where_anybody_hears_it(tmp_path, command, says):
    (tmp_path / "p.csv").write_text("age\n91\n")
    started = ["sh", "-c", f"{sys.executable} -m bisample {command}"]
    done = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr) == (2 if says else 0, True)
    assert done.stderr.count("\n") == bool(says)
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_two_commands_make_a_pipe(started, tmp_path):
    first = started("privatize", "-", "--column", "age", *RANGE, "--out", "-", cwd=tmp_path)
    second = started("estimate", "-", *RANGE, "--json", stdin=first.stdout, cwd=tmp_path)
    first.stdin.write(b"age\n" + b"31\n\n" * 5_000 + b"31\n")
    first.stdin.close()
    found, error = second.communicate(timeout=20)
    assert (first.wait(), second.returncode, error) == (0, 0, b"")
    assert b"10,001 answers read, 5,000 of them empty cells" in first.stderr.read()
    assert json.loads(found)["n"] == 10_001
    assert list(tmp_path.iterdir()) == []
    first.stdout.close()
    first.stderr.close()


@pytest.mark.parametrize("settings", [ASCII, {"PYTHONIOENCODING": "latin-1"}], ids=["ascii", "latin-1"])
def test_what_a_terminal_cannot_show_is_printed_all_the_same(bisample, started, tmp_path, settings):
    choice = ("--mechanism", "k-rr", "--epsilon", 2, "--option", "茶", "--option", "café")
    out = tmp_path / "r.csv"
    done = bisample("privatize", "-", "--column", "x", *choice, "--out", out, stdin="x\n茶\ncafé\n")
    assert done.code == 0
    process = started("estimate", out, env=settings)
    said, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (0, b"")
    assert b"answer rate" in said
    out.write_text("report\n0\n")  # errors name files, whatever these are called
    out.replace(tmp_path / "ü.csv")
    process = started("estimate", tmp_path / "ü.csv", env=settings)
    assert (process.communicate(timeout=20)[1].count(b"\n"), process.returncode) == (1, 2)


def test_progress_is_shown_on_a_terminal_and_nowhere_else(started, tmp_path):
    answers = tmp_path / "people.csv"
    answers.write_text("age\n" + "31\n" * 300_000)
    arguments = ("privatize", answers, "--column", "age", *RANGE, "--out", tmp_path / "r.csv")
    process = started(*arguments)
    assert b"privatizing" not in process.communicate(timeout=20)[1]
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 80))
    process = started(*arguments, stderr=end, env={"TERM": "xterm"})
    process.communicate(timeout=20)
    os.close(end)
    shown = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert process.returncode == 0
    assert "privatizing:   0%" in shown


def _modules_after(*arguments):
    script = "import sys; from bisample.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", f"{script}; print(*sys.modules, file=sys.stderr)", *arguments]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stderr.split())


def test_what_is_heavy_is_loaded_only_by_the_command_that_needs_it(tmp_path):
    for arguments in (["--version"], ["--help"]):
        assert not {"numpy", "tqdm", "bisample.catalogue", "bisample.files"} & _modules_after(*arguments)
    certifying = _modules_after("certify", "--epsilon", "1")
    assert not {"tqdm", "matplotlib", "pyarrow", "bisample.device", "bisample.paper", "csv"} & certifying
    (tmp_path / "r.csv").write_text("report\n1\n")
    arguments = ["--epsilon", "1", "--lower", "0", "--upper", "1"]
    estimating = _modules_after("estimate", str(tmp_path / "r.csv"), *arguments)
    assert not {"matplotlib", "pyarrow", "cryptography", "bisample.device.drawing"} & estimating


def test_python_dash_m_runs_it(started):
    process = started("--version")
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said.split()[0]) == (0, b"bisample")
