"""Answers as people hold them: every container alike, what is missing marked, what is no answer refused."""

import datetime as dt
import decimal
import fractions
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from handmade import COIN, FRUIT, UNEVEN, telling
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    AnswerError,
    BiSample,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    Options,
    RandomizedResponse,
    Range,
    ThreeState,
)
from bisample.catalogue import CATALOGUE, build
from bisample.device.answers import is_missing, read_numbers, read_options
from bisample.device.drawing import BLOCK
from bisample.device.randomness import Replay

D = decimal.Decimal

# --- What is missing --------------------------------------------------------------------------------

MISSING = [
    None,
    math.nan,
    -math.nan,
    np.float16("nan"),
    np.float32("nan"),
    np.float64("nan"),
    np.ma.masked,
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "D"),
    np.datetime64("NaT", "ns"),
    np.timedelta64("NaT", "D"),
    D("NaN"),
    D("sNaN"),
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
    for text in ("", "NA", "nan", "None", "null", "no answer"):
        with pytest.raises(AnswerError):
            read_options([text], ("a", "b"))
        assert read_options([text], ("a", text)).rows.tolist() == [1]
        with pytest.raises(AnswerError):
            read_numbers([text])


@pytest.mark.parametrize("kind", ["M8[ns]", "M8[D]", "m8[ns]", "m8[s]"])
def test_times_are_no_whole_numbers_and_not_a_time_is_missing(kind):
    times = np.array([0, 1, "NaT"], dtype=kind)
    with pytest.raises(AnswerError, match="index 0 is not among"):
        read_options(times, ("0", "1"))
    assert read_options(times[2:], ("0", "1")).rows.tolist() == [2]
    with pytest.raises(AnswerError, match=r"not dates|not durations"):
        read_numbers(times)
    for column in (pd.Series(times[:2]), pd.Index(times[:2])) if kind.endswith(("[ns]", "[s]")) else ():
        with pytest.raises(AnswerError):
            read_options(column, ("0", "1"))


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_all_missing_is_as_good_as_any_answer_where_there_is_a_refusal(name):
    choice = {} if CATALOGUE[name].domain == "range" else {"options": ["a", "b"]}
    mechanism = build(name, epsilon=1.0, **choice)
    nothings = ([None] * 9, np.full(9, np.nan), pa.nulls(9), pl.Series([None] * 9), pd.Series([None] * 9))
    for nothing in nothings:
        if mechanism.domain.refusal:
            assert len(mechanism.privatize(nothing, rng=1)) == 9
        else:
            with pytest.raises(AnswerError, match=r"index 0 is missing, .* no code for a refusal"):
                mechanism.privatize(nothing, rng=1)


# --- Scalars ---------------------------------------------------------------------------------------------


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
        (D("0.25"), 0.25),
        (np.array(0.5), 0.5),
        (np.array(D("0.5"), dtype=object), 0.5),
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


@pytest.mark.parametrize("mechanism", [BiSample(1, 0, 10), ThreeState(1, 0, 10), UNEVEN, COIN])
def test_a_scalar_is_an_array_of_one(mechanism):
    rng = np.random.default_rng(5)
    lower, upper = mechanism.domain.lower, mechanism.domain.upper
    values = [
        lower,
        upper,
        (lower + upper) / 2,
        None,
        math.nan,
        np.float32(upper),
        D("0.125") if lower < 0 else 7,
    ]
    values += [fractions.Fraction(upper), np.int16(0) if lower <= 0 else np.int16(9)]
    for value in values:
        data = rng.bytes(10)
        one = mechanism.privatize(value, rng=Replay(data))
        assert type(one) is int
        assert mechanism.privatize([value], rng=Replay(data)).tolist() == [one]
        zero_dimensional = np.array(np.nan if value is None else float(value), dtype="f4")
        assert mechanism.privatize(zero_dimensional, rng=Replay(data)) == one


