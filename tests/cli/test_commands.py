"""What each command prints, and what it says where it cannot."""

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bisample import KRandomizedResponse, Mechanism, Table, Tally
from bisample.catalogue import CATALOGUE, Entry, Parameter, build
from bisample.cli import commands, mechanisms
from bisample.cli.reports import write_reports
from bisample.protocol.domain import Range

RANGE = ("--epsilon", 2, "--lower", 17, "--upper", 90)
TEA = ("--mechanism", "k-rr", "--epsilon", 2, "--option", "tea", "--option", "coffee")

# A table that no builder makes: its worst ratio is 4, so that it needs epsilon = log 4 = 1.386...
OWN = Mechanism(
    Table([[2**47, 2**46, 2**46], [2**45, 2**45, 3 * 2**46], [2**46, 2**47, 2**46]]), Range(0, 10)
)


def _refusals(done):
    """How many refusals a run of privatize says it has read: the number that only standard error has."""
    return int(re.search(r"answers read, ([\d,]+) of them", done.err)[1].replace(",", ""))


def _names(folder):
    return {path.name for path in folder.iterdir()}


# --- privatize and estimate -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_numbers_goes_to_reports_and_to_an_estimate_near_the_truth(
    bisample, people, tmp_path, suffix
):
    out = tmp_path / f"reports{suffix}"
    done = bisample("privatize", people.path, "--column", "age", *RANGE, "--out", out, "--seed", 1)
    assert done.code == 0
    assert f"20,000 reports in {out}\n" in done.out
    assert "a simulation, which protects nobody" in done.out
    found = bisample("estimate", out, "--json").json
    assert found["n"] == 20_000
    assert abs(found["mean"] - people.mean) < 4 * found["mean_error"]  # with a fixed seed: no alpha
    assert abs(found["answer_rate"] - people.rate) < 4 * found["answer_rate_error"]


def test_a_column_of_options_goes_to_proportions(bisample, people, tmp_path):
    out = tmp_path / "reports.csv"
    done = bisample("privatize", people.path, "--column", "drink", *TEA, "--out", out, "--seed", 1, "--json")
    tally = Tally.from_dict(done.json["tally"])
    assert tally.n == done.json["reports"] == 20_000
    assert tally.subject == {"question": "drink", "simulated": "with a seed"}
    found = bisample("estimate", out, "--json").json
    assert found["question"] == "drink"
    assert abs(found["proportions"]["tea"] - people.tea) < 4 * found["proportions_error"]["tea"]


def test_csv_and_parquet_answers_give_the_same_reports(bisample, people, tmp_path):
    frame = pd.read_csv(people.path)
    frame.to_parquet(tmp_path / "numbers.parquet")
    frame.astype({"age": "string"}).to_parquet(tmp_path / "texts.parquet")
    said = {}
    for source in (people.path, tmp_path / "numbers.parquet", tmp_path / "texts.parquet"):
        done = bisample("privatize", source, "--column", "age", *RANGE, "--out", "-", "--seed", 5)
        said[source] = (done.out, _refusals(done))
    assert len(set(said.values())) == 1
    assert said[people.path][1] == people.refusals


def test_missing_numbers_are_counted_however_they_are_written(bisample, tmp_path):
    path = tmp_path / "ages.parquet"
    pd.DataFrame({"age": [31.0, np.nan, 45.0, None]}).to_parquet(path)
    done = bisample("privatize", path, "--column", "age", *RANGE, "--out", tmp_path / "o.csv", "--json")
    assert (done.json["reports"], _refusals(done)) == (4, 2)
    done = bisample(
        "privatize",
        "-",
        "--column",
        "age",
        *RANGE,
        "--out",
        tmp_path / "o.csv",
        "--json",
        stdin="age\n-nan\nnan\n31\n",
    )
    assert (done.json["reports"], _refusals(done)) == (3, 2)


