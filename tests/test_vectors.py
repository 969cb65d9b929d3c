"""Whatever is in vectors/ is run here: good cases give what they say, bad ones are refused.

Everything passes from the JSON of a case alone; the catalogue is asked once, whether its builders still
make these tables. At the end the vectors themselves are tried: faulty ways to draw must not pass them.
"""

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path

import make_vectors
import pytest
from canonical_writer import digest
from protocol_vectors import teller
from slow_reference import STEP, Drawing, Reader, TooFewBytesError, answers_and_bytes

from bisample import BisampleError, Mechanism
from bisample.analysis.tally import Tally
from bisample.catalogue import CATALOGUE, build
from bisample.device.randomness import Replay
from bisample.protocol.canonical import canonical, number_of, parse
from bisample.protocol.domain import Range

FOLDER = Path(__file__).resolve().parent.parent / "vectors"
DATA = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
PROTOCOL = DATA["protocol"]
CASES = [
    pytest.param(case, id=f"{name}-{case.get('what', i)}")
    for name, data in DATA.items()
    for i, case in enumerate(data.get("cases", []))
]
EVERY_CASE = [case.values[0] for case in CASES]


def mechanism_of(case):
    return Mechanism.from_json(json.dumps(case["mechanism"]))


def refuse(call, cases):
    """Each of the cases must raise an error of ours, and no other; the texts of the errors."""
    messages = []
    for bad in cases:
        try:
            call(bad)
        except BisampleError as error:
            messages.append(str(error))
            assert messages[-1], bad["why"]
        except Exception as error:  # noqa: BLE001
            pytest.fail(f"{bad['why']}: {type(error).__name__}: {error}")
        else:
            pytest.fail(f"accepted: {bad['why']}: {str(bad)[:300]}")
    return messages


# --- The files --------------------------------------------------------------------------------------


def test_every_name_of_the_catalogue_has_a_file():
    assert set(DATA) == {*CATALOGUE, "tables", "protocol"}
    assert list(DATA) == sorted(make_vectors.names())


@pytest.mark.parametrize("name", DATA)
def test_the_files_are_what_the_program_writes(name):
    assert make_vectors.text_of(name) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_files_say_what_they_are_and_no_list_is_empty():
    for name, data in DATA.items():
        assert (data["format"], data["name"]) == ("bisample-vectors/1", name)
    for part, listed in PROTOCOL.items():
        assert listed, part
    kinds = ("claims", "draws", "batches", "bad_draws", "tallies", "bad_tallies", "reports", "bad_reports")
    for case in EVERY_CASE:
        assert all(case[kind] for kind in kinds)
    long = [case["mechanism"]["domain"] for case in EVERY_CASE if case["long_batches"]]
    assert {domain["kind"] for domain in long} == {"range", "options"}
    assert {len(domain.get("anchors", [])) for domain in long} >= {2, 5}


def test_files_are_small_and_integers_are_below_two_to_the_53():
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < 1_500_000

    def walk(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                walk(part)
        elif isinstance(value, int):
            assert abs(value) < 2**53

    walk(DATA)


# --- Mechanisms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_mechanism_is_read_and_written_canonically(case):
    mechanism = mechanism_of(case)
    assert mechanism.digest == case["mechanism"]["digest"]
    assert hashlib.sha256(mechanism.to_json().encode()).hexdigest() == case["sha256"]
    assert mechanism.to_dict() == case["mechanism"]


@pytest.mark.parametrize("case", CASES)
def test_what_is_claimed_of_a_mechanism(case):
    table = mechanism_of(case).table
    ratio = table.worst_pair.ratio
    assert [ratio.numerator, ratio.denominator] == case["worst_ratio"]
    least = case["epsilon_upper"]
    assert least <= table.epsilon_upper <= least + 3 * math.ulp(least)
    for claim in case["claims"]:
        assert table.satisfies(claim["epsilon"]) is claim["holds"], claim


@pytest.mark.parametrize("name", CATALOGUE)
def test_builders_still_make_these_mechanisms(name):
    for case in DATA[name]["cases"]:
        stored, domain = case["mechanism"]["provenance"], case["mechanism"]["domain"]
        assert stored["builder"] == name
        told = stored["parameters"].items()
        parameters = {name: float(value) if isinstance(value, str) else value for name, value in told}
        if domain["kind"] == "range":
            parameters |= {"lower": float(domain["lower"]), "upper": float(domain["upper"])}
        else:
            parameters["options"] = domain["options"]
        built = build(name, **parameters)
        assert built.digest == case["mechanism"]["digest"]
        assert built.to_dict() == case["mechanism"]


def test_tables_have_no_provenance():
    assert not any("provenance" in case["mechanism"] for case in DATA["tables"]["cases"])


def test_bad_mechanisms_are_refused():
    refuse(lambda bad: Mechanism.from_json(bad["text"]), PROTOCOL["bad_mechanisms"])


# --- Draws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_given_bytes_give_the_code_and_are_used_up(case):
    mechanism = mechanism_of(case)
    for draw in case["draws"]:
        source = Replay(bytes.fromhex(draw["bytes"]))
        assert mechanism.privatize(draw["answer"], rng=source) == draw["code"], draw
        assert source.left == 0, draw


@pytest.mark.parametrize("case", CASES)
def test_draws_cover_codes_rows_and_ties(case):
    width, height = len(case["mechanism"]["table"]["weights"][0]), len(case["mechanism"]["table"]["weights"])
    if width <= 9:
        assert {draw["code"] for draw in case["draws"]} == set(range(width))
    short, long = (2, 6) if case["mechanism"]["domain"]["kind"] == "options" else (6, 10)
    assert {len(draw["bytes"]) // 2 for draw in case["draws"]} == {short, long}  # without a tie and with one
    rows = {int(draw["note"].split()[1]) for draw in case["draws"] if draw["note"].startswith("row ")}
    assert rows == set(range(height))


@pytest.mark.parametrize("case", CASES)
def test_batches(case):
    mechanism = mechanism_of(case)
    for batch in case["batches"]:
        source = Replay(bytes.fromhex(batch["bytes"]))
        assert mechanism.privatize(batch["answers"], rng=source).tolist() == batch["codes"]
        assert source.left == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0]["long_batches"]])
