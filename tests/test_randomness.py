"""Where random bits come from: secure by default, reproducible when a seed is given, never silently other."""

import itertools
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bisample import BiSample, KRandomizedResponse, ParameterError
from bisample.randomness import Replay, Secure, Simulation, generator, resolve

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
    np.bool_(True),  # NumPy's scalars have a method called fill: it does nothing
    np.timedelta64(3, "D"),
    np.int64(-1),
    np.random,
    np.random.RandomState(1),
    object(),
]


def _filled(source, size):
    buffer = bytearray(size)
    source.fill(memoryview(buffer))
    return bytes(buffer)


@pytest.mark.parametrize("size", [0, 1, 7, 2047, 2048, 2049, 100_000])
def test_secure_bytes_fill_the_buffer_and_differ_every_time(size):
    first, second = _filled(Secure(), size), _filled(Secure(), size)
    assert len(first) == size
    assert size < 7 or first != second
    if size >= 2047:
        assert len(set(first[-200:])) > 20  # filled to its end


def test_secure_is_not_a_simulation_and_the_others_are():
    assert not resolve(None).simulated
    assert resolve(1).simulated
    assert resolve(np.random.default_rng(1)).simulated
    assert Replay(b"").simulated


def test_every_call_gets_a_secure_source_of_its_own():
    """So that nothing is shared by processes that forked."""
    assert resolve(None) is not resolve(None)
    assert isinstance(resolve(None), Secure)


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
    source = Secure()
    parts = [_filled(source, size) for size in (4096, 100_000, 2048)]
    stream = Cipher(algorithms.AES(secret[:16]), modes.CTR(secret[16:])).encryptor()
    assert b"".join(parts) == stream.update(bytes(sum(map(len, parts))))


def test_a_keystream_never_repeats_a_block():
    source = Secure()
    stream = b"".join(_filled(source, 16 * 4096) for _ in range(4))
    blocks = {stream[i : i + 16] for i in range(0, len(stream), 16)}
    assert len(blocks) == len(stream) // 16


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64, 1001])
def test_a_seed_means_the_same_bytes_everywhere(size):
    words = np.random.default_rng(7).integers(0, 2**64, size=-(-size // 8), dtype=np.uint64)
    expected = b"".join(int(word).to_bytes(8, "little") for word in words)[:size]
    assert _filled(resolve(7), size) == expected
    assert _filled(resolve(np.int64(7)), size) == expected
    assert _filled(resolve(np.uint8(7)), size) == expected
    assert _filled(Simulation(np.random.default_rng(7)), size) == expected


def test_codes_of_a_seed_stay_what_they_are():
    """Published simulations must run again: a change of these is a change of format."""
    values = [0.5, None, -1.0, 0.25, 1.0, None, 0.0, -0.5]
    assert BiSample(1.0).privatize(values, rng=1).tolist() == [1, 0, 1, 0, 1, 3, 0, 1]
    choice = KRandomizedResponse(1.0, ["a", "b", "c"])
    assert choice.privatize(["a", None, "b", "c"] * 2, rng=1).tolist() == [3, 2, 2, 2, 2, 3, 1, 3]


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


def test_a_secure_source_that_is_passed_in_is_not_used_twice():
    source = Secure()
    assert resolve(source) is not source
    assert isinstance(resolve(source), Secure)


def test_default_reports_are_not_those_of_any_seed_and_differ():
    mechanism, values = BiSample(1.0), np.zeros(256)
    runs = [mechanism.privatize(values).tolist() for _ in range(3)]
    assert all(one != other for one, other in itertools.combinations(runs, 2))


@pytest.mark.parametrize("rng", NO_SEEDS, ids=lambda rng: type(rng).__name__)
def test_what_is_no_source_of_randomness_is_refused(rng):
    for call in (
        lambda: resolve(rng),
        lambda: generator(rng),
        lambda: BiSample(1.0).privatize([0.5], rng=rng),
        lambda: KRandomizedResponse(1.0, ["a", "b"]).privatize("a", rng=rng),
    ):
        with pytest.raises(ParameterError, match="rng must be"):
            call()


def test_a_simulations_generator_must_be_given():
    with pytest.raises(ParameterError, match="rng must be a seed"):
        generator(None)
    rng = np.random.default_rng(1)
    assert generator(rng) is rng


def test_a_source_of_ones_own_is_taken_as_it_is():
    class Ones:
        simulated = True

        def fill(self, buffer):
            buffer[:] = b"\xff" * len(buffer)

    source = Ones()
    assert resolve(source) is source
    assert BiSample(1.0).privatize(None, rng=source) == 3


def test_a_replay_gives_each_byte_once_and_then_says_so():
    source = Replay(b"abcdef")
    assert _filled(source, 4) == b"abcd"
    assert source.left == 2
    with pytest.raises(ParameterError, match="2 bytes left and 3"):
        _filled(source, 3)
    assert _filled(source, 2) == b"ef"
    assert source.left == 0