def test_a_scalar_option_is_an_array_of_one():
    for mechanism, answers in (
        (RandomizedResponse(1.0), [True, False, np.True_, "true"]),
        (KRandomizedResponse(1.0, ["a", "b"]), ["a", "b", None, math.nan, np.str_("a"), pd.NA]),
        (KRandomizedResponse(1.0, [1, 2.5, "x"]), [1, 1.0, 2.5, "x", np.float64(2.5), "2.5", D("2.5"), None]),
        (FRUIT, ["apple", 2, True, np.uint8(2)]),
    ):
        for seed, answer in enumerate(answers):
            one = mechanism.privatize(answer, rng=seed)
            assert type(one) is int
            assert mechanism.privatize([answer], rng=seed).tolist() == [one]


# --- Nothing is copied, changed or looked at without need ---------------------------------------------------


def test_a_float64_array_is_not_copied_and_not_changed():
    array = np.array([1.0, np.nan])
    assert np.shares_memory(read_numbers(array).values, array)
    frozen = np.array([0.5, np.nan, -0.25])
    frozen.setflags(write=False)
    assert BiSample(1.0).privatize(frozen, rng=1).shape == (3,)


def test_masked_arrays_are_neither_copied_nor_looked_at_under_the_mask():
    masked = np.ma.array([0.5, np.inf, 1e300], mask=[False, True, True])
    column = read_numbers(masked)
    assert np.shares_memory(column.values, masked.data)
    for mechanism in (BiSample(1.0), telling(Range(-1, 1, (0, 1, 4)))):
        expected = mechanism.privatize([0.5, None, None], rng=1)
        assert mechanism.privatize(masked, rng=1).tolist() == expected.tolist()
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
    wide = np.array([wide_bits, 0], dtype=np.uint64).view(np.float64)
    assert np.isnan(wide[0])
    for mechanism in (BiSample(1.0), UNEVEN, KRandomizedResponse(1.0, [0, 7])):
        other = 7 if mechanism is UNEVEN else 0
        for held in (signalling, wide):
            held[1] = other
            expected = mechanism.privatize([None, other], rng=1)
            assert mechanism.privatize(held, rng=1).tolist() == expected.tolist()


def test_nulls_of_an_arrow_dictionary_in_chunks_are_missing():
    """Arrow itself turns them into the dictionary's last entry on the way to NumPy."""
    chunks = pa.chunked_array([pa.array(["a", None, "b"]).dictionary_encode()])
    assert read_options(chunks, ("a", "b")).rows.tolist() == [0, 2, 1]
    numbers = pa.chunked_array([pa.array([1.0, None, 2.0]).dictionary_encode()])
    assert np.isnan(read_numbers(numbers).to_floats()).tolist() == [False, True, False]


def test_categories_nobody_chose_need_not_be_options():
    column = pd.Series(pd.Categorical(["a", None], categories=["a", "b", "never offered"]))
    assert read_options(column, ("a", "b")).rows.tolist() == [0, 2]
    with pytest.raises(AnswerError, match="index 1 is not among"):
        read_options(pd.Series(["a", "never offered"], dtype="category"), ("a", "b"))


def test_as_many_categories_as_a_byte_has_rows():
    texts = [f"{i:03}" for i in range(255)]
    column = pd.Series([*texts, None], dtype="category")
    assert read_options(column, tuple(reversed(texts))).rows.tolist() == [*reversed(range(255)), 255]


# --- Options by text -----------------------------------------------------------------------------------


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
        (1, 2.0, "text"),
        (0.1, 0.2, 0.30000000000000004),
    ],
)
def test_numeric_options_are_found_by_their_text(options):
    texts = Options(options).options
    rng = np.random.default_rng(1)
    held = [option for option in options if not isinstance(option, str)]
    rows = rng.integers(0, len(held) + 1, 1000)
    answers = np.array([np.nan if r == len(held) else held[r] for r in rows], dtype=float)
    expected = [len(texts) if r == len(held) else r for r in rows]
    assert read_options(answers, texts).rows.tolist() == expected
    assert read_options(list(answers), texts).rows.tolist() == expected
    assert read_options([None if r == len(held) else texts[r] for r in rows], texts).rows.tolist() == expected


