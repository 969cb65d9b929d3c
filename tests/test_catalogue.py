"""The catalogue: every table is its paper's, says what it takes, and refuses the rest in a sentence."""

import inspect
import itertools
import math
import pickle
from statistics import NormalDist

import checks
import numpy as np
import pytest
import strategies as own
from checks import case_id
from hypothesis import given
from hypothesis import strategies as st

import bisample
from bisample import (
    BiSample,
    DitheredResponse,
    FocusedResponse,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    ParameterError,
    PrivKV,
    RandomizedResponse,
    ThreeState,
)
from bisample.catalogue import CATALOGUE, build, dithered_levels, response_weights, share
from bisample.planning.compare import POPULATIONS
from bisample.protocol.domain import Options, Range
from bisample.protocol.exact import TOTAL

KINDS = checks.kinds()
EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


# --- Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 12.5, 20.0])
@pytest.mark.parametrize("name", checks.FORMS)
def test_a_table_is_its_papers_closed_form_within_rounding(name, epsilon):
    """Weights are multiples of 2^-48, all others than the truth rounded to one side."""
    m = checks.make(CATALOGUE[name], epsilon)
    form = checks.rows(m)
    assert form.shape == (m.domain.height, m.table.width)
    np.testing.assert_allclose(form.sum(axis=1), 1, rtol=1e-12)
    # The truth takes up what all others were rounded by; 1e-14 is what floats cost the form itself.
    np.testing.assert_allclose(m.table.matrix, form, rtol=0, atol=2 * m.table.width * 2.0**-48 + 1e-14)
    assert m.table.satisfies(epsilon)


@given(epsilon=own.epsilons)
def test_a_table_loses_next_to_nothing_of_its_epsilon(epsilon):
    for kind in KINDS:
        m = checks.make(kind, epsilon)
        if kind.name == "privkv":  # its two halves never cost all of epsilon at once
            assert 0.5 * epsilon < m.epsilon_upper < epsilon
        else:
            assert epsilon * (1 - 1e-9) <= m.epsilon_upper <= epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize(("levels", "steps"), [(2, 1), (2, 16), (3, 7), (5, 16), (20, 12), (255, 1)])
def test_a_dithered_table_is_its_closed_form_at_any_levels_and_steps(epsilon, levels, steps):
    m = DitheredResponse(epsilon, levels=levels, steps=steps)
    form = checks.dithered_rows(epsilon, levels, steps)
    np.testing.assert_allclose(m.table.matrix, form, rtol=0, atol=2 * levels * 2.0**-48 + 1e-14)
    assert m.table.blocks == (levels + 1,) * steps
    assert m.domain.anchors == tuple(range(steps * (levels - 1) + 1))
    assert m.provenance.parameters == {"epsilon": f"{epsilon:g}", "levels": levels, "steps": steps}


def test_domains_are_what_the_entries_say():
    for kind in KINDS:
        m = checks.make(kind, 1.0)
        assert isinstance(m.domain, Range if kind.domain == "range" else Options)
        assert m.domain.refusal == kind.refusal
    for builder in (BiSample, ThreeState, PrivKV, DitheredResponse, Harmony):
        assert (builder(1.0).domain.lower, builder(1.0).domain.upper) == (-1, 1)
    assert RandomizedResponse(1.0).domain.options == ("false", "true")


@given(total=st.integers(1, 2**50), parts=st.integers(1, 300))
def test_shares_differ_by_one_at_most_and_sum_to_all(total, parts):
    shares = share(total, parts)
    assert (sum(shares), len(shares)) == (total, parts)
    assert max(shares) - min(shares) <= 1


@given(epsilon=st.floats(1e-6, 20), k=st.integers(2, 256))
def test_response_weights_are_private_and_the_largest_that_are(epsilon, k):
    truth, others = response_weights(TOTAL, epsilon, k)
    assert truth + sum(others) == TOTAL
    assert len(others) == k - 1
    # In floats; the exact proof is Table.satisfies.
    ideal = TOTAL / (math.expm1(epsilon) + k)
    assert truth / min(others) <= math.exp(epsilon) * (1 + 1e-12)
    assert all(abs(other - ideal) <= 1 + 1e-6 * ideal for other in others)


# --- The dithered response ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 9.0, 10.0, 12.0, 15.0, 17.5, 20.0])
def test_there_are_fewer_steps_only_where_a_byte_requires_it(epsilon):
    m = DitheredResponse(epsilon, 17, 90)
    levels, steps = (m.provenance.parameters[name] for name in ("levels", "steps"))
    assert levels == dithered_levels(epsilon)
    assert m.table.width == steps * (levels + 1) <= 256
    assert steps == 16 or (steps + 1) * (levels + 1) > 256
    assert steps == 16 or epsilon > 8
    assert m.table.satisfies(epsilon)
    codes = m.privatize([17, 38, 90, None] * 500, rng=1)
    e = m.estimate(m.tally(codes))
    assert abs(e.mean - (17 + 38 + 90) / 3) < 5 * e.mean_error
    assert abs(e.answer_rate - 0.75) < 5 * e.answer_rate_error