@pytest.mark.parametrize("mode", [[], ["--json"]], ids=["text", "json"])
def test_whether_one_person_declined_is_in_nothing_that_travels_with_the_reports(bisample, tmp_path, mode):
    """One person's answer and refusal can give one code: then all that is written has to be the same."""
    out, travels = tmp_path / "one.csv", {"31": set(), "NA": set()}
    for answer, seed in itertools.product(travels, range(10)):
        arguments = ("--column", "age", *RANGE, "--seed", seed, "--out", out, *mode)
        done = bisample("privatize", "-", *arguments, stdin=f"age\n{answer}\n")
        assert _refusals(done) == (answer == "NA")
        travels[answer].add((out.read_text(), (tmp_path / "one.csv.json").read_text(), done.out))
    assert travels["31"] & travels["NA"]
    assert not any("refus" in said for _, _, said in travels["31"] | travels["NA"])


def test_without_a_seed_two_runs_differ_and_the_note_says_so(bisample, people, tmp_path):
    texts = []
    for name in ("a.csv", "b.csv"):
        out = tmp_path / name
        bisample("privatize", people.path, "--column", "age", *RANGE, "--out", out)
        texts.append(out.read_text())
        note = json.loads((tmp_path / f"{name}.json").read_text())
        mechanism = build("bisample", epsilon=2, lower=17, upper=90)
        codes = [int(line) for line in texts[-1].split()[1:]]
        assert note == {
            "format": "bisample-reports/2",
            "mechanism": mechanism.to_dict(),
            "tally": mechanism.tally(codes, {"question": "age"}).to_dict(),
        }
    assert texts[0] != texts[1]
    lines = texts[0].split()
    assert lines[0] == "report"
    assert len(lines) == 20_001
    assert set(lines[1:]) <= {"0", "1", "2", "3"}


def test_an_option_may_be_called_none(bisample, tmp_path):
    path, out = tmp_path / "children.csv", tmp_path / "reports.csv"
    path.write_text("id,children\n" + "1,none\n" * 700 + "2,some\n" * 200 + "3,\n4,NA\n" * 50)
    choice = ["--mechanism", "k-rr", "--epsilon", 20, "--option", "none", "--option", "some"]
    done = bisample("privatize", path, "--column", "children", *choice, "--out", out, "--seed", 1)
    assert _refusals(done) == 100
    assert np.bincount([int(line) for line in out.read_text().split()[1:]]).tolist() == [700, 200, 100]


def test_files_add_up(bisample, made):
    a, b = made("a.csv", ages=[31] * 500), made("b.csv", ages=[45] * 300)
    both = bisample("estimate", a, b, "--json").json
    assert both["n"] == 800
    lines = a.read_text() + b.read_text().removeprefix("report\n")
    together = bisample("estimate", "-", *RANGE, "--json", stdin=lines).json
    assert both == together | {"question": "age", "subject": {"question": "age"}}


def test_two_questions_are_not_pooled(bisample, tmp_path):
    """Of one range at one epsilon: nothing but the column tells the reports apart."""
    (tmp_path / "people.csv").write_text("age,km\n" + "31,80\n45,20\n" * 50)
    files = []
    for column in ("age", "km"):
        files.append(tmp_path / f"{column}.csv")
        arguments = ("--column", column, *RANGE, "--out", files[-1])
        assert bisample("privatize", tmp_path / "people.csv", *arguments).code == 0
    done = bisample("estimate", *files)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"bisample: {files[0]} and {files[1]} do not add up, estimate each: a tally of question = age does"
        " not add to one of question = km: pool them by Tally.pooled if they may be one\n"
    )
    assert bisample("estimate", files[1]).out.startswith("km: bisample, epsilon = 2, 100 reports\n")


