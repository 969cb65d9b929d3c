"""The drawing code gives exactly the weights: every 16-bit word, every tie, every container, every size."""

import decimal
import itertools
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manyanchors import FiveAnchors

from bisample import (
    AnswerError,
    BiSample,
    Harmony,
    KRandomizedResponse,
    NumberMechanism,
    ParameterError,
    RandomizedResponse,
    ThreeState,
)
from bisample.exact import TOTAL
from bisample.mechanism import BLOCK, registered
from bisample.randomness import Replay
from bisample.sampler import Sampler

WORDS = 1 << 16
MORE = 1 << 32


def _tables():
    for name, kind in sorted(registered().items()):
        for epsilon in (0.001, 1.0, 5.0):
            if issubclass(kind, NumberMechanism):
                yield pytest.param(kind(epsilon).table, id=f"{name}-{epsilon}")
            else:
                for size in [2] if name == "rr" else [2, 5, 20]:
                    yield pytest.param(kind(epsilon, range(size)).table, id=f"{name}-{size}-{epsilon}")
    yield pytest.param(KRandomizedResponse(1.0, range(255)).table, id="k-rr-255-1.0")
    yield pytest.param(FiveAnchors(2.0).table, id="five anchors")


every_table = pytest.mark.parametrize("table", list(_tables()))


def _cumulated(row):
    ends, end = [], 0
    for weight in row:
        end += weight
        ends.append(end)
    return ends


def _cuts(table):
    return sorted({end for row in table.weights for end in _cumulated(row)[:-1]})