def test_one_is_1_however_it_is_held():
    options = Options([1, "1.0", True]).options
    assert options == ("1", "1.0", "true")
    for one in (1, 1.0, np.int8(1), np.float16(1), D("1.00"), fractions.Fraction(1), "1"):
        assert read_options([one], options).rows.tolist() == [0]
        assert read_options(one, options).rows.tolist() == [0]
    for array in (
        np.array([1]),
        np.array([1.0]),
        np.array([1], dtype="u1"),
        np.array(["1"]),
        pl.Series([1.0]),
    ):
        assert read_options(array, options).rows.tolist() == [0]
    assert read_options(["1.0"], options).rows.tolist() == [1]
    for truth in (True, np.True_, "true"):
        assert read_options([truth], options).rows.tolist() == [2]
    assert read_options(np.array([True]), options).rows.tolist() == [2]


def test_a_text_is_no_other_text():
    """No spaces, no case, no digits of another script, no shorter form: what was offered, or an error."""
    options = ("1", "tea", "0.5", "-3")
    for text in (
        "01",
        "1 ",
        " 1",
        "+1",
        "1.0",
        "Tea",
        "tea ",
        "TEA",
        ".5",
        "0.50",
        "\u0661",
        "-3.0",
        "\u22123",
    ):
        for answers in (
            [text],
            np.array([text]),
            pd.Series([text]),
            pd.Series([text], dtype="category"),
            text,
        ):
            with pytest.raises(AnswerError, match="index 0 is not among the options"):
                read_options(answers, options)


def test_single_precision_is_not_the_double_of_the_same_name():
    options = ("0.1", "0.25")
    assert read_options(np.array([0.1, 0.25]), options).rows.tolist() == [0, 1]
    assert read_options(np.array([0.25], dtype="f4"), options).rows.tolist() == [1]
    for held in (np.array([0.1], dtype="f4"), [np.float32(0.1)], pd.Series([0.1], dtype="Float32")):
        with pytest.raises(AnswerError, match="index 0 is not among"):
            read_options(held, options)


@pytest.mark.parametrize(
    "wrong",
    [0.5, -1, 3, 2**40, -(2**40), 1e300, math.inf, -math.inf, 0.999999, pytest.param(10**5000, id="long")],
)
@pytest.mark.parametrize("options", [("0", "1", "2"), ("0", "1", "1000000"), ("0", "1", str(2**60))])
def test_a_number_that_is_no_option_is_refused(options, wrong):
    containers = [wrong, [0, wrong], np.array([0.0, wrong], dtype=object)]
    if wrong != 10**5000:
        containers += [np.array([0.0, wrong, np.nan]), pl.Series([0.0, wrong]), pd.Series([0.0, wrong, None])]
    for answers in containers:
        with pytest.raises(AnswerError, match="not among the options") as caught:
            read_options(answers, options)
        assert caught.value.index == (0 if isinstance(answers, (int, float)) else 1)


def test_a_masked_number_that_is_no_option_is_missing():
    for options in (("1", "2"), ("1", "a"), ("1", str(2**60))):
        masked = np.ma.array([1, 99], mask=[False, True])
        assert read_options(masked, options).rows.tolist() == [0, len(options)]


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


@given(
    st.lists(st.text(max_size=4), min_size=2, max_size=6, unique=True),
    st.lists(st.text(max_size=4) | st.none() | st.integers() | st.floats() | st.booleans(), max_size=6),
)
def test_a_list_an_object_array_and_a_column_are_read_alike(options, answers):
    """Or refused alike, at the same place."""
    found = []
    for held in (answers, np.array([*answers, None], dtype=object)[:-1], pd.Series(answers, dtype=object)):
        try:
            found.append(read_options(held, tuple(options)).rows.tolist())
        except AnswerError as problem:
            found.append(problem.index)
    assert found[0] == found[1] == found[2]


def test_a_yes_or_no_can_have_names_of_its_own():
    mechanism = RandomizedResponse(1.0, ["no", "yes"])
    assert mechanism.privatize(["no", "yes"], rng=2).shape == (2,)
    with pytest.raises(AnswerError, match="index 0 is not among the options no, yes"):
        mechanism.privatize([True])


