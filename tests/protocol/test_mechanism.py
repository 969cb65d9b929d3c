"""A mechanism is a table over a domain, and that is all it takes: by hand, from JSON, anywhere."""

import copy
import dataclasses
import hashlib
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import strategies as own
from handmade import ANSWERED, COIN, FRUIT, HANDMADE, SCORES, UNEVEN, rows_drawn
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    AnswerError,
    BiSample,
    BisampleError,
    DitheredResponse,
    FormatError,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    MissingExtraError,
    Options,
    ParameterError,
    RandomizedResponse,
    Range,
    ReportError,
    Table,
    ThreeState,
)
from bisample.catalogue import CATALOGUE, build
from bisample.protocol.canonical import canonical, decimal_text, parse
from bisample.protocol.exact import TOTAL
from bisample.protocol.mechanism import Provenance


def _any(name):
    return build(name, epsilon=1, **({"options": ["a", "b"]} if "options" in CATALOGUE[name].takes else {}))


MADE = {name: _any(name) for name in CATALOGUE} | HANDMADE
every = pytest.mark.parametrize("mechanism", MADE.values(), ids=MADE)

# --- By hand: private (test_privacy.py), unbiased, and read back -------------------------------------


def test_the_scores_written_beside_the_weights_are_the_answers():
    """Each row's expected scores, in integers: 3/64 (anchor - 10) and 0; for a refusal 0 and -1/4."""
    for row, anchor in zip(UNEVEN.table.weights, (*UNEVEN.domain.anchors, None), strict=True):
        score = Fraction(sum(w * s for w, s in zip(row, SCORES, strict=True)), TOTAL)
        answered = Fraction(sum(w * s for w, s in zip(row, ANSWERED, strict=True)), TOTAL)
        assert score == (0 if anchor is None else Fraction(3, 64) * (anchor - 10))
        assert answered == (Fraction(-1, 4) if anchor is None else 0)


def _expected_anchor(domain, value):
    """The expectation of the anchor over all 2^32 words, from the word at which the row changes."""
    low, high = 0, 2**32
    ((above,), (below,)) = (rows_drawn(domain, [value], [word]) for word in (0, 2**32 - 1))
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rows_drawn(domain, [value], [middle]) == [above] else (low, middle)
    one, other = domain.anchors[below], domain.anchors[above]
    return one + Fraction((other - one) * low, 2**32)


GRID = [a + (b - a) * j / 8 for a, b in [(0, 1), (1, 4), (4, 9), (9, 20)] for j in range(9)]


@pytest.mark.parametrize("position", GRID)
def test_a_number_written_by_hand_is_expected_where_it_lies_exactly(position):
    value = 5 + 2 * position  # 45 - 5 is twice 20
    assert _expected_anchor(UNEVEN.domain, value) == Fraction(position)


@given(st.floats(5, 45))
def test_between_the_grid_it_is_expected_within_a_word(value):
    expected = _expected_anchor(UNEVEN.domain, value)
    assert abs(expected - (Fraction(value) - 5) / 2) <= Fraction(12, 2**32)


@given(st.floats(-0.1, 0.2))
def test_with_a_public_coin_it_is_expected_within_a_word(value):
    domain = COIN.domain
    position = (
        (Fraction(value) - Fraction(domain.lower)) / (Fraction(domain.upper) - Fraction(domain.lower)) * 3
    )
    assert abs(_expected_anchor(domain, value) - position) <= Fraction(4, 2**32)


@pytest.mark.parametrize("mechanism", [UNEVEN, COIN], ids=["uneven", "coin"])
def test_a_mechanism_written_by_hand_estimates_what_its_rows_hold(mechanism):
    """Of the counts that are expected, the estimates are the truth: no builder taught it how."""
    domain, n = mechanism.domain, 2**44
    rng = np.random.default_rng(4)
    for _ in range(5):
        people = rng.dirichlet(np.ones(domain.height))
        counts = np.rint(people @ mechanism.table.matrix * n).astype(np.int64)
        estimate = mechanism.estimate(mechanism.tally_of(counts))
        answered = 1 - people[-1]
        assert estimate.answer_rate == pytest.approx(answered, abs=1e-9)
        assert estimate.mean == pytest.approx(people[:-1] @ domain.values / answered, rel=1e-9, abs=1e-9)


