"""Tables: integers that sum to 2^48, a ratio that is exact, and nothing that can be changed."""

import copy
import dataclasses
import itertools
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from handmade import COIN, COIN_RATIO, FRUIT, UNEVEN, UNEVEN_RATIO
from hypothesis import given
from hypothesis import strategies as st

from bisample import BiSample, BisampleError, FormatError, KRandomizedResponse, ParameterError, Table
from bisample.protocol.exact import TOTAL, exp_bounds

HALF = TOTAL // 2


@st.composite
def tables(draw):
    """Any table of up to 5 rows and 9 codes, with weights of all sizes."""
    width, height = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    cut = st.integers(1, TOTAL - 1) | st.integers(1, 9) | st.integers(1, 65535).map((2**32).__mul__)
    rows = []
    for _ in range(height):
        cuts = draw(st.lists(cut, min_size=width - 1, max_size=width - 1, unique=True))
        rows.append([b - a for a, b in itertools.pairwise([0, *sorted(cuts), TOTAL])])
    return Table(rows)


# --- What is a table -----------------------------------------------------------------------------------

NO_TABLES = {
    "nothing": ([], "at least one row"),
    "no codes": ([[]], "at least one row"),
    "no rows at all": (None, "at least one row"),
    "a number": (5, "at least one row"),
    "flat": ([HALF, HALF], "at least one row"),
    "one code": ([[TOTAL]], "2 to 256 codes"),
    "257 codes": ([[TOTAL - 256, *[1] * 256]], "2 to 256 codes"),
    "257 rows": ([[HALF, HALF]] * 257, "1 to 256 rows"),
    "a sum below": ([[HALF, HALF - 1]], "row 0 .* sum to 2\\*\\*48"),
    "a sum above": ([[HALF, HALF], [HALF, HALF + 1]], "row 1 .* sum to 2\\*\\*48"),
    "a negative weight": ([[TOTAL + 1, -1]], "row 0 .* weights from 1"),
    "ragged": ([[HALF, HALF], [HALF, HALF - 1, 1]], "row 1 .* 2 weights"),
    "a zero": ([[HALF, HALF], [0, TOTAL]], "code 0 has weight 0 in row 1: .* weight of 1 or more"),
    "a code that nobody sends": ([[HALF, HALF, 0]], "code 2 has weight 0"),
    "floats": ([[2.0**47, 2.0**47]], "row 0 .* no integer"),
    "a float": ([[HALF, HALF], [HALF, float(HALF)]], "row 1 .* no integer"),
    "truth values": ([[TOTAL - 1, True]], "no integer"),
    "texts": (["ab"], "no integer"),
    "None": ([[None, TOTAL]], "no integer"),
    "an array of floats": (np.full((1, 2), 2.0**47), "no integer"),
}


@pytest.mark.parametrize("case", NO_TABLES)
def test_what_is_no_table_is_refused_in_words(case):
    weights, why = NO_TABLES[case]
    with pytest.raises(ParameterError, match=why):
        Table(weights)


def test_numpys_integers_become_pythons():
    table = Table(np.array([[HALF + 1, HALF - 1], [HALF, HALF]]), np.array([2], dtype=np.uint8))
    assert all(type(weight) is int for row in table.weights for weight in row)
    assert [type(size) for size in table.blocks] == [int]
    assert table == Table([[HALF + 1, HALF - 1], [HALF, HALF]])


def test_the_largest_table_fits():
    table = Table([[TOTAL - 255 + 0, *[1] * 255]] * 256)
    assert (table.height, table.width) == (256, 256)
    assert table.epsilon_upper == 0.0


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        (("2", "2"), "size of a block"),
        ((2.0, 2.0), "size of a block"),
        ((True, True, 2), "size of a block"),
        ((0, 4), "size of a block"),
        ((-1, 5), "size of a block"),
        ((4, 4), "sum to the 4 codes"),
        ((2,), "sum to the 4 codes"),
        (4, "list of sizes"),
        (None, "list of sizes"),
        ((1, 3), "codes 0 to 0 .* different chances"),
        ((3, 1), "codes 0 to 2 .* different chances"),
    ],
    ids=str,
)
def test_blocks_are_sizes_of_runs_that_all_rows_enter_alike(blocks, why):
    weights = BiSample(1.0).table.weights
    with pytest.raises(ParameterError, match=why):
        Table(weights, blocks)


def test_blocks_have_ends():
    assert COIN.table.block_ends == ((0, 2), (2, 5))
    assert UNEVEN.table.blocks == (5,)
    assert UNEVEN.table.block_ends == ((0, 5),)


# --- The worst ratio ----------------------------------------------------------------------------------


@given(tables())
def test_the_worst_pair_is_the_worst_and_is_where_it_says(table):
    worst = table.worst_pair
    assert worst.ratio == max(
        Fraction(one, other)
        for column in zip(*table.weights, strict=True)
        for one, other in itertools.product(column, repeat=2)
    )
    high, low = table.weights[worst.row][worst.code], table.weights[worst.other_row][worst.code]
    assert worst.ratio == Fraction(high, low)


def test_the_worst_pair_of_a_table_written_by_hand():
    assert UNEVEN.table.worst_pair.ratio == UNEVEN_RATIO
    assert COIN.table.worst_pair.ratio == COIN_RATIO
    assert FRUIT.table.worst_pair.ratio == Fraction(2**47 + 3, 2**46)
    for mechanism, place in ((UNEVEN, (4, 0, 4)), (COIN, (0, 3, 2)), (FRUIT, (2, 0, 0))):
        worst = mechanism.table.worst_pair
        assert (worst.row, worst.other_row, worst.code) == place