def test_an_estimate_says_that_the_reports_were_simulated(bisample, made):
    a, b = made("a.csv", "--seed", 1), made("b.csv", "--seed", 2)
    assert bisample("estimate", a, b).out.endswith("  (made with a seed: a simulation)\n")
    assert bisample("estimate", a, "--json").json["subject"]["simulated"] == "with a seed"
    real = made("real.csv")
    assert "simulat" not in bisample("estimate", real).out
    done = bisample("estimate", real, "--simulated")
    assert done.code == 2
    assert done.err.startswith("bisample: --simulated is for reports without a note")


def test_reports_without_a_note_are_called_simulated_by_an_option(bisample):
    arguments = ("privatize", "-", "--column", "age", *RANGE, "--out", "-")
    made = bisample(*arguments, "--seed", 1, stdin="age\n31\n45\n")
    assert made.err.endswith("\nno note says so: estimate them with --simulated\n")
    assert "--simulated" not in bisample(*arguments, stdin="age\n31\n45\n").err
    done = bisample("estimate", "-", *RANGE, "--simulated", stdin=made.out)
    assert done.out.endswith("  (made with a seed: a simulation)\n")
    done = bisample("estimate", "-", *RANGE, "--simulated", "--json", stdin=made.out)
    assert done.json["subject"] == {"simulated": "with a seed"}
    assert "simulat" not in bisample("estimate", "-", *RANGE, stdin=made.out).out


def test_projected_estimates_are_possible(bisample, made):
    out = made("a.csv", "--seed", 1, ages=[90] * 50)
    raw = bisample("estimate", out, "--json").json
    projected = bisample("estimate", out, "--projected", "--json").json
    assert raw["mean"] > 90
    assert projected["mean"] == 90
    assert bisample("estimate", out, "--level", 0.5, "--json").json["level"] == 0.5


def test_estimate_needs_the_note_and_no_builder(bisample, tmp_path):
    """A mechanism that nothing in the catalogue built: a table whose rows are no rounds of each other."""
    mechanism = OWN
    (tmp_path / "own.csv").write_text("report\n" + "0\n1\n2\n" * 10)
    note = {
        "format": "bisample-reports/2",
        "mechanism": mechanism.to_dict(),
        "tally": mechanism.tally_of([10, 10, 10]).to_dict(),
    }
    (tmp_path / "own.csv.json").write_text(json.dumps(note, indent=2))
    done = bisample("estimate", tmp_path / "own.csv")
    assert done.code == 0
    assert mechanism.name in done.out


def test_all_missing_and_empty_files_are_estimated_as_far_as_can_be(bisample, tmp_path):
    for name, lines in (("none.csv", 3000), ("empty.csv", 0)):
        path, out = tmp_path / name, tmp_path / f"out-{name}"
        path.write_text("age,x\n" + ",1\n" * lines)
        done = bisample("privatize", path, "--column", "age", *RANGE, "--out", out, "--seed", 2)
        assert f"{lines:,} reports in {out}\n" in done.out
        assert _refusals(done) == lines
        found = bisample("estimate", out, "--json").json
        assert found["n"] == lines
        assert found["mean_interval"][0] <= found["mean_interval"][1]
    assert found["mean"] is None
    assert found["undefined"]["mean"] == "there are no reports"


# --- Standard input and output ----------------------------------------------------------------------