def test_reports_of_one_written_by_hand_lead_back_to_the_answers():
    """Normal bounds at alpha = 1e-9 a side; n = 200,000 tells a mean 4 % of the range away, a rate 8 %."""
    rng = np.random.default_rng(8)
    values = rng.triangular(5, 12, 45, 200_000)
    values[rng.random(len(values)) < 0.3] = np.nan
    for mechanism, answers in ((UNEVEN, values), (COIN, (values - 5) / 40 * 0.3 - 0.1)):
        estimate = mechanism.estimate(mechanism.tally(mechanism.privatize(answers, rng=3)))
        assert abs(estimate.mean - np.nanmean(answers)) < 6 * estimate.mean_error
        assert abs(estimate.missing_rate - 0.3) < 6 * estimate.missing_rate_error
        assert 6 * estimate.missing_rate_error < 0.08
        assert 6 * estimate.mean_error < 0.04 * (mechanism.domain.upper - mechanism.domain.lower)


# --- JSON and digest ---------------------------------------------------------------------------------


@every
def test_a_mechanism_comes_back_from_json_and_from_another_process(mechanism):
    for again in (
        Mechanism.from_json(mechanism.to_json()),
        Mechanism.from_json(mechanism.to_json().encode()),
        Mechanism.from_json(json.dumps(mechanism.to_dict(), indent=4)),
        Mechanism.from_dict(mechanism.to_dict()),
        pickle.loads(pickle.dumps(mechanism)),
        copy.deepcopy(mechanism),
    ):
        assert again == mechanism
        assert hash(again) == hash(mechanism)
        assert again.digest == mechanism.digest
        assert again.provenance == mechanism.provenance
        assert again.to_json() == mechanism.to_json()
        assert repr(again) == repr(mechanism)


@given(mechanism=own.mechanisms)
def test_any_mechanism_is_what_its_json_says(mechanism):
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert again.to_json() == mechanism.to_json()
    assert canonical(parse(mechanism.to_json())).decode() == mechanism.to_json()


@every
def test_the_digest_is_that_of_table_and_domain(mechanism):
    data = json.loads(mechanism.to_json())
    content = {"domain": data["domain"], "table": data["table"]}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert mechanism.digest == data["digest"] == hashlib.sha256(text.encode()).hexdigest()


def test_digests_differ_where_table_or_domain_do_and_not_by_provenance():
    table = ThreeState(1).table
    made = [
        Mechanism(table, Range(0, 1)),
        Mechanism(table, Range(0, 2)),
        Mechanism(table, Range(0, 1, (0, 2))),
        Mechanism(table, Range(0, 1, (0, 1, 2), refusal=False)),
        Mechanism(table, Options(["a", "b"])),
        Mechanism(table, Options(["a", "b", "c"], refusal=False)),
        Mechanism(ThreeState(1.5).table, Range(0, 1)),
    ]
    assert len({m.digest for m in made}) == len({*made}) == len(made)
    for i, one in enumerate(made):
        assert [one == other for other in made] == [i == j for j in range(len(made))]
    named = Mechanism(table, Range(0, 1), Provenance("mine", {"epsilon": "1"}))
    assert named == made[0]
    assert hash(named) == hash(made[0])
    assert named.digest == made[0].digest
    assert named.to_json() != made[0].to_json()


GOOD = UNEVEN.to_dict()
CHANGED = {
    "no object": ([], "must be an object"),
    "nothing": ({}, "must have the field"),
    "another version": (GOOD | {"format": "bisample-mechanism/2"}, "another version"),
    "no version": ({k: v for k, v in GOOD.items() if k != "format"}, "field 'format'"),
    "no digest": ({k: v for k, v in GOOD.items() if k != "digest"}, "field 'digest'"),
    "no table": ({k: v for k, v in GOOD.items() if k != "table"}, "field 'table'"),
    "another digest": (GOOD | {"digest": COIN.digest}, "changed after it was made"),
    "digest in capitals": (GOOD | {"digest": GOOD["digest"].upper()}, "changed after it was made"),
    "another range": (GOOD | {"domain": GOOD["domain"] | {"upper": "46"}}, "changed after it was made"),
    "another table": (GOOD | {"table": COIN.table.to_dict()}, "they must be as many"),
    "another domain": (GOOD | {"domain": COIN.domain.to_dict()}, "they must be as many"),
    "more": (GOOD | {"epsilon": 1}, "no field 'epsilon'"),
    "provenance of nobody": (GOOD | {"provenance": {"builder": "", "parameters": {}}}, "must be a name"),
    "half a provenance": (GOOD | {"provenance": {"builder": "x"}}, "field 'parameters'"),
    "no provenance": (GOOD | {"provenance": None}, "must be an object|no null"),
    "a number as range": (GOOD | {"domain": GOOD["domain"] | {"upper": 45}}, "must be a text"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_was_changed_is_refused(case):
    data, why = CHANGED[case]
    for call in (lambda: Mechanism.from_dict(data), lambda: Mechanism.from_json(json.dumps(data))):
        with pytest.raises((FormatError, ParameterError), match=why) as caught:
            call()
        assert isinstance(caught.value, BisampleError)


def test_every_weight_that_is_changed_is_noticed():
    for row in range(6):
        data = json.loads(UNEVEN.to_json())
        data["table"]["weights"][row][0] += 1
        data["table"]["weights"][row][4] -= 1
        with pytest.raises(FormatError, match="changed after it was made"):
            Mechanism.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "{}", b"\xff", "null"], ids=repr)
