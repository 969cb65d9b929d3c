"""Drawing gives exactly the weights: every 16-bit word, every tie, every row, every byte in its place."""

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from handmade import COIN, FRUIT, HANDMADE, UNEVEN, rows_drawn, telling
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    AnswerError,
    BiSample,
    DitheredResponse,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    Options,
    ParameterError,
    Range,
    Table,
    ThreeState,
)
from bisample.catalogue import CATALOGUE, build
from bisample.device import drawing
from bisample.device.drawing import BLOCK, Cells
from bisample.device.randomness import Replay
from bisample.protocol.exact import TOTAL

WORDS = 1 << 16
MORE = 1 << 32


def _tables():
    for name, entry in sorted(CATALOGUE.items()):
        for epsilon in (0.001, 1.0, 5.0):
            if entry.domain == "range":
                yield pytest.param(build(name, epsilon=epsilon).table, id=f"{name}-{epsilon}")
            else:
                for size in [2] if name == "rr" else [2, 5, 20]:
                    made = build(name, epsilon=epsilon, options=range(size))
                    yield pytest.param(made.table, id=f"{name}-{size}-{epsilon}")
    yield pytest.param(KRandomizedResponse(1.0, range(254)).table, id="k-rr-254-1.0")
    for name, mechanism in HANDMADE.items():
        yield pytest.param(mechanism.table, id=name)


every_table = pytest.mark.parametrize("table", list(_tables()))


def _cumulated(row):
    return list(itertools.accumulate(row))


