"""Bad input is an error of bisample's own that says what to do: no wrong number, and never the answer.

Here is what goes through several modules, from a builder to a code; each module's own is with its tests.
"""

import datetime as dt
import decimal
import fractions
import math
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as own
from handmade import UNEVEN
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    AnswerError,
    BiSample,
    BisampleError,
    FileError,
    FormatError,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    MissingExtraError,
    ParameterError,
    RandomizedResponse,
    Range,
    ReportError,
)
from bisample.catalogue import CATALOGUE, build
from bisample.device.drawing import BLOCK

SECRET = 31337  # in every shape, and its digits nowhere else


def _make(name, **parameters):
    if "options" in CATALOGUE[name].takes:
        parameters = {"options": ["a", "b"]} | parameters
    return build(name, **parameters)


every_name = pytest.mark.parametrize("name", sorted(CATALOGUE))


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
NO_EPSILON += [decimal.Decimal("sNaN"), fractions.Fraction(10**400), 5e-324, np.timedelta64(1, "D")]


@every_name
@pytest.mark.parametrize("epsilon", NO_EPSILON, ids=range(len(NO_EPSILON)))
def test_epsilon_is_a_number_in_its_range(name, epsilon):
    error = _refused(lambda: _make(name, epsilon=epsilon), ParameterError)
    assert "epsilon must be a number from 1e-06 to 20" in str(error)
    assert "0.5 to 4" in str(error)  # the next step


@given(epsilon=own.bad_epsilons, name=st.sampled_from(sorted(CATALOGUE)))
def test_no_other_epsilon_is_taken(epsilon, name):
    _refused(lambda: _make(name, epsilon=epsilon), ParameterError)


@pytest.mark.parametrize(
    "epsilon", [1, 1.0, np.float32(1), np.int64(1), fractions.Fraction(1), decimal.Decimal(1)], ids=repr
)
def test_any_real_number_is_an_epsilon(epsilon):
    for name in CATALOGUE:
        mechanism = _make(name, epsilon=epsilon)
        assert mechanism == _make(name, epsilon=1.0)
        assert mechanism.provenance.parameters["epsilon"] == "1"


@every_name
def test_every_builder_checks_its_domain(name):
    if CATALOGUE[name].domain == "range":
        for lower, upper in (
            (1, 1),
            (2, 1),
            ("0", 1),
            (None, 1),
            (0, math.inf),
            (1e9, 1e9 + 1e-7),
            (0, 1e-300),
        ):
            error = _refused(
                lambda b=(lower, upper): build(name, epsilon=1, lower=b[0], upper=b[1]), ParameterError
            )
            assert "lower" in str(error) or "upper" in str(error)
    else:
        for options in (
            ["a"],
            ["a", "a"],
            [1, 1.0],
            "ab",
            {"a", "b"},
            3,
            None,
            ["a", None],
            ["a", "no answer"],
        ):
            error = _refused(lambda o=options: build(name, epsilon=1, options=o), ParameterError)
            assert "option" in str(error)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(524288.0, 524288.1), (1e9, 1e9 + 1.5), (-1e12 - 2000, -1e12), (0, 9.99e20), (-1e-6, 1e-6), (0, 1e-6)],
)
@pytest.mark.parametrize("name", sorted(n for n, entry in CATALOGUE.items() if entry.domain == "range"))
def test_any_range_that_is_taken_takes_its_ends_and_nothing_beyond(name, lower, upper):
    mechanism = build(name, epsilon=1, lower=lower, upper=upper)
    assert len(mechanism.privatize([lower, upper], rng=1)) == 2
    for beyond in (math.nextafter(upper, math.inf), math.nextafter(lower, -math.inf)):
        _refused(lambda b=beyond: mechanism.privatize(b), AnswerError)
        assert mechanism.privatize(beyond, clip=True) in range(mechanism.table.width)


