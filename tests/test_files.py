"""Columns of files: everybody who is there is read, nobody else, and nothing is shown of them."""

import io
import os
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bisample import AnswerError, BiSample, FileError, files
from bisample.files import STANDARD, named_rows, numbers_from_text, read_column

MISSING = ["", "  ", "NA", "n/a", "NaN", "NaT", "null", "None", "<NA>"]


@pytest.fixture
def column(tmp_path):
    """What is read of a file with this content, as one list."""

    def read(content, column="age", answers=()):
        path = tmp_path / "people.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return [entry for piece in read_column(path, column, answers=answers) for entry in piece]

    return read


def _context_of(error):
    """Everything that Python attached to an error, as text."""
    seen = []
    while error is not None:
        seen.append(repr(error))
        error = error.__cause__ or error.__context__
    return " ".join(seen)


# --- Rows -------------------------------------------------------------------------------------------


def test_texts_that_say_nothing_are_missing(column):
    assert column("id,age\n" + "".join(f"1,{text}\n" for text in MISSING)) == [None] * len(MISSING)
    assert column("id,age\n1, 31 \n") == ["31"]


def test_an_option_may_be_called_none(column):
    assert column("id,n\n1,none\n2,None\n3,\n", "n", answers=["none", "some"]) == ["none", None, None]


def test_parquets_texts_follow_the_rule_of_csv(tmp_path):
    path = tmp_path / "people.parquet"
    texts = [*MISSING, None, " 31 ", "none"]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        pq.write_table(pa.table({"age": pa.array(texts).cast(kind)}), path)
        assert list(read_column(path, "age")) == [[None] * 10 + ["31", None]]
        assert next(read_column(path, "age", answers=["none"]))[-1] == "none"
    pl.DataFrame({"age": texts}).write_parquet(path)
    assert next(read_column(path, "age"))[-2:] == ["31", None]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_empty_lines_of_a_single_column_are_refusals_but_for_the_last(column, end):
    """As other programs write a missing entry; an editor's empty line at the end is nobody."""
    lines = ["age", "", "31", "", "", "45"]
    people = [None, "31", None, None, "45"]
    for ends, refusals in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 2)):
        assert column(end.join(lines) + ends * end) == people + refusals * [None]
    assert column("age" + 2 * end) == []
    assert column("age" + 4 * end) == [None, None]


def test_single_precision_in_parquet_reaches_the_ends_of_the_range(tmp_path):
    path = tmp_path / "people.parquet"
    pl.DataFrame({"dose": pl.Series([0.3, None, 0.1], dtype=pl.Float32)}).write_parquet(path)
    (held,) = read_column(path, "dose")
    assert len(BiSample(1, 0, 0.3).privatize(held)) == 3


def test_a_refusal_on_the_last_line_can_be_written(column):
    assert column('age\n31\n""\n') == ["31", None]
    assert column("age\n31\nNA\n\n") == ["31", None]


@pytest.mark.parametrize("header", ["age", "id,age"])
def test_doubled_line_ends_make_nobody_up(column, header):
    row = "31" if header == "age" else "1,31"
    with pytest.raises(FileError, match=r"line 2 of .* is empty, and the file mixes line ends"):
        column(f"{header}\r\r\n{row}\r\r\n{row}\r\r\n")


def test_lines_in_a_quoted_text_are_no_line_ends(column):
    assert column('note,age\r\n"one\ntwo",31\r\n"three\r\nfour",45\r\n') == ["31", "45"]


def test_in_a_wider_file_an_empty_line_is_an_error_but_at_the_end(column):
    assert column("name,age\nA,31\nB,45\n\n\n") == ["31", "45"]
    with pytest.raises(FileError, match=r"an empty line before line 4"):
        column("name,age\nA,31\n\nB,45\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('age,name\n31,"A\n32,B\n33,C\n', r"unexpected end of data, in row 1 "),
        ('age,name\n31,A\n32,"B\n33,C\n34,D\n', r"unexpected end of data, in row 2 "),
        ('age,name\n31,"A\n32,"B"\n', r"expected after '\"', in row 1 "),
        ('age,name\n31,A\n32,"B' + "\n33,SECRET77" * 20_000, r"field larger than .*, in row 2 "),
        ('"age\n\n31\n', "in the header: "),
        ('age\n31\n\n"32\n', "in row 3 "),
        ('age\n\n31\n"32\n', "in row 3 "),
    ],
    ids=[
        "first",
        "second",
        "closed later",
        "far",
        "header",
        "after an empty line",
        "after an empty line and a row",
    ],
)
def test_a_quote_left_open_takes_in_nobody(column, content, says):
    with pytest.raises(FileError, match=says) as caught:
        column(content)
    assert "is a quote left open?" in str(caught.value)
    assert "SECRET77" not in _context_of(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("id,age\n1,38,5\n", "line 2 of .* has 3 cells and the header has 2"),
        ("id,age\n1,38\n2\n", "line 3 of .* has 1 cells and the header has 2"),
        ("age,age\n1,2\n", "has 2 columns 'age'"),
        ("id;age\n1;38\n", "separated by other signs than commas"),
        ("id,AGE\n1,38\n", "did you mean 'AGE'"),
        ("", r"people\.csv is empty: its first line must name"),
        ("\ufeff", "is empty"),
        ("\n", "does its first line name the columns"),
        ("PK\x03\x04" + "age\n31\n", r"is no CSV text: save it as CSV \(UTF-8\), or as Parquet"),
        (b"PK\x03\x04\x14\xff\xfe", "is no CSV text"),
        (b"PAR1\x15\x04", "is no CSV text"),
        ("age\n\xe9\n".encode("latin-1"), "not UTF-8"),
    ],
)
def test_what_would_be_misread_is_refused(column, content, says):
    with pytest.raises(FileError, match=says):
        column(content)


