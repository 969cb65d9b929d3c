"""Tallies: what they count, what adds to what, and what is refused."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    BiSample,
    FormatError,
    KRandomizedResponse,
    ParameterError,
    RandomizedResponse,
    ReportError,
    Tally,
    ThreeState,
)
from bisample.analysis.tally import MAX_REPORTS, SIMULATED

AGES = BiSample(epsilon=1, lower=17, upper=90)
KILOMETRES = BiSample(epsilon=1, lower=0, upper=50)
CODES = [0, 3, 3, 1]
COUNTS = [1, 1, 0, 2]

subjects = st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), st.text(max_size=5), max_size=3)


# --- Counting ---------------------------------------------------------------------------------------


@given(data=st.data(), mechanism=own.mechanisms)
def test_tallies_of_parts_add_up_in_any_order(data, mechanism):
    width = mechanism.table.width
    codes = data.draw(st.lists(st.integers(0, width - 1), max_size=60))
    cut = data.draw(st.integers(0, len(codes)))
    whole = mechanism.tally(codes)
    assert mechanism.tally(codes[cut:]) + mechanism.tally(codes[:cut]) == whole
    assert mechanism.tally(data.draw(st.permutations(codes))) == whole
    assert whole.counts.tolist() == [codes.count(c) for c in range(width)]
    assert whole.n == len(codes)
    assert mechanism.tally_of(whole.counts) == whole


@pytest.mark.parametrize(
    "reports",
    [
        CODES,
        tuple(CODES),
        lambda: (code for code in CODES),
        lambda: iter(CODES),
        lambda: map(int, "0331"),
        bytes(CODES),
        bytearray(CODES),
        memoryview(bytes(CODES)),
        memoryview(np.array(CODES)),
        memoryview(bytes([0, 9, 3, 9, 3, 9, 1]))[::2],
        np.array(CODES),
        np.array(CODES, dtype=np.int64)[::-1],
        np.array(CODES, dtype=np.uint8),
        np.array(CODES, dtype=np.uint64),
        np.array(CODES, dtype=">u2"),
        np.ma.array(CODES),
        pd.Series(CODES),
        pl.Series(CODES),
        pa.array(CODES),
        pa.chunked_array([CODES[:1], CODES[1:]]),
    ],
    ids=lambda reports: type(reports).__name__,
)
def test_codes_are_counted_from_any_container(reports):
    reports = reports() if callable(reports) else reports  # an iterator can be read once
    assert AGES.tally(reports).counts.tolist() == COUNTS


@pytest.mark.parametrize("none", [[], (), b"", bytearray(), memoryview(b""), iter([]), np.array([])])
def test_no_reports_are_a_tally_too(none):
    assert AGES.tally(none) == AGES.tally_of([0, 0, 0, 0])
    assert AGES.tally(none).n == 0


def test_a_single_code_is_one_report():
    assert AGES.tally(AGES.privatize(40)).n == 1
    assert AGES.tally(np.uint8(3)).counts.tolist() == [0, 0, 0, 1]


def test_many_reports_are_counted_in_blocks():
    mechanism = KRandomizedResponse(1.0, range(255))
    codes = np.random.default_rng(1).integers(0, 256, 300_001)
    expected = np.bincount(codes, minlength=256).tolist()
    for dtype in (np.uint8, np.uint16, np.int64):
        assert mechanism.tally(codes.astype(dtype)).counts.tolist() == expected


@pytest.mark.parametrize("at", [0, 1, 131_071, 131_072, 299_999])
@pytest.mark.parametrize("code", [4, 255, -1, 256, 2**40])
def test_an_unknown_code_is_found_at_its_index_and_not_shown(code, at):
    codes = np.zeros(300_000, dtype=np.uint8 if 0 <= code < 256 else np.int64)
    codes[at:] = code
    with pytest.raises(ReportError, match=f"the report at index {at} is no code of bisample") as refused:
        AGES.tally(codes)
    assert "codes are 0 to 3" in str(refused.value)
    assert "another mechanism" in str(refused.value)


@pytest.mark.parametrize(
    "reports",
    [
        [0.0, 1.0],
        ["0", "3"],
        [0, None],
        [[0, 1], [2, 3]],
        [[0], [1, 2]],
        {0, 3},
        {"codes": [0]},
        "03",
        None,
        np.ma.array(CODES, mask=[0, 1, 0, 0]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.array([3], dtype="m8[D]"),
        pd.Series([0, None]),
    ],
    ids=repr,
)
def test_what_is_no_list_of_codes_is_refused(reports):
    with pytest.raises(ReportError, match="integer codes in one dimension"):
        AGES.tally(reports)


# --- Counts that were made elsewhere ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([1, -1, 0, 2], "that of code 1 is negative"),
        ([1.0, 1.0, 0.0, 2.0], "integers from 0"),
        ([1.5, 1, 0, 2], "integers from 0"),
        ([True, 1, 0, 2], "integers from 0"),
        (np.array([True, False, True, True]), "integers from 0"),
        (["1", "1", "0", "2"], "integers from 0"),
        ([1, 1, None, 2], "integers from 0"),
        ([[1, 1, 0, 2]], "one dimension"),
        ([[1], [1, 2]], "one dimension"),
        (4, "one dimension"),
        (None, "one dimension"),
        (np.ma.array([1, 1, 0, 2], mask=[0, 1, 0, 0]), "integers from 0"),
        ([2**53, 0, 0, 0], "fewer than 2..53"),
        ([2**52, 2**52, 0, 0], "fewer than 2..53"),
        (np.array([2**64 - 1, 1, 0, 0], dtype=np.uint64), "fewer than 2..53"),
        ([2**64, 0, 0, 0], "below 2..53"),
        ([], "integers from 0"),
        ([1, 1, 0], "has 4 counts, not 3"),
        ([1, 1, 0, 2, 0], "has 4 counts, not 5"),
    ],
    ids=str,
)
def test_counts_are_integers_from_0_as_many_as_codes(counts, says):
    with pytest.raises(ReportError, match=says):
        AGES.tally_of(counts)


def test_as_many_reports_as_doubles_count_are_enough():
    full = AGES.tally_of([MAX_REPORTS - 3, 1, 1, 1])
    assert full.n == MAX_REPORTS
    assert Tally.from_json(full.to_json()) == full
    with pytest.raises(ReportError, match="no longer exact"):
        full + AGES.tally([0])


def test_counts_that_look_like_reports_are_sent_to_the_other_call():
    for reports in (
        np.array(CODES, dtype=np.uint8),
        bytes(CODES),
        bytearray(CODES),
        memoryview(bytes(CODES)),
    ):
        with pytest.raises(ReportError, match=r"tally\(reports\) counts them, tally_of\(counts\)"):
            AGES.tally_of(reports)
    with pytest.raises(ReportError, match=r"has 4 counts, not 300: if these are reports, tally\(reports\)"):
        AGES.tally_of([0, 1, 2] * 100)


def test_reports_that_look_like_counts_are_sent_to_the_other_call():
    with pytest.raises(
        ReportError, match=r"index 0 is no code .* If these are counts, .* tally_of\(counts\)"
    ):
        AGES.tally([300, 200, 260, 240])


def test_a_tally_is_not_counted_again():
    tally = AGES.tally(CODES)
    for again in (AGES.tally, AGES.tally_of, KILOMETRES.tally, KILOMETRES.tally_of):
        with pytest.raises(ReportError, match="a tally already"):
            again(tally)


# --- What adds to what --------------------------------------------------------------------------------


def test_tallies_add_and_sum_and_stay_as_they_were():
    a, b = AGES.tally([0, 0], {"country": "CN"}), AGES.tally([3], {"country": "CN"})
    both = AGES.tally_of([2, 0, 0, 1], {"country": "CN"})
    assert a + b == b + a == sum([a, b]) == sum([both]) == both
    assert a.counts.tolist() == [2, 0, 0, 0]
    assert (a + b).subject == {"country": "CN"}
    for other in (1, [0, 0, 0, 1], None, "x", 0.5):
        with pytest.raises(TypeError):
            a + other
        with pytest.raises(TypeError):
            other + a


@given(subject=subjects)
def test_equal_tallies_are_equal_whatever_the_order_of_their_subjects_names(subject):
    tally = AGES.tally(CODES, subject)
    turned = AGES.tally(CODES, dict(reversed(subject.items())))
    assert tally == turned
    assert hash(tally) == hash(turned)
    assert len({tally, turned, tally + AGES.tally([], subject)}) == 1
    assert Tally.from_json(tally.to_json()) == tally
    assert tally.to_json() == turned.to_json()
    for other in (AGES.tally(CODES[1:], subject), AGES.tally(CODES, {**subject, "one more": "x"})):
        assert tally != other
    assert tally != KILOMETRES.tally(CODES, subject)
    assert tally != COUNTS


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ({}, {"country": "CN"}, "no subject does not add to one of country = CN"),
        ({"country": "NZ"}, {"country": "CN"}, "country = NZ does not add to one of country = CN"),
        ({"country": "CN"}, {"land": "CN"}, "country = CN does not add to one of land = CN"),
        ({"a": "1"}, {"a": "1", "b": "2"}, "a = 1 does not add to one of a = 1, b = 2"),
    ],
)
def test_unequal_subjects_do_not_add_but_pool(one, other, says):
    a, b = AGES.tally([0], one), AGES.tally([3], other)
    with pytest.raises(ReportError, match=f"{says}: pool them by Tally.pooled"):
        a + b
    pooled = Tally.pooled([a, b])
    assert pooled.counts.tolist() == [1, 0, 0, 1]
    assert pooled.subject == dict(one.items() & other.items())
    assert Tally.pooled(iter([a, b]), {"of": "all"}) == AGES.tally([0, 3], {"of": "all"})


def test_ages_do_not_add_to_kilometres_even_where_the_table_is_the_same():
    a, b = AGES.tally(CODES), KILOMETRES.tally(CODES)
    assert AGES.table == KILOMETRES.table
    for add in (lambda: a + b, lambda: Tally.pooled([a, b]), lambda: sum([a, b])):
        with pytest.raises(ReportError) as refused:
            add()
        assert AGES.digest[:12] in str(refused.value)
        assert KILOMETRES.digest[:12] in str(refused.value)


@pytest.mark.parametrize("parts", [[], None, 3, "tally", [CODES], [AGES.tally(CODES), None]], ids=repr)
def test_only_tallies_can_be_pooled(parts):
    with pytest.raises(ReportError, match=r"pooled takes a list of one tally or more"):
        Tally.pooled(parts)
    with pytest.raises(ReportError, match=r"pooled takes a list"):
        Tally.pooled(AGES.tally(CODES))


def test_what_was_simulated_stays_simulated():
    """A seed can be found by trying: whatever is pooled with such codes is no result in earnest."""
    simulated, earnest = AGES.tally(CODES, SIMULATED), AGES.tally(CODES)
    with pytest.raises(ReportError, match="simulated = with a seed"):
        simulated + earnest
    assert (simulated + simulated).subject == SIMULATED
    for parts in ([simulated, earnest], [earnest, simulated], [simulated]):
        assert Tally.pooled(parts).subject == SIMULATED
        assert Tally.pooled(parts, {"of": "all"}).subject == {"of": "all", **SIMULATED}
    assert Tally.pooled([earnest, earnest]).subject == {}


# --- Whose it is --------------------------------------------------------------------------------------


STRANGERS = [KILOMETRES, BiSample(2, 17, 90), ThreeState(1, 17, 90), RandomizedResponse(1)]


@pytest.mark.parametrize("stranger", STRANGERS, ids=repr)
def test_a_strangers_tally_is_refused_and_both_are_named(stranger):
    tally = stranger.tally([0, 1, 1])
    for ask in (AGES.estimate, lambda tally: AGES.estimates([AGES.tally(CODES), tally])):
        with pytest.raises(ReportError) as refused:
            ask(tally)
        for named in (stranger.digest[:12], AGES.digest[:12], repr(AGES)):
            assert named in str(refused.value)


def test_a_tally_under_the_right_digest_with_too_few_counts_is_refused():
    forged = Tally([1, 2], AGES.digest)
    with pytest.raises(ReportError, match="has 4 counts, not 2"):
        AGES.estimate(forged)
    with pytest.raises(ReportError, match="2 counts does not add to one of 4"):
        forged + AGES.tally(CODES)


def test_provenance_does_not_decide_whose_a_tally_is():
    from bisample import Mechanism

    bare = Mechanism(AGES.table, AGES.domain)
    assert bare.estimate(AGES.tally(CODES)).n == 4


@pytest.mark.parametrize("subject", [[], "CN", {"country": 1}, {1: "CN"}, {"country": None}, 7], ids=repr)
def test_a_subject_is_names_with_texts(subject):
    with pytest.raises(ParameterError, match="names with texts, such as"):
        AGES.tally(CODES, subject)
    with pytest.raises(ParameterError, match="names with texts, such as"):
        Tally.pooled([AGES.tally(CODES)], subject)


@pytest.mark.parametrize("subject", [{"ländername": "CN"}, {"country": "\ud800"}], ids=ascii)
def test_a_subject_is_what_json_can_hold(subject):
    with pytest.raises(FormatError):
        AGES.tally(CODES, subject)


def test_a_tally_names_its_mechanism_by_digest():
    with pytest.raises(ParameterError, match="by digest"):
        Tally(COUNTS, AGES)


# --- Frozen, and as data ------------------------------------------------------------------------------


def test_a_tally_cannot_be_changed():
    given_counts, given_subject = np.array(COUNTS), {"country": "CN"}
    tally = AGES.tally_of(given_counts, given_subject)
    given_counts[0], given_subject["country"] = 99, "NZ"
    assert (tally.counts.tolist(), tally.subject) == (COUNTS, {"country": "CN"})
    with pytest.raises(ValueError, match="read-only"):
        tally.counts[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(tally)[0] = 7
    with pytest.raises(FrozenInstanceError):
        tally.mechanism = ""
    with pytest.raises(TypeError):
        tally.subject["country"] = "NZ"


def test_as_an_array():
    tally = AGES.tally(CODES)
    assert np.asarray(tally).tolist() == COUNTS
    assert np.asarray(tally, dtype=np.float64).dtype == np.float64
    copied = np.array(tally)
    copied[0] = 7
    assert tally.counts.tolist() == COUNTS
    assert pd.Series(np.asarray(tally)).sum() == 4


def test_a_tally_survives_json_and_pickle():
    tally = AGES.tally(CODES, {"country": "CN", "question": "alter: é"})
    data = json.loads(tally.to_json())
    assert data == {
        "counts": COUNTS,
        "format": "bisample-tally/1",
        "mechanism": AGES.digest,
        "subject": {"country": "CN", "question": "alter: é"},
    }
    for text in (tally.to_json(), tally.to_json().encode(), json.dumps(data, indent=3)):
        assert Tally.from_json(text) == tally
    assert Tally.from_json(tally.to_json()).to_json() == tally.to_json()
    for again in (pickle.loads(pickle.dumps(tally)), copy.deepcopy(tally), copy.copy(tally)):
        assert again == tally
        assert not again.counts.flags.writeable


@pytest.mark.parametrize(
    "change",
    [
        {"format": "bisample-tally/2"},
        {"format": "bisample-mechanism/1"},
        {"counts": [1, True, 0, 2]},
        {"counts": [1, -1, 0, 2]},
        {"counts": [1, "1", 0, 2]},
        {"counts": [[1], [1], [0], [2]]},
        {"counts": []},
        {"counts": "1102"},
        {"counts": [1.5, 1, 0, 2]},
        {"counts": [2**53, 1, 0, 2]},
        {"counts": [2**53 - 1, 1, 0, 2]},
        {"mechanism": None},
        {"mechanism": 7},
        {"subject": ["CN"]},
        {"subject": {"country": 7}},
        {"more": 1},
    ],
    ids=str,
)
def test_any_other_json_is_refused(change):
    data = {**AGES.tally(CODES).to_dict(), **change}
    with pytest.raises((FormatError, ReportError, ParameterError)):
        Tally.from_json(json.dumps(data))


@pytest.mark.parametrize("missing", ["counts", "format", "mechanism", "subject"])
def test_json_without_one_of_its_fields_is_refused(missing):
    data = AGES.tally(CODES).to_dict()
    del data[missing]
    with pytest.raises(FormatError, match=f"must have the field '{missing}'"):
        Tally.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", "7", b"\xff", None, '{"counts": [1], "counts": [2]}']
)
def test_what_is_no_tally_is_refused(text):
    with pytest.raises(FormatError):
        Tally.from_json(text)


def test_a_tally_prints_what_it_counts():
    assert repr(AGES.tally(CODES)) == f"<Tally: 4 reports, 4 codes, mechanism {AGES.digest[:8]}>"
    assert repr(AGES.tally([0], {"country": "CN"})).startswith("<Tally of country = CN: 1 report, 4 codes,")
    assert "1,000,000 reports" in repr(AGES.tally_of([10**6, 0, 0, 0]))


@pytest.mark.parametrize("reports", [[True, False], [0, True], (np.True_, 3)])
def test_truth_values_are_no_codes(reports):
    with pytest.raises(ReportError, match="not true or false"):
        BiSample(1).tally(reports)


def test_counts_by_code_may_have_gaps_and_any_order():
    """As GROUP BY and value_counts give them: taken in their order, they would be another tally."""
    m = BiSample(1, 17, 90)
    codes = [3] * 7 + [0] * 5 + [2] * 2
    expected = m.tally(codes)
    assert m.tally_of({3: 7, 0: 5, 2: 2}) == expected
    assert m.tally_of(pd.Series(codes).value_counts()) == expected
    assert m.tally_of(pd.Series([5, 0, 2, 7])) == expected
    assert m.tally_of(dict(pl.Series(codes).value_counts().iter_rows())) == expected
    assert m.tally_of({}).n == 0


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({4: 1}, "has the codes 0 to 3, and 4 is counted"),
        ({-1: 1}, "and -1 is counted"),
        ({10**5000: 1}, "thousands of digits is counted"),
        ({"0": 1}, "integer codes, not str"),
        ({True: 1}, "integer codes, not bool"),
        ({0: -1}, "integers from 0"),
        ({0: 1.5}, "integers from 0"),
    ],
)
def test_counts_by_code_are_checked(counts, says):
    with pytest.raises(ReportError, match=says):
        BiSample(1).tally_of(counts)