def test_the_levels_that_suit_an_epsilon_rise_and_fit_a_byte():
    found = [dithered_levels(epsilon) for epsilon in np.geomspace(1e-6, 20, 200)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (2, 255)


@pytest.mark.parametrize("data", ["gauss", "exp", "uniform", "two-point"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sixteen_steps_lose_at_most_three_percent(epsilon, data):
    """Against 128 steps, whose table is built here in floats: a byte could not hold its codes."""
    values, levels = POPULATIONS[data], dithered_levels(epsilon)

    def variance(steps):
        matrix = checks.dithered_rows(epsilon, levels, steps)
        anchors = np.linspace(-1, 1, len(matrix) - 1)
        position = (values + 1) / 2 * (len(anchors) - 1)
        below = np.minimum(position.astype(int), len(anchors) - 2)
        shares = np.bincount(below, 1 - (position - below), len(matrix))
        shares += np.bincount(below + 1, position - below, len(matrix))
        shares *= 0.7 / len(values)
        shares[-1] = 0.3
        p = shares @ matrix
        target = np.append((anchors - values.mean()) / 0.7, 0)
        weights = np.linalg.lstsq((matrix / p) @ matrix.T, target, rcond=1e-10)[0]
        return target @ weights - values.var() / 0.7

    assert variance(16) <= 1.03 * variance(128)
    stated = DitheredResponse(epsilon).variance(values, answer_rate=0.7, realised=True).mean
    assert variance(16) == pytest.approx(stated, rel=1e-6)


def test_without_a_dither_it_is_k_ary_randomized_response_of_the_rounded_value():
    assert DitheredResponse(1.0, levels=2, steps=1).table.weights == ThreeState(1.0).table.weights


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"levels": 1}, "levels must be an integer from 2"),
        ({"levels": 2.5}, "levels must be an integer from 2"),
        ({"levels": True}, "levels must be an integer from 2"),
        ({"levels": "3"}, "levels must be an integer from 2"),
        ({"levels": 256}, "levels must be at most 255, not 256: a report is one byte"),
        ({"steps": 0}, "steps must be an integer from 1"),
        ({"steps": [4]}, "steps must be an integer from 1"),
        ({"steps": np.timedelta64(4, "D")}, "steps must be an integer from 1"),
        ({"levels": 20, "steps": 13}, "steps of at most 12, or fewer levels"),
        ({"levels": 2, "steps": 86}, "steps of at most 85, or fewer levels"),
    ],
)
def test_wrong_levels_and_steps_say_what_is_possible(parameters, says):
    with pytest.raises(ParameterError, match=says):
        DitheredResponse(1.0, **parameters)


def test_parameters_mean_the_same_whatever_was_built_before():
    assert DitheredResponse(1.0, levels=np.int64(3)) == DitheredResponse(1.0, levels=3)
    with pytest.raises(ParameterError, match="levels"):
        DitheredResponse(1.0, levels=3.0)  # equal to 3, which was built: no cache may let it through
    with pytest.raises(ParameterError, match="epsilon"):
        BiSample(True)  # equal to 1.0
    assert BiSample(np.float64(1)).provenance == BiSample(1).provenance == BiSample(1.0).provenance


# --- What is taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_an_entry_names_what_its_builder_takes(kind):
    taken = inspect.signature(kind.builder).parameters
    assert kind.takes == tuple(taken)
    ends = {"epsilon", "lower", "upper", "options"}
    assert [parameter.name for parameter in kind.parameters] == [name for name in taken if name not in ends]
    required = [name for name, parameter in taken.items() if parameter.default is parameter.empty]
    assert list(kind.needs) == required
    for parameter in kind.parameters:
        assert taken[parameter.name].default is None  # what the entry's `default` says in words
        if parameter.kind is float:
            continue  # its range depends on lower and upper
        low, high = map(int, parameter.range.split(" to "))
        # The range is the true one: its ends are taken, and what lies beyond them is not.
        for value in (low, high):
            assert kind.builder(1.0, **{parameter.name: value}).table.satisfies(1.0)
        for value in (low - 1, high + 1):
            with pytest.raises(ParameterError, match=parameter.name):
                kind.builder(1.0, **{parameter.name: value})
        assert isinstance(low, parameter.kind)


def test_every_builder_is_public_and_documented_with_its_equation():
    for kind in KINDS:
        assert getattr(bisample, kind.builder.__name__) is kind.builder
        assert kind.builder.__name__ in bisample.__all__
        assert ">>> " in kind.builder.__doc__
        assert 10 < len(kind.help) < 80
        assert CATALOGUE[kind.name] is kind
    with pytest.raises(TypeError):
        CATALOGUE["mine"] = CATALOGUE["rr"]