def _ties(table):
    """Tied words with the cuts inside each, from the definition: any row's cut strictly inside the word."""
    ties = {}
    for cut in _cuts(table):
        if cut % MORE:
            ties.setdefault(cut // MORE, []).append(cut % MORE)
    return ties


def _drawn(table, row, words, more):
    """Codes of one row for these words, and for the tied ones these continuations; none may be left."""
    words = np.asarray(words, dtype="<u2")
    rows = np.full(len(words), row, dtype=np.uint8)
    out = np.empty(len(words), dtype=np.uint8)
    source = Replay(np.asarray(more, dtype="<u4").tobytes())
    table.sampler.draw(rows, words, source, out, np.empty(len(words), dtype=np.intp))
    assert source.left == 0
    return out


@every_table
def test_every_word_and_every_tie_together_give_exactly_the_weights(table):
    width = len(table.codes)
    ties = _ties(table)
    assert sorted(ties) == table.sampler.tied_words.tolist()
    tied = np.array(sorted(ties), dtype=np.intp)
    words = np.arange(WORDS)
    # For each tied word: both ends, and both sides of each cut. Between two cuts nothing may change.
    points, of_word, segments = [], [], []
    for word, inside in sorted(ties.items()):
        bounds = [0, *inside, MORE]
        for start, stop in itertools.pairwise(bounds):
            segments.append((len(points), stop - start))
            points += [start, min(start + 1, stop - 1), (start + stop) // 2, stop - 1]
            of_word += [word] * 4
    for row, weights in enumerate(table.weights):
        codes = _drawn(table, row, words, np.zeros(len(tied)))
        untied = np.delete(codes, tied)
        counts = [int(n) * MORE for n in np.bincount(untied, minlength=width)]
        assert len(counts) == width
        if points:
            settled = _drawn(table, row, of_word, points).tolist()
            for at, length in segments:
                assert len(set(settled[at : at + 4])) == 1
                counts[settled[at]] += length
            for one, other, word, next_word in zip(
                settled[:-1], settled[1:], of_word[:-1], of_word[1:], strict=True
            ):
                assert one <= other or word != next_word
        assert counts == list(weights)
        assert (np.diff(codes.astype(int)) >= 0).all()  # monotone along the line


@every_table
def test_a_tie_takes_four_bytes_whatever_the_row(table):
    """Which bytes are used depends on the word only: not on what the respondent holds."""
    for row in range(len(table.rows)):
        for word in table.sampler.tied_words[:3]:
            _drawn(table, row, [word], [0])
            with pytest.raises(ParameterError, match="left"):
                _drawn(table, row, [word], [])


def test_a_table_whose_cuts_are_all_at_words_has_no_ties():
    quarter = TOTAL // 4
    sampler = Sampler([[quarter, 3 * quarter], [3 * quarter, quarter]])
    assert sampler.tied_words.size == 0


@st.composite
def _random_weights(draw):
    width, height = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    rows = []
    for _ in range(height):
        cuts = draw(
            st.lists(
                st.one_of(
                    st.integers(1, TOTAL - 1), st.integers(1, 9), st.integers(1, 65535).map(MORE.__mul__)
                ),
                min_size=width - 1,
                max_size=width - 1,
                unique=True,
            )
        )
        ends = [0, *sorted(cuts), TOTAL]
        rows.append([b - a for a, b in itertools.pairwise(ends)])
    return rows


@given(weights=_random_weights(), points=st.lists(st.integers(0, TOTAL - 1), min_size=1, max_size=20))
def test_any_table_is_drawn_by_its_definition(weights, points):
    sampler = Sampler(weights)
    tied = set(sampler.tied_words.tolist())
    points = points + [p for row in weights for c in _cumulated(row)[:-1] for p in (c - 1, c)]
    for row, line in enumerate(weights):
        words = np.array([p // MORE for p in points], dtype="<u2")
        more = [p % MORE for p in points if p // MORE in tied]
        out = np.empty(len(points), dtype=np.uint8)
        source = Replay(np.array(more, dtype="<u4").tobytes())
        rows = np.full(len(points), row, dtype=np.uint8)
        sampler.draw(rows, words, source, out, np.empty(len(points), dtype=np.intp))
        assert source.left == 0
        ends = _cumulated(line)
        assert out.tolist() == [next(c for c, end in enumerate(ends) if p < end) for p in points]


# --- The layout of bytes in bulk ---------------------------------------------------------------------


def _reference(mechanism, rows_of, count, data):
    """Codes by the documented layout: block by block all anchor words, all code words, all ties."""
    table = mechanism.table
    numeric = isinstance(mechanism, NumberMechanism)
    tied = np.array(sorted(_ties(table)))
    ends = np.array([_cumulated(row)[:-1] for row in table.weights])
    at, codes = 0, []
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        anchor_words = None
        if numeric:
            anchor_words = np.frombuffer(data, dtype="<i4", count=size, offset=at).astype(np.int64)
            at += 4 * size
        words = np.frombuffer(data, dtype="<u2", count=size, offset=at).astype(np.int64)
        at += 2 * size
        is_tie = np.isin(words, tied)
        more = np.zeros(size, dtype=np.int64)
        more[is_tie] = np.frombuffer(data, dtype="<u4", count=int(is_tie.sum()), offset=at)
        at += 4 * int(is_tie.sum())
        point = words * MORE + more
        rows = rows_of(start, start + size, anchor_words)
        codes.append((ends[rows] <= point[:, None]).sum(axis=1))
    return np.concatenate(codes) if codes else np.array([], dtype=int), at


@pytest.mark.parametrize("count", [0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
@pytest.mark.parametrize("kind", [BiSample, ThreeState, Harmony, FiveAnchors])
def test_numbers_in_bulk_are_drawn_byte_for_byte_as_documented(kind, count):
    mechanism = kind(1.0)  # from -1 to 1: thresholds of these values are whole numbers
    rng = np.random.default_rng(count)
    data = rng.bytes(8 * count + 4096)
    values = rng.integers(-(2**20), 2**20 + 1, count) / 2**20
    if mechanism.table.refusal:
        values[rng.random(count) < 0.3] = np.nan
    gaps = len(mechanism.table.anchors) - 1

    def rows_of(start, stop, anchor_words):
        part = values[start:stop]
        absent = np.isnan(part)
        # ceil(t - 1/2 - w / 2^32) with t = (value + 1) / 2 * gaps, in integers
        scaled = np.where(absent, 0, part * 2**20).astype(np.int64)
        top = (scaled + 2**20) * gaps * 2**11 - 2**31 - anchor_words
        row = np.clip(-(-top // 2**32), 0, gaps)
        return np.where(absent, gaps + 1, row)

    expected, used = _reference(mechanism, rows_of, count, data)
    source = Replay(data[:used])
    before = values.copy()
    got = mechanism.privatize(values, rng=source)
    assert got.dtype == np.uint8
    assert got.shape == (count,)
    assert got.tolist() == expected.tolist()
    assert source.left == 0
    assert np.array_equal(values, before, equal_nan=True)


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
@pytest.mark.parametrize("options", [2, 20])
def test_choices_in_bulk_are_drawn_byte_for_byte_as_documented(options, count):
    mechanism = KRandomizedResponse(1.0, range(options))
    rng = np.random.default_rng(count)
    data = rng.bytes(4 * count + 4096)
    rows = rng.integers(0, options + 1, count)
    answers = np.where(rows == options, np.nan, rows)
    expected, used = _reference(mechanism, lambda start, stop, _: rows[start:stop], count, data)
    source = Replay(data[:used])
    assert mechanism.privatize(answers, rng=source).tolist() == expected.tolist()
    assert source.left == 0


@pytest.mark.parametrize("kind", [BiSample, ThreeState, FiveAnchors])
def test_a_scalar_is_an_array_of_one(kind):
    mechanism = kind(1.0, 0, 10)
    rng = np.random.default_rng(5)
    for value in [
        0,
        10,
        3.7,
        None,
        float("nan"),
        True,
        np.float32(2.5),
        np.int16(4),
        decimal.Decimal("1.25"),
    ]:
        data = rng.bytes(10)
        one = mechanism.privatize(value, rng=Replay(data))
        assert type(one) is int
        assert mechanism.privatize([value], rng=Replay(data)).tolist() == [one]
        zero_dimensional = np.array(np.nan if value is None else float(value))
        assert mechanism.privatize(zero_dimensional, rng=Replay(data)) == one


def test_a_scalar_option_is_an_array_of_one():
    for mechanism, answers in (
        (RandomizedResponse(1.0), [True, False]),
        (KRandomizedResponse(1.0, ["a", "b"]), ["a", "b", None, float("nan")]),
        (KRandomizedResponse(1.0, [1, 2.5, "x"]), [1, 1.0, 2.5, "x", np.float64(2.5), None]),
    ):
        for seed, answer in enumerate(answers):
            one = mechanism.privatize(answer, rng=seed)
            assert type(one) is int
            assert mechanism.privatize([answer], rng=seed).tolist() == [one]


# --- Containers ----------------------------------------------------------------------------------------

NUMBERS = [0.5, None, -0.25, 1.0, None, -1.0, 0.0]
NAN = [np.nan if v is None else v for v in NUMBERS]
MASK = [v is None for v in NUMBERS]
HIDDEN = [99.0 if v is None else v for v in NUMBERS]  # what lies under a mask may be anything
DECIMALS = [None if v is None else decimal.Decimal(str(v)) for v in NUMBERS]


def _strided():
    wide = np.full(2 * len(NAN), 123.0)
    wide[::2] = NAN
    return wide[::2]


NUMBER_CONTAINERS = {
    "tuple": tuple(NUMBERS),
    "iterator": lambda: iter(NUMBERS),
    "list with NaN": NAN,
    "list of NumPy scalars": [None if v is None else np.float32(v) for v in NUMBERS],
    "list with NaT": [pd.NaT if v is None else v for v in NUMBERS],
    "list with pandas NA": [pd.NA if v is None else v for v in NUMBERS],
    "list with masked": [np.ma.masked if v is None else v for v in NUMBERS],
    "list of decimals": DECIMALS,
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
    "pandas Float64 array": pd.array(NUMBERS, dtype="Float64"),
    "pandas category": pd.Series(NUMBERS, dtype="category"),
    "pandas Arrow": pd.Series(NUMBERS, dtype="double[pyarrow]"),
    "pandas index": pd.Index(NAN),
    "pandas other index": pd.Series(NUMBERS, dtype="float64", index=range(7, 0, -1)),
    "Polars": pl.Series(NUMBERS),
    "Polars NaN": pl.Series(NAN),
    "Polars Float32": pl.Series(NUMBERS, dtype=pl.Float32),
    "Polars decimal": pl.Series(DECIMALS),
    "Arrow": pa.array(NUMBERS),
    "Arrow NaN": pa.array(NAN, from_pandas=False),
    "Arrow float32": pa.array(NUMBERS, type=pa.float32()),
    "Arrow decimal": pa.array(DECIMALS),
    "Arrow dictionary": pa.array(NUMBERS).dictionary_encode(),
    "Arrow chunked": pa.chunked_array([NUMBERS[:3], NUMBERS[3:]]),
    "Arrow chunked dictionary": pa.chunked_array([pa.array(NUMBERS)]).dictionary_encode(),
    "Arrow slice": pa.array([7.0, *NUMBERS, 9.0])[1:-1],
}


@pytest.mark.parametrize("kind", [BiSample, ThreeState, FiveAnchors])
@pytest.mark.parametrize("container", NUMBER_CONTAINERS)
def test_every_container_of_numbers_gives_the_same_codes(container, kind):
    mechanism = kind(1.0)
    for seed in range(8):
        answers = NUMBER_CONTAINERS[container]
        answers = answers() if callable(answers) else answers
        got = mechanism.privatize(answers, rng=seed)
        assert got.tolist() == mechanism.privatize(NUMBERS, rng=seed).tolist()


WHOLE = [3, None, 0, 10, 7]
WHOLE_CONTAINERS = {
    "masked int64": np.ma.array([99 if v is None else v for v in WHOLE], mask=[v is None for v in WHOLE]),
    "pandas Int64": pd.Series(WHOLE, dtype="Int64"),
    "pandas UInt8": pd.Series(WHOLE, dtype="UInt8"),
    "pandas Int64 array": pd.array(WHOLE, dtype="Int64"),
    "Polars Int64": pl.Series(WHOLE),
    "Polars UInt8": pl.Series(WHOLE, dtype=pl.UInt8),
    "Arrow int64": pa.array(WHOLE),
    "Arrow int8 chunked": pa.chunked_array([pa.array(WHOLE, type=pa.int8())]),
    "pandas Arrow": pd.Series(WHOLE, dtype="int64[pyarrow]"),
}


@pytest.mark.parametrize("container", WHOLE_CONTAINERS)
def test_every_container_of_whole_numbers_gives_the_same_codes(container):
    as_number, as_choice = BiSample(1.0, 0, 10), KRandomizedResponse(1.0, [0, 3, 7, 10])
    # The same, with options too far apart to be looked up by index.
    far = KRandomizedResponse(1.0, [0, 3, 7, 10, 10**9])
    for seed in range(8):
        for mechanism in (as_number, as_choice, far):
            got = mechanism.privatize(WHOLE_CONTAINERS[container], rng=seed)
            assert got.tolist() == mechanism.privatize(WHOLE, rng=seed).tolist()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", "f2", "f4", "f8"])
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
    "pandas Arrow": pd.Series(TRUTHS, dtype="bool[pyarrow]"),
    "Polars": pl.Series(TRUTHS),
    "Arrow": pa.array(TRUTHS),
    "Arrow chunked": pa.chunked_array([TRUTHS]),
    "numbers": [1, None, 0, 1.0],
}


@pytest.mark.parametrize("container", TRUTH_CONTAINERS)
def test_every_container_of_truth_values_gives_the_same_codes(container):
    for mechanism in (KRandomizedResponse(1.0, [False, True]), BiSample(1.0, 0, 1)):
        for seed in range(8):
            got = mechanism.privatize(TRUTH_CONTAINERS[container], rng=seed)
            assert got.tolist() == mechanism.privatize(TRUTHS, rng=seed).tolist()


TEXTS = ["tea", None, "coffee", "tea", "milk", None, "coffee"]
TEXT_CONTAINERS = {
    "tuple": tuple(TEXTS),
    "object": np.array(TEXTS, dtype=object),
    "masked": np.ma.array([t or "secret" for t in TEXTS], mask=[t is None for t in TEXTS]),
    "with NaN": [t or float("nan") for t in TEXTS],
    "with NA": [t or pd.NA for t in TEXTS],
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
def test_every_container_of_texts_gives_the_same_codes(container):
    mechanism = KRandomizedResponse(1.0, ["milk", "coffee", "tea"])
    for seed in range(8):
        got = mechanism.privatize(TEXT_CONTAINERS[container], rng=seed)
        assert got.tolist() == mechanism.privatize(TEXTS, rng=seed).tolist()


def test_numpy_texts_without_a_missing_one_give_the_same_codes():
    mechanism = KRandomizedResponse(1.0, ["milk", "coffee", "tea"])
    texts = [t for t in TEXTS if t]
    for array in (np.array(texts), np.array(texts, dtype=np.dtypes.StringDType())):
        assert mechanism.privatize(array, rng=3).tolist() == mechanism.privatize(texts, rng=3).tolist()


def test_whole_options_too_large_for_a_float_are_told_apart():
    big = [2**53, 2**53 + 1, 2**60, -(2**62) - 1]
    mechanism = KRandomizedResponse(8.0, big)
    for answers in (np.array(big), pd.Series(big, dtype="Int64"), pl.Series(big), pa.array(big)):
        assert mechanism.privatize(answers, rng=3).tolist() == mechanism.privatize(list(big), rng=3).tolist()
    for answers in (pl.Series([*big, None]), pa.array([*big, None]), pd.Series([*big, None], dtype="Int64")):
        assert (
            mechanism.privatize(answers, rng=3).tolist() == mechanism.privatize([*big, None], rng=3).tolist()
        )
    tally = mechanism.tally(mechanism.privatize(np.array([2**53 + 1] * 4000), rng=1))
    assert tally.argmax() == 1


@pytest.mark.parametrize("name", sorted(registered()))
def test_all_missing_is_as_good_as_any_answer_where_there_is_a_refusal(name):
    kind = registered()[name]
    mechanism = kind(1.0) if issubclass(kind, NumberMechanism) or name == "rr" else kind(1.0, ["a", "b"])
    if mechanism.table.refusal:
        for nothing in ([None] * 9, np.full(9, np.nan), pa.nulls(9), pl.Series([None] * 9)):
            assert len(mechanism.privatize(nothing, rng=1)) == 9
    else:
        with pytest.raises(AnswerError, match="no code for a refusal"):
            mechanism.privatize([None])


# --- Clipping ---------------------------------------------------------------------------------------------


def test_clip_moves_to_the_nearest_end_and_touches_nothing_else():
    mechanism = BiSample(1.0, 0, 10)
    wild = np.array([-5, 0, 3.3, 10, 11, 1e300, -1e300, np.nan])
    tame = np.array([0, 0, 3.3, 10, 10, 10, 0, np.nan])
    before = wild.copy()
    for seed in range(8):
        assert (
            mechanism.privatize(wild, rng=seed, clip=True).tolist()
            == mechanism.privatize(tame, rng=seed).tolist()
        )
    assert np.array_equal(wild, before, equal_nan=True)
    assert mechanism.privatize([40], rng=1, clip=True) == mechanism.privatize([10], rng=1)
    assert mechanism.privatize(np.array([40], dtype=np.int8), rng=1, clip=True) == mechanism.privatize(
        10, rng=1
    )


def test_clipping_in_a_later_block_is_as_in_the_first():
    mechanism = BiSample(1.0, 0, 10)
    values = np.full(BLOCK + 10, 3.0)
    values[-1] = 12
    with pytest.raises(AnswerError, match="outside"):
        mechanism.privatize(values, rng=1)
    expected = values.clip(0, 10)
    assert np.array_equal(mechanism.privatize(values, rng=1, clip=True), mechanism.privatize(expected, rng=1))


# --- Memory -------------------------------------------------------------------------------------------------

MIB = 1 << 20
LONG = 4_000_000


def _extra(work):
    """The peak of what is allocated beyond what is returned, in bytes."""
    work(1000)  # imports and tables
    tracemalloc.start()
    try:
        result = work(LONG)
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [BiSample, ThreeState, FiveAnchors])
@pytest.mark.parametrize("how", ["float64", "float32", "int64", "masked", "clip", "strided"])
def test_numbers_take_little_memory_beyond_the_output(kind, how):
    mechanism = kind(1.0, -1, 1)
    values = np.zeros(2 * LONG, dtype="f8") if how == "strided" else np.zeros(LONG, dtype="f8")
    values = values[::2] if how == "strided" else values
    if how in ("float32", "int64"):
        values = values.astype(how)
    if how == "masked":
        values = np.ma.array(values, mask=values > 0)
    if how == "clip":
        values += 5
    assert _extra(lambda n: mechanism.privatize(values[:n], clip=how == "clip")) < 8 * MIB


def test_choices_and_tallies_take_little_memory_beyond_the_output():
    mechanism = KRandomizedResponse(1.0, range(20))
    values = np.zeros(LONG)
    assert _extra(lambda n: mechanism.privatize(values[:n])) - LONG < 8 * MIB  # the rows are a byte each
    reports = np.zeros(LONG, dtype=np.uint8)
    assert _extra(lambda n: mechanism.tally(reports[:n])) < 8 * MIB
    assert _extra(lambda n: mechanism.tally(reports.astype(np.int64)[:n])) < 8 * MIB + 8 * LONG
