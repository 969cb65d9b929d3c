"""The command line, run in-process on real files."""

import csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bisample import AnswerError, FileError, cli
from bisample.cli import main
from bisample.files import numbers_from_text, read_column

RANGE = ["--epsilon", "2", "--lower", "17", "--upper", "90"]


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
    return (
        path,
        float(ages[~declined].mean()),
        float(1 - declined.mean()),
        float((ages[~declined] > 40).mean()),
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_numbers_goes_to_reports_and_to_an_estimate_near_the_truth(
    people, tmp_path, capsys, suffix
):
    path, mean, rate, _ = people
    out = tmp_path / f"reports{suffix}"
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out), "--seed", "1"]) == 0
    assert "a simulation, which protects nobody" in capsys.readouterr().out
    assert main(["estimate", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 20_000
    assert abs(found["mean"] - mean) < 4 * found["mean_error"]
    assert abs(found["answer_rate"] - rate) < 4 * found["answer_rate_error"]


def test_a_column_of_options_goes_to_proportions(people, tmp_path, capsys):
    path, _, _, tea = people
    out = tmp_path / "reports.csv"
    choice = ["--mechanism", "k-rr", "--epsilon", "2", "--options", "tea", "coffee"]
    assert main(["privatize", str(path), "--column", "drink", *choice, "--out", str(out), "--seed", "1"]) == 0
    capsys.readouterr()
    assert main(["estimate", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert abs(found["proportions"]["tea"] - tea) < 4 * found["proportions_error"]["tea"]


def test_csv_and_parquet_answers_give_the_same_reports(people, tmp_path):
    path, *_ = people
    parquet = tmp_path / "people.parquet"
    pd.read_csv(path).to_parquet(parquet)
    outs = []
    for source in (path, parquet):
        out = tmp_path / f"{source.suffix[1:]}.csv"
        assert (
            main(["privatize", str(source), "--column", "age", *RANGE, "--out", str(out), "--seed", "5"]) == 0
        )
        outs.append(out.read_text())
    assert outs[0] == outs[1]


def test_without_a_seed_two_runs_differ_and_the_note_says_secure(people, tmp_path):
    path, *_ = people
    texts = []
    for name in ("a.csv", "b.csv"):
        out = tmp_path / name
        assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)]) == 0
        texts.append(out.read_text())
        assert json.loads((tmp_path / f"{name}.json").read_text())["simulated"] is False
    assert texts[0] != texts[1]


def test_reports_hold_one_code_a_person_and_nothing_else(people, tmp_path):
    path, *_ = people
    out = tmp_path / "reports.csv"
    main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)])
    lines = out.read_text().split()
    assert lines[0] == "report"
    assert len(lines) == 20_001
    assert set(lines[1:]) <= {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["privatize", "{path}", "--column", "Age", *RANGE], "did you mean 'age'?"),
        (["privatize", "{path}", "--column", "zzzzzz", *RANGE], "does its first line name the columns?"),
        (["privatize", "{path}.not", "--column", "age", *RANGE], "there is no file"),
        (
            ["privatize", "{path}", "--column", "name", *RANGE],
            "row 1 (the header not counted) is not a number",
        ),
        (["privatize", "{path}", "--column", "age", "--epsilon", "1"], "--lower and --upper are needed"),
        (
            ["privatize", "{path}", "--column", "age", "--epsilon", "0", "--lower", "0", "--upper", "1"],
            "epsilon must",
        ),
        (
            ["privatize", "{path}", "--column", "age", "--epsilon", "1", "--lower", "20", "--upper", "30"],
            "outside [20, 30]",
        ),
        (
            ["privatize", "{path}", "--column", "age", "--epsilon", "1", "--options", "a", "b"],
            "takes no --options",
        ),
        (
            ["privatize", "{path}", "--column", "drink", "--mechanism", "k-rr", "--epsilon", "1"],
            "--options are needed",
        ),
        (
            [
                "privatize",
                "{path}",
                "--column",
                "drink",
                "--mechanism",
                "k-rr",
                "--epsilon",
                "1",
                "--options",
                "x",
                "y",
            ],
            "not among the options x, y",
        ),
        (
            [
                "privatize",
                "{path}",
                "--column",
                "drink",
                "--mechanism",
                "k-rr",
                "--epsilon",
                "1",
                "--clip",
                "--options",
                "tea",
                "coffee",
            ],
            "--clip is for numbers",
        ),
        (["privatize", "{path}", "--column", "age", *RANGE, "--seed", "-1"], "an integer from 0"),
        (["estimate", "{path}", "--lower", "0"], "to say how the reports were made"),
        (["demo", "--people", "100", "--epsilon", "15"], "nobody answers"),
        (["demo", "--people", "100", "--out", "{path}.not/x.png"], "cannot be written"),
        (["compare", "--epsilon", "1", "--out", "{path}.foo"], "cannot be written"),
        (
            ["privatize", "{path}", "--column", "age", *RANGE, "--mechanism", "harmony"],
            "has no code for a refusal",
        ),
        (["estimate", "."], ". is a folder"),
        (["estimate", "{path}"], "pass --mechanism, --epsilon and the range"),
        (["estimate", "{path}", "--column", "age", *RANGE], "a file of reports, or of answers?"),
        (["certify", "--epsilon", "99"], "epsilon must be a number from"),
    ],
)
def test_wrong_input_is_one_line_that_helps_and_leaves_no_file(people, tmp_path, capsys, arguments, says):
    path, *_ = people
    out = tmp_path / "out.csv"
    if arguments[0] == "privatize":
        arguments = [*arguments, "--out", str(out)]
    assert main([a.format(path=path) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv"}


def test_a_file_without_a_header_does_not_leak_its_first_line(tmp_path, capsys):
    path = tmp_path / "bare.csv"
    path.write_text("48213\n51877\n")
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(tmp_path / "o.csv")]) == 2
    assert "48213" not in capsys.readouterr().err