def test_a_dash_is_standard_input_and_output(bisample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = bisample("privatize", "-", "--column", "age", *RANGE, "--out", "-", stdin="age\n31\n\n45\n")
    assert made.code == 0
    assert made.out.startswith("report\n")
    assert len(made.out.split()) == 4
    assert made.err == (
        "3 answers read, 1 of them empty cells (refusals): this is not protected, keep it to yourself\n"
        "3 reports\nmade with secure randomness\n"
    )
    assert _names(tmp_path) == set()
    done = bisample("estimate", "-", *RANGE, "--json", stdin=made.out)
    assert done.json["n"] == 3


def test_standard_input_has_no_note(bisample):
    done = bisample("estimate", "-", stdin="report\n1\n")
    assert done.code == 2
    assert "standard input has no note to say how the reports were made" in done.err


def test_an_error_in_the_middle_sends_nothing_on(bisample):
    """Who reads a part of the reports would not know that it is one."""
    done = bisample(
        "privatize", "-", "--column", "age", *RANGE, "--out", "-", stdin="age\n" + "31\n" * 200_000 + "99\n"
    )
    assert (done.code, done.out) == (2, "")
    assert "row 200,001 (the header not counted) lies outside [17, 90]" in done.err


def test_pictures_go_to_standard_output_as_well(bisample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnicodeDecodeError):  # a PNG is no text
        bisample("compare", "--epsilon", 2, "--out", "-")
    assert _names(tmp_path) == set()


# --- What is wrong with an answer -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("91", "lies outside [17, 90]: widen"),
        ("16.999", "lies outside [17, 90]: widen"),
        ("1_000", "is not a number"),
        ("２０", "is not a number"),  # noqa: RUF001
        ("twenty", "is not a number"),
        ("inf", "is infinite"),
        ("1e999", "is infinite"),
    ],
)
def test_an_answer_that_is_refused_is_named_by_its_row_and_not_shown(bisample, tmp_path, entry, says):
    out = tmp_path / "o.csv"
    for before in (0, 131_072 + 7):  # in a piece of its own
        answers = "age\n" + "31\n" * before + f"{entry}\n31\n"
        done = bisample("privatize", "-", "--column", "age", *RANGE, "--out", out, stdin=answers)
        assert done.code == 2
        assert f"row {before + 1:,} (the header not counted) {says}" in done.err
        assert done.err.count("\n") == 1
        assert entry not in done.err.replace("infinite", "")
    assert _names(tmp_path) == set()


def test_an_unknown_option_and_a_refusal_that_has_no_code_are_named_by_their_rows(bisample, tmp_path):
    out = tmp_path / "o.csv"
    for mechanism, answers, says in (
        (TEA, "tea\n\nwater\n", "row 3 (the header not counted) is not among the options tea, coffee"),
        (("--mechanism", "harmony", *RANGE), "31\n\n45\n", "row 2 (the header not counted) is missing, and"),
        (
            ("--mechanism", "rr", "--epsilon", 1),
            "true\nfalse\nNA\n",
            "row 3 (the header not counted) is missing",
        ),
    ):
        done = bisample("privatize", "-", "--column", "x", *mechanism, "--out", out, stdin="x\n" + answers)
        assert done.code == 2
        assert says in done.err
        assert "water" not in done.err


def test_an_end_of_the_range_may_be_negative_and_have_an_exponent(bisample, tmp_path):
    debts = ["--epsilon", 1, "--lower", "-1e6", "--upper", "-.5"]
    out = tmp_path / "o.csv"
    done = bisample("privatize", "-", "--column", "x", *debts, "--out", out, stdin="x\n-1000000\n-0.5\n")
    assert done.code == 0
    assert bisample("estimate", out, "--json").json["lower"] == -1e6


def test_clip_moves_answers_into_the_range(bisample, tmp_path):
    out = tmp_path / "o.csv"
    done = bisample("privatize", "-", "--column", "age", *RANGE, "--clip", "--out", out, stdin="age\n91\n0\n")
    assert done.code == 0
    done = bisample("privatize", "-", "--column", "age", *TEA, "--clip", "--out", out, stdin="age\ntea\n")
    assert "clip is for numbers" in done.err


@pytest.mark.parametrize(
    ("reports", "row"),
    [
        ([0, 4], 2),
        ([0.0, 1.0], 1),
        ([True], 1),
        ([1, None], 2),
        (["0", "9" * 30], 2),
        (["0.3"], 1),
        (["1_0"], 1),
        (["１"], 1),  # noqa: RUF001
        (["-1"], 1),
        ([-1], 1),
    ],
)
def test_what_is_no_report_is_named_by_its_row_and_not_shown(bisample, tmp_path, reports, row):
    path = tmp_path / "answers.parquet"
    pq.write_table(pa.table({"report": reports}), path)
    done = bisample("estimate", path, *RANGE)
    assert done.code == 2
    assert f"row {row} (the header not counted) of {path} is no report of bisample" in done.err
    assert "integers from 0 to 3: is this a file of answers" in done.err


