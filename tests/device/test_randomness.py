"""Where random bytes come from: secure by default, reproducible with a seed, never silently other."""

import itertools
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from handmade import UNEVEN, telling

from bisample import BiSample, KRandomizedResponse, ParameterError
from bisample.device import randomness
from bisample.device.drawing import BLOCK
from bisample.device.randomness import Replay, Secure, Simulation, generator, resolve

NO_SEEDS = [
    "x",
    "7",
    b"7",
    1.5,
    True,
    -1,
    [1],
    (1, 2),
    {},
    np.array(7),
    np.array([1, 2]),
    np.float64(3.0),
    np.bool_(True),
    np.timedelta64(3, "D"),
    np.int64(-1),
    np.random,
    np.random.RandomState(1),
    np.random.PCG64(1),
    Secure,
    Simulation,
    object(),
]


def _filled(source, *sizes, block=0):
    """The bytes of one block's stream, in pieces of these sizes."""
    stream = source.stream(block)
    pieces = []
    for size in sizes:
        buffer = bytearray(size)
        stream.fill(memoryview(buffer))
        pieces.append(bytes(buffer))
    return b"".join(pieces)


# --- Secure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 2047, 2048, 2049, 100_000, 2**19 + 1, 2**20 + 7])
def test_secure_bytes_fill_the_buffer_and_differ_every_time(size):
    """All equal by chance: 2^-128 or less."""
    source = Secure()
    first, second, third = _filled(source, size), _filled(source, size, block=1), _filled(Secure(), size)
    assert len(first) == len(second) == len(third) == size
    assert len({first, second, third}) == 3
    for piece in (first, second, third):
        assert any(piece[-16:])  # filled to its end


def test_nothing_asked_is_nothing_given():
    assert _filled(Secure(), 0) == _filled(Simulation(np.random.default_rng(1)), 0) == b""


def test_secure_is_the_default_and_a_seed_is_a_simulation():
    assert isinstance(resolve(None), Secure)
    assert isinstance(resolve(1), Simulation)
    assert isinstance(resolve(np.random.default_rng(1)), Simulation)
    assert not Secure.sequential
    assert not Simulation.sequential
    assert Replay.sequential


def test_small_requests_are_the_systems_own_bytes(monkeypatch):
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(range(size))

    monkeypatch.setattr(os, "urandom", urandom)
    assert _filled(Secure(), 6) == bytes(range(6))
    assert asked == [6]


def test_large_requests_are_the_keystream_of_aes_128_in_counter_mode(monkeypatch):
    secret = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda size: secret[:size])
    sizes = (4096, 100_000, 3, 2**20 + 5, 2048)
    cipher = Cipher(algorithms.AES(secret[:16]), modes.CTR(secret[16:])).encryptor()
    assert _filled(Secure(), *sizes) == cipher.update(bytes(sum(sizes)))


def test_a_keystream_never_repeats_a_block():
    stream = _filled(Secure(), *[16 * 4096] * 4)
    blocks = {stream[i : i + 16] for i in range(0, len(stream), 16)}
    assert len(blocks) == len(stream) // 16


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_block_of_answers_has_a_key_of_its_own(monkeypatch, threads):
    """No keystream is used twice: not by two blocks, not by two calls, however many threads there are."""
    secrets = []
    make = randomness._cipher

    def remembered(secret):
        secrets.append(secret)
        return make(secret)

    monkeypatch.setattr(randomness, "_cipher", remembered)
    values = np.zeros(5 * BLOCK + 1)
    for _ in range(2):
        BiSample(1.0).privatize(values, threads=threads)
    source = Secure()
    for _ in range(2):  # not even where the same source is passed in again
        BiSample(1.0).privatize(values, rng=source, threads=threads)
    assert len(secrets) == 4 * 5  # the last block of a call, of one answer, needs no cipher
    assert all(len(secret) == 32 for secret in secrets)
    assert len({secret[:16] for secret in secrets}) == len(secrets)


def test_default_reports_differ_from_call_to_call_and_from_block_to_block():
    mechanism, values = telling(UNEVEN.domain), np.full(2 * BLOCK, 30.0)
    runs = [mechanism.privatize(values) for _ in range(3)]
    pieces = [part for run in runs for part in (run[:BLOCK], run[BLOCK:])]
    for one, other in itertools.combinations(pieces, 2):
        assert not np.array_equal(one, other)
    for one in pieces:
        assert not np.array_equal(one, mechanism.privatize(values, rng=0)[:BLOCK])


