"""Range and Options: what rows stand for, what is refused, and the text by which an option is known."""

import dataclasses
import decimal
import fractions
import json
import math
import pickle

import numpy as np
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

from bisample import BiSample, BisampleError, FormatError, Options, ParameterError, Range
from bisample.protocol.canonical import canonical, parse
from bisample.protocol.domain import LARGEST_ANCHOR, STEP, domain_from_dict, text_of

# --- Ranges -----------------------------------------------------------------------------------------

NO_RANGES = [(1, 1), (2, 1), (math.nan, 1), (0, math.nan), (-math.inf, 0), (0, math.inf), ("0", 1), (0, "1")]
NO_RANGES += [(None, 1), (0, None), (True, 2), (0, True), (0, 10**400), (0, 1j), ([0], 1), (0, b"1")]
NO_RANGES += [(np.str_("0"), 1), (0, np.timedelta64(1, "D"))]


@pytest.mark.parametrize(("lower", "upper"), NO_RANGES, ids=str)
def test_a_range_is_two_finite_numbers_the_lower_first(lower, upper):
    with pytest.raises(ParameterError, match="lower must be less than upper, and both finite numbers"):
        Range(lower, upper)


@given(bad=own.bad_bounds, good=st.floats(-1e6, 1e6))
def test_no_other_end_is_taken(bad, good):
    for ends in ((bad, good), (good, bad)):
        with pytest.raises(ParameterError, match=r"lower|upper"):
            Range(*ends)


@pytest.mark.parametrize(
    ("lower", "upper", "why"),
    [
        (0, 1e21, "upper must be 0 or from 0.000001 to below 10\\^21"),
        (-1e21, 0, "lower must be 0 or from"),
        (1e-7, 1, "lower must be 0 or from"),
        (0, 1e-7, "upper must be 0 or from"),
        (1e9, 1e9 + 1, "10\\^-9 of the larger end: .* shift the values"),
        (-1e9, -1e9 + 1, "10\\^-9 of the larger end"),
    ],
)
def test_ends_are_numbers_that_every_language_writes_and_tells_apart(lower, upper, why):
    with pytest.raises(ParameterError, match=why):
        Range(lower, upper)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(1e9, 1e9 + 1.5), (0, 1e-6), (-1e-6, 0), (-9.99e20, 9.99e20), (0, math.nextafter(1e21, 0)), (0.1, 0.3)],
)
def test_ends_at_the_limits_are_taken_and_positions_stay_below_2_to_the_53(lower, upper):
    domain = Range(lower, upper, (0, LARGEST_ANCHOR))
    assert math.floor((domain.upper - domain.lower) * domain.scale + 0.5) <= 2**53
    assert domain.last * STEP == 2**52


@pytest.mark.parametrize(
    "zero", [0, 0.0, -0.0, np.float64(-0.0), fractions.Fraction(0), decimal.Decimal("-0")]
)
def test_zero_has_one_sign_and_ends_are_floats(zero):
    domain = Range(zero, np.int64(7))
    assert (type(domain.lower), type(domain.upper)) == (float, float)
    assert math.copysign(1, domain.lower) == 1
    assert domain == Range(0, 7)


NO_ANCHORS = [
    (),
    (0,),
    (1, 2),
    (-1, 1),
    (0, 0),
    (0, 2, 1),
    (0, 1, 1),
    (0, 0.5),
    (0, 1.0),
    (0, True),
    ("0", "1"),
]
NO_ANCHORS += [(0, LARGEST_ANCHOR + 1), range(257), None, 5, "01", (0, None), [[0], [1]]]


@pytest.mark.parametrize("anchors", NO_ANCHORS, ids=lambda v: f"{v!s:.20}")
def test_anchors_are_rising_integers_from_0(anchors):
    with pytest.raises(ParameterError, match=r"anchor|rows"):
        Range(0, 1, anchors)


def test_as_many_anchors_as_a_byte_has_rows():
    assert Range(0, 1, range(255)).height == 256
    assert Range(0, 1, range(256), refusal=False).height == 256
    with pytest.raises(ParameterError, match="up to 256 rows, and 257"):
        Range(0, 1, range(256))


def test_anchors_stand_for_numbers():
    domain = Range(5, 45, np.array([0, 1, 4, 9, 20]))
    assert domain.anchors == (0, 1, 4, 9, 20)
    assert all(type(anchor) is int for anchor in domain.anchors)
    assert domain.values.tolist() == [5, 7, 13, 23, 45]
    assert domain.scaled == pytest.approx([-1, -0.9, -0.6, -0.1, 1], rel=1e-15)
    assert (domain.last, domain.height) == (20, 6)
    assert domain.labels == ("5", "7", "13", "23", "45", "no answer")
    assert str(domain) == "numbers from 5 to 45 or no answer"
    assert str(Range(0, 1, refusal=False)) == "numbers from 0 to 1"