# --- What is wrong with the options -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["privatize", "{path}", "--column", "Age", *RANGE], "did you mean 'age'?"),
        (["privatize", "{path}.not", "--column", "age", *RANGE], "there is no file"),
        (["privatize", "{path}", "--column", "age", "--epsilon", 1], "--lower and --upper are needed"),
        (
            ["privatize", "{path}", "--column", "age", "--epsilon", 0, "--lower", 0, "--upper", 1],
            "epsilon must",
        ),
        (["privatize", "{path}", "--column", "age", *RANGE, "--option", "a"], "and no options"),
        (["privatize", "{path}", "--column", "drink", *TEA[:4]], "k-rr needs "),
        (
            ["privatize", "{path}", "--column", "age", *RANGE, "--seed", -1],
            "--seed must be an integer from 0, not -1",
        ),
        (["estimate", "{path}", "--lower", 0], "--lower and --upper are needed"),
        (["estimate", "{path}", "--lower", 0, "--upper", 1], "bisample needs epsilon"),
        (["estimate", "{path}"], "to say how the reports were made: name their mechanism (--mechanism, "),
        (["estimate", "{path}", "--column", "age", *RANGE], "is this a file of answers"),
        (["estimate", "{path}", *RANGE], "has no column 'report'"),
        (["estimate", "{path}.not"], "there is no file {path}.not\n"),
        (["estimate", "{path}", "{path}.not", *RANGE, "--column", "name"], "is no report"),
        (["estimate", "."], ". is a folder"),
        (["certify", "--epsilon", 99], "epsilon must be a number from"),
        (["certify", "--epsilon", 1, "--levels", 3], "and no levels"),
        (["certify", "--epsilon", 10, "--mechanism", "dithered", "--steps", 16], "steps of at most"),
        (["demo", "--people", 100, "--epsilon", 15], "nobody answers"),
        (["demo", "--people", 99], "people must be an integer from 100"),
        (
            ["demo", "--people", 10**12],
            "people must be an integer from 100 to 10,000,000, not 1,000,000,000,000",
        ),
        (
            ["certify", "{path}"],
            "{path} is neither the JSON of a mechanism nor the note beside reports (not JSON",
        ),
        (["certify", "{path}.not"], "{path}.not cannot be read: No such file"),
        (
            ["certify", "{path}", "--epsilon", 1, "--lower", 0],
            "{path} says which mechanism it is: leave all options",
        ),
        (["demo", "--people", 100, "--out", "{path}.not/x.png"], "cannot be written"),
        (["compare", "--epsilon", 1, "--out", "{path}.foo"], "cannot be written"),
        (["compare", "--epsilon", 1, "--answer-rate", 2], "answer_rate must be above 0"),
        (["paper", "--figure", 9], "figures must be some of 3, 4, 5, 6, not 9"),
    ],
)
def test_wrong_input_is_one_line_that_helps_and_leaves_no_file(bisample, people, tmp_path, arguments, says):
    if arguments[0] == "privatize":
        arguments = [*arguments, "--out", tmp_path / "out.csv"]
    done = bisample(*[str(a).format(path=people.path) for a in arguments])
    assert done.code == 2
    assert done.err.startswith("bisample: ")
    assert says.format(path=people.path) in done.err
    assert done.err.count("\n") == 1
    assert _names(tmp_path) == {"people.csv"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["privatize"],
        ["privatise"],
        ["certify"],
        ["certify", "--epsilon", "one"],
        ["certify", "--epsilon", 1, "--mechanism", "best"],
        ["compare", "--epsilon", 1, "--population", "cauchy"],
        ["estimate"],
    ],
)
def test_what_cannot_be_parsed_is_an_error_of_usage(bisample, arguments):
    done = bisample(*arguments)
    assert done.code == 2
    assert "Usage: bisample" in done.err
    assert done.out == ""


