"""Files of reports and their notes: complete or not there, consistent, and never over somebody else's."""

import itertools
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bisample import BiSample, FileError, FormatError, KRandomizedResponse, ParameterError, ReportError
from bisample.analysis.tally import SIMULATED
from bisample.cli.reports import read_note, tally_files, write_reports

AGES = BiSample(epsilon=1, lower=17, upper=90)
CODES = np.array([0, 3, 3, 1], dtype=np.uint8)
AGE = {"question": "age"}


def _write(path, mechanism=AGES, codes=CODES, *, subject=AGE, answers=None):
    with write_reports(path, mechanism, subject, answers=answers) as writer:
        writer.write(codes[:2])
        writer.write(codes[2:])
        assert writer.tally == mechanism.tally(codes, subject)


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.PQ"])
def test_what_is_written_is_read(tmp_path, name):
    _write(tmp_path / name)
    assert sorted(_contents(tmp_path)) == [name, f"{name}.json"]
    mechanism, tally = tally_files([tmp_path / name])
    assert mechanism == AGES
    assert tally == AGES.tally(CODES, AGE)
    note = read_note(tmp_path / name)
    assert (note.mechanism, note.tally) == (AGES, tally)


def test_files_have_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        _write(tmp_path / "r.csv")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


# --- Nothing of anybody else is destroyed -----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["y.csv.unfinished", "y.csv.json.unfinished", "y.csv.tmp", ".y.csv", "reports", "note"]
)
def test_files_with_any_other_name_are_left_alone(tmp_path, name):
    answers = tmp_path / name
    answers.write_text("age\n31\n")
    _write(tmp_path / "y.csv", answers=answers)
    assert answers.read_text() == "age\n31\n"
    with pytest.raises(RuntimeError), write_reports(tmp_path / "y.csv", AGES):
        raise RuntimeError
    assert answers.read_text() == "age\n31\n"


@pytest.mark.parametrize("content", [b"age\n31\n", b'{"format": "another"}', b'{"age": 31}', b"", b"[]"])
def test_a_file_in_the_place_of_the_note_that_is_none_is_left_alone(tmp_path, content):
    stranger = tmp_path / "z.csv.json"
    stranger.write_bytes(content)
    with pytest.raises(FileError, match=r"z\.csv\.json is in the place of the note"):
        _write(tmp_path / "z.csv", answers=stranger)
    assert _contents(tmp_path) == {"z.csv.json": content}


def test_a_file_that_comes_into_the_place_of_the_note_meanwhile_is_left_alone(tmp_path):
    with (
        pytest.raises(FileError, match="is in the place of the note"),
        write_reports(tmp_path / "z.csv", AGES),
    ):
        (tmp_path / "z.csv.json").write_text("mine")
    assert _contents(tmp_path) == {"z.csv.json": b"mine"}


def test_a_note_of_an_older_version_or_in_another_layout_makes_room(tmp_path):
    for old in ('{\n  "format": "bisample-reports/1",\n  "reports": 1\n}', '{"format":"bisample-reports/3"}'):
        (tmp_path / "z.csv.json").write_text(old)
        _write(tmp_path / "z.csv")
        assert read_note(tmp_path / "z.csv").tally.n == 4


