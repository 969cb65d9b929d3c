"""Many blocks, any number of threads: the same codes, the same first error, and no thread left behind."""

import threading
import time

import numpy as np
import pytest
from handmade import UNEVEN, telling

from bisample import (
    AnswerError,
    BiSample,
    DitheredResponse,
    Harmony,
    KRandomizedResponse,
    Options,
    ParameterError,
    Range,
)
from bisample.device import drawing
from bisample.device.drawing import BLOCK
from bisample.device.randomness import Replay, Secure

THREADS = [1, 2, 3, 7, 1000, None, np.int64(2)]
MANY = 9 * BLOCK + 17  # enough that several threads are taken even where nobody asked for them


@pytest.fixture(scope="module")
def numbers():
    values = np.random.default_rng(2).uniform(5, 45, MANY)
    values[::7] = np.nan
    return values


@pytest.mark.parametrize("kind", ["two anchors", "even", "uneven", "choice"])
def test_the_codes_of_a_seed_do_not_depend_on_threads(numbers, kind):
    mechanism = {
        "two anchors": BiSample(1, 5, 45),
        "even": DitheredResponse(2, 5, 45),
        "uneven": UNEVEN,
        "choice": KRandomizedResponse(1, range(5, 46)),
    }[kind]
    answers = np.floor(numbers) if kind == "choice" else numbers
    expected = mechanism.privatize(answers, rng=5, threads=1)
    for threads in THREADS[1:]:
        assert np.array_equal(mechanism.privatize(answers, rng=5, threads=threads), expected)
    # Nor does what a block draws depend on how many come after it.
    assert np.array_equal(mechanism.privatize(answers[: BLOCK + 1], rng=5)[:BLOCK], expected[:BLOCK])


def test_a_generator_is_used_up_alike_whatever_the_number_of_threads(numbers):
    states = []
    for threads in (1, 3):
        rng = np.random.default_rng(1)
        BiSample(1, 5, 45).privatize(numbers, rng=rng, threads=threads)
        states.append(rng.bit_generator.state["state"])
    assert states[0] == states[1]


@pytest.mark.parametrize("threads", [0, -1, 1.0, "2", True, [2], np.bool_(True)], ids=repr)
def test_threads_are_a_whole_number_from_1(threads):
    for mechanism in (BiSample(1), KRandomizedResponse(1, ["a", "b"])):
        for answers in ([], None):
            with pytest.raises(ParameterError, match="threads must be an integer from 1, not"):
                mechanism.privatize(answers, threads=threads)


def _counted(monkeypatch):
    started = []
    start = threading.Thread.start

    def counted(thread):
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    return started


@pytest.mark.parametrize(("threads", "helpers"), [(1, 0), (2, 1), (3, 2), (50, 9)])
def test_as_many_threads_are_taken_as_were_asked_for_and_blocks_are_there(monkeypatch, threads, helpers):
    started = _counted(monkeypatch)
    BiSample(1).privatize(np.zeros(MANY), rng=1, threads=threads)
    assert len(started) == helpers  # the caller's own is one more
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize(
    ("cores", "blocks", "helpers"), [(1, 9, 0), (2, 3, 0), (2, 7, 0), (2, 8, 1), (8, 12, 2), (8, 1, 0)]
)
def test_by_default_threads_are_taken_where_they_pay(monkeypatch, cores, blocks, helpers):
    monkeypatch.setattr(drawing, "_cores", lambda: cores)
    started = _counted(monkeypatch)
    BiSample(1).privatize(np.zeros(blocks * BLOCK), rng=1)
    assert len(started) == helpers


@pytest.mark.parametrize("threads", [None, 2, 7])
def test_a_replay_is_drawn_in_order_by_the_callers_thread_alone(monkeypatch, threads):
    started = _counted(monkeypatch)
    domain = Range(0, 1)
    n = 8 * BLOCK
    # Rounding words 0 in even blocks and the largest in odd ones: the rows tell which bytes each block had.
    data = b"".join(bytes([255 * (block % 2)]) * (4 * BLOCK) + b"\x00\x80" * BLOCK for block in range(8))
    source = Replay(data)
    codes = telling(domain).privatize(np.full(n, 0.5), rng=source, threads=threads)
    assert source.left == 0
    assert np.array_equal(codes.reshape(8, BLOCK), np.repeat([[1], [0]] * 4, BLOCK, axis=1))
    assert not started


