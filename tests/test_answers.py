"""Answers as people hold them: what is missing is marked, what is no answer is refused, nothing is shown."""

import datetime as dt
import decimal
import fractions
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisample import AnswerError, BiSample, KRandomizedResponse, RandomizedResponse
from bisample.answers import is_missing, read_numbers, read_options

MISSING = [
    None,
    math.nan,
    -math.nan,
    np.float32("nan"),
    np.float64("nan"),
    np.ma.masked,
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "D"),
    np.timedelta64("NaT", "D"),
    decimal.Decimal("NaN"),
    decimal.Decimal("sNaN"),
]


@pytest.mark.parametrize("value", MISSING, ids=lambda v: f"{type(v).__name__} {v!s}")
def test_every_way_to_say_nothing_is_missing(value):
    assert is_missing(value)
    assert np.isnan(read_numbers(value).to_floats()).all()
    assert np.isnan(read_numbers([value, 0.5]).to_floats()).tolist() == [True, False]
    assert read_options([value, "a"], ("a", "b")).rows.tolist() == [2, 0]
    assert read_options(value, ("a", "b")).rows.tolist() == [2]


@pytest.mark.parametrize(
    "value", [0, 0.0, "", b"", False, (), [], "None", "nan", "NA", math.inf, np.array([]), dt.date.min]
)
def test_nothing_else_is_missing(value):
    assert not is_missing(value)


def test_texts_that_look_missing_are_options_or_errors_but_never_missing():
    """A file's reader decides what an empty cell means; here only what says so is missing."""
    for text in ("", "NA", "nan", "None", "null"):
        with pytest.raises(AnswerError):
            read_options([text], ("a", "b"))
        assert read_options([text], ("a", text)).rows.tolist() == [1]
        with pytest.raises(AnswerError):
            read_numbers([text])


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (2.5, 2.5),
        (True, 1.0),
        (np.True_, 1.0),
        (np.int8(-3), -3.0),
        (np.uint64(2**63), 2.0**63),
        (np.float16(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (fractions.Fraction(1, 4), 0.25),
        (decimal.Decimal("0.25"), 0.25),
        (np.array(0.5), 0.5),
    ],
    ids=lambda v: type(v).__name__,
)
def test_scalars_are_numbers_by_themselves_and_in_a_list(value, number):
    one = read_numbers(value)
    assert one.scalar
    assert one.to_floats().tolist() == [number]
    if not isinstance(value, np.ndarray):
        many = read_numbers([value, None])
        assert not many.scalar
        assert many.to_floats()[0] == number


def test_a_float64_array_is_not_copied_and_not_changed():
    array = np.array([1.0, np.nan])
    assert np.shares_memory(read_numbers(array).values, array)
    frozen = np.array([0.5, np.nan, -0.25])
    frozen.setflags(write=False)
    BiSample(1.0).privatize(frozen, rng=1)


def test_masked_arrays_are_neither_copied_nor_looked_at_under_the_mask():
    masked = np.ma.array([0.5, np.inf, 1e300], mask=[False, True, True])
    column = read_numbers(masked)
    assert np.shares_memory(column.values, masked.data)
    assert (
        BiSample(1.0).privatize(masked, rng=1).tolist()
        == BiSample(1.0).privatize([0.5, None, None], rng=1).tolist()
    )
    assert masked.data.tolist() == [0.5, math.inf, 1e300]


def test_to_floats_is_a_copy_with_nan_for_what_is_missing():
    masked = np.ma.array([1, 2], mask=[True, False])
    floats = read_numbers(masked).to_floats()
    assert np.isnan(floats[0])
    assert floats[1] == 2
    array = np.array([1.0])
    assert not np.shares_memory(read_numbers(array).to_floats(), array)


@pytest.mark.parametrize(
    ("bits", "wide_bits"), [(0x7FA00000, 0x7FF4000000000000), (0xFFA00001, 0xFFF4000000000001)]
)
def test_a_signalling_nan_is_missing_and_warns_nobody(bits, wide_bits):
    signalling = np.array([bits, 0], dtype=np.uint32).view(np.float32)
    assert (
        BiSample(1.0).privatize(signalling, rng=1).tolist()
        == BiSample(1.0).privatize([None, 0], rng=1).tolist()
    )
    wide = np.array([wide_bits, 0], dtype=np.uint64).view(np.float64)
    assert np.isnan(wide[0])
    assert BiSample(1.0).privatize(wide, rng=1).tolist() == BiSample(1.0).privatize([None, 0], rng=1).tolist()
    choice = KRandomizedResponse(1.0, [0, 1])
    assert choice.privatize(signalling, rng=1).tolist() == choice.privatize([None, 0], rng=1).tolist()