# --- Seeds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64, 1001])
@pytest.mark.parametrize("block", [0, 1, 5])
def test_a_seed_means_the_same_bytes_everywhere(size, block):
    """Four words from the generator, and from those by number a stream for each block, little-endian."""
    entropy = [int(word) for word in np.random.default_rng(7).integers(0, 2**32, size=4)]
    bits = np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(block,)))
    words = np.random.Generator(bits).integers(0, 2**64, size=-(-size // 8), dtype=np.uint64)
    expected = b"".join(int(word).to_bytes(8, "little") for word in words)[:size]
    for seed in (7, np.int64(7), np.uint8(7), np.random.default_rng(7)):
        assert _filled(resolve(seed), size, block=block) == expected


def test_codes_of_a_seed_stay_what_they_are():
    """Published simulations must run again: a change of these is a change of format."""
    values = [0.5, None, -1.0, 0.25, 1.0, None, 0.0, -0.5]
    assert BiSample(1.0).privatize(values, rng=1).tolist() == [1, 0, 1, 2, 1, 0, 2, 1]
    choice = KRandomizedResponse(1.0, ["a", "b", "c"])
    assert choice.privatize(["a", None, "b", "c"] * 2, rng=1).tolist() == [0, 3, 1, 2, 1, 1, 2, 2]


def test_a_generator_goes_on_where_it_was_and_a_seed_starts_again():
    mechanism, values = BiSample(1.0), np.zeros(64)
    rng = np.random.default_rng(3)
    first, second = mechanism.privatize(values, rng=rng), mechanism.privatize(values, rng=rng)
    assert first.tolist() != second.tolist()
    assert mechanism.privatize(values, rng=3).tolist() == first.tolist()
    assert mechanism.privatize(values, rng=3).tolist() == first.tolist()


@pytest.mark.parametrize("bit_generator", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_any_bit_generator_will_do(bit_generator):
    reports = BiSample(1.0).privatize(np.zeros(100), rng=np.random.Generator(bit_generator(1)))
    assert set(reports.tolist()) == {0, 1, 2, 3}


def test_seeds_next_to_each_other_have_nothing_in_common():
    streams = {_filled(resolve(seed), 64, block=block) for seed in range(20) for block in range(20)}
    assert len(streams) == 400


@pytest.mark.parametrize("rng", NO_SEEDS, ids=lambda rng: type(rng).__name__)
def test_what_is_no_source_of_randomness_is_refused(rng):
    for call in (
        lambda: resolve(rng),
        lambda: generator(rng),
        lambda: BiSample(1.0).privatize([0.5], rng=rng),
        lambda: BiSample(1.0).privatize(0.5, rng=rng),
        lambda: KRandomizedResponse(1.0, ["a", "b"]).privatize("a", rng=rng),
    ):
        with pytest.raises(ParameterError, match=r"rng must be .* or a numpy\.random\.Generator, not"):
            call()


def test_a_simulations_generator_must_be_given():
    with pytest.raises(ParameterError, match="rng must be a seed"):
        generator(None)
    rng = np.random.default_rng(1)
    assert generator(rng) is rng


# --- Replays and sources of one's own -------------------------------------------------------------------


class Bytes:
    """A source of one's own: each block's stream repeats the block's number, and says how it was asked."""

    def __init__(self, sequential=False):
        self.sequential = sequential
        self.asked = []

    def stream(self, block):
        source = self

        class Stream:
            def fill(self, buffer):
                source.asked.append((block, len(buffer)))
                buffer[:] = bytes([255 - block]) * len(buffer)

        return Stream()


@pytest.mark.parametrize("sequential", [True, False])
def test_a_source_of_ones_own_is_taken_as_it_is(sequential):
    source = Bytes(sequential)
    assert resolve(source) is source
    assert BiSample(1.0).privatize(None, rng=source) == 3
    assert {block for block, _ in source.asked} == {0}
    source.asked.clear()
    codes = telling(UNEVEN.domain).privatize(np.full(2 * BLOCK, 44.9), rng=source, threads=2)
    sizes = dict.fromkeys(range(2), 0)
    for block, size in source.asked:
        sizes[block] += size
    # The first block's code words are all 0xffff, which is a tie of `telling`; the second's are not.
    assert sizes == {0: 10 * BLOCK, 1: 6 * BLOCK}
    assert codes.shape == (2 * BLOCK,)


def test_a_replay_gives_each_byte_once_and_then_says_so():
    source = Replay(b"abcdef")
    assert _filled(source, 4) == b"abcd"
    assert source.left == 2
    with pytest.raises(ParameterError, match="2 bytes left and 3"):
        _filled(source, 3)
    assert _filled(source, 2, block=1) == b"ef"
    assert source.left == 0