# --- Refused, with the right index and without the answer ---------------------------------------

CANARY = 31337


def _index(mechanism, answers, **how):
    with pytest.raises(AnswerError) as caught:
        mechanism.privatize(answers, **how)
    error = caught.value
    assert str(CANARY) not in f"{error} {error!r} {error.problem}"
    place = "" if error.index is None else f"the answer at index {error.index} "
    assert str(error) == place + error.problem
    return error.index


@pytest.mark.parametrize(
    "make", [set, frozenset, lambda v: dict.fromkeys(v).keys()], ids=["set", "frozen", "keys"]
)
def test_sets_are_refused_because_they_forget_people(make):
    for mechanism, held in ((BiSample(1), [0.5, 0.25]), (KRandomizedResponse(1, ["a", "b"]), ["a", "b"])):
        with pytest.raises(AnswerError, match=r"in a list, not in a set: .* is lost in a set"):
            mechanism.privatize(make(held))


@pytest.mark.parametrize(
    "answers",
    [{"a": 0.5}, b"ab", bytearray(b"ab"), memoryview(b"ab"), object(), 1j, len],
    ids=lambda v: type(v).__name__,
)
def test_what_holds_no_answers_is_refused(answers):
    for mechanism in (BiSample(1), KRandomizedResponse(1, ["a", "b"])):
        with pytest.raises(AnswerError):
            mechanism.privatize(answers)


BAD_NUMBERS = {
    "outside": float(CANARY),
    "below": -float(CANARY),
    "infinite": math.inf,
    "minus infinite": -math.inf,
}
NUMBER_COLUMNS = {
    "list": list,
    "float64": np.array,
    "float32": lambda v: np.array(v, dtype="f4"),
    "big-endian": lambda v: np.array(v, dtype=">f8"),
    "strided": lambda v: np.repeat(v, 2)[::2],
    "object": lambda v: np.array(v, dtype=object),
    "masked": lambda v: np.ma.array(v, mask=[True] + [False] * (len(v) - 1)),
    "pandas": pd.Series,
    "pandas Float32": lambda v: pd.Series(v, dtype="Float32"),
    "pandas index": lambda v: pd.Series(v, index=range(len(v), 0, -1)),
    "Polars": pl.Series,
    "Arrow": pa.array,
    "Arrow chunked": lambda v: pa.chunked_array([v[:2], v[2:]]),
}


@pytest.mark.parametrize("column", NUMBER_COLUMNS)
@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_the_index_of_a_number_is_its_place_from_0(column, bad):
    make = NUMBER_COLUMNS[column]
    for mechanism in (BiSample(1), Harmony(1), telling(Range(-1, 1, (0, 1, 4)))):
        if column == "masked" and not mechanism.domain.refusal:
            continue
        for size, places in (
            (4, [1]),
            (4, [3, 2]),
            (BLOCK + 9, [BLOCK + 3]),
            (BLOCK + 9, [BLOCK + 5, BLOCK + 2]),
        ):
            if column in ("list", "object") and size > 4:
                continue
            values = np.zeros(size)
            for place in places:
                values[place] = BAD_NUMBERS[bad]
            clip = math.isinf(BAD_NUMBERS[bad])
            assert _index(mechanism, make(values.tolist() if size == 4 else values), clip=clip) == min(places)


def test_the_index_of_what_is_no_number():
    for answers, index in (
        ([0.5, str(CANARY)], 1),
        ([0.5, None, CANARY * 1j], 2),
        ([0.5, [CANARY]], 1),
        ([0, 1, 10**400 * CANARY], 2),
        ([np.float32(1), None, fractions.Fraction(10**400 * CANARY)], 2),
        ([D(CANARY).scaleb(999), 1], 0),
        (pd.Series([0.5, str(CANARY)]), 1),
        (np.ma.array(np.array(["x", str(CANARY)], dtype=object), mask=[True, False]), 1),
        (str(CANARY), None),
        ([[CANARY]], 0),
        (np.array([str(CANARY)]), None),
        (10**400 * CANARY, 0),
        (CANARY, 0),
    ):
        assert _index(BiSample(1), answers) == index