def test_other_texts_are_refused(text):
    with pytest.raises(FormatError):
        Mechanism.from_json(text)


# --- What it is made of --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((UNEVEN.table.weights, UNEVEN.domain), "made of a Table and of a Range or Options"),
        ((UNEVEN.table, (5, 45)), "made of a Table and of a Range or Options"),
        ((UNEVEN.domain, UNEVEN.table), "made of a Table and of a Range or Options"),
        ((UNEVEN.table, COIN.domain), "4 rows .* and the table has 6"),
        ((UNEVEN.table, Range(0, 1, range(6))), "7 rows"),
        ((UNEVEN.table, UNEVEN.domain, "me"), "is a Provenance"),
        ((UNEVEN.table, UNEVEN.domain, {}), "is a Provenance"),
    ],
    ids=str,
)
def test_a_mechanism_is_made_of_what_fits(parts, why):
    with pytest.raises(ParameterError, match=why):
        Mechanism(*parts)


def test_names_and_how_it_prints():
    assert repr(BiSample(1, 17, 90)) == (
        "<Mechanism bisample(epsilon=1): numbers from 17 to 90 or no answer, 4 codes, epsilon <= 1>"
    )
    assert (BiSample(1).name, UNEVEN.name) == ("bisample", f"table {UNEVEN.digest[:8]}")
    assert repr(FRUIT).startswith(f"<Mechanism table {FRUIT.digest[:8]}: one of apple, 2, true, 2 codes, ")
    assert str(DitheredResponse(2, levels=4, steps=3).provenance) == "dithered(epsilon=2, levels=4, steps=3)"


@given(st.floats(1e-6, 20), st.sampled_from(sorted(set(CATALOGUE) - {"rr", "k-rr"})))
def test_the_provenance_builds_the_same_again(epsilon, name):
    mechanism = build(name, epsilon=epsilon, lower=3, upper=7.5)
    parameters = dict(mechanism.provenance.parameters)
    assert parameters.pop("epsilon") == decimal_text(epsilon)
    again = build(name, epsilon=float(decimal_text(epsilon)), lower=3, upper=7.5, **parameters)
    assert again == mechanism
    assert again.provenance == mechanism.provenance


@pytest.mark.parametrize(
    ("builder", "parameters"),
    [("", {}), (None, {}), (3, {}), ("x", 5), ("x", None), ("x", []), ("x", {"a": 0.5}), ("x", {"a": None})],
    ids=str,
)
def test_a_provenance_is_a_name_and_what_canonical_json_holds(builder, parameters):
    with pytest.raises((ParameterError, FormatError)):
        Provenance(builder, parameters)


# --- Frozen, compared, sent ----------------------------------------------------------------------------


@every
@pytest.mark.parametrize("name", ["table", "domain", "provenance", "digest", "epsilon_upper", "name"])
def test_a_mechanism_cannot_be_changed(mechanism, name):
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(mechanism, name, COIN.table)