@given(own.ranges(), st.lists(st.integers(1, 2**19), min_size=1, max_size=9, unique=True))
def test_the_ends_stand_for_themselves(span, rest):
    domain = Range(*span, (0, *sorted(rest)))
    assert (domain.values[0], domain.values[-1]) == span
    assert np.all(np.diff(domain.values) > 0)


@pytest.mark.parametrize("refusal", [0, 1, None, "yes", np.True_], ids=repr)
def test_refusal_is_true_or_false(refusal):
    for make in (lambda: Range(0, 1, refusal=refusal), lambda: Options(["a", "b"], refusal=refusal)):
        with pytest.raises(ParameterError, match="refusal must be True or False"):
            make()


# --- Options -----------------------------------------------------------------------------------------

MANY = "a choice has 2 to 255 options"
DIFFER = "options must differ as texts"
TEXTS = "options must be texts, numbers or booleans"
LIST = "options must be a list"

NO_OPTIONS = [
    ([], MANY),
    (["one"], MANY),
    (range(256), MANY),
    (["a", "a"], DIFFER),
    ([1, 1.0], DIFFER),
    ([1, "1"], DIFFER),
    ([True, "true"], DIFFER),
    ([0.5, fractions.Fraction(1, 2)], DIFFER),
    ([0, -0.0], DIFFER),
    (["a", None], TEXTS),
    (["a", math.nan], TEXTS),
    (["a", math.inf], TEXTS),
    (["a", 1e-7], TEXTS),
    (["a", 1e21], TEXTS),
    (["a", 10**5000], TEXTS),
    (["a", b"b"], TEXTS),
    ([["a"], ["b"]], TEXTS),
    ([{}, 1], TEXTS),
    ([(1, 2), (3, 4)], TEXTS),
    ([object(), "a"], TEXTS),
    (["a", np.timedelta64(1, "D")], TEXTS),
    ("ab", LIST),
    (b"ab", LIST),
    (3, LIST),
    (None, LIST),
    ({"a", "b"}, LIST),
    (frozenset("ab"), LIST),
    ({"a": 1, "b": 2}, LIST),
    ({"a": 1, "b": 2}.keys(), LIST),
    (["no answer", "yes"], "may not be called 'no answer'"),
    (["\ud83d", "a"], "surrogate"),
]


@pytest.mark.parametrize(("options", "why"), NO_OPTIONS)
def test_options_are_2_to_255_texts_that_differ(options, why):
    with pytest.raises(BisampleError, match=why):
        Options(options)


def test_a_refusal_takes_one_row():
    assert Options(range(255)).height == 256
    assert Options(range(255), refusal=False).height == 255
    with pytest.raises(ParameterError, match="2 to 255 options"):
        Options(range(256), refusal=False)  # missing must still differ from all of them in a byte


@pytest.mark.parametrize("option", ["", " ", " a", "a ", "a\n", "a\nb", "\x1b[8m", "\x7f", "\x85"])
def test_options_can_be_seen(option):
    with pytest.raises(ParameterError, match="texts that can be seen"):
        Options(["other", option])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.str_("tea"), "tea"),
        (True, "true"),
        (np.False_, "false"),
        (1, "1"),
        (1.0, "1"),
        (np.float32(2), "2"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (10**30, "1" + "0" * 30),
        (-0.0, "0"),
        (0.25, "0.25"),
        (decimal.Decimal("0.10"), "0.1"),
        (fractions.Fraction(-3, 2), "-1.5"),
        (np.float32(0.1), "0.10000000149011612"),
        (1e20, "100000000000000000000"),
    ],
    ids=repr,
)
def test_an_option_is_known_by_the_text_that_json_writes(value, text):
    assert text_of(value) == text
    assert type(text_of(value)) is str
    assert Options([value, "other"]).options == (text, "other")


NO_TEXTS = [None, b"1", 1j, (1,), [], {}, math.nan, math.inf, 1e21, 1e-7, decimal.Decimal("sNaN"), 10**5000]
NO_TEXTS += [np.timedelta64(1, "D"), np.datetime64("2031"), np.array(1), np.ma.masked, object()]


@pytest.mark.parametrize("value", NO_TEXTS, ids=lambda v: type(v).__name__)
def test_what_is_no_text_number_or_boolean_has_no_text(value):
    assert text_of(value) is None


@given(
    st.text(max_size=9)
    | st.booleans()
    | st.integers()
    | st.floats(-1e20, 1e20).filter(lambda x: abs(x) > 1e-6)
)
def test_the_text_of_a_text_is_itself(value):
    text = text_of(value)
    assert text_of(text) == text
    assert text_of(np.array([value], dtype=object)[0]) == text


def test_options_print_short():
    assert str(Options(["a", "b"])) == "one of a, b or no answer"
    assert str(Options(range(200), refusal=False)) == "one of 0, 1, 2, ..., 199"
    assert Options(["a", "b"]).labels == ("a", "b", "no answer")