@pytest.mark.parametrize("name", ["hiv_status", "HIV positiv", "48213"])
def test_a_first_line_of_answers_is_not_shown(column, name):
    with pytest.raises(FileError) as caught:
        column("HIV positive,48213 a\nHIV negative,40 b\n", name)
    assert "positive" not in str(caught.value)
    assert "48213 a" not in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_name(column):
    assert column("age\n31\n".encode("utf-8-sig")) == ["31"]


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "folder.parquet").mkdir()
    pq.write_table(pa.table({"age": pa.array([77123456789], pa.time64("ns"))}), tmp_path / "times.parquet")
    for name, says in (
        ("none.csv", "there is no file .*none.csv"),
        ("none.parquet", "there is no file .*none.parquet"),
        ("bad.parquet", "not a Parquet file"),
        ("empty.parquet", "empty.parquet is empty"),
        ("folder.parquet", "folder.parquet cannot be read"),
        ("times.parquet", r"holds time64\[ns\]"),
        (".", "cannot be read"),
    ):
        with pytest.raises(FileError, match=says) as caught:
            list(read_column(tmp_path / name, "age"))
        assert "77123456789" not in _context_of(caught.value)


def test_a_column_that_a_parquet_file_lacks_is_not_looked_for_in_a_line(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [31], "km": [8]}), path)
    for asked, hint in (("years", "name one of the 2 it has"), ("Age", "did you mean 'age'?")):
        with pytest.raises(FileError) as caught:
            next(read_column(path, asked))
        assert str(caught.value) == f"{path} has no column {asked!r}: {hint}"


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(column, monkeypatch):
    with pytest.raises(FileError, match="line 1 of /dev/zero has 16,777,216 characters or more"):
        next(read_column("/dev/zero", "age"))
    monkeypatch.setattr(files, "_LONGEST_LINE", 8)
    assert column("id,age\n1,3456\n") == ["3456"]
    with pytest.raises(FileError, match=r"line 3 of .* has 8 characters or more"):
        column("id,age\n1,31\n1,345678\n")


def test_a_standard_input_that_is_closed_is_said_to_be(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="standard input is closed"):
        next(read_column(STANDARD, "age"))


def test_long_files_come_in_pieces_and_tell_the_part_that_is_read(tmp_path):
    n = 300_000
    for path in (tmp_path / "people.csv", tmp_path / "people.parquet"):
        frame = pd.DataFrame({"age": np.arange(n)})
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
        told: list[float] = []
        pieces = list(read_column(path, "age", told.append))
        assert [len(piece) for piece in pieces] == [131_072, 131_072, n - 262_144]
        assert [int(entry) for piece in pieces for entry in piece] == list(range(n))
        assert told == sorted(told)
        assert 0 < told[0] < told[-1] == 1


def test_a_dash_is_standard_input_and_a_path_of_that_name_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("age\n99\n")
    (tmp_path / "other").write_text("age\n31\n")
    with (tmp_path / "other").open() as other:
        monkeypatch.setattr(sys, "stdin", other)
        assert list(read_column(STANDARD, "age")) == [["31"]]
        assert not other.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"id\n1\n")))
    with pytest.raises(FileError, match="standard input has no column 'age'"):
        list(read_column("-", "age"))
    for path in ("./-", tmp_path / "-"):
        assert list(read_column(path, "age")) == [["99"]]


def test_a_named_pipe_is_read_as_it_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_text, args=("age\n31\n45\n",))
    feeder.start()
    assert list(read_column(path, "age")) == [["31", "45"]]
    feeder.join()


# --- Entries ----------------------------------------------------------------------------------------


def test_decimal_notation_is_read_as_numbers():
    texts = ["31", "-1.5", "+3", ".5", "5.", "1e3", "2E-3", "007", None, "nan", "-nan"]
    expected = [31, -1.5, 3, 0.5, 5, 1000, 0.002, 7, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(numbers_from_text(texts), expected)
    assert numbers_from_text(["inf", "-Infinity", "1e999"]).tolist() == [np.inf, -np.inf, np.inf]


@pytest.mark.parametrize(
    "text",
    ["1_000", "１２", "٣", "1,5", "0x10", "1 000", "12.3.4", "thirty", "1e", "−5", "True"],  # noqa: RUF001
)
def test_other_notation_is_no_number_and_only_its_row_is_named(text):
    for before in (0, 2):
        piece = [*["1", None][:before], text, "x"]
        with pytest.raises(AnswerError) as caught:
            numbers_from_text(piece, first_row=734_112)
        said = _context_of(caught.value)
        assert f"row {734_112 + before:,} (the header not counted) is not a number" in said
        assert text not in said


def test_a_text_among_numbers_is_named_by_its_row():
    with pytest.raises(AnswerError, match="row 1 "):
        numbers_from_text([31, "SECRET"])


def test_errors_about_answers_name_rows():
    for index, row in ((0, "row 101 "), (1_000, r"row 1,101 ")):
        with (
            pytest.raises(AnswerError, match=row + r"\(the header not counted\) is infinite"),
            named_rows(101),
        ):
            raise AnswerError("is infinite", index)
    with pytest.raises(AnswerError, match=r"^answers must be numbers$"), named_rows(101):
        raise AnswerError("answers must be numbers")
    with named_rows(1):
        pass