def test_the_index_of_what_is_missing_where_it_may_not_be():
    far = np.zeros(BLOCK + 9)
    far[[BLOCK + 4, BLOCK + 6]] = np.nan
    mask = np.zeros(BLOCK + 9, dtype=bool)
    mask[[BLOCK + 2, BLOCK + 6]] = True
    choice = Mechanism(KRandomizedResponse(1, range(2)).table, Options(range(3), refusal=False))
    for mechanism in (Harmony(1), telling(Range(-1, 1, (0, 1, 4), refusal=False)), choice):
        for answers, index in (
            ([0, 1, None, None], 2),
            (None, 0),
            (np.array([0, np.nan]), 1),
            (far, BLOCK + 4),
            (np.ma.array(np.zeros(BLOCK + 9), mask=mask), BLOCK + 2),
            (np.ma.array(np.zeros(BLOCK + 9, dtype=int), mask=mask), BLOCK + 2),
            (pl.Series([0, 1, None]), 2),
        ):
            assert _index(mechanism, answers) == index


OPTION_COLUMNS = {
    "list": list,
    "NumPy": np.array,
    "object": lambda v: np.array(v, dtype=object),
    "masked": lambda v: np.ma.array(v, mask=[True] + [False] * (len(v) - 1)),
    "pandas": pd.Series,
    "pandas category": lambda v: pd.Series(v, dtype="category"),
    "Polars": pl.Series,
    "Polars Categorical": lambda v: pl.Series(map(str, v), dtype=pl.Categorical),
    "Arrow": pa.array,
    "Arrow dictionary": lambda v: pa.array(v).dictionary_encode(),
}


@pytest.mark.parametrize("column", OPTION_COLUMNS)
@pytest.mark.parametrize("options", [("0", "1"), ("0", "1", "1000000"), ("0", "1", str(2**60)), ("a", "0")])
def test_the_index_of_an_option_is_its_place_from_0(column, options):
    mechanism = KRandomizedResponse(1, options)
    for size, places in ((5, [2]), (5, [4, 3]), (BLOCK + 9, [BLOCK + 5, BLOCK + 3])):
        values = [0] * size
        for place in places:
            values[place] = CANARY
        assert _index(mechanism, OPTION_COLUMNS[column](values)) == min(places)
    texts = ["0", "0", str(CANARY), "0", str(CANARY)]
    assert _index(mechanism, OPTION_COLUMNS[column](texts)) == 2


def test_under_the_mask_nothing_is_wrong_and_places_count_what_is_masked():
    hidden = np.ma.array([CANARY, 0, CANARY, CANARY], mask=[True, False, False, True])
    for mechanism in (BiSample(1), KRandomizedResponse(1, [0, 1]), KRandomizedResponse(1, ["0", "x"])):
        assert _index(mechanism, hidden) == 2
        assert mechanism.privatize(hidden[:2], rng=1).shape == (2,)
        assert _index(mechanism, hidden.astype(float)) == 2


def test_messages_name_the_options_but_not_more_than_eight():
    with pytest.raises(AnswerError, match=r"options 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.: add it to the options"):
        KRandomizedResponse(1, range(50)).privatize([CANARY])


def test_nothing_read_can_be_printed():
    for held in (read_numbers([float(CANARY)]), read_options([CANARY], (str(CANARY), "1"))):
        for shown in (repr(held), str(held), f"{held}"):
            assert str(CANARY) not in shown


@pytest.mark.parametrize("answers", [np.array([0.0]), np.array([1.0]), np.array([0]), np.array([False])])
def test_numbers_are_no_options_where_all_options_are_words(answers):
    with pytest.raises(AnswerError, match="index 0 is not among the options tea, coffee"):
        KRandomizedResponse(1, ["tea", "coffee"]).privatize(answers)


def test_a_nan_beside_a_mask_is_missing_as_well():
    held = np.ma.array([1.0, np.nan, 99.0, 2.0], mask=[False, False, True, False])
    assert read_options(held, ("1", "2")).rows.tolist() == [0, 2, 2, 1]