# --- Frozen, compared, sent ---------------------------------------------------------------------------

DOMAINS = [
    Range(0, 1),
    Range(5, 45, (0, 1, 4, 9, 20)),
    Range(-0.1, 1e20, refusal=False),
    Options(["tea", "\u8336", "\U0001f375"]),
    Options([False, True], refusal=False),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_a_domain_comes_back_from_json_and_from_another_process(domain):
    for again in (
        domain_from_dict(parse(canonical(domain.to_dict()))),
        domain_from_dict(json.loads(json.dumps(domain.to_dict()))),
        pickle.loads(pickle.dumps(domain)),
    ):
        assert again == domain
        assert hash(again) == hash(domain)
        assert again.to_dict() == domain.to_dict()


def test_domains_are_equal_by_content():
    different = [
        Range(0, 1),
        Range(0, 2),
        Range(-1, 1),
        Range(0, 1, (0, 2)),
        Range(0, 1, refusal=False),
        Options(["0", "1"]),
        Options(["1", "0"]),
        Options(["0", "1"], refusal=False),
    ]
    for i, one in enumerate(different):
        for j, other in enumerate(different):
            assert (one == other) is (i == j)
    assert len(set(different)) == len(different)
    assert Options([0, 1]) == Options(["0", "1"]) == Options((0.0, 1.0))
    assert len({Options([0, 1]), Options(["0", "1"])}) == 1


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_a_domain_cannot_be_changed(domain):
    for name in ("lower", "upper", "anchors", "options", "refusal"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(domain, name, 200)
    if isinstance(domain, Range):
        for numbers in (domain.values, domain.scaled, pickle.loads(pickle.dumps(domain)).values):
            with pytest.raises(ValueError, match="read-only"):
                numbers[0] = 200


RANGE = {"anchors": [0, 1], "kind": "range", "lower": "0", "refusal": True, "upper": "1"}
CHOICE = {"kind": "options", "options": ["a", "b"], "refusal": True}

NO_DOMAINS = [None, [], "range", {}, {"kind": None}, {"kind": "rang"}, {"kind": ["range"]}, {"kind": "Range"}]
NO_DOMAINS += [
    RANGE | {"lower": 0},
    RANGE | {"lower": "0.0"},
    RANGE | {"upper": "1e0"},
    RANGE | {"upper": "0"},
]
NO_DOMAINS += [RANGE | {"anchors": (0, 1)}, RANGE | {"anchors": [0, True]}, RANGE | {"anchors": [0, 1.0]}]
NO_DOMAINS += [
    RANGE | {"anchors": []},
    RANGE | {"refusal": 1},
    RANGE | {"unit": "km"},
    RANGE | {"upper": None},
]
NO_DOMAINS += [{k: v for k, v in RANGE.items() if k != name} for name in RANGE if name != "kind"]
NO_DOMAINS += [CHOICE | {"options": ["a", 1]}, CHOICE | {"options": ["a", True]}, CHOICE | {"options": "ab"}]
NO_DOMAINS += [CHOICE | {"options": ["a", "a"]}, CHOICE | {"refusal": None}, CHOICE | {"lower": "0"}]
NO_DOMAINS += [CHOICE | {"options": ["a", None]}, {"kind": "options", "refusal": True}]


@pytest.mark.parametrize("data", NO_DOMAINS, ids=str)
def test_a_domain_is_read_from_what_describes_one(data):
    assert domain_from_dict(RANGE) == Range(0, 1)
    assert domain_from_dict(CHOICE) == Options(["a", "b"])
    with pytest.raises((FormatError, ParameterError)):
        domain_from_dict(data)


def test_anchors_in_a_set_have_no_order():
    with pytest.raises(ParameterError, match="anchors must be a list of integers, not set"):
        Range(0, 1, {0, 1})


def test_integers_of_thousands_of_digits_are_refused_in_a_sentence():
    for call in (
        lambda: Range(0, 10**5000),
        lambda: Range(0, 1, (0, 10**5000)),
        lambda: Range(-(10**5000), 1),
    ):
        with pytest.raises(ParameterError) as caught:
            call()
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("lower", "upper"), [(-0.1, 0.2), (0.1, 0.3), (-1 / 3, 1e-3), (17, 90), (1e20, 3e20)]
)
def test_the_last_anchor_stands_for_the_end_itself(lower, upper):
    """-0.1 + (0.2 - -0.1) is more than 0.2, which is out of the range."""
    values = Range(lower, upper, (0, 2, 3)).values
    assert (values[0], values[-1]) == (lower, upper)


def test_too_few_reports_are_told_so_on_any_range():
    m = BiSample(1, -0.1, 0.2)
    assert "some" in m.estimate(m.tally([0, 1])).undefined["mean"]