def test_reports_never_take_the_place_of_answers_notes_folders_or_devices(tmp_path):
    answers = tmp_path / "people.csv"
    answers.write_text("age\n31\n")
    (tmp_path / "link.csv").symlink_to(answers)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "note.csv.json").mkdir()
    _write(tmp_path / "r.csv")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.iterdir()}
    for path, says in (
        (answers, "the file of answers itself"),
        (tmp_path / "link.csv", "the file of answers itself"),
        (tmp_path / "r.csv.json", "reports go to a file that ends in"),
        (tmp_path / "folder.csv", "it is a folder or a device"),
        (tmp_path / "note.csv", "note.csv.json is in the place of the note"),
        ("/dev/null", "reports go to a file that ends in"),
        (tmp_path / "nowhere" / "r.csv", "cannot be written: No such file or directory"),
    ):
        with pytest.raises(FileError, match=says):
            _write(path, answers=answers)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_only_an_empty_file_or_reports_with_their_note_are_replaced(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("age\n31\n")
    (tmp_path / "link.csv").symlink_to(other)
    for path in (other, tmp_path / "link.csv"):
        before = _contents(tmp_path)
        with pytest.raises(FileError) as caught:
            _write(path)
        assert str(caught.value) == (
            f"{path} is there already, and no note beside it says that it holds reports: name another file,"
            " or remove it"
        )
        assert _contents(tmp_path) == before
    (tmp_path / "empty.csv").touch()
    _write(tmp_path / "empty.csv")
    _write(tmp_path / "empty.csv", codes=CODES[:3])
    assert read_note(tmp_path / "empty.csv").tally.n == 3
    (tmp_path / "empty.csv.json").unlink()
    with pytest.raises(FileError, match=r"empty\.csv is there already"):
        _write(tmp_path / "empty.csv")


def test_answers_that_come_into_the_place_of_the_reports_meanwhile_are_left_alone(tmp_path):
    with pytest.raises(FileError, match="is there already"), write_reports(tmp_path / "z.csv", AGES):
        (tmp_path / "z.csv").write_text("age\n31\n")
    assert _contents(tmp_path) == {"z.csv": b"age\n31\n"}


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "r.csv/", "r.csv/.", "r", ".csv", "r.xlsx", "r.json", "r.csv.gz"]
)
def test_reports_go_to_csv_or_parquet_and_to_no_other_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError) as caught:
        _write(name)
    assert str(caught.value) == (
        f"reports go to a file that ends in .csv, .parquet or .pq, or to - (standard output), not to {name!r}"
    )
    assert _contents(tmp_path) == {}


# --- Complete or not there --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem", [RuntimeError, KeyboardInterrupt, SystemExit, OSError(28, "No space left")]
)
@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_what_is_stopped_leaves_the_older_files_and_nothing_else(tmp_path, problem, name):
    _write(tmp_path / name)
    before = _contents(tmp_path)
    expected = FileError if isinstance(problem, OSError) else problem

    def stopped():
        with write_reports(tmp_path / name, AGES) as writer:
            writer.write(CODES[:1])
            raise problem

    with pytest.raises(expected) as caught:
        stopped()
    if expected is FileError:
        assert str(caught.value) == f"{tmp_path / name} cannot be written: No space left"
    assert _contents(tmp_path) == before


def test_reports_are_never_there_with_the_note_of_others(tmp_path, monkeypatch):
    """Whatever step of the publishing is the last one: the files fit, or there is no note."""
    older = KRandomizedResponse(epsilon=1, options=["a", "b", "c"])
    replace, fits = Path.replace, []

    def stop(path, target):
        if len(fits) == steps:
            raise KeyboardInterrupt
        fits.append(target)
        return replace(path, target)

    for steps in range(3):
        path = tmp_path / f"{steps}.csv"
        _write(path, older)
        fits.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stop)
            try:
                _write(path, AGES, CODES[:3])
            except KeyboardInterrupt:
                assert steps < 2
        note = read_note(path)
        assert note is None or len(path.read_text().split()) == note.tally.n + 1
    assert note.mechanism == AGES