def test_nulls_of_an_arrow_dictionary_in_chunks_are_missing():
    """Arrow itself turns them into the dictionary's last entry on the way to NumPy."""
    chunks = pa.chunked_array([pa.array(["a", None, "b"]).dictionary_encode()])
    assert read_options(chunks, ("a", "b")).rows.tolist() == [0, 2, 1]
    numbers = pa.chunked_array([pa.array([1.0, None, 2.0]).dictionary_encode()])
    assert np.isnan(read_numbers(numbers).to_floats()).tolist() == [False, True, False]


def test_categories_nobody_chose_need_not_be_options():
    column = pd.Series(pd.Categorical(["a", None], categories=["a", "b", "never offered"]))
    assert read_options(column, ("a", "b")).rows.tolist() == [0, 2]
    with pytest.raises(AnswerError):
        read_options(pd.Series(["never offered"], dtype="category"), ("a", "b"))


@pytest.mark.parametrize(
    "options",
    [
        (0, 1, 2),
        (2, 0, 1),
        (-5, 5),
        (0.5, 1.5),
        (1, 10**6),
        (0, 5000),
        (-1.5, 3, 1e9),
        (True, False),
        (1, 2.0),
    ],
)
def test_numeric_options_are_found_by_value(options):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(options) + 1, 1000)
    answers = np.array([np.nan if r == len(options) else options[r] for r in rows], dtype=float)
    assert read_options(answers, options).rows.tolist() == rows.tolist()
    assert read_options(list(answers), options).rows.tolist() == rows.tolist()


@pytest.mark.parametrize("wrong", [0.5, -1, 3, 2**40, -(2**40), 1e300, math.inf, -math.inf, 0.999999])
@pytest.mark.parametrize("options", [(0, 1, 2), (0, 1, 10**6)])
def test_a_number_that_is_no_option_is_refused(options, wrong):
    for answers in (wrong, [wrong], np.array([0.0, wrong, np.nan]), pl.Series([0.0, wrong])):
        with pytest.raises(AnswerError, match="not among the options"):
            read_options(answers, options)


def test_a_masked_number_that_is_no_option_is_missing():
    for options in ((1, 2), (1, "a"), (1, 2**60)):
        masked = np.ma.array([1, 99], mask=[False, True])
        assert read_options(masked, options).rows.tolist() == [0, len(options)]


def test_options_of_mixed_types_are_found_by_equality():
    options = ("1", 2, 3.5, None.__class__.__name__, (4, 5))
    answers = ["1", 2.0, 3.5, "NoneType", None, (4, 5)]
    assert read_options(answers, options).rows.tolist() == [0, 1, 2, 3, 5, 4]
    with pytest.raises(AnswerError):
        read_options([1], ("1", "2"))
    with pytest.raises(AnswerError):
        read_options(["2"], (1, 2))


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c"])), max_size=30))
def test_options_keep_their_order_and_number(answers):
    rows = read_options(answers, ("c", "a", "b")).rows
    assert rows.tolist() == [{"c": 0, "a": 1, "b": 2, None: 3}[a] for a in answers]
    assert rows.dtype == np.uint8


@given(st.lists(st.one_of(st.none(), st.floats(-1, 1), st.integers(-1, 1), st.booleans()), max_size=30))
def test_numbers_keep_their_order_and_number(answers):
    floats = read_numbers(answers).to_floats()
    expected = [math.nan if a is None else float(a) for a in answers]
    assert np.array_equal(floats, expected, equal_nan=True)


def test_nothing_read_can_be_printed():
    secret = 31337.25
    for held in (read_numbers([secret]), read_options([secret], (secret, 1))):
        assert "31337" not in repr(held)
        assert "31337" not in str(held)
        assert "31337" not in f"{held}"


def test_a_yes_or_no_can_have_names_of_its_own():
    mechanism = RandomizedResponse(1.0, ["no", "yes"])
    assert mechanism.privatize(["no", "yes"], rng=2).shape == (2,)
    with pytest.raises(AnswerError):
        mechanism.privatize([True])


EMPTY = [[], (), np.array([]), np.ma.array([]), pd.Series([], dtype=float), pl.Series([]), pa.array([])]


@pytest.mark.parametrize("empty", EMPTY, ids=lambda v: type(v).__module__ + type(v).__name__)
def test_nobody_gives_no_reports(empty):
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"]), KRandomizedResponse(1.0, [1, 2])):
        reports = mechanism.privatize(empty)
        assert reports.shape == (0,)
        assert reports.dtype == np.uint8
        assert mechanism.tally(reports).sum() == 0
