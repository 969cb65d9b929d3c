"""Bad input is an error of bisample's own that says what to do: no wrong number, and never the answer."""

import datetime as dt
import decimal
import fractions
import json
import math
import pickle
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as own
from hypothesis import assume, given
from hypothesis import strategies as st

from bisample import (
    AnswerError,
    BiSample,
    BisampleError,
    Harmony,
    KRandomizedResponse,
    MissingExtraError,
    NumberMechanism,
    ParameterError,
    RandomizedResponse,
    ReportError,
    Table,
    ThreeState,
    from_description,
)
from bisample.answers import read_numbers, read_options
from bisample.mechanism import BLOCK, registered
from bisample.piecewise import Hybrid, Piecewise
from bisample.plan import assign_questions, plan_questions
from bisample.preference import fake_random, fake_top, preferences, prepare_values, true_answer_rate
from bisample.privkvm import PrivKVM


def _id(value):
    """A test's name, the same in every process: no addresses, and no sets, whose order differs."""
    plain = (int, float, complex, str, bytes, list, tuple, dict, type(None), np.generic)
    return f"{type(value).__name__} {value!s:.20}" if isinstance(value, plain) else type(value).__name__


SECRET = 31337  # in every shape, and its digits nowhere else


def _make(name, **parameters):
    kind = registered()[name]
    if issubclass(kind, NumberMechanism) or name == "rr":
        return kind(**parameters)
    return kind(**{"options": ["a", "b"]} | parameters)


every_name = pytest.mark.parametrize("name", sorted(registered()))