def _ties(table):
    """Tied words with the cuts inside each, from the definition: any row's cut strictly inside the word."""
    ties = {}
    for cut in sorted({end for row in table.weights for end in _cumulated(row)[:-1]}):
        if cut % MORE:
            ties.setdefault(cut // MORE, []).append(cut % MORE)
    return ties


def _drawn(table, row, words, more):
    """Codes of one row for these words, and for the tied ones these continuations; none may be left.

    Through the front door: the rows of the table are options, and there is no refusal.
    """
    words = np.asarray(words, dtype="<u2")
    assert len(words) <= BLOCK
    if table.height == 1:
        table = Table(table.weights * 2)
    mechanism = Mechanism(table, Options(range(table.height), refusal=False))
    source = Replay(words.tobytes() + np.asarray(more, dtype="<u4").tobytes())
    codes = mechanism.privatize(np.full(len(words), row), rng=source)
    assert source.left == 0
    return codes


# --- From a row to a code: exactly the weights ---------------------------------------------------------


@every_table
def test_every_word_and_every_tie_together_give_exactly_the_weights(table):
    ties = _ties(table)
    assert sorted(ties) == Cells(table).tied_words.tolist()
    tied = np.array(sorted(ties), dtype=np.intp)
    words = np.arange(WORDS)
    # For each tied word: both ends, and both sides of each cut. Between two cuts nothing may change.
    points, of_word, segments = [], [], []
    for word, inside in sorted(ties.items()):
        for start, stop in itertools.pairwise([0, *inside, MORE]):
            segments.append((len(points), stop - start))
            points += [start, min(start + 1, stop - 1), (start + stop) // 2, stop - 1]
            of_word += [word] * 4
    for row, weights in enumerate(table.weights):
        codes = _drawn(table, row, words, np.zeros(len(tied)))
        untied = np.delete(codes, tied)
        counts = [int(n) * MORE for n in np.bincount(untied, minlength=table.width)]
        assert len(counts) == table.width
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
    tied = Cells(table).tied_words[:3]
    for row in range(0, table.height, 1 + table.height // 40):
        for word in tied:
            _drawn(table, row, [word], [0])
            with pytest.raises(ParameterError, match="left"):
                _drawn(table, row, [word], [])


def test_a_table_whose_cuts_are_all_at_words_has_no_ties():
    quarter = TOTAL // 4
    assert Cells(Table([[quarter, 3 * quarter], [3 * quarter, quarter]])).tied_words.size == 0


@st.composite
def _random_tables(draw):
    width, height = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    cut = st.integers(1, TOTAL - 1) | st.integers(1, 9) | st.integers(1, 65535).map(MORE.__mul__)
    rows = []
    for _ in range(height):
        cuts = draw(st.lists(cut, min_size=width - 1, max_size=width - 1, unique=True))
        rows.append([b - a for a, b in itertools.pairwise([0, *sorted(cuts), TOTAL])])
    return Table(rows)


@given(table=_random_tables(), points=st.lists(st.integers(0, TOTAL - 1), min_size=1, max_size=20))
def test_any_table_is_drawn_by_its_definition(table, points):
    tied = _ties(table)
    points = points + [p for row in table.weights for c in _cumulated(row)[:-1] for p in (c - 1, c)]
    words, more = [p // MORE for p in points], [p % MORE for p in points if p // MORE in tied]
    for row, line in enumerate(table.weights):
        ends = _cumulated(line)
        assert _drawn(table, row, words, more).tolist() == [
            next(c for c, end in enumerate(ends) if (p if p // MORE in tied else p // MORE * MORE) < end)
            for p in points
        ]


def test_rows_side_by_side_do_not_touch_each_other():
    """Many different rows in one block: small tables hold all rows' codes in one byte, large ones do not."""
    rng = np.random.default_rng(6)
    for mechanism in (UNEVEN, COIN, BiSample(1), DitheredResponse(1), KRandomizedResponse(2, range(30))):
        table = mechanism.table
        choice = Mechanism(table, Options(range(table.height), refusal=False))
        rows = rng.integers(0, table.height, 5000)
        words = rng.integers(0, WORDS, 5000)
        free = ~np.isin(words, list(_ties(table)))
        rows, words = rows[free], words[free]
        codes = choice.privatize(rows, rng=Replay(words.astype("<u2").tobytes()))
        ends = np.array([_cumulated(row)[:-1] for row in table.weights])
        assert codes.tolist() == (ends[rows] <= (words * MORE)[:, None]).sum(axis=1).tolist()


# --- From a number to a row: the definition --------------------------------------------------------------


def _position(domain, value):
    """floor((v - lower) * s + 1/2), each operation rounded to a double, held to 0 .. last * 2^32."""
    scale = domain.anchors[-1] * 2.0**32 / (domain.upper - domain.lower)
    return min(math.floor((value - domain.lower) * scale + 0.5), domain.anchors[-1] << 32)


def _row(domain, value, word):
    """From the specification, in integers."""
    if value is None:
        return len(domain.anchors)
    position = _position(domain, value)
    below = max(i for i, a in enumerate(domain.anchors[:-1]) if a << 32 <= position)
    gap = domain.anchors[below + 1] - domain.anchors[below]
    return below + (word * gap < position - (domain.anchors[below] << 32))


def _telltale_words(domain, value):
    """Words at and around the threshold of a value, and both ends."""
    position = _position(domain, value)
    below = max(i for i, a in enumerate(domain.anchors[:-1]) if a << 32 <= position)
    gap = domain.anchors[below + 1] - domain.anchors[below]
    threshold = -(-(position - (domain.anchors[below] << 32)) // gap)
    near = range(threshold - 2, threshold + 3)
    return sorted({0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1} | {w for w in near if 0 <= w < 2**32})


DOMAINS = {
    "two": Range(-1, 1),
    "two, odd": Range(0.1, 0.3),
    "two, far": Range(1e6, 1e6 + 1),
    "two, wide": Range(-1e-6, 1e20),
    "two, one gap of 7": Range(-3, 4, (0, 7)),
    "even": Range(-1, 1, range(5)),
    "even, many": Range(17, 90, range(241)),
    "even, 255": Range(0, 1, range(255)),
    "uneven": UNEVEN.domain,
    "coin": COIN.domain,
    "uneven, far": Range(-1e9 - 30, -1e9, (0, 1, 4, 9, 20)),
    "uneven, wide": Range(0.1, 0.7, (0, 1, 3, 2**20)),
    "uneven, no refusal": Range(0, 1, (0, 999_999, 2**20), refusal=False),
}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def _values(domain):
    """Ends, their neighbours, anchors, their neighbours, and what lies between."""
    values = [domain.lower + (domain.upper - domain.lower) * a / domain.last for a in domain.anchors]
    values += [math.nextafter(v, way) for v in values for way in (-math.inf, math.inf)]
    width = domain.upper - domain.lower
    values += [domain.lower + width * part for part in (1e-12, 1e-9, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1 - 1e-12)]
    rng = np.random.default_rng(11)
    values += rng.uniform(domain.lower, domain.upper, 40).tolist()
    return sorted({min(max(v, domain.lower), domain.upper) for v in values})[:: max(1, len(values) // 200)]


@every_domain
def test_the_row_is_that_of_the_definition_at_and_around_every_threshold(domain):
    values, words, expected = [], [], []
    for value in _values(domain):
        for word in _telltale_words(domain, value):
            values.append(value)
            words.append(word)
            expected.append(_row(domain, value, word))
    if domain.refusal:
        values += [None] * 3
        words += [0, 2**31, 2**32 - 1]
        expected += [len(domain.anchors)] * 3
    assert rows_drawn(domain, values, words) == expected
    assert rows_drawn(domain, np.array(values, dtype=float), words) == expected


@every_domain
def test_both_ends_reach_their_anchors_for_every_word(domain):
    words = [0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]
    assert rows_drawn(domain, [domain.lower] * 6, words) == [0] * 6
    assert rows_drawn(domain, [domain.upper] * 6, words) == [len(domain.anchors) - 1] * 6


@st.composite
def _any_domain(draw):
    lower = draw(st.floats(-1e12, 1e12).filter(lambda x: x == 0 or abs(x) > 1e-6))
    width = draw(st.floats(1e-3, 1e12))
    anchors = draw(
        st.integers(1, 250).map(lambda last: tuple(range(last + 1)))
        | st.lists(st.integers(1, 2**20), min_size=1, max_size=20, unique=True).map(lambda a: (0, *sorted(a)))
    )
    try:
        return Range(lower, lower + width, anchors)
    except ParameterError:  # too near to each other for doubles
        return Range(-1, width, anchors)


@given(domain=_any_domain(), part=st.floats(0, 1), word=st.integers(0, 2**32 - 1))
def test_any_number_goes_to_one_of_its_two_anchors_by_the_definition(domain, part, word):
    value = min(max(domain.lower + (domain.upper - domain.lower) * part, domain.lower), domain.upper)
    (row,) = rows_drawn(domain, [value], [word])
    assert row == _row(domain, value, word)
    width = Fraction(domain.upper) - Fraction(domain.lower)
    position = (Fraction(value) - Fraction(domain.lower)) / width * domain.last
    # An anchor itself may be reached from both sides: double precision puts it a hair beside.
    hair = Fraction(domain.last) * 2**-20
    below = max([i for i, a in enumerate(domain.anchors) if a <= position - hair], default=0)
    above = min(i for i, a in enumerate([*domain.anchors[:-1], math.inf]) if a >= position + hair)
    assert below <= row <= above


def _carried(domain):
    """The upper end's position as doubles round it, before it is held to the last anchor."""
    return math.floor((domain.upper - domain.lower) * domain.scale + 0.5)


def test_an_end_that_rounding_carries_beyond_the_last_anchor_is_held_to_it():
    """Only where positions come near 2^52, where doubles are a half apart; so not with even anchors."""
    anchors = (0, 1, 4, 2**20 - 7)
    ranges = [Range(0, 1.9 + i / 5000, anchors) for i in range(500)]
    beyond = [domain for domain in ranges if _carried(domain) > domain.last << 32]
    assert len(beyond) > 10
    words = [0, 1, 2**31, 2**32 - 2, 2**32 - 1]
    for domain in beyond[:20]:
        assert _position(domain, domain.upper) == domain.last << 32
        assert rows_drawn(domain, [domain.upper] * 5, words) == [3] * 5
        assert rows_drawn(domain, [domain.upper, None, None], words[:3]) == [3, 4, 4]


@given(last=st.integers(1, 255), lower=st.floats(-1e6, 1e6).map(round), width=st.floats(0.01, 1e9))
def test_with_even_anchors_no_end_is_carried_beyond_the_last(last, lower, width):
    """The product of the rounded scale and the rounded width is off by a part in 2^51: far from a half."""
    domain = Range(lower, lower + width, range(last + 1), refusal=False)
    assert _carried(domain) == domain.last << 32


@every_domain
def test_what_is_missing_is_a_refusal_for_every_word_and_among_any_others(domain):
    """NaN passes through the arithmetic of positions: it may neither warn nor turn into a number."""
    words = [0, 1, 2**31, 2**32 - 1]
    values = [None, domain.upper, None, domain.lower]
    if domain.refusal:
        last = len(domain.anchors) - 1
        assert rows_drawn(domain, values, words) == [last + 1, last, last + 1, 0]
        assert rows_drawn(domain, np.full(4, np.nan), words) == [last + 1] * 4
    else:
        with pytest.raises(AnswerError, match=r"index 0 is missing, and .* no code for a refusal"):
            rows_drawn(domain, values, words)


def test_a_change_of_the_block_is_a_change_of_the_protocol():
    """The order of bytes in bulk depends on it: whoever changes it must change the format's name."""
    assert BLOCK == 131_072
    n = BLOCK + 1
    data = bytearray(6 * n)
    words = np.frombuffer(data, dtype="<u2", offset=4 * BLOCK, count=BLOCK)
    words[:] = 0x8000  # codes of the first block: rows of words 0
    data[-2:] = b"\x00\x80"
    data[-6:-2] = b"\xff\xff\xff\xff"  # and the last one's word rounds down
    codes = telling(Range(-1, 1)).privatize(np.zeros(n), rng=Replay(bytes(data)))
    assert codes[:-1].tolist() == [1] * BLOCK
    assert codes[-1] == 0


# --- Single precision: an end of the range may lie a rounding outside of it --------------------------------

ENDS = {
    "0.3 in float32": (0.0, 0.3, "f4", 0.3),
    "0.1 in float32": (0.1, 0.3, "f4", 0.1),
    "16777217 in float32": (16_777_217.0, 16_777_227.0, "f4", 16_777_217.0),
    "-0.3 in float32": (-0.3, 0.0, "f4", -0.3),
    "0.3 in float16": (0.0, 0.3, "f2", 0.3),
    "2049 in float16": (2049.0, 2061.0, "f2", 2049.0),
    "2051 in float16": (2040.0, 2051.0, "f2", 2051.0),
    "0.3 in big-endian float32": (0.0, 0.3, ">f4", 0.3),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize(
    "anchors", [(0, 1), (0, 7), range(17), (0, 1, 4, 9, 20)], ids=["two", "gap", "even", "uneven"]
)
@pytest.mark.parametrize("clip", [False, True])
def test_an_end_that_a_column_can_only_hold_rounded_is_taken_as_the_end(case, anchors, clip):
    lower, upper, dtype, end = ENDS[case]
    domain = Range(lower, upper, anchors)
    column = np.full(6, end, dtype=dtype)
    assert float(column[0]) != end  # that is the point
    row = 0 if end == lower else len(domain.anchors) - 1
    words = np.array([0, 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1], dtype="<u4")
    mechanism = telling(domain)
    for held in (column, np.ma.array(column, mask=[False] * 6)):
        got = mechanism.privatize(held, rng=Replay(words.tobytes() + b"\x00\x80" * 6), clip=clip)
        expected = [
            _row(domain, min(max(float(v), lower), upper), int(w)) for v, w in zip(column, words, strict=True)
        ]
        assert got.tolist() == expected
        if not lower < float(column[0]) < upper:
            assert expected == [row] * 6


def test_columns_of_single_precision_are_known_as_such_in_every_library():
    mechanism = telling(Range(0.1, 0.3, range(9)))
    ends = [0.3, None, 0.1]
    for column in (
        pd.Series(ends, dtype="Float32"),
        pd.Series(ends, dtype="float32"),
        pd.Series(ends, dtype="float[pyarrow]"),
        pl.Series(ends, dtype=pl.Float32),
        pa.array(ends, type=pa.float32()),
        [None if end is None else np.float32(end) for end in ends],
        pd.Series(np.array([0.3, np.nan, 0.1], dtype="f2"), dtype="halffloat[pyarrow]"),
        pa.array(np.array([0.3, np.nan, 0.1], dtype="f2")),
    ):
        assert mechanism.privatize(column, rng=2).tolist() == mechanism.privatize(ends, rng=2).tolist()


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_the_next_value_beyond_a_rounded_end_is_refused(dtype):
    kind = np.dtype(dtype).type
    mechanism = telling(Range(0.1, 0.3, range(9)))
    for end, way in ((kind(0.3), np.inf), (kind(0.1), -np.inf)):
        beyond = np.nextafter(end, kind(way))
        assert mechanism.privatize(np.array([end]), rng=1).shape == (1,)
        with pytest.raises(AnswerError, match="outside"):
            mechanism.privatize(np.array([end, beyond]), rng=1)


@pytest.mark.parametrize(("dtype", "upper"), [("f2", 1e6), ("f2", 65519.0), ("f4", 9e20)])
def test_an_end_that_a_column_cannot_reach_admits_no_infinity(dtype, upper):
    mechanism = telling(Range(-upper, upper, range(9)))
    assert mechanism.privatize(np.array([0, np.nan, 3e4], dtype=dtype), rng=1).max() <= 9
    for infinite in (np.inf, -np.inf):
        for clip in (False, True):
            with pytest.raises(AnswerError, match="index 1 is infinite"):
                mechanism.privatize(np.array([0, infinite], dtype=dtype), rng=1, clip=clip)


# --- The layout of bytes in bulk ---------------------------------------------------------------------


def _reference(mechanism, rows_of, count, data):
    """Codes by the documented layout: block by block all rounding words, all code words, all ties."""
    table = mechanism.table
    numeric = isinstance(mechanism.domain, Range)
    tied = np.array(sorted(_ties(table)))
    ends = np.array([_cumulated(row)[:-1] for row in table.weights])
    at, codes = 0, []
    for start in range(0, count, 131_072):
        size = min(131_072, count - start)
        rounding = None
        if numeric:
            rounding = np.frombuffer(data, dtype="<u4", count=size, offset=at).astype(np.int64)
            at += 4 * size
        words = np.frombuffer(data, dtype="<u2", count=size, offset=at).astype(np.int64)
        at += 2 * size
        is_tie = np.isin(words, tied)
        more = np.zeros(size, dtype=np.int64)
        more[is_tie] = np.frombuffer(data, dtype="<u4", count=int(is_tie.sum()), offset=at)
        at += 4 * int(is_tie.sum())
        point = words * MORE + more
        rows = rows_of(start, start + size, rounding)
        codes.append((ends[rows] <= point[:, None]).sum(axis=1))
    return np.concatenate(codes) if codes else np.array([], dtype=int), at


BULK = {
    "bisample": BiSample(1.0, 17, 90),
    "three-state": ThreeState(1.0, 0.1, 0.3),
    "harmony": Harmony(1.0),
    "dithered": DitheredResponse(2.0, -5, 1e6),
    "uneven": UNEVEN,
    "coin": COIN,
}


@pytest.mark.parametrize("count", [0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
@pytest.mark.parametrize("name", BULK)
def test_numbers_in_bulk_are_drawn_byte_for_byte_as_documented(name, count):
    mechanism = BULK[name]
    domain = mechanism.domain
    rng = np.random.default_rng(count)
    data = rng.bytes(8 * count + 4096)
    values = rng.uniform(domain.lower, domain.upper, count)
    values[rng.random(count) < 0.1] = domain.upper
    if domain.refusal:
        values[rng.random(count) < 0.3] = np.nan
    anchors = np.array(domain.anchors, dtype=np.int64) << 32

    def rows_of(start, stop, rounding):
        part = values[start:stop]
        absent = np.isnan(part)
        scale = domain.last * 2.0**32 / (domain.upper - domain.lower)
        position = np.floor((np.where(absent, domain.lower, part) - domain.lower) * scale + 0.5)
        position = np.minimum(position.astype(np.int64), anchors[-1])
        below = np.minimum(np.searchsorted(anchors, position, side="right"), len(anchors) - 1) - 1
        gap = (anchors[below + 1] - anchors[below]) >> 32
        row = below + (rounding * gap < position - anchors[below])
        return np.where(absent, len(anchors), row)

    expected, used = _reference(mechanism, rows_of, count, data)
    source = Replay(data[:used])
    before = values.copy()
    got = mechanism.privatize(values, rng=source)
    assert got.dtype == np.uint8
    assert got.shape == (count,)
    assert np.array_equal(got, expected)
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
    assert np.array_equal(mechanism.privatize(answers, rng=source), expected)
    assert source.left == 0


@pytest.mark.parametrize("mechanism", [BiSample(1, 0, 10), UNEVEN, FRUIT, KRandomizedResponse(1, ["a", "b"])])
def test_how_many_bytes_are_read_does_not_depend_on_the_answers(mechanism):
    """Neither the answer nor a refusal may show in the randomness that is used up."""
    rng = np.random.default_rng(9)
    data = rng.bytes(9000)
    domain = mechanism.domain
    answers = [domain.lower, domain.upper, 7.3] if isinstance(domain, Range) else list(domain.options)
    answers += [None] if domain.refusal else []
    left = set()
    for answer in answers:
        source = Replay(data)
        mechanism.privatize([answer] * 1000, rng=source)
        left.add(source.left)
    assert len(left) == 1


# --- Clipping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BiSample, DitheredResponse])
def test_clip_moves_to_the_nearest_end_and_touches_nothing_else(kind):
    mechanism = kind(1.0, 0, 10)
    wild = np.array([-5, 0, 3.3, 10, 11, 1e300, -1e300, np.nan] * 20)
    tame = np.array([0, 0, 3.3, 10, 10, 10, 0, np.nan] * 20)
    before = wild.copy()
    for seed in range(8):
        clipped = mechanism.privatize(wild, rng=seed, clip=True)
        assert clipped.tolist() == mechanism.privatize(tame, rng=seed).tolist()
        assert clipped.tolist() == mechanism.privatize(wild, rng=seed, clip=np.True_).tolist()
        assert mechanism.privatize(40, rng=seed, clip=True) == mechanism.privatize(10, rng=seed)
        small = np.array([40, -3], dtype=np.int8)
        assert (
            mechanism.privatize(small, rng=seed, clip=True).tolist()
            == mechanism.privatize([10, 0], rng=seed).tolist()
        )
    assert np.array_equal(wild, before, equal_nan=True)


def test_clipping_in_a_later_block_is_as_in_the_first():
    mechanism = BiSample(1.0, 0, 10)
    values = np.full(BLOCK + 10, 3.0)
    values[-1] = 12
    with pytest.raises(AnswerError, match=f"index {BLOCK + 9} lies outside"):
        mechanism.privatize(values, rng=1)
    expected = values.clip(0, 10)
    assert np.array_equal(mechanism.privatize(values, rng=1, clip=True), mechanism.privatize(expected, rng=1))


@pytest.mark.parametrize("clip", ["no", "yes", 1, 0, None, 1.0, [True]], ids=repr)
def test_clip_is_true_or_false(clip):
    for mechanism in (BiSample(1), KRandomizedResponse(1, ["a", "b"])):
        with pytest.raises(ParameterError, match="clip must be True or False"):
            mechanism.privatize([], clip=clip)


def test_a_choice_has_no_nearest_end():
    mechanism = KRandomizedResponse(1, ["a", "b"])
    with pytest.raises(ParameterError, match="clip is for numbers"):
        mechanism.privatize("a", clip=True)
    assert mechanism.privatize("a", clip=False, rng=1) in (0, 1, 2)


# --- Memory -------------------------------------------------------------------------------------------------

MIB = 1 << 20
LONG = 2_500_000


def _extra(work):
    """The peak of what is allocated beyond what is returned, in bytes."""
    work(1000)  # imports and tables
    tracemalloc.start()
    try:
        result = work(LONG)
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "mechanism", [BiSample(1), DitheredResponse(1), UNEVEN], ids=["two", "even", "uneven"]
)
@pytest.mark.parametrize("how", ["float64", "float32", "int64", "masked", "clip", "strided"])
def test_numbers_take_little_memory_beyond_the_output(mechanism, how):
    value = mechanism.domain.upper
    values = np.full(2 * LONG if how == "strided" else LONG, value)
    values = values[::2] if how == "strided" else values
    if how in ("float32", "int64"):
        values = values.astype(how)
    if how == "masked":
        values = np.ma.array(values, mask=values < 0)
    if how == "clip":
        values += 5
    extra = _extra(lambda n: mechanism.privatize(values[:n], clip=how == "clip", threads=1))
    assert extra < 8 * MIB
    assert extra > MIB  # NumPy is measured at all


def test_the_widest_anchors_take_little_memory_too():
    mechanism = telling(Range(0, 1, (0, 1, 2**19, 2**20)))
    drawing._gaps.cache_clear()
    values = np.ones(LONG)
    assert _extra(lambda n: mechanism.privatize(values[:n], threads=1)) < 8 * MIB
    drawing._gaps.cache_clear()
    tracemalloc.start()
    try:
        mechanism.privatize(0.5)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_two_threads_take_twice_as_little():
    values = np.zeros(LONG)
    for mechanism in (BiSample(1), telling(UNEVEN.domain)):
        held = values + mechanism.domain.lower
        one = _extra(lambda n, m=mechanism, v=held: m.privatize(v[:n], threads=1))
        two = _extra(lambda n, m=mechanism, v=held: m.privatize(v[:n], threads=2))
        assert two < 2 * one + MIB
        assert two < 16 * MIB


def test_choices_take_little_memory_beyond_the_output():
    mechanism = KRandomizedResponse(1.0, range(20))
    values = np.zeros(LONG)
    assert _extra(lambda n: mechanism.privatize(values[:n], threads=1)) - LONG < 8 * MIB  # rows: a byte each


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_few_anchors_a_unit_apart_are_rounded_by_the_definition(last):
    """Positions on quarters of a unit, and the words around each threshold."""
    domain = Range(0, last, range(last + 1))
    for quarters in range(4 * last + 1):
        below, part = divmod(quarters * 2**30, 2**32)
        for word in {0, 1, max(0, part - 1), part, part + 1, 2**32 - 1}:
            expected = below + (word < part)
            assert rows_drawn(domain, [quarters / 4, None], [word, word]) == [expected, last + 1]