def test_broken_files_are_named(tmp_path, capsys):
    for name, content, says in (
        ("short.csv", b"a,age\n1,2\n3\n", "line 3"),
        ("latin.csv", "a,age\n\xe9,2\n".encode("latin-1"), "not UTF-8"),
        ("bad.parquet", b"not parquet", "not a Parquet file"),
    ):
        (tmp_path / name).write_bytes(content)
        assert (
            main(
                [
                    "privatize",
                    str(tmp_path / name),
                    "--column",
                    "age",
                    *RANGE,
                    "--out",
                    str(tmp_path / "o.csv"),
                ]
            )
            == 2
        )
        assert says in capsys.readouterr().err


def test_an_option_may_be_called_none(tmp_path):
    path, out = tmp_path / "children.csv", tmp_path / "reports.csv"
    path.write_text("id,children\n" + "1,none\n" * 700 + "2,some\n" * 200 + "3,\n4,NA\n" * 50)
    choice = ["--mechanism", "k-rr", "--epsilon", "20", "--options", "none", "some"]
    assert main(["privatize", str(path), "--column", "children", *choice, "--out", str(out)]) == 0
    # At epsilon = 20 one report in 10^8 is not the truth.
    assert np.bincount([int(line) for line in out.read_text().split()[1:]]).tolist() == [700, 200, 100]


def test_an_empty_line_of_a_single_column_is_a_refusal(tmp_path):
    path = tmp_path / "ages.csv"
    path.write_text("age\n\n31\n\n\n45\n\n")
    assert list(read_column(path, "age")) == [[None, "31", None, None, "45", None]]
    pl.DataFrame({"age": [31, None]}).write_csv(path)
    assert list(read_column(path, "age")) == [["31", None]]


def test_in_a_wider_file_an_empty_line_is_an_error_but_at_the_end(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("name,age\nA,31\nB,45\n\n")
    assert list(read_column(path, "age")) == [["31", "45"]]
    path.write_text("name,age\nA,31\n\nB,45\n")
    with pytest.raises(FileError, match=r"line 3 of .* is empty"):
        list(read_column(path, "age"))


def test_an_empty_line_keeps_the_number_of_a_row_right(tmp_path, capsys):
    path = tmp_path / "ages.csv"
    path.write_text("age\n31\n\nthirty\n")
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(tmp_path / "o.csv")]) == 2
    assert "row 3 (the header not counted) is not a number" in capsys.readouterr().err


@pytest.mark.parametrize("reports", [[0.3, 1.7], [1.0, None], ["9" * 30], ["0.3"], [None]])
def test_what_is_no_integer_is_no_report(tmp_path, capsys, reports):
    path = tmp_path / "answers.parquet"
    pd.DataFrame({"report": reports}).to_parquet(path)
    assert main(["estimate", str(path), *RANGE]) == 2
    assert "a file of reports, or of answers?" in capsys.readouterr().err


def test_a_folder_in_the_place_of_the_output_is_one_line_and_leaves_nothing(people, tmp_path, capsys):
    path, *_ = people
    out = tmp_path / "reports.csv"
    out.mkdir()
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)]) == 2
    assert "it is a folder" in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv", "reports.csv"}


def test_a_note_that_cannot_be_written_leaves_no_reports(people, tmp_path, capsys):
    path, *_ = people
    (tmp_path / "reports.csv.json").mkdir()
    out = tmp_path / "reports.csv"
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} == {"people.csv", "reports.csv.json"}


def test_reports_of_another_table_are_refused(people, tmp_path, capsys):
    path, *_ = people
    out = tmp_path / "reports.csv"
    main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)])
    note = tmp_path / "reports.csv.json"
    note.write_text(note.read_text().replace('"epsilon": 2.0', '"epsilon": 1.0'))
    capsys.readouterr()
    assert main(["estimate", str(out)]) == 2
    assert "another table" in capsys.readouterr().err