def test_more_answers_than_a_block_holds(case):
    mechanism = mechanism_of(case)
    for batch in case["long_batches"]:
        answers, data = answers_and_bytes(batch)
        assert len(answers) > 131_072
        source = Replay(data)
        codes = mechanism.privatize(answers, rng=source)
        assert source.left == 0
        assert codes[:8].tolist() == batch["first"]
        assert codes[-8:].tolist() == batch["last"]
        assert mechanism.tally(codes).counts.tolist() == batch["counts"]
        assert hashlib.sha256(codes.tobytes()).hexdigest() == batch["sha256"]


@pytest.mark.parametrize("case", CASES)
def test_bad_draws_are_refused_without_saying_the_answer(case):
    mechanism = mechanism_of(case)

    def call(bad):
        mechanism.privatize(bad["answer"], rng=Replay(bytes.fromhex(bad["bytes"])))

    messages = refuse(call, case["bad_draws"])
    for bad, message in zip(case["bad_draws"], messages, strict=True):
        answer = bad["answer"]
        while isinstance(answer, list):
            answer = answer[0]
        if answer is not None and not bad["why"].endswith("by the least"):  # those print as the end does
            assert str(answer) not in message, bad["why"]


# --- Positions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", PROTOCOL["positions"], ids=lambda case: f"{case['last']}-{case['value']!r}")
def test_positions(case):
    """From outside: the row changes between the words on both sides of the position, to the last bit."""
    last, position = case["last"], case["position"]
    unit, part = divmod(position, STEP)
    anchors = sorted({a for a in (0, unit - 1, unit, unit + 1, last) if 0 <= a <= last})
    mechanism = Mechanism.from_dict(teller(case["lower"], case["upper"], anchors))

    def anchor_of(word):
        data = Replay(word.to_bytes(4, "little") + bytes([0, 0x80]))
        return anchors[mechanism.privatize(case["value"], rng=data)]

    if part:
        assert anchor_of(part - 1) == unit + 1
        assert anchor_of(part) == unit
    else:
        assert anchor_of(0) == unit  # not one more
        assert anchor_of(STEP - 1) == unit  # and not one less


def test_other_arithmetic_has_other_positions():
    named = {name for case in PROTOCOL["positions"] for name in case["others"]}
    assert named == {
        "fused",
        "exact",
        "divided first",
        "multiplied first",
        "scaled apart",
        "half to even",
        "not held",
    }


def test_ends_are_the_first_and_last_position():
    ends = [c for c in PROTOCOL["positions"] if c["value"] in (float(c["lower"]), float(c["upper"]))]
    assert len(ends) > 10
    for case in ends:
        assert case["position"] == (case["value"] == float(case["upper"])) * case["last"] * STEP


