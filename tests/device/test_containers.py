"""Every container of the same answers gives the same codes: lists, arrays, columns of three libraries."""

import decimal
import fractions
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from handmade import UNEVEN, telling

from bisample import AnswerError, BiSample, KRandomizedResponse, Options, RandomizedResponse, Range
from bisample.device.answers import read_options

D = decimal.Decimal

# --- Numbers -------------------------------------------------------------------------------------------

NUMBERS = [0.5, None, -0.25, 1.0, None, -1.0, 0.0]
NAN = [np.nan if v is None else v for v in NUMBERS]
MASK = [v is None for v in NUMBERS]
HIDDEN = [99.0 if v is None else v for v in NUMBERS]  # what lies under a mask may be anything
DECIMALS = [None if v is None else D(str(v)) for v in NUMBERS]


def _strided():
    wide = np.full(2 * len(NAN), 123.0)
    wide[::2] = NAN
    return wide[::2]


NUMBER_CONTAINERS = {
    "tuple": tuple(NUMBERS),
    "iterator": lambda: iter(NUMBERS),
    "generator": lambda: (v for v in NUMBERS),
    "dictionary's values": dict(enumerate(NUMBERS)).values(),
    "list with NaN": NAN,
    "list of NumPy scalars": [None if v is None else np.float32(v) for v in NUMBERS],
    "list with NaT": [pd.NaT if v is None else v for v in NUMBERS],
    "list with pandas NA": [pd.NA if v is None else v for v in NUMBERS],
    "list with masked": [np.ma.masked if v is None else v for v in NUMBERS],
    "list of decimals": DECIMALS,
    "list of fractions": [None if v is None else fractions.Fraction(v) for v in NUMBERS],
    "float64": np.array(NAN),
    "float32": np.array(NAN, dtype=np.float32),
    "float16": np.array(NAN, dtype=np.float16),
    "long double": np.array(NAN, dtype=np.longdouble),
    "big-endian": np.array(NAN, dtype=">f8"),
    "object": np.array(NUMBERS, dtype=object),
    "strided": _strided(),
    "reversed": np.array(NAN[::-1])[::-1],
    "read-only": np.frombuffer(np.array(NAN).tobytes()),
    "masked float64": np.ma.array(HIDDEN, mask=MASK),
    "masked float32": np.ma.array(np.array(HIDDEN, dtype=np.float32), mask=MASK),
    "masked infinite": np.ma.array(
        [np.inf if m else v for v, m in zip(NUMBERS, MASK, strict=True)], mask=MASK
    ),
    "masked object": np.ma.array(
        np.array(["x" if v is None else v for v in NUMBERS], dtype=object), mask=MASK
    ),
    "masked without a mask": np.ma.array(NAN),
    "pandas float64": pd.Series(NUMBERS, dtype="float64"),
    "pandas float32": pd.Series(NUMBERS, dtype="float32"),
    "pandas object": pd.Series(NUMBERS, dtype=object),
    "pandas Float64": pd.Series(NUMBERS, dtype="Float64"),
    "pandas Float32": pd.Series(NUMBERS, dtype="Float32"),
    "pandas Float64 array": pd.array(NUMBERS, dtype="Float64"),
    "pandas category": pd.Series(NUMBERS, dtype="category"),
    "pandas Arrow": pd.Series(NUMBERS, dtype="double[pyarrow]"),
    "pandas index": pd.Index(NAN),
    "pandas other index": pd.Series(NUMBERS, dtype="float64", index=range(7, 0, -1)),
    "pandas decimals": pd.Series(DECIMALS),
    "Polars": pl.Series(NUMBERS),
    "Polars NaN": pl.Series(NAN),
    "Polars Float32": pl.Series(NUMBERS, dtype=pl.Float32),
    "Polars decimal": pl.Series(DECIMALS),
    "Polars chunks": pl.concat([pl.Series(NUMBERS[:3]), pl.Series(NUMBERS[3:])], rechunk=False),
    "Arrow": pa.array(NUMBERS),
    "Arrow NaN": pa.array(NAN, from_pandas=False),
    "Arrow float32": pa.array(NUMBERS, type=pa.float32()),
    "Arrow decimal": pa.array(DECIMALS),
    "Arrow dictionary": pa.array(NUMBERS).dictionary_encode(),
    "Arrow chunked": pa.chunked_array([NUMBERS[:3], NUMBERS[3:]]),
    "Arrow chunked dictionary": pa.chunked_array([pa.array(NUMBERS)]).dictionary_encode(),
    "Arrow slice": pa.array([7.0, *NUMBERS, 9.0])[1:-1],
}