def test_where_all_rows_are_the_same_nothing_is_told():
    table = Table([[HALF, HALF]] * 3)
    assert table.epsilon_upper == 0.0
    assert table.worst_pair.ratio == 1
    assert table.satisfies(0)


@given(tables())
def test_a_tables_epsilon_is_the_least_float_it_satisfies(table):
    upper = table.epsilon_upper
    assert table.satisfies(upper)
    if upper > 0:
        assert not table.satisfies(math.nextafter(math.nextafter(upper, 0), 0))


def _convergents(x):
    """The continued fraction of x cut off step by step: fractions below and above x by turns."""
    rest, numerators, denominators = x, [0, 1], [1, 0]
    while True:
        whole = math.floor(rest)
        numerators.append(whole * numerators[-1] + numerators[-2])
        denominators.append(whole * denominators[-1] + denominators[-2])
        yield Fraction(numerators[-1], denominators[-1])
        rest = 1 / (rest - whole)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_satisfies_is_exact_where_a_float_is_not(epsilon):
    """The best fractions of 48 bits around e^epsilon are the same float: one of them holds, one does not."""
    low, high = exp_bounds(Fraction(epsilon))
    tried = set()
    for ratio in _convergents(low):
        truth, other = ratio.numerator, ratio.denominator
        if truth + other >= TOTAL:
            break
        if not math.isclose(float(ratio), math.exp(epsilon), rel_tol=3e-16):
            continue
        assert not low < ratio < high
        rest = TOTAL - truth - other  # a third code takes it, alike in both rows
        table = Table([[truth, other, rest], [other, truth, rest]])
        assert table.satisfies(epsilon) is (ratio <= low)
        assert table.satisfies(Fraction(epsilon)) is (ratio <= low)
        tried.add(ratio <= low)
    assert tried == {True, False}


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1, -1e-300, "1", None, 1j, True])
def test_a_table_is_held_against_a_number_only(epsilon):
    with pytest.raises(ParameterError, match="epsilon must be a number from 0"):
        BiSample(1.0).table.satisfies(epsilon)


def test_an_epsilon_beyond_all_weights_is_answered_without_its_exponential():
    """No ratio of 48-bit weights is above 2**48; e**1e300 has more digits than any memory."""
    widest = Table([[1, TOTAL - 1], [TOTAL - 1, 1]])
    assert widest.satisfies(1e300)
    assert widest.satisfies(33.3)
    assert not widest.satisfies(33.2)  # 48 ln 2 = 33.27


# --- Frozen, compared, sent --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "blocks", "matrix", "anything"])
def test_a_table_cannot_be_changed(name):
    table = BiSample(1.0).table
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(table, name, ())
    with pytest.raises(TypeError):
        table.weights[0][0] = 5
    with pytest.raises(ValueError, match="read-only"):
        table.matrix[0, 0] = 1


@given(tables())
def test_the_matrix_is_the_weights(table):
    assert (table.matrix * TOTAL).tolist() == [list(row) for row in table.weights]


@given(tables(), tables())
def test_tables_are_equal_by_content(one, other):
    again = Table(one.weights, one.blocks)
    assert again == one
    assert hash(again) == hash(one)
    assert (one == other) is (one.weights == other.weights)
    assert one != one.weights


def test_blocks_are_part_of_the_content():
    table = BiSample(1.0).table
    assert Table(table.weights) != table
    assert Table(table.weights, (2, 2)) == table


@given(tables())
def test_a_table_comes_back_from_json_and_from_another_process(table):
    table.matrix.sum()
    for again in (
        Table.from_dict(json.loads(json.dumps(table.to_dict()))),
        pickle.loads(pickle.dumps(table)),
        copy.deepcopy(table),
    ):
        assert again == table
        assert again.blocks == table.blocks
        assert not again.matrix.flags.writeable


def test_all_integers_of_a_table_are_held_exactly_by_any_reader():
    largest = max(w for row in KRandomizedResponse(20.0, ["a", "b"]).table.weights for w in row)
    assert 2**47 < largest < TOTAL < 2**53


GOOD = {"blocks": [2], "weights": [[HALF, HALF]]}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        3,
        {},
        {"weights": [[HALF, HALF]]},
        {"blocks": [2]},
        GOOD | {"more": 1},
        GOOD | {"blocks": []},
        GOOD | {"blocks": 2},
        GOOD | {"blocks": ["2"]},
        GOOD | {"blocks": [True, 1]},
        GOOD | {"weights": HALF},
        GOOD | {"weights": [[HALF, HALF], "ab"]},
        GOOD | {"weights": [[float(HALF), HALF]]},
        GOOD | {"weights": []},
    ],
    ids=str,
)
def test_a_table_is_read_from_what_describes_one(data):
    assert Table.from_dict(GOOD).height == 1
    with pytest.raises((FormatError, ParameterError)) as caught:
        Table.from_dict(data)
    assert isinstance(caught.value, BisampleError)


def test_a_table_says_what_it_is_without_its_numbers():
    assert repr(UNEVEN.table) == "<Table 6 rows x 5 codes, epsilon <= 1.046>"