def test_of_runs_with_one_name_the_last_that_is_complete_wins_as_a_whole(tmp_path, monkeypatch):
    """Eight runs at once, and a pause after each step of the publishing, where others may overtake."""
    path, replace = tmp_path / "r.csv", Path.replace
    pauses = itertools.count(16, -1)

    def slowly(source, target):
        replace(source, target)
        time.sleep(next(pauses) / 250)

    monkeypatch.setattr(Path, "replace", slowly)
    start = threading.Barrier(8)

    def run(n):
        start.wait()
        _write(path, KRandomizedResponse(epsilon=1, options=range(n)), np.zeros(n, dtype=np.uint8))

    runs = [threading.Thread(target=run, args=(n,)) for n in range(2, 10)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    mechanism, tally = tally_files([path])  # which checks the codes against the note's
    assert len(mechanism.domain.options) == tally.n
    assert sorted(_contents(tmp_path)) == ["r.csv", "r.csv.json"]


# --- Notes ------------------------------------------------------------------------------------------


def test_a_note_that_was_changed_is_refused(tmp_path):
    path, note = tmp_path / "r.csv", tmp_path / "r.csv.json"
    _write(path)
    right = json.loads(note.read_text())
    wrong = {
        "something was changed": {**right, "mechanism": {**right["mechanism"], "digest": "0" * 64}},
        "the field 'tally'": {k: v for k, v in right.items() if k != "tally"},
        "'tally' of a note must be an object": {**right, "tally": 4},
        "must have the field 'subject'": {
            **right,
            "tally": {k: v for k, v in right["tally"].items() if k != "subject"},
        },
        "that of code 2 is negative": {**right, "tally": {**right["tally"], "counts": [1, 1, -1, 3]}},
        "has 4 counts, not 3": {**right, "tally": {**right["tally"], "counts": [1, 1, 2]}},
        "use the mechanism that the reports were made with": {
            **right,
            "mechanism": BiSample(2, 17, 90).to_dict(),
        },
        "format must be 'bisample-reports/2'": {**right, "format": "bisample-reports/1"},
        "must be an object": [1],
    }
    for says, content in wrong.items():
        note.write_text(json.dumps(content))
        with pytest.raises(FormatError, match=says) as caught:
            tally_files([path])
        assert str(caught.value).startswith(f"{note} is no note of how {path} was made")
    for broken in (b"{", b"\xff", b'{"a": NaN}'):
        note.write_bytes(broken)
        with pytest.raises(FormatError, match="is no note"):
            tally_files([path])


def test_a_file_that_is_missing_is_named_and_not_its_note(tmp_path):
    _write(tmp_path / "r.csv")
    (tmp_path / "r.csv").unlink()
    with pytest.raises(FileError, match=r"there is no file .*r\.csv$"):
        tally_files([tmp_path / "r.csv"])


@pytest.mark.parametrize(
    "codes",
    [[0, 3], [0, 3, 3, 1, 1], [], [0, 3, 3, 3], [0, 3, 3, 2]],
    ids=["cut", "grown", "empty", "one changed", "another width"],
)
def test_a_file_that_is_not_the_one_that_the_note_counts_is_refused(tmp_path, codes):
    path = tmp_path / "r.csv"
    _write(path)
    path.write_text("\n".join(["report", *map(str, codes), ""]))
    with pytest.raises(ReportError) as caught:
        tally_files([path])
    assert str(caught.value) == (
        f"the {len(codes)} codes of {path} are not the 4 that its note counts: the file is not complete, or"
        " not the one that the note is about"
    )


def test_the_order_of_the_reports_is_free(tmp_path):
    _write(tmp_path / "r.csv")
    (tmp_path / "r.csv").write_text("report\n3\n1\n0\n3\n")
    assert tally_files([tmp_path / "r.csv"])[1].counts.tolist() == [1, 1, 0, 2]


def test_reports_of_another_epsilon_copied_over_a_file_are_not_read_by_its_note(tmp_path):
    """As many reports with the same codes: only their counts tell the files apart."""
    answers = [31.0] * 500
    for name, epsilon in (("a.csv", 1), ("z.csv", 4)):
        mechanism = BiSample(epsilon, 17, 90)
        _write(tmp_path / name, mechanism, mechanism.privatize(answers, rng=1))
    (tmp_path / "z.csv").write_bytes((tmp_path / "a.csv").read_bytes())
    with pytest.raises(ReportError, match=r"the 500 codes of .*z\.csv are not the 500 that its note counts"):
        tally_files([tmp_path / "z.csv"])


def test_a_mechanism_that_contradicts_the_note_is_refused(tmp_path):
    _write(tmp_path / "r.csv")
    for other in (BiSample(1, 17, 91), BiSample(2, 17, 90), KRandomizedResponse(1, ["a", "b"])):
        with pytest.raises(ParameterError, match=r"were made by .*17 to 90.*, says their note, and not by"):
            tally_files([tmp_path / "r.csv"], mechanism=other)
    assert tally_files([tmp_path / "r.csv"], mechanism=BiSample(1, 17, 90))[1].n == 4


# --- Several files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("noted", [True, False])
def test_files_of_one_mechanism_and_subject_add_up_with_notes_or_without(tmp_path, noted):
    paths = [tmp_path / name for name in ("a.csv", "b.parquet", "c.csv")]
    for i, path in enumerate(paths):
        _write(path, codes=CODES[: i + 2])
        if not noted:
            path.with_name(f"{path.name}.json").unlink()
    told = []
    mechanism, tally = tally_files(paths, mechanism=AGES, progress=told.append)
    assert mechanism == AGES
    assert tally == AGES.tally([0, 3, 0, 3, 3, 0, 3, 3, 1], AGE if noted else None)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])