@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_build_is_the_builder(kind):
    given_parameters = {
        "epsilon": 2,
        "lower": 17,
        "upper": 90,
        "options": ["a", "b"],
        "levels": 3,
        "steps": 4,
        "mean": 40,
        "spread": 5,
    }
    parameters = {name: given_parameters[name] for name in kind.takes}
    built = build(kind.name, **parameters)
    assert built == kind.builder(**parameters)
    assert built.provenance == kind.builder(**parameters).provenance
    assert built.name == kind.name


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("nothing", {"epsilon": 1}, r"mechanism must be one of bisample, .*k-rr, not 'nothing'"),
        (None, {"epsilon": 1}, r"mechanism must be one of .*, not None"),
        (["rr"], {"epsilon": 1}, r"mechanism must be one of .*, not \['rr'\]"),
        ("BiSample", {"epsilon": 1}, r"mechanism must be one of .*, not 'BiSample'"),
        ("bisample", {"epsilon": 1, "levels": 2}, "bisample takes epsilon, lower, upper, and no levels"),
        ("rr", {"epsilon": 1, "lower": 0}, "rr takes epsilon, options, and no lower"),
        ("dithered", {"epsilon": 1, "p": 0}, "takes epsilon, lower, upper, levels, steps, and no p"),
        ("bisample", {}, "bisample needs epsilon"),
        ("rr", {}, "rr needs epsilon"),
        ("k-rr", {"epsilon": 1}, "k-rr needs epsilon and options: options was not given"),
        ("k-rr", {"options": ["a", "b"]}, "k-rr needs epsilon and options: epsilon was not given"),
        (
            "rr",
            {"epsilon": 1, "options": ["a", "b", "c"]},
            "randomized response has 2 options, not 3: take k-rr",
        ),
        ("k-rr", {"epsilon": 1, "options": ["a"]}, "a choice has 2 to 255 options, not 1"),
        ("k-rr", {"epsilon": 1, "options": [str(i) for i in range(256)]}, "2 to 255 options, not 256"),
        ("k-rr", {"epsilon": 1, "options": "ab"}, "options must be a list"),
        ("harmony", {"epsilon": 1, "lower": 3, "upper": 3}, "lower must be less than upper"),
        ("privkv", {"epsilon": 1, "lower": "0"}, "lower must be less than upper, and both finite numbers"),
        ("dithered", {"epsilon": 1, "levels": 300}, "levels must be at most 255"),
    ],
)
def test_build_refuses_in_sentences(name, parameters, says):
    with pytest.raises(ParameterError, match=says):
        build(name, **parameters)


@given(epsilon=own.bad_epsilons)
def test_every_builder_refuses_what_is_no_epsilon(epsilon):
    for kind in KINDS:
        with pytest.raises(ParameterError, match="epsilon must be a number from 1e-06 to 20, not"):
            checks.make(kind, epsilon)


@given(bound=own.bad_bounds)
def test_every_builder_refuses_what_is_no_end_of_a_range(bound):
    for kind in KINDS:
        if kind.domain == "range":
            with pytest.raises(ParameterError, match=r"lower|upper"):
                kind.builder(1.0, lower=bound, upper=5)
            with pytest.raises(ParameterError, match=r"lower|upper"):
                kind.builder(1.0, lower=-5, upper=bound)


# --- Provenance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_provenance_is_printed_and_no_part_of_the_digest(kind):
    m = checks.make(kind, 0.5)
    assert repr(m).startswith(f"<Mechanism {kind.name}(epsilon=0.5")
    assert m.provenance.parameters["epsilon"] == "0.5"
    assert m.certificate(0.5)["mechanism"]["provenance"]["builder"] == kind.name
    bare = Mechanism(m.table, m.domain)
    assert bare == m
    assert (bare.digest, hash(bare)) == (m.digest, hash(m))
    assert bare.name == f"table {m.digest[:8]}"
    assert kind.name not in repr(bare)
    for again in (Mechanism.from_json(m.to_json()), pickle.loads(pickle.dumps(m))):
        assert (again, again.provenance, repr(again)) == (m, m.provenance, repr(m))
    assert '"provenance"' not in bare.to_json()


def test_one_mechanism_built_in_two_ways_is_one():
    one, other = DitheredResponse(1.0, levels=2, steps=1), ThreeState(1.0)
    assert one == other
    assert one.digest == other.digest
    assert one.name != other.name
    assert other.estimate(one.tally([0, 1, 2])).mechanism == "three-state"