def test_nor_can_what_it_is_made_of_nor_what_it_makes():
    m = BiSample(1, 17, 90)
    tally = m.tally_of([300, 200, 260, 240], {"country": "CN"})
    estimate = m.estimate(tally)
    for thing, name in (
        (m.domain, "upper"),
        (m.table, "weights"),
        (m.provenance, "builder"),
        (tally, "counts"),
        (tally, "mechanism"),
        (estimate, "mean"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 200)
    with pytest.raises(ValueError, match="read-only"):
        tally.counts[0] = 5
    for mapping in (tally.subject, m.provenance.parameters):
        with pytest.raises(TypeError):
            mapping["country"] = "DE"


def test_nor_can_it_be_changed_by_what_it_was_made_from():
    weights, parameters, counts = [[TOTAL // 2] * 2 for _ in range(3)], {"a": 1}, np.array([1, 2])
    mechanism = Mechanism(Table(weights), Range(0, 1), Provenance("mine", parameters))
    tally = mechanism.tally_of(counts)
    digest = mechanism.digest
    weights[0][0], parameters["a"], counts[0] = 0, 2, 99
    assert Mechanism(mechanism.table, mechanism.domain).digest == digest
    assert mechanism.provenance.parameters == {"a": 1}
    assert tally.counts.tolist() == [1, 2]


def test_what_is_made_comes_back_from_another_process():
    m, choice = BiSample(1, 17, 90), KRandomizedResponse(1, ["a", "b"])
    tally, votes = m.tally_of([300, 200, 260, 240], {"country": "CN"}), choice.tally_of([5, 3, 2])
    for thing in (
        m,
        m.table,
        m.domain,
        m.provenance,
        tally,
        m.estimate(tally),
        choice.estimate(votes),
        m.variance([20, None]),
    ):
        again = pickle.loads(pickle.dumps(thing))
        assert again == thing
        assert repr(again) == repr(thing)
    assert not pickle.loads(pickle.dumps(tally)).counts.flags.writeable


@pytest.mark.parametrize(
    "error",
    [
        AnswerError("is infinite", 7),
        AnswerError("answers must be numbers"),
        ParameterError("x must be y"),
        FormatError("x"),
        ReportError("x"),
        MissingExtraError("a picture", "plot"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_come_back_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_warm_mechanism_is_sent_as_small_as_a_cold_one():
    """What is cached (matrix, digest, anchors' values) stays at home."""
    cold, warm = DitheredResponse(2.5), DitheredResponse(2.5)
    warm = Mechanism(Table(cold.table.weights, cold.table.blocks), warm.domain, warm.provenance)
    size = len(pickle.dumps(warm))
    warm.estimate(warm.tally(warm.privatize([0.5, None] * 50, rng=1)))
    assert warm.digest
    assert warm.domain.values.size
    assert len(pickle.dumps(warm)) == size


# --- The certificate -----------------------------------------------------------------------------------


@every
def test_the_certificate_says_what_can_be_checked_by_hand(mechanism):
    claim = mechanism.certificate(2)
    assert claim["holds"] is True
    assert claim["epsilon"] == 2.0
    assert claim["epsilon_upper"] == mechanism.epsilon_upper
    numerator, denominator = map(int, claim["worst"]["ratio"].split("/"))
    high, low = claim["worst"]["weights"]
    assert Fraction(high, low) == Fraction(numerator, denominator)
    weights = claim["mechanism"]["table"]["weights"]
    first, second = (claim["rows"].index(label) for label in claim["worst"]["rows"])
    code = claim["worst"]["code"]
    assert [weights[first][code], weights[second][code]] == [high, low]
    assert Mechanism.from_dict(json.loads(json.dumps(claim))["mechanism"]) == mechanism


@every
def test_the_certificate_says_no_below_the_tables_epsilon(mechanism):
    below = math.nextafter(math.nextafter(mechanism.epsilon_upper, 0), 0)
    assert mechanism.certificate(below)["holds"] is False
    assert mechanism.certificate(mechanism.epsilon_upper)["holds"] is True
    assert "holds" not in mechanism.certificate()


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1, "1", 1j, True])
def test_a_certificate_is_for_a_number(epsilon):
    with pytest.raises(ParameterError, match="epsilon must be a number from 0"):
        BiSample(1.0).certificate(epsilon)


# --- The doors -----------------------------------------------------------------------------------------


@every
def test_all_doors_open_for_any_mechanism(mechanism):
    again = Mechanism.from_json(mechanism.to_json())
    answers = (
        list(again.domain.options)
        if isinstance(again.domain, Options)
        else [again.domain.lower, again.domain.upper]
    )
    answers += [None] if again.domain.refusal else []
    codes = again.privatize(answers * 400, rng=1)
    assert codes.tolist() == mechanism.privatize(answers * 400, rng=1).tolist()
    tally = again.tally(codes, {"wave": "1"})
    assert tally == mechanism.tally_of(np.bincount(codes, minlength=again.table.width), {"wave": "1"})
    one, (other,) = again.estimate(tally, question="q"), again.estimates([tally], questions=["q"])
    assert one.to_dict() == other.to_dict()
    assert one.n == 400 * len(answers)
    assert one.epsilon == again.epsilon_upper
    if mechanism is not FRUIT:  # two codes do not tell three options apart
        assert again.variance(answers).answer_rate >= 0
        assert 0 <= one.projected().answer_rate <= 1


def test_without_a_refusal_everybody_answers():
    for mechanism in (Harmony(1), RandomizedResponse(1)):
        assert not mechanism.domain.refusal
        assert mechanism.table.height == 2