def test_all_missing_and_empty_files_are_estimated_as_far_as_can_be(tmp_path, capsys):
    for name, lines in (("none.csv", 3000), ("empty.csv", 0)):
        path, out = tmp_path / name, tmp_path / f"out-{name}"
        path.write_text("age,x\n" + ",1\n" * lines)
        assert (
            main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out), "--seed", "2"]) == 0
        )
        capsys.readouterr()
        assert main(["estimate", str(out), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["n"] == lines
        if not lines:
            assert found["mean"] is None
            assert found["undefined"]["mean"] == "there are no reports"
        assert found["mean_interval"][0] <= found["mean_interval"][1]


def test_certify_prints_a_proof_that_can_be_checked(capsys):
    assert main(["certify", "--epsilon", "1", "--json"]) == 0
    claim = json.loads(capsys.readouterr().out)
    top, bottom = map(int, claim["worst"]["ratio"].split("/"))
    assert claim["holds"]
    assert top / bottom <= np.exp(1) * (1 + 1e-15)
    assert all(sum(row) == 2**48 for row in claim["weights"])


def test_the_demonstration_prints_truth_beside_estimate_and_saves_a_picture(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--people", "20000", "--seed", "1", "--out", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "truth" in text
    assert "estimate" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", [[], ["privatize"], ["estimate"], ["certify"], ["demo"], ["paper"]])
def test_every_command_has_a_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert "usage: bisample" in capsys.readouterr().out


def test_python_dash_m_runs_it():
    run = subprocess.run([sys.executable, "-m", "bisample", "--version"], capture_output=True, check=True)
    assert run.stdout.startswith(b"bisample ")


@pytest.fixture
def reports(people, tmp_path):
    path, *_ = people
    out = tmp_path / "reports.csv"
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)]) == 0
    return out


def test_options_that_contradict_the_note_are_refused(reports, capsys):
    for wrong in (
        ["--lower", "0"],
        ["--mechanism", "dithered"],
        ["--epsilon", "1", "--lower", "17", "--upper", "90"],
    ):
        capsys.readouterr()
        assert main(["estimate", str(reports), *wrong]) == 2
        assert "says their note" in capsys.readouterr().err
    assert main(["estimate", str(reports), *RANGE]) == 0


def test_a_file_that_was_cut_is_noticed(reports, capsys):
    lines = reports.read_text().splitlines(keepends=True)
    reports.write_text("".join(lines[:500]))
    assert main(["estimate", str(reports)]) == 2
    assert "has 499 reports, and its note says 20,000" in capsys.readouterr().err


def test_an_estimate_says_that_the_reports_were_simulated(people, tmp_path, capsys):
    path, *_ = people
    out = tmp_path / "simulated.csv"
    main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out), "--seed", "1"])
    capsys.readouterr()
    main(["estimate", str(out)])
    assert "a simulation" in capsys.readouterr().out
    main(["estimate", str(out), "--json"])
    assert json.loads(capsys.readouterr().out)["simulated"] is True


def test_reports_never_take_the_place_of_the_answers_or_of_a_device(people, tmp_path, capsys):
    path, *_ = people
    before = path.read_bytes()
    for out, says in ((path, "the file of answers itself"), (tmp_path, "a folder or a device")):
        assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(out)]) == 2
        assert says in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("id,age\n1,38,5\n", "has 3 cells and the header has 2"),
        ("age,age\n1,2\n", "has 2 columns 'age'"),
        ("id;age\n1;38\n", "separated by other signs than commas"),
    ],
)
def test_files_that_would_be_misread_are_refused(tmp_path, capsys, content, says):
    path = tmp_path / "odd.csv"
    path.write_text(content)
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(tmp_path / "o.csv")]) == 2
    assert says in capsys.readouterr().err


def test_a_first_line_of_answers_is_not_offered_as_a_name(tmp_path, capsys):
    path = tmp_path / "bare.csv"
    path.write_text("HIV positive,31\nHIV negative,40\n")
    for column in ("hiv_status", "HIV positiv"):
        assert (
            main(["privatize", str(path), "--column", column, *RANGE, "--out", str(tmp_path / "o.csv")]) == 2
        )
        assert "positive" not in capsys.readouterr().err


def test_a_column_of_dates_is_refused_without_showing_one(tmp_path, capsys):
    path = tmp_path / "times.parquet"
    pq.write_table(pa.table({"age": pa.array([77123456789], pa.time64("ns"))}), path)
    assert main(["privatize", str(path), "--column", "age", *RANGE, "--out", str(tmp_path / "o.csv")]) == 2
    error = capsys.readouterr().err
    assert "holds time64[ns]" in error
    assert "77123456789" not in error


def test_no_answer_hangs_on_an_error():
    for call in (lambda: numbers_from_text(["31", "SECRET77"]), lambda: cli._codes(["SECRET77"])):
        with pytest.raises(AnswerError) as caught:
            call()
        assert caught.value.__context__ is None


def test_what_the_dithered_response_is_told_can_be_told_on_the_command_line(capsys):
    assert main(["certify", "--mechanism", "dithered", "--epsilon", "10"]) == 2
    assert "steps of at most 9" in capsys.readouterr().err
    assert main(["certify", "--mechanism", "dithered", "--epsilon", "10", "--steps", "9"]) == 0
    assert main(["certify", "--mechanism", "bisample", "--epsilon", "1", "--levels", "3"]) == 2