# --- Tallies, estimates, reports --------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_tallies_give_the_estimates(case):
    mechanism = mechanism_of(case)
    domain = mechanism.domain
    width = domain.upper - domain.lower if isinstance(domain, Range) else 0
    for stored in case["tallies"]:
        tally = Tally.from_json(stored["text"])
        assert tally.to_json() == stored["text"]
        got = mechanism.estimate(tally).to_dict()
        expected = stored["estimate"]
        assert sorted(got["undefined"]) == expected["undefined"], stored["text"]
        for name, value in expected.items():
            if name == "undefined":
                continue
            found = got[name]
            if name.startswith("proportions"):
                assert tuple(found) == domain.options
                found = list(found.values())
            unit = 1.0
            if name.startswith("mean") and isinstance(domain, Range):
                unit = width
            elif name.startswith("total"):
                unit = expected["n"] * (width + abs(domain.lower))
            assert_close(found, value, unit, stored.get("tolerance", 1e-9), (stored["text"][:99], name))


def assert_close(found, expected, unit, tolerance, what):
    if isinstance(expected, list):
        assert len(found) == len(expected), what
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, unit, tolerance, what)
    elif expected is None:
        assert found is None, what
    else:
        assert abs(found - expected) <= tolerance * max(unit, abs(expected)), (what, found, expected)


def test_estimates_cover_what_is_defined_and_what_is_not():
    undefined = {name for case in EVERY_CASE for t in case["tallies"] for name in t["estimate"]["undefined"]}
    assert undefined == {"answer_rate", "missing_rate", "mean", "total", "proportions"}
    assert all(
        not t["estimate"]["undefined"] for case in DATA["bisample"]["cases"] for t in case["tallies"][:1]
    )


@pytest.mark.parametrize("case", [*CASES, pytest.param(PROTOCOL, id="protocol")])
def test_bad_tallies_are_refused(case):
    mechanism = mechanism_of(case)
    mechanism.estimate(mechanism.tally_of([5] * mechanism.table.width))  # it is not the mechanism
    refuse(lambda bad: mechanism.estimate(Tally.from_json(bad["text"])), case["bad_tallies"])


@pytest.mark.parametrize("case", CASES)
def test_reports_are_counted(case):
    mechanism = mechanism_of(case)
    for good in case["reports"]:
        assert mechanism.tally(good["reports"]).counts.tolist() == good["counts"]
    refuse(lambda bad: mechanism.tally(bad["reports"]), case["bad_reports"])


# --- Canonical JSON ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", PROTOCOL["canonical"], ids=lambda case: case["text"][:20])
def test_canonical_bytes(case):
    written = canonical(parse(case["text"]))
    assert written.hex() == case["bytes"]
    assert hashlib.sha256(written).hexdigest() == case["sha256"]
    assert canonical(parse(written)) == written


def test_bad_canonical_texts_are_refused():
    refuse(lambda bad: parse(bad["text"]), PROTOCOL["bad_canonical"])


def test_decimals():
    for text in PROTOCOL["decimals"]:
        assert number_of(text) == float(Fraction(text))
    refuse(lambda bad: number_of(bad["why"]), [{"why": text} for text in PROTOCOL["bad_decimals"]])


# --- Do the vectors catch faults? -------------------------------------------------------------------


class HalfABlock(Drawing):
    block = 65_536


class OneBlock(Drawing):
    block = 1 << 30