def test_randomized_response_has_two_options():
    assert "2 options" in str(_refused(lambda: RandomizedResponse(1.0, ["a", "b", "c"]), ParameterError))


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("nothing", {"epsilon": 1}, "mechanism must be one of bisample, "),
        (None, {"epsilon": 1}, "mechanism must be one of"),
        (["bisample"], {"epsilon": 1}, "mechanism must be one of"),
        ("BiSample", {"epsilon": 1}, "mechanism must be one of"),
        ("bisample", {}, "bisample needs "),
        ("rr", {}, "rr needs "),
        ("k-rr", {"epsilon": 1}, "k-rr needs "),
        ("bisample", {"epsilon": 1, "speed": 2}, "bisample takes epsilon, lower, upper, and no speed"),
        ("rr", {"epsilon": 1, "lower": 0}, "rr takes epsilon, options, and no lower"),
    ],
)
def test_a_name_from_the_catalogue_comes_with_its_parameters(name, parameters, why):
    assert why in str(_refused(lambda: build(name, **parameters), ParameterError))


# --- Answers ------------------------------------------------------------------------------------------

MECHANISMS = {name: _make(name, epsilon=1.0) for name in CATALOGUE} | {
    "uneven": Mechanism(UNEVEN.table, Range(-1, 1, UNEVEN.domain.anchors))
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@given(answers=own.bad_answers(SECRET))
def test_an_answer_that_cannot_be_privatized_is_refused_and_not_shown(mechanism, answers):
    _refused(lambda: mechanism.privatize(answers), AnswerError, SECRET)


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
        KRandomizedResponse(1.0, ["a", 2**60]),
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
@pytest.mark.parametrize("dtype", [float, object])
def test_one_question_at_a_time(shape, dtype):
    for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, [0, 1]), RandomizedResponse(1.0)):
        error = _refused(lambda m=mechanism: m.privatize(np.zeros(shape, dtype=dtype)), AnswerError)
        assert "one dimension" in str(error)
        assert error.index is None


@given(value=st.floats(allow_nan=False, allow_infinity=False), span=own.ranges())
def test_a_number_is_in_the_range_or_refused_never_both(value, span):
    lower, upper = span
    mechanism = BiSample(1.0, lower, upper)
    if lower <= value <= upper:
        assert mechanism.privatize(value) in range(4)
    else:
        _refused(lambda: mechanism.privatize(value), AnswerError)
        assert mechanism.privatize(value, clip=True) in range(4)


@given(st.text(min_size=1), st.lists(own.options_texts, min_size=2, max_size=5, unique=True))
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
        for mechanism in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"])):
            first, second = (
                str(_refused(lambda a=a, m=mechanism: m.privatize(a), AnswerError)) for a in (one, other)
            )
            assert first == second


def test_nothing_that_held_an_answer_can_be_printed():
    for name, entry in CATALOGUE.items():
        domain = {"upper": 40_000} if entry.domain == "range" else {"options": ["a", str(SECRET + 1)]}
        mechanism = build(name, epsilon=1.0, **domain)
        mechanism.privatize([SECRET, SECRET] if entry.domain == "range" else ["a", "a"])
        for shown in (repr(mechanism), str(mechanism), repr(vars(mechanism)), mechanism.to_json()):
            assert str(SECRET) not in shown


# --- Errors -------------------------------------------------------------------------------------------


def test_every_error_can_be_caught_by_its_root_and_by_its_kind():
    kinds = {ParameterError: ValueError, FormatError: ValueError, AnswerError: ValueError}
    kinds |= {ReportError: ValueError, FileError: OSError, MissingExtraError: ImportError}
    assert set(kinds) == set(BisampleError.__subclasses__())
    for kind, builtin in kinds.items():
        assert issubclass(kind, builtin)


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

    def fits(answer):
        if answer is None or answer != answer:  # noqa: PLR0124
            return True
        return isinstance(answer, (int, float)) and abs(answer) <= (1.7e308 if clip else 1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if all(map(fits, answers)):
            reports = mechanism.privatize(answers, clip=clip)
            assert len(reports) == len(answers)
            assert reports.max(initial=0) < 4
        else:
            error = _refused(lambda: mechanism.privatize(answers, clip=clip), AnswerError)
            assert not fits(answers[error.index])