# --- Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("bad", [(3,), (3, 2), (7, 2, 5), (8, 1), (0, 1, 2, 3, 4, 5, 6, 7, 8)])
def test_an_error_names_the_first_bad_index_whatever_the_number_of_threads(threads, bad):
    values = np.zeros(MANY)
    for block in bad:
        values[block * BLOCK + 11 : block * BLOCK + 14] = 1000 + block
    first = min(bad) * BLOCK + 11
    for _ in range(3):
        with pytest.raises(AnswerError) as caught:
            BiSample(1).privatize(values, threads=threads)
        assert caught.value.index == first
        assert str(caught.value).startswith(f"the answer at index {first} lies outside [-1, 1]")


@pytest.mark.parametrize("threads", [1, 3])
def test_of_different_errors_too_the_first_is_named(threads):
    values = np.zeros(MANY)
    values[6 * BLOCK], values[4 * BLOCK + 1], values[5 * BLOCK] = np.inf, np.nan, 7
    with pytest.raises(AnswerError, match=f"index {4 * BLOCK + 1} is missing"):
        Harmony(1).privatize(values, threads=threads)


def test_a_block_before_one_that_failed_is_still_drawn():
    """Block 0 is not begun before block 1 has failed: it may fail too, and is the first."""
    failed = threading.Event()

    class Late:
        sequential = False

        def stream(self, block):
            if block == 1:
                failed.set()  # the error comes while its rows are read, just after this
            else:
                assert failed.wait(20)
                time.sleep(0.2)
            return Secure().stream(block)

    values = np.zeros(3 * BLOCK)
    values[[5, BLOCK + 5]] = 99
    with pytest.raises(AnswerError) as caught:
        BiSample(1).privatize(values, rng=Late(), threads=2)
    assert caught.value.index == 5


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_ends_a_thread_ends_the_call(ending):
    """Nothing is returned whose blocks were not all drawn: old memory can hold answers."""

    class Ending:
        sequential = False

        def stream(self, block):
            if block == 5:
                raise ending
            return Secure().stream(block)

    with pytest.raises(ending):
        BiSample(1).privatize(np.zeros(8 * BLOCK), rng=Ending(), threads=2)


@pytest.mark.parametrize("answer", [5e-324, 0.0, None, 1.0])
def test_no_setting_of_numpys_tells_answers_apart(answer):
    with np.errstate(all="raise"):
        assert BiSample(1).privatize([answer, 0.5])[0] in range(4)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_after_an_error_no_thread_is_left_and_later_blocks_are_not_begun(monkeypatch, threads):
    started = _counted(monkeypatch)
    begun = []

    class Broken:
        sequential = False

        def stream(self, block):
            begun.append(block)
            raise OSError("no entropy")

    with pytest.raises(OSError, match="no entropy"):
        telling(Range(0, 1)).privatize(np.zeros(60 * BLOCK // 4, dtype="f4"), rng=Broken(), threads=threads)
    assert len(begun) <= threads
    assert 0 in begun
    assert not any(thread.is_alive() for thread in started)


def test_two_privatize_at_once_do_not_disturb_each_other(numbers):
    mechanism = telling(UNEVEN.domain)
    expected = [mechanism.privatize(numbers, rng=seed, threads=1) for seed in range(3)]
    found = {}

    def work(seed):
        found[seed] = mechanism.privatize(numbers, rng=seed, threads=2)

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for seed in range(3):
        assert np.array_equal(found[seed], expected[seed])


def test_options_without_a_refusal_are_refused_before_anything_is_drawn():
    """The first missing answer is named, in whichever block it is."""
    mechanism = telling(Options(["0", "1"], refusal=False))
    answers = np.zeros(2 * BLOCK)
    answers[BLOCK + 3 :] = np.nan
    source = Replay(b"")
    with pytest.raises(AnswerError) as caught:
        mechanism.privatize(answers, rng=source, threads=2)
    assert caught.value.index == BLOCK + 3