def test_digests_differ_where_table_or_domain_does():
    mechanisms = [checks.make(kind, epsilon) for kind in KINDS for epsilon in (0.5, 1.0)]
    mechanisms += [BiSample(1.0, 0, 1), BiSample(1.0, 0, 2), KRandomizedResponse(1.0, ["b", "a"])]
    mechanisms += [KRandomizedResponse(1.0, ["a", "b"]), DitheredResponse(1.0, steps=4), Harmony(1.0, 0, 1)]
    for one, other in itertools.combinations(mechanisms, 2):
        assert one.digest != other.digest, (one, other)
        assert one != other


# --- The focused response -----------------------------------------------------------------------------


def focus(epsilon, mean, spread):
    return FocusedResponse(epsilon, mean=mean, spread=spread)


def _quantiles(mean, spread):
    """A population of numbers in [-1, 1], normal, or even over the range where the spread is infinite."""
    middles = (np.arange(400) + 0.5) / 400
    if math.isinf(spread):
        return 2 * middles - 1
    return np.array([NormalDist(mean, spread).inv_cdf(p) for p in middles]).clip(-1, 1)


@pytest.mark.parametrize(
    ("guess", "truth", "relative"),
    [
        ((0.5, 0.1), (0.5, 0.1), (0.835, 0.785, 0.661, 0.425)),
        ((0.3, 0.2), (0.3, 0.2), (0.930, 0.914, 0.802, 0.612)),
        ((None, None), (0, math.inf), (1, 1, 1, 1)),
        ((0.5, 0.1), (0, math.inf), (1.155, 1.25, 1.66, 4.28)),
    ],
)
def test_what_a_guess_brings_and_costs(guess, truth, relative):
    """The mean's variance relative to the dithered response's, 70 % answering, within 3 %."""
    values = _quantiles(*truth)
    for epsilon, expected in zip((2, 3, 4, 6), relative, strict=True):
        focused, dithered = focus(epsilon, *guess), DitheredResponse(epsilon)
        one, other = (m.variance(values, answer_rate=0.7, realised=True) for m in (focused, dithered))
        assert one.mean / other.mean == pytest.approx(expected, rel=0.03)
        assert one.answer_rate == pytest.approx(other.answer_rate, rel=1e-9)  # whatever the guess
        assert focused.table == dithered.table


def test_a_wrong_guess_costs_no_more_than_is_said():
    for epsilon, most in ((2, 2.3), (3, 2.9), (4, 3.6), (6, 11.5)):
        dithered = DitheredResponse(epsilon)
        truths = np.linspace(-1, 1, 33)
        usual = np.array([dithered.variance([x], answer_rate=1).mean for x in truths])
        for mean, spread in itertools.product((-1, -0.9, -0.5, 0, 0.5, 1), (0, 0.1, 0.3)):
            focused = focus(epsilon, mean, spread)
            found = np.array([focused.variance([x], answer_rate=1).mean for x in truths])
            assert (found / usual).max() <= 1.01 * most, (epsilon, mean, spread)


@pytest.mark.parametrize("epsilon", [0.5, 2, 3, 4, 6, 8, 20])
@pytest.mark.parametrize("spread", [0, 0.05, 0.3, 1.5])
def test_levels_rise_evenly_in_steps_and_keep_the_ends(epsilon, spread):
    for mean in (-1, -0.97, -0.3, 0, 0.8, 1):
        mechanism = focus(epsilon, mean, spread)
        anchors = np.array(mechanism.domain.anchors)
        steps = mechanism.provenance.parameters["steps"]
        gaps = np.diff(anchors).reshape(-1, steps)
        assert (gaps == gaps[:, :1]).all()
        assert (gaps > 0).all()
        assert mechanism.domain.values[[0, -1]].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("guess", "says"),
    [
        ({"mean": 91}, r"mean must lie in \[17, 90\], not 91"),
        ({"mean": math.nan}, "mean must lie"),
        ({"mean": "40"}, "mean must lie"),
        ({"spread": -1}, "spread must be from 0 to upper - lower, 73, not -1"),
        ({"spread": 74}, "spread must be"),
        ({"spread": True}, "spread must be"),
    ],
)
def test_a_guess_must_be_possible(guess, says):
    with pytest.raises(ParameterError, match=says):
        FocusedResponse(2, 17, 90, **{"mean": 50, "spread": 9, **guess})


def test_estimates_do_not_depend_on_a_right_guess():
    """100,000 people far from where they were expected: unbiased, within 5 standard errors."""
    mechanism = FocusedResponse(4, 0, 100, mean=80, spread=3)
    rng = np.random.default_rng(5)
    held = rng.normal(25, 8, 100_000).clip(0, 100)
    found = mechanism.estimate(mechanism.tally(mechanism.privatize(held, rng=1)))
    assert abs(found.mean - held.mean()) < 5 * found.mean_error
    assert found.mean_error < 0.5