def test_without_a_note_the_mechanism_has_to_be_named(tmp_path):
    _write(tmp_path / "c.csv")
    (tmp_path / "c.csv.json").unlink()
    with pytest.raises(FileError, match=r"there is no .*c\.csv\.json to say"):
        tally_files([tmp_path / "c.csv"])


def test_files_of_two_mechanisms_are_both_named(tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    _write(a)
    _write(b, BiSample(epsilon=1, lower=0, upper=90))
    with pytest.raises(ReportError, match=rf"{a} was made by .*17 to 90.*, and {b} by .*0 to 90"):
        tally_files([a, b])


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ({"question": "km"}, "question = km"),
        (AGE | SIMULATED, "question = age, simulated = with a seed"),
        (None, "no subject"),
    ],
)
def test_files_of_two_subjects_are_both_named_and_not_added_up(tmp_path, subject, shown):
    a, b, c = (tmp_path / f"{name}.csv" for name in "abc")
    _write(a)
    _write(b, subject=subject)
    _write(c, subject=subject)
    for (one, its), (other, others) in itertools.permutations([(a, "question = age"), (b, shown)]):
        with pytest.raises(ReportError) as caught:
            tally_files([one, other])
        assert str(caught.value) == (
            f"{one} and {other} do not add up, estimate each: a tally of {its} does not add to one of"
            f" {others}: pool them by Tally.pooled if they may be one"
        )
    assert tally_files([b, c])[1] == AGES.tally([*CODES, *CODES], subject)


def test_only_where_there_is_no_note_can_reports_be_called_simulated(tmp_path):
    path = tmp_path / "a.csv"
    for subject in (AGE, AGE | SIMULATED):
        _write(path, subject=subject)
        with pytest.raises(ParameterError, match=rf"--simulated is .*, and the note of {path} says whether"):
            tally_files([path], simulated=True)
    (tmp_path / "a.csv.json").unlink()
    assert tally_files([path], mechanism=AGES, simulated=True)[1] == AGES.tally(CODES, SIMULATED)


def test_a_file_that_is_named_twice_is_not_counted_double(tmp_path, monkeypatch):
    _write(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hard.csv").hardlink_to("a.csv")
    (tmp_path / "soft.csv").symlink_to("a.csv")
    for again in ("a.csv", tmp_path / "a.csv", "hard.csv", "soft.csv"):
        with pytest.raises(ParameterError, match=f"{again} is named twice"):
            tally_files(["a.csv", again], mechanism=AGES)
    with pytest.raises(FileError, match=r"there is no file b\.csv"):
        tally_files(["a.csv", "b.csv", "b.csv"])
    with pytest.raises(ParameterError, match="one file of reports or more"):
        tally_files([])


def test_a_code_that_the_mechanism_lacks_is_named_by_its_row_in_any_piece(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("report\n" + "0\n" * 140_000 + "4\n")
    with pytest.raises(ReportError, match=rf"row 140,001 \(the header not counted\) of {path} is no report"):
        tally_files([path], mechanism=AGES)