@pytest.mark.parametrize("container", NUMBER_CONTAINERS)
@pytest.mark.parametrize("anchors", [(0, 1), (0, 1, 2, 3), (0, 1, 4, 9, 20)], ids=["two", "even", "uneven"])
def test_every_container_of_numbers_gives_the_same_codes(container, anchors):
    mechanism = telling(Range(-1, 1, anchors))
    for seed in range(8):
        answers = NUMBER_CONTAINERS[container]
        answers = answers() if callable(answers) else answers
        got = mechanism.privatize(answers, rng=seed)
        assert got.tolist() == mechanism.privatize(NUMBERS, rng=seed).tolist()


WHOLE = [3, None, 0, 10, 7]
WHOLE_CONTAINERS = {
    "masked int64": np.ma.array([99 if v is None else v for v in WHOLE], mask=[v is None for v in WHOLE]),
    "texts": [None if v is None else str(v) for v in WHOLE],
    "pandas Int64": pd.Series(WHOLE, dtype="Int64"),
    "pandas UInt8": pd.Series(WHOLE, dtype="UInt8"),
    "pandas Float32": pd.Series(WHOLE, dtype="Float32"),
    "pandas Int64 array": pd.array(WHOLE, dtype="Int64"),
    "pandas category": pd.Series(WHOLE, dtype="Int64").astype("category"),
    "pandas category of floats": pd.Series(WHOLE).astype("category"),
    "Polars Int64": pl.Series(WHOLE),
    "Polars UInt8": pl.Series(WHOLE, dtype=pl.UInt8),
    "Arrow int64": pa.array(WHOLE),
    "Arrow int8 chunked": pa.chunked_array([pa.array(WHOLE, type=pa.int8())]),
    "pandas Arrow": pd.Series(WHOLE, dtype="int64[pyarrow]"),
    "decimals": [None if v is None else D(v) for v in WHOLE],
}


@pytest.mark.parametrize("container", WHOLE_CONTAINERS)
def test_every_container_of_whole_numbers_gives_the_same_codes(container):
    as_number, as_choice = telling(Range(0, 10, range(11))), KRandomizedResponse(9.0, [0, 3, 7, 10])
    # The same, with options too far apart to be looked up by index, and too large for a double.
    far = KRandomizedResponse(9.0, [0, 3, 7, 10, 10**9])
    large = KRandomizedResponse(9.0, [0, 3, 7, 10, 2**53 + 1])
    for mechanism in (as_number, as_choice, far, large):
        if mechanism is as_number and container == "texts":
            continue
        for seed in range(4):
            got = mechanism.privatize(WHOLE_CONTAINERS[container], rng=seed)
            assert got.tolist() == mechanism.privatize(WHOLE, rng=seed).tolist()


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", "f2", "f4", "f8", "g"]
)
def test_every_type_of_number_gives_the_same_codes(dtype):
    whole = [0, 1, 2, 3, 2, 1, 0] * 5
    array = np.array(whole, dtype=dtype)
    for mechanism in (BiSample(1.0, 0, 3), KRandomizedResponse(1.0, [3, 1, 0, 2])):
        assert mechanism.privatize(array, rng=4).tolist() == mechanism.privatize(whole, rng=4).tolist()


TRUTHS = [True, None, False, True]
TRUTH_CONTAINERS = {
    "object": np.array(TRUTHS, dtype=object),
    "masked": np.ma.array([True, True, False, True], mask=[0, 1, 0, 0]),
    "NumPy scalars": [None if v is None else np.bool_(v) for v in TRUTHS],
    "pandas object": pd.Series(TRUTHS),
    "pandas boolean": pd.Series(TRUTHS, dtype="boolean"),
    "pandas boolean array": pd.array(TRUTHS, dtype="boolean"),
    "pandas category": pd.Series(TRUTHS, dtype="category"),
    "pandas Arrow": pd.Series(TRUTHS, dtype="bool[pyarrow]"),
    "Polars": pl.Series(TRUTHS),
    "Arrow": pa.array(TRUTHS),
    "Arrow chunked": pa.chunked_array([TRUTHS]),
}


@pytest.mark.parametrize("container", TRUTH_CONTAINERS)
def test_every_container_of_truth_values_gives_the_same_codes(container):
    for mechanism in (KRandomizedResponse(1.0, [False, True]), BiSample(1.0, 0, 1)):
        for seed in range(8):
            got = mechanism.privatize(TRUTH_CONTAINERS[container], rng=seed)
            assert got.tolist() == mechanism.privatize(TRUTHS, rng=seed).tolist()