class SignedWords(Drawing):
    def rounding_words(self, answers, reader):
        return [word - STEP * (word >= STEP // 2) for word in super().rounding_words(answers, reader)]


class BigEndianWords(Drawing):
    def rounding_words(self, answers, reader):
        words = super().rounding_words(answers, reader)
        return [int.from_bytes(word.to_bytes(4, "little"), "big") for word in words]


class NoWordWhereMissing(Drawing):
    def rounding_words(self, answers, reader):
        return [reader.take(4) if self.anchors and answer is not None else 0 for answer in answers]


class NotHeld(Drawing):
    def held(self, position):
        return position


class Fused(Drawing):
    def position(self, value):
        exact = Fraction(value - self.lower) * Fraction(self.scale) + Fraction(1, 2)
        return self.held(math.floor(float(exact)))


class Exact(Drawing):
    def position(self, value):
        lower, upper = Fraction(self.lower), Fraction(self.upper)
        exact = (Fraction(value) - lower) / (upper - lower) * self.anchors[-1] * STEP
        return self.held(math.floor(exact + Fraction(1, 2)))


class DividedFirst(Drawing):
    def position(self, value):
        part = (value - self.lower) / (self.upper - self.lower)
        return self.held(math.floor(part * (self.anchors[-1] * STEP) + 0.5))


class MultipliedFirst(Drawing):
    def position(self, value):
        part = (value - self.lower) * (self.anchors[-1] * STEP)
        return self.held(math.floor(part / (self.upper - self.lower) + 0.5))


class HalfToEven(Drawing):
    def position(self, value):
        return self.held(round((value - self.lower) * self.scale))


class RoundedDown(Drawing):
    def position(self, value):
        return self.held(math.floor((value - self.lower) * self.scale))


class PositionIn32Bits(Drawing):
    def held(self, position):
        return super().held(position) % STEP


class ProductIn32Bits(Drawing):
    def rounds_up(self, word, gap, rest):
        return word * gap % STEP < rest


class WithoutTheGap(Drawing):
    def rounds_up(self, word, gap, rest):  # noqa: ARG002
        return word < rest


class UpAtTheThreshold(Drawing):
    def rounds_up(self, word, gap, rest):
        return word * gap <= rest


class TiesOfOwnRow(Drawing):
    def is_tie(self, word, row):
        return any(end >> 32 == word and end % STEP for end in self.ends[row][:-1])


class TiesAtCutsOfWords(Drawing):
    def is_tie(self, word, row):  # noqa: ARG002
        return any(cut >> 32 == word for cut in self.cuts)


class TiesAtOnce(Drawing):
    def codes_of_block(self, answers, reader):
        rounding = self.rounding_words(answers, reader)
        codes = []
        for answer, up in zip(answers, rounding, strict=True):
            word, row = reader.take(2), self.row(answer, up)
            codes.append(self.code(row, word, reader.take(4) if self.is_tie(word, row) else 0))
        return codes


class TiesBackwards(Drawing):
    def ties(self, tied, reader):
        return super().ties(tied[::-1], reader)[::-1]


class WordsOfEachAtOnce(Drawing):
    def codes_of_block(self, answers, reader):
        pairs = [(reader.take(4) if self.anchors else 0, reader.take(2)) for _ in answers]
        rows = [self.row(answer, up) for answer, (up, _) in zip(answers, pairs, strict=True)]
        more = self.ties([self.is_tie(word, row) for row, (_, word) in zip(rows, pairs, strict=True)], reader)
        return [self.code(row, word, m) for row, (_, word), m in zip(rows, pairs, more, strict=True)]


class CodeAfterItsEnd(Drawing):
    def code(self, row, word, more):
        return super().code(row, word, max(0, more - 1))


class NearestAnchor(Drawing):
    def rounds_up(self, word, gap, rest):  # noqa: ARG002
        return 2 * rest >= gap * STEP


FAULTS = Drawing.__subclasses__()


def positioned(kind):
    """Whether all positions are as listed."""
    return all(
        kind(teller(case["lower"], case["upper"], [0, case["last"]])).position(case["value"])
        == case["position"]
        for case in PROTOCOL["positions"]
    )


def drawn(kind):
    """Whether all draws and batches are as listed; the long ones are tried last."""
    drawings = [(kind(case["mechanism"]), case) for case in EVERY_CASE]
    return all(
        all(draws(drawing, [draw["answer"]], draw["bytes"], [draw["code"]]) for draw in case["draws"])
        and all(draws(drawing, batch["answers"], batch["bytes"], batch["codes"]) for batch in case["batches"])
        for drawing, case in drawings
    ) and all(draws_long(drawing, batch) for drawing, case in drawings for batch in case["long_batches"])


def draws(drawing, answers, data, expected):
    try:
        return drawing.codes(answers, bytes.fromhex(data)) == expected
    except (IndexError, AssertionError, TooFewBytesError):
        return False


def draws_long(drawing, batch):
    try:
        codes = drawing.codes(*answers_and_bytes(batch))
    except (AssertionError, TooFewBytesError):
        return False
    return hashlib.sha256(bytes(codes)).hexdigest() == batch["sha256"]


def test_the_slow_drawing_without_a_fault_passes():
    assert positioned(Drawing)
    assert drawn(Drawing)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faulty_drawings_do_not_pass(fault):
    assert not drawn(fault)


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if {"position", "held"} & set(vars(f))], ids=lambda f: f.__name__
)
def test_faulty_positions_are_not_those_listed(fault):
    assert not positioned(fault)


@pytest.mark.parametrize("fault", [HalfABlock, OneBlock], ids=lambda fault: fault.__name__)
def test_the_size_of_a_block_is_bound_by_every_long_batch(fault):
    for case in EVERY_CASE:
        for batch in case["long_batches"]:
            assert not draws_long(fault(case["mechanism"]), batch)


def test_a_reader_ends_where_its_bytes_do():
    reader = Reader(bytes([1, 2, 3]))
    assert reader.take(2) == 0x0201
    with pytest.raises(TooFewBytesError):
        reader.take(2)


def test_the_careless_digest_is_that_of_the_good_content():
    """A text with a fault that only a careful reader sees must not be refused for its digest."""
    good = PROTOCOL["mechanism"]
    assert digest({"domain": good["domain"], "table": good["table"]}) == good["digest"]
    named = [bad["why"] for bad in PROTOCOL["bad_mechanisms"] if good["digest"] in bad["text"]]
    assert len([why for why in named if "float" in why or "twice" in why or "leaves out" in why]) >= 8