def _refused(call, kind=BisampleError, secret=None):
    """The error of a call that must be refused: of this kind, helpful, and without the secret anywhere."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert isinstance(error, BisampleError)
    assert len(str(error)) > 20
    # What a log would show: the message, and those of the errors it came from.
    shown = "".join(traceback.format_exception(error))
    for foreign in ("setting an array element", "could not convert", "inhomogeneous", "RuntimeWarning"):
        assert foreign not in shown
    if secret is not None:
        assert str(secret) not in shown
    return error


# --- Parameters --------------------------------------------------------------------------------------

NO_EPSILON = [0, -1, -0.0, math.nan, math.inf, "1", None, True, 1e-9, 1e3, 20.1, 10**400, b"1", 1j, [1.0]]
NO_EPSILON += [np.bool_(True), np.array([1.0]), np.array(1.0), {}, object, decimal.Decimal("NaN"), "", "nan"]
NO_EPSILON += [decimal.Decimal("sNaN"), fractions.Fraction(10**400), 5e-324]


@every_name
@pytest.mark.parametrize("epsilon", NO_EPSILON, ids=_id)
def test_epsilon_is_a_number_in_its_range(name, epsilon):
    error = _refused(lambda: _make(name, epsilon=epsilon), ParameterError)
    assert "epsilon must be a number from 1e-06 to 20" in str(error)
    assert "0.5 to 4" in str(error)  # the next step


@given(epsilon=own.bad_epsilons, name=st.sampled_from(sorted(registered())))
def test_no_other_epsilon_is_taken(epsilon, name):
    _refused(lambda: _make(name, epsilon=epsilon), ParameterError)


@pytest.mark.parametrize("kind", [Piecewise, Hybrid, PrivKVM])
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, "1", None, True, 1e3])
def test_simulations_check_epsilon_too(kind, epsilon):
    assert "epsilon" in str(_refused(lambda: kind(epsilon), ParameterError))


@pytest.mark.parametrize(
    "epsilon", [1, 1.0, np.float32(1), np.int64(1), fractions.Fraction(1), decimal.Decimal(1)], ids=repr
)
def test_any_real_number_is_an_epsilon(epsilon):
    for name in registered():
        mechanism = _make(name, epsilon=epsilon)
        assert mechanism.epsilon == 1.0
        assert type(mechanism.epsilon) is float


NO_RANGES = [(1, 1), (2, 1), (math.nan, 1), (0, math.nan), (-math.inf, 0), (0, math.inf), ("0", 1), (0, "1")]
NO_RANGES += [(None, 1), (0, None), (True, 2), (0, True), (0, 10**400), (0, 1j), ([0], 1), (0, b"1")]
NO_RANGES += [(np.str_("0"), 1), (0, 1e308), (-1.7e308, 1.7e308), (1e9, 1e9 + 1e-7), (0, 1e-300)]


@pytest.mark.parametrize(("lower", "upper"), NO_RANGES, ids=_id)
@pytest.mark.parametrize("kind", [BiSample, ThreeState, Harmony, Piecewise, Hybrid, PrivKVM])
def test_a_range_is_two_finite_numbers_the_lower_first(kind, lower, upper):
    error = _refused(lambda: kind(1.0, lower, upper), ParameterError)
    assert "lower" in str(error)
    assert "upper" in str(error)


@given(bad=own.bad_bounds, good=st.floats(-1e6, 1e6))
def test_no_other_bound_is_taken(bad, good):
    _refused(lambda: BiSample(1.0, bad, good), ParameterError)
    _refused(lambda: BiSample(1.0, good, bad), ParameterError)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (524288.0, 524288.1),
        (1e9, 1e9 + 1.5),
        (-1e12 - 2000, -1e12),
        (0, 1e299),
        (-1e-270, 1e-270),
        (0, 1e-279),
    ],
)
def test_any_range_that_is_taken_is_ready_at_once(lower, upper):
    """Ranges far from zero round their middle: that must not be paid for in time, nor in range."""
    mechanism = BiSample(1.0, lower, upper)
    reports = mechanism.privatize([lower, upper, None], rng=1)
    assert len(reports) == 3
    _refused(lambda: mechanism.privatize(math.nextafter(upper, math.inf)), AnswerError)


NO_OPTIONS = [
    [],
    ["one"],
    ["a", "a"],
    [1, 1.0],
    [1, True],
    [1, "1"],
    ["a", None],
    ["a", math.nan],
    "ab",
    b"ab",
]
NO_OPTIONS += [3, None, [["a"], ["b"]], [{}, 1], range(256), {"a", "b"}, {"a": 1, "b": 2}, frozenset("ab")]


@pytest.mark.parametrize("options", NO_OPTIONS, ids=_id)
def test_options_are_2_to_255_things_that_differ(options):
    assert "options" in str(_refused(lambda: KRandomizedResponse(1.0, options), ParameterError)) or len(
        options
    ) in (
        0,
        1,
        256,
    )


def test_randomized_response_has_two_options():
    assert "2 options" in str(_refused(lambda: RandomizedResponse(1.0, ["a", "b", "c"]), ParameterError))


DESCRIPTIONS = [None, 3, "bisample", [], {}, {"mechanism": None}, {"mechanism": "nothing", "epsilon": 1}]
DESCRIPTIONS += [{"mechanism": ["bisample"], "epsilon": 1}, {"mechanism": "bisample"}]
DESCRIPTIONS += [{"mechanism": "bisample", "epsilon": 1, "speed": 2}, {"mechanism": "k-rr", "epsilon": 1}]
DESCRIPTIONS += [{"mechanism": "rr", "epsilon": 1, "lower": 0}, {"epsilon": 1}]


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=str)
def test_a_description_names_a_mechanism_and_its_parameters(description):
    _refused(lambda: from_description(description), ParameterError)


@given(mechanism=own.mechanisms)
def test_a_mechanism_is_what_it_describes(mechanism):
    again = from_description(mechanism.describe())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.table == mechanism.table


def test_mechanisms_that_are_equal_have_one_hash_and_one_table():
    ones = [RandomizedResponse(1.0, [False, True]), RandomizedResponse(1.0, [0, 1]), Harmony(1.0, -0.0, 1.0)]
    for a in [*ones, Harmony(1.0, 0.0, 1.0)]:
        for b in ones:
            assert a != b or (hash(a) == hash(b) and a.table == b.table)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1, "1", None, 1j, True])
def test_a_table_is_certified_at_a_number_only(epsilon):
    table = BiSample(1.0).table
    _refused(lambda: table.satisfies(epsilon), ParameterError)
    _refused(lambda: table.certificate(epsilon), ParameterError)


@pytest.mark.parametrize("data", [None, [], "x", 3, {}, {"weights": [[1]]}])
def test_a_table_is_read_from_what_describes_one(data):
    _refused(lambda: Table.from_dict(data), ParameterError)


# --- Answers ------------------------------------------------------------------------------------------

SIMULATIONS = [Piecewise(1.0), Hybrid(1.0)]


@every_name
@given(answers=own.bad_answers(SECRET))
def test_an_answer_that_cannot_be_privatized_is_refused_and_not_shown(name, answers):
    _refused(lambda: _make(name, epsilon=1.0).privatize(answers), AnswerError, SECRET)


@given(answers=own.bad_answers(SECRET))
def test_everything_else_that_takes_answers_refuses_and_does_not_show_them(answers):
    for mechanism in SIMULATIONS:
        _refused(lambda m=mechanism: m.privatize(answers, rng=1), AnswerError, SECRET)
        _refused(lambda m=mechanism: m.variance(answers), AnswerError, SECRET)
    _refused(lambda: PrivKVM(1.0).simulate(answers, rng=1), AnswerError, SECRET)
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"])):
        _refused(lambda m=mechanism: m.variance(answers), BisampleError, SECRET)


NOT_NUMBERS = [str(SECRET), [str(SECRET)], {SECRET: 1}, [[SECRET]], np.array([str(SECRET)]), complex(SECRET)]


@pytest.mark.parametrize("answers", NOT_NUMBERS, ids=lambda v: type(v).__name__)
def test_preferences_and_fakes_do_not_show_them_either(answers):
    for call in (
        lambda: prepare_values(answers, 1.0, 2.0),
        lambda: prepare_values([0.5], 1.0, answers),
        lambda: fake_top(answers),
        lambda: fake_random(answers, rng=1),
    ):
        _refused(call, AnswerError, SECRET)


COLUMNS = {
    "pandas text": pd.Series([str(SECRET), "x"]),
    "pandas string": pd.Series([str(SECRET)], dtype="string"),
    "pandas category": pd.Series([str(SECRET)], dtype="category"),
    "pandas number": pd.Series([float(SECRET), None]),
    "pandas Int64": pd.Series([SECRET, None], dtype="Int64"),
    "pandas dates": pd.Series(pd.to_datetime([SECRET], unit="D")),
    "pandas durations": pd.Series(pd.to_timedelta([SECRET], unit="s")),
    "pandas lists": pd.Series([[SECRET], [SECRET, 2]]),
    "pandas frame": pd.DataFrame({"a": [float(SECRET)]}),
    "Polars text": pl.Series([str(SECRET), None]),
    "Polars number": pl.Series([SECRET, None]),
    "Polars category": pl.Series([str(SECRET)], dtype=pl.Categorical),
    "Polars dates": pl.Series([dt.date.fromordinal(SECRET)]),
    "Polars lists": pl.Series([[SECRET], [1, 2]]),
    "Polars structs": pl.Series([{"a": SECRET}]),
    "Polars frame": pl.DataFrame({"a": [float(SECRET)]}),
    "Arrow text": pa.array([str(SECRET), None]),
    "Arrow number": pa.array([SECRET, None]),
    "Arrow dates": pa.array([dt.date.fromordinal(SECRET)]),
    "Arrow lists": pa.array([[SECRET], [1, 2]]),
    "Arrow structs": pa.array([{"a": SECRET}]),
    "Arrow dictionary": pa.array([str(SECRET)]).dictionary_encode(),
    "Arrow chunks": pa.chunked_array([[str(SECRET)], ["x"]]),
    "Arrow table": pa.table({"a": [float(SECRET)]}),
    "Arrow scalar": pa.scalar(SECRET),
    "list of Arrow scalars": list(pa.array([SECRET])),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_something_else_are_refused_and_not_shown(column):
    answers = COLUMNS[column]
    for mechanism in (
        BiSample(1.0),
        Harmony(1.0),
        KRandomizedResponse(1.0, ["a", 3]),
        RandomizedResponse(1.0),
    ):
        _refused(lambda m=mechanism: m.privatize(answers), AnswerError, SECRET)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf, np.float32("inf"), np.longdouble("inf")])
def test_infinity_is_an_error_even_with_clip(infinite):
    for clip in (False, True):
        for answers in (infinite, [infinite], np.array([0.5, infinite]), np.array([infinite, np.nan])):
            error = _refused(lambda a=answers, c=clip: BiSample(1.0).privatize(a, clip=c), AnswerError)
            assert "infinite" in str(error)
            assert "decline" in str(error)


def test_too_large_for_a_double_is_an_error_even_with_clip():
    for answers in (10**400, [10**400], [0.5, fractions.Fraction(10**400)], decimal.Decimal("1e999")):
        _refused(lambda a=answers: BiSample(1.0).privatize(a, clip=True), AnswerError)
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        _refused(lambda: BiSample(1.0).privatize(np.array([np.longdouble("1e4000")]), clip=True), AnswerError)


@pytest.mark.parametrize("outside", [1.0000000001, -1.5, 2, 1e300, np.uint8(200)])
def test_out_of_range_says_the_range_and_both_ways_on(outside):
    for answers in (
        outside,
        [0.1, outside],
        np.array([np.nan, outside]),
        np.array([0.0] * BLOCK + [outside]),
    ):
        message = str(_refused(lambda a=answers: BiSample(1.0).privatize(a), AnswerError))
        assert "[-1, 1]" in message
        assert "clip" in message
        assert "widen" in message


def test_a_missing_answer_without_a_refusal_says_what_has_one():
    for answers in (
        None,
        [0.5, None],
        np.array([math.nan]),
        np.ma.array([1.0], mask=[True]),
        pl.Series([None, 0.5]),
    ):
        message = str(_refused(lambda a=answers: Harmony(1.0).privatize(a), AnswerError))
        assert "BiSample" in message
    for answers in (None, [True, None], pd.Series([True, None], dtype="boolean")):
        message = str(_refused(lambda a=answers: RandomizedResponse(1.0).privatize(a), AnswerError))
        assert "KRandomizedResponse" in message


@pytest.mark.parametrize("shape", [(2, 2), (1, 1), (0, 3), (2, 1, 1)])
def test_one_question_at_a_time(shape):
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, [0, 1]), RandomizedResponse(1.0)):
        error = _refused(lambda m=mechanism: m.privatize(np.zeros(shape)), AnswerError)
        assert "one dimension" in str(error)


@given(value=st.floats(allow_nan=False, allow_infinity=False), span=own.ranges())
def test_a_number_is_in_the_range_or_refused_never_both(value, span):
    lower, upper = span
    mechanism = BiSample(1.0, lower, upper)
    if lower <= value <= upper:
        assert mechanism.privatize(value) in range(4)
    else:
        _refused(lambda: mechanism.privatize(value), AnswerError)
        assert mechanism.privatize(value, clip=True) in range(4)


@given(st.text(min_size=1), st.lists(st.text(max_size=4), min_size=2, max_size=5, unique=True))
def test_a_text_is_an_option_or_refused_and_not_shown(answer, options):
    mechanism = KRandomizedResponse(1.0, options)
    if answer in options:
        assert mechanism.privatize(answer) in range(len(options) + 1)
        return
    error = _refused(lambda: mechanism.privatize([answer]), AnswerError)
    assert str(error) == str(_refused(lambda: mechanism.privatize("another, and unknown"), AnswerError))


def test_messages_do_not_depend_on_the_answer():
    """Two answers that are refused for the same reason are refused with the same words."""
    for one, other in ((2.0, 1e9), (-5, 77), ("x", "y"), ([3], [4.5]), (math.inf, -math.inf), (2j, 1 + 1j)):
        messages = {str(_refused(lambda a=a: BiSample(1.0).privatize(a), AnswerError)) for a in (one, other)}
        assert len(messages) == 1


def test_nothing_that_held_an_answer_can_be_printed():
    for name in registered():
        kind = registered()[name]
        if issubclass(kind, NumberMechanism):
            mechanism = kind(1.0, 0, 40_000)
            mechanism.privatize([SECRET, SECRET])
        else:
            mechanism = _make(name, epsilon=1.0, options=["a", "b"])
            mechanism.privatize(["a", "b"])
        for shown in (repr(mechanism), str(mechanism), repr(vars(mechanism))):
            assert str(SECRET) not in shown
    numbers, options = read_numbers([SECRET]), read_options([SECRET], (SECRET, 1))
    for held in (numbers, options):
        assert str(SECRET) not in f"{held!r} {held!s}"


# --- Reports and tallies ------------------------------------------------------------------------------


@every_name
@given(data=st.data())
def test_a_code_the_table_lacks_is_refused(name, data):
    mechanism = _make(name, epsilon=1.0)
    width = len(mechanism.table.codes)
    wrong = data.draw(st.one_of(st.integers(width, 2**70), st.integers(max_value=-1)))
    codes = data.draw(st.lists(st.integers(0, width - 1), max_size=5))
    error = _refused(lambda: mechanism.tally([*codes, wrong]), ReportError)
    if -(2**63) <= wrong < 2**63:
        assert f"0 to {width - 1}" in str(error)
        assert "another mechanism" in str(error)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int64, np.uint64])
def test_a_wrong_code_is_found_in_any_type_and_any_block(dtype):
    codes = np.zeros(BLOCK + 5, dtype=dtype)
    codes[-1] = 4
    _refused(lambda: BiSample(1.0).tally(codes), ReportError)
    _refused(lambda: BiSample(1.0).pairs(codes), ReportError)


NO_REPORTS = [
    None,
    "0",
    b"0",
    [0.0],
    [0.5],
    ["0"],
    [None],
    [0, None],
    [True],
    [[0], [1]],
    [[0], [1, 2]],
    {},
    {0: 1},
]
NO_REPORTS += [
    np.zeros((2, 2), int),
    np.zeros((0, 2), int),
    np.array([0.0]),
    [[]],
    [2**70],
    object(),
    1j,
    math.nan,
]
NO_REPORTS += [np.ma.array([0, 1], mask=[False, True]), pd.Series([0, None]), pa.array([0, None])]
NO_REPORTS += [pl.Series([0, None]), pd.Series([0, None], dtype="Int64"), np.array(["2031"], dtype="M8[Y]")]


@pytest.mark.parametrize("reports", NO_REPORTS, ids=_id)
def test_reports_are_integers_in_one_dimension(reports):
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, range(250))):
        _refused(lambda m=mechanism: m.tally(reports), ReportError)
    _refused(lambda: BiSample(1.0).pairs(reports), ReportError)


@every_name
@given(data=st.data())
def test_a_tally_that_does_not_fit_is_refused(name, data):
    mechanism = _make(name, epsilon=1.0)
    width = len(mechanism.table.codes)
    counts = data.draw(st.lists(st.integers(0, 100), max_size=12).filter(lambda c: len(c) != width))
    error = _refused(lambda: mechanism.estimate(counts), ReportError)
    assert f"{width} counts" in str(error)
    assert "another mechanism" in str(error)


@every_name
@given(data=st.data(), bad=own.bad_counts)
def test_a_tally_holds_integer_counts(name, data, bad):
    mechanism = _make(name, epsilon=1.0)
    width = len(mechanism.table.codes)
    at = data.draw(st.integers(0, width - 1))
    counts = [5] * width
    counts[at] = bad
    _refused(lambda: mechanism.estimate(counts), ReportError)


def test_a_tally_of_floats_is_refused_even_if_they_are_whole():
    _refused(lambda: BiSample(1.0).estimate(np.array([1.0, 2.0, 3.0, 4.0])), ReportError)


def test_more_reports_than_can_be_counted_exactly_are_refused():
    for counts in (
        [2**62] * 4,
        [2**63] * 4,
        [2**52 + 1] * 4,
        np.array([1, 2, 3, 2**64 - 1], dtype=np.uint64),
    ):
        assert "2**53" in str(_refused(lambda c=counts: BiSample(1.0).estimate(c), ReportError))
    assert BiSample(1.0).estimate([2**51] * 4).n == 2**53


NO_TALLIES = [
    None,
    5,
    "abcd",
    [],
    {},
    [[1, 2, 3, 4]],
    [[1], [2, 3]],
    np.zeros((2, 2), int),
    object(),
    math.nan,
]
NO_TALLIES += [np.ma.array([1, 2, 3, 4], mask=[0, 0, 0, 1]), [True] * 4, ["1"] * 4, np.array(7)]


@pytest.mark.parametrize("tally", NO_TALLIES, ids=_id)
def test_what_is_no_tally_is_refused(tally):
    _refused(lambda: BiSample(1.0).estimate(tally), ReportError)
    _refused(lambda: PrivKVM(1.0).estimate(tally), ReportError)


@pytest.mark.parametrize(
    "reports", [["1"], [[1], [2, 3]], None, 3.0, [math.nan], [math.inf], [1j], [[1.0]], {}]
)
def test_real_reports_are_finite_numbers(reports):
    for mechanism in SIMULATIONS:
        _refused(lambda m=mechanism: m.estimate(reports), ReportError)


# --- Everything else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, math.nan, math.inf, "0.5", True, [0.5], 1j])
def test_an_answer_rate_is_above_0_and_up_to_1(rate):
    for call in (
        lambda: BiSample(1.0).variance([0.5], answer_rate=rate),
        lambda: KRandomizedResponse(1.0, ["a", "b"]).variance(["a"], answer_rate=rate),
        lambda: plan_questions(BiSample, 1.0, 3, answer_rate=rate),
    ):
        assert "answer rate above 0 and up to 1" in str(_refused(call, ParameterError))


@pytest.mark.parametrize("values", [[], [None], np.array([]), [math.nan, None]])
def test_a_variance_needs_an_answer(values):
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"]), KRandomizedResponse(1.0, [1, 2])):
        _refused(lambda m=mechanism: m.variance(values), ParameterError)
    for mechanism in SIMULATIONS:
        _refused(lambda m=mechanism: m.variance(values), BisampleError)


def test_a_rate_below_1_needs_a_refusal():
    _refused(lambda: Harmony(1.0).variance([0.5], answer_rate=0.5), ParameterError)
    _refused(lambda: Harmony(1.0).variance([0.5, None]), ParameterError)
    _refused(lambda: RandomizedResponse(1.0).variance([True], answer_rate=0.5), ParameterError)


@pytest.mark.parametrize("questions", [0, -1, 1.5, "3", None, True])
def test_a_plan_has_a_number_of_questions(questions):
    _refused(lambda: plan_questions(BiSample, 1.0, questions), ParameterError)


def test_a_plan_says_what_is_wrong_with_the_expected_answers():
    assert "[-1, 1]" in str(_refused(lambda: plan_questions(BiSample, 1.0, 3, values=[5]), AnswerError))


@pytest.mark.parametrize("n", [-1, 1.5, "3", None, True])
def test_a_number_of_people_is_an_integer_from_0(n):
    plan = plan_questions(BiSample, 1.0, 3)
    assert "n must be an integer" in str(_refused(lambda: assign_questions(plan, n), ParameterError))
    assert "n must be an integer" in str(_refused(lambda: preferences(n, rng=1), ParameterError))


@pytest.mark.parametrize("rng", [None, "x", -1, 1.5, True, [1]])
def test_simulations_want_a_seed_or_a_generator(rng):
    for call in (
        lambda: Piecewise(1.0).privatize([0.5], rng=rng),
        lambda: Hybrid(1.0).privatize([0.5], rng=rng),
        lambda: PrivKVM(1.0).simulate([0.5], rng=rng),
        lambda: preferences(3, rng=rng),
        lambda: fake_random([0.5], rng=rng),
    ):
        _refused(call, ParameterError)


@pytest.mark.parametrize("rng", ["x", -1, 1.5, True, [1]])
def test_who_is_asked_what_wants_a_seed_a_generator_or_nothing(rng):
    plan = plan_questions(BiSample, 1.0, 3)
    _refused(lambda: assign_questions(plan, 2, rng=rng), ParameterError)
    assert assign_questions(plan, 2).sum(axis=1).tolist() == [plan.answered] * 2


@pytest.mark.parametrize("parameters", [("5",), (math.nan,), (5, None), (5, 5, 0), (5, 5, -1), (5, 5, "1")])
def test_a_true_answer_rate_needs_numbers(parameters):
    _refused(lambda: true_answer_rate(*parameters), ParameterError)


def test_preferences_are_one_or_as_many_as_values():
    _refused(lambda: prepare_values([1, 2, 3], 1.0, [1, 2]), ParameterError)
    _refused(lambda: prepare_values([1], 0, [1]), ParameterError)
    _refused(lambda: preferences(3, rng=1, sd=-1), ParameterError)
    assert np.isnan(prepare_values([1.0, 2.0], 1.0, [None, 3.0])).tolist() == [True, False]
    assert true_answer_rate(5.0) == 0.5


def test_what_is_masked_is_faked_like_any_refusal():
    masked = np.ma.array([0.5, 99.0], mask=[False, True])
    assert fake_top(masked).tolist() == [0.5, 1.0]
    faked = fake_random(masked, rng=1)
    assert faked[0] == 0.5
    assert abs(faked[1]) <= 1
    assert np.isnan(prepare_values(masked, 1.0, 2.0)).tolist() == [False, True]


def test_privkvm_refuses_answers_out_of_range_and_more_rounds_than_one_tally():
    for values in ([5.0], [math.inf], [0.5, -1.1]):
        _refused(lambda v=values: PrivKVM(1.0).simulate(v, rng=1), AnswerError)
    _refused(lambda: PrivKVM(1.0, rounds=2).estimate([1, 2, 3]), ReportError)
    for rounds, virtual in ((0, 0), (1.5, 0), (True, 0), (1, -1), (1, "2")):
        _refused(lambda r=rounds, v=virtual: PrivKVM(1.0, rounds=r, virtual=v), ParameterError)
    empty = PrivKVM(1.0).simulate([], rng=1)
    assert empty.mean is empty.missing_rate is None


def test_a_missing_extra_comes_back_from_another_process():
    error = MissingExtraError("a picture", "plot")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_error_can_be_caught_by_its_root_and_by_its_kind():
    for kind in (ParameterError, AnswerError, ReportError):
        assert issubclass(kind, BisampleError)
        assert issubclass(kind, ValueError)


@given(
    answers=st.lists(
        st.one_of(
            st.none(), st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.binary(max_size=3)
        ),
        max_size=8,
    ),
    clip=st.booleans(),
)
def test_any_list_is_privatized_or_refused_without_a_warning(answers, clip):
    mechanism = BiSample(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            reports = mechanism.privatize(answers, clip=clip)
        except AnswerError:
            return
    assert len(reports) == len(answers)
    assert reports.max(initial=0) < 4
    assume(not clip)
    assert all(a is None or a != a or -1 <= a <= 1 for a in answers)  # noqa: PLR0124


@pytest.mark.parametrize("options", [["no answer", "yes"], [(1, 2), (3, 4)], [object(), "a"]])
def test_options_are_texts_numbers_or_booleans_and_none_is_called_no_answer(options):
    with pytest.raises(ParameterError, match="option"):
        KRandomizedResponse(1.0, options)


def test_numpys_scalars_as_options_survive_json():
    m = KRandomizedResponse(1.0, list(np.arange(3)))
    assert from_description(json.loads(json.dumps(m.describe()))) == m


@pytest.mark.parametrize("blocks", [("2", "2"), (2.0, 2.0), (True, True, 2), (0, 4)])
def test_blocks_are_whole_numbers(blocks):
    with pytest.raises(ParameterError, match="block"):
        Table(BiSample(1.0).table.weights, rows=("a", "b", "c"), blocks=blocks)


def test_blocks_of_numpys_integers_are_taken_as_pythons():
    table = Table(BiSample(1.0).table.weights, rows=("a", "b", "c"), blocks=np.array([2, 2], dtype=np.uint8))
    assert table.blocks == (2, 2)
    assert table.digest


def test_real_reports_under_a_mask_are_not_counted():
    with pytest.raises(ReportError):
        Piecewise(1.0).estimate(np.ma.array([0.1, 0.2, 300.0], mask=[0, 0, 1]))