@pytest.mark.parametrize(
    "column",
    [[1, None, 0], np.array([1.0, 0.0]), pd.Series([1, 0]), pl.Series([1, None]), pa.array([1, 0]), [1.0]],
    ids=lambda v: type(v).__module__ + type(v).__name__,
)
def test_numbers_are_no_truth_values_and_truth_values_no_numbers(column):
    """Their texts differ, "1" and "true": a survey that offers one is not answered by the other."""
    with pytest.raises(AnswerError, match="index 0 is not among the options false, true"):
        RandomizedResponse(1.0).privatize(column)
    for truths in (
        [True],
        np.array([True]),
        pd.Series([True, None], dtype="boolean"),
        pl.Series([True, None]),
    ):
        with pytest.raises(AnswerError, match="index 0 is not among the options 0, 1"):
            KRandomizedResponse(1.0, [0, 1]).privatize(truths)


TEXTS = ["tea", None, "coffee", "tea", "milk", None, "coffee"]
TEXT_CONTAINERS = {
    "tuple": tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "object": np.array(TEXTS, dtype=object),
    "masked": np.ma.array([t or "secret" for t in TEXTS], mask=[t is None for t in TEXTS]),
    "with NaN": [t or math.nan for t in TEXTS],
    "with NA": [t or pd.NA for t in TEXTS],
    "NumPy's texts": [t and np.str_(t) for t in TEXTS],
    "pandas": pd.Series(TEXTS),
    "pandas object": pd.Series(TEXTS, dtype=object),
    "pandas string": pd.Series(TEXTS, dtype="string"),
    "pandas string array": pd.array(TEXTS, dtype="string"),
    "pandas Arrow string": pd.Series(TEXTS, dtype="string[pyarrow]"),
    "pandas category": pd.Series(TEXTS, dtype="category"),
    "pandas category, unused": pd.Series(pd.Categorical(TEXTS, categories=["beer", "milk", "tea", "coffee"])),
    "pandas Categorical": pd.Categorical(TEXTS),
    "pandas index": pd.Index(TEXTS),
    "Polars": pl.Series(TEXTS),
    "Polars Categorical": pl.Series(TEXTS, dtype=pl.Categorical),
    "Polars Enum": pl.Series(TEXTS, dtype=pl.Enum(["milk", "tea", "coffee"])),
    "Arrow": pa.array(TEXTS),
    "Arrow large": pa.array(TEXTS, type=pa.large_string()),
    "Arrow dictionary": pa.array(TEXTS).dictionary_encode(),
    "Arrow chunked": pa.chunked_array([TEXTS[:2], TEXTS[2:]]),
    "Arrow chunked dictionary": pa.chunked_array(
        [pa.array(TEXTS[:2]).dictionary_encode(), pa.array(TEXTS[2:]).dictionary_encode()]
    ),
}


@pytest.mark.parametrize("container", TEXT_CONTAINERS)
@pytest.mark.parametrize(
    "more", [(), ("--99",), ("9" * 5000,), ("3",)], ids=["texts", "dashes", "large", "number"]
)
def test_every_container_of_texts_gives_the_same_codes(container, more):
    mechanism = telling(Options(["milk", "coffee", "tea", *more]))
    for seed in range(3):
        answers = TEXT_CONTAINERS[container]
        got = mechanism.privatize(answers() if callable(answers) else answers, rng=seed)
        assert got.tolist() == mechanism.privatize(TEXTS, rng=seed).tolist()


def test_numpy_texts_without_a_missing_one_give_the_same_codes():
    mechanism = KRandomizedResponse(1.0, ["milk", "coffee", "tea"])
    texts = [t for t in TEXTS if t]
    for array in (np.array(texts), np.array(texts, dtype=np.dtypes.StringDType())):
        assert mechanism.privatize(array, rng=3).tolist() == mechanism.privatize(texts, rng=3).tolist()


def test_whole_options_too_large_for_a_float_are_told_apart():
    big = [2**53, 2**53 + 1, 2**60, -(2**62) - 1]
    options = tuple(map(str, big))
    for answers in (
        np.array(big),
        pd.Series(big, dtype="Int64"),
        pl.Series(big),
        pa.array(big),
        big,
        options,
    ):
        assert read_options(answers, options).rows.tolist() == [0, 1, 2, 3]
    with_null = [*big, None]
    for answers in (pl.Series(with_null), pa.array(with_null), pd.Series(with_null, dtype="Int64")):
        assert read_options(answers, options).rows.tolist() == [0, 1, 2, 3, 4]


EMPTY = [[], (), np.array([]), np.ma.array([]), pd.Series([], dtype=float), pl.Series([]), pa.array([])]


@pytest.mark.parametrize("empty", EMPTY, ids=lambda v: type(v).__module__ + type(v).__name__)
def test_nobody_gives_no_reports(empty):
    for mechanism in (
        BiSample(1),
        UNEVEN,
        KRandomizedResponse(1, ["a", "b"]),
        KRandomizedResponse(1, [1, 2]),
    ):
        reports = mechanism.privatize(empty)
        assert reports.shape == (0,)
        assert reports.dtype == np.uint8
        assert mechanism.tally(reports).n == 0