@pytest.mark.parametrize("command", [[], *([name] for name in commands.commands.commands)])
def test_every_command_has_a_help(bisample, command):
    done = bisample(*command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: bisample {' '.join(command)}".rstrip())
    assert "..." not in done.out.partition("Commands:")[2].partition("Examples:")[0]  # no half sentences


# --- The catalogue ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mechanism_of_the_catalogue_can_be_named(bisample, name):
    told = {"epsilon": 2.0}
    for parameter in CATALOGUE[name].takes[1:]:
        told[parameter] = (
            ["a", "b"] if parameter == "options" else {"lower": -3.0, "upper": 5.0}.get(parameter, 3)
        )
    arguments = []
    for parameter, value in told.items():
        for one in value if isinstance(value, list) else [value]:
            arguments += ["--option" if parameter == "options" else f"--{parameter}", one]
    done = bisample("certify", "--mechanism", name, *arguments, "--json")
    assert Mechanism.from_dict(done.json["mechanism"]) == build(name, **told)
    assert done.json["holds"]


def test_a_new_mechanism_comes_with_its_options(monkeypatch):
    def sloppy(epsilon, options, width=0.5):
        assert width == 0.25
        return KRandomizedResponse(epsilon, options)

    width = Parameter("width", float, "0 to 1", "0.5", "how wide")
    entry = Entry("sloppy", sloppy, "options", True, "not to be used", (width,))
    monkeypatch.setattr("bisample.catalogue.CATALOGUE", {**CATALOGUE, "sloppy": entry})
    options = {option.name: option for option in mechanisms.mechanism_options(required=True)}
    assert "sloppy, not to be used" in options["mechanism"].help
    assert options["width"].help == "how wide: 0 to 1 (sloppy; default: 0.5)"
    told = {"mechanism": "sloppy", "epsilon": 1.0, "width": 0.25, "options": ("a", "b"), "lower": None}
    assert mechanisms.mechanism_from(told, needs_range=True).domain.options == ("a", "b")


# --- The other commands -----------------------------------------------------------------------------


def test_certify_prints_a_proof_that_can_be_checked(bisample):
    claim = bisample("certify", "--epsilon", 1, "--json").json
    top, bottom = map(int, claim["worst"]["ratio"].split("/"))
    assert claim["holds"]
    assert top / bottom <= np.exp(1) * (1 + 1e-15)
    assert all(sum(row) == 2**48 for row in claim["mechanism"]["table"]["weights"])
    said = bisample("certify", "--epsilon", 1.23456789, "--lower", 17, "--upper", 90).out
    assert "satisfies 1.23456789-local differential privacy: proven bound 1.2345678" in said
    assert "sent by '90'" in said or "sent by '17'" in said


def test_certify_proves_a_table_from_elsewhere(bisample, tmp_path):
    worst = "  worst: code 0 is sent by '0' with 140737488355328 / 2^48, by '10' with 35184372088832 / 2^48\n"
    alone, note = tmp_path / "own.json", tmp_path / "own.csv.json"
    alone.write_text(json.dumps(OWN.to_dict(), indent=2))
    with write_reports(tmp_path / "own.csv", OWN) as writer:
        writer.write(np.array([0, 1, 2], dtype=np.uint8))
    for path in (alone, note):
        for arguments, code, says in (
            ((), 0, "satisfies 1.387-local"),
            (("--epsilon", 1.4), 0, "satisfies 1.4-local"),
            (("--epsilon", 1.38), 1, "does not satisfy 1.38-local"),
        ):
            done = bisample("certify", path, *arguments)
            claim = f"the table of {path} {says} differential privacy: proven bound {OWN.epsilon_upper}\n"
            assert (done.code, done.out, done.err) == (code, claim + worst, "")
    assert bisample("certify", alone, "--json").json == OWN.certificate()
    assert bisample("certify", "-", "--json", stdin=OWN.to_json()).json == OWN.certificate()
    refuted = bisample("certify", note, "--epsilon", 1, "--json")
    assert (refuted.code, refuted.json) == (1, OWN.certificate(1.0))


def test_certify_refuses_a_table_that_was_changed(bisample, tmp_path):
    changed = OWN.to_dict() | {"digest": "0" * 64}
    (tmp_path / "own.json").write_text(json.dumps(changed))
    done = bisample("certify", tmp_path / "own.json")
    assert (done.code, done.out) == (2, "")
    assert "something was changed after it was made" in done.err


def test_memory_that_does_not_suffice_is_one_line(bisample, monkeypatch):
    def starve(*_):
        raise MemoryError

    monkeypatch.setattr("bisample.cli.demo.demonstrate", starve)
    done = bisample("demo")
    assert (done.code, done.out) == (2, "")
    assert done.err == "bisample: there is not enough memory for this: ask for less, or split the file\n"


def test_compare_prints_a_table_and_a_recommendation_and_draws(bisample, tmp_path):
    picture = tmp_path / "compared.png"
    done = bisample(
        "compare", "--epsilon", 2, "--population", "exp", "--objective", "worst", "--out", picture
    )
    assert "values: exp" in done.out
    assert "recommended for the objective 'worst': " in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = bisample("compare", "--epsilon", 2, "--json").json
    assert found["recommended"]["mechanism"] in {row["mechanism"] for row in found["rows"]}


def test_the_demonstration_prints_truth_beside_estimate_and_saves_a_picture(bisample, tmp_path):
    picture = tmp_path / "demo.png"
    done = bisample("demo", "--people", 20_000, "--seed", 1, "--out", picture)
    assert "truth    estimate" in done.out
    assert "s=0 b=0: " in done.out
    assert f"picture: {picture}" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = bisample("demo", "--people", 20_000, "--seed", 1, "--out", picture, "--json").json
    assert abs(found["truth"]["mean"] - found["estimate"]["mean"]) < 4 * found["estimate"]["mean_error"]
    assert f"{found['estimate']['mean']:.2f}" in done.out
    assert sum(found["tally"]["counts"]) == 20_000


def test_without_matplotlib_the_demonstration_says_what_installs_it(bisample, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = bisample("demo", "--people", 1000, "--seed", 1, "--out", tmp_path / "demo.png")
    assert done.code == 0
    assert "answer rate" in done.out
    assert done.err == "no picture: a picture needs the extra 'plot': pip install 'bisample[plot]'\n"


def test_paper_is_told_its_options(bisample, monkeypatch):
    told = []
    monkeypatch.setattr("bisample.paper.command.run", lambda **settings: told.append(settings))
    assert bisample("paper").code == 0
    arguments = [
        "--figure",
        4,
        "--figure",
        5,
        "--repeats",
        7,
        "--quick",
        "--seed",
        3,
        "--jobs",
        2,
        "--out",
        "x",
    ]
    files = ["--data", "d.csv", "--column", "age", "--readme", "README.md"]
    assert bisample("paper", *arguments, *files).code == 0
    usual = {
        "repeats": None,
        "quick": False,
        "seed": 1,
        "jobs": None,
        "data": None,
        "column": None,
        "readme": None,
    }
    asked = {"repeats": 7, "quick": True, "seed": 3, "jobs": 2, "data": Path("d.csv"), "column": "age"}
    assert told == [
        {"figures": (3, 4, 5, 6), "out": Path("bisample-paper"), **usual},
        {"figures": (4, 5), "out": Path("x"), **asked, "readme": Path("README.md")},
    ]


def test_paper_that_is_stopped_says_that_it_goes_on(bisample, monkeypatch):
    def stop(**_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("bisample.paper.command.run", stop)
    done = bisample("paper")
    assert done.code == 130
    assert "the same command goes on from here" in done.err
