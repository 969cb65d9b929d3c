"""Where random bytes come from: the system's secure source, a simulation, or a replay for tests.

Everything random on a device reads bytes from a `Stream` that is passed in, so that the same code runs
on the secure default, on a seed and on the bytes of a golden vector. Many answers are drawn in blocks,
and each block has a stream of its own: how many bytes a block takes depends on its ties, so that a
single stream would make the blocks wait for each other.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from bisample.errors import ParameterError, shown

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Replay", "Rng", "Secure", "Seed", "Simulation", "Source", "Stream", "generator", "resolve"]

# Below this many bytes one call of the system is cheaper than setting up a cipher.
_CIPHER_FROM = 2048


class Stream(Protocol):
    """Anything that fills a buffer with uniformly random bytes, each byte once."""

    def fill(self, buffer: memoryview) -> None:
        """Overwrite all of a writable, contiguous buffer of bytes."""


class Source(Protocol):
    """One stream for each block of answers; `sequential` where they are one and the same stream."""

    sequential: bool

    def stream(self, block: int) -> Stream:
        """The stream of this block, counted from 0. Called once for each."""


Seed: TypeAlias = "np.random.Generator | int"
Rng: TypeAlias = "Source | Seed | None"


class Secure:
    """Cryptographic randomness; the default. Every stream has a key of its own.

    >>> buffer = bytearray(4)
    >>> Secure().stream(0).fill(memoryview(buffer))
    """

    sequential = False

    def stream(self, block: int) -> Stream:  # noqa: ARG002 - every block gets fresh secrets
        return _Keystream()


class _Keystream:
    """Small requests go to the operating system. Large ones are the keystream of AES-128 in counter mode
    under a key that the operating system gave: indistinguishable from it, and several GB/s a core. It is
    made for one block and then dropped, so that no state is ever shared by processes that forked.
    """

    def __init__(self) -> None:
        self._cipher: _Cipher | None = None

    def fill(self, buffer: memoryview) -> None:
        size = len(buffer)
        if size < _CIPHER_FROM and self._cipher is None:
            buffer[:] = os.urandom(size)
            return
        if self._cipher is None:
            self._cipher = _cipher(os.urandom(32))
        for start in range(0, size, _ZEROS):
            part = buffer[start : start + _ZEROS]
            self._cipher.update_into(_zeros()[: len(part)], part)


class _Cipher(Protocol):
    def update_into(self, data: memoryview, buffer: memoryview) -> int: ...


def _cipher(secret: bytes) -> _Cipher:
    # What leads a zero-filled text through the cipher gets the keystream itself.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return cast("_Cipher", Cipher(algorithms.AES(secret[:16]), modes.CTR(secret[16:])).encryptor())


_ZEROS = 1 << 19


@cache
def _zeros() -> memoryview:
    return memoryview(bytes(_ZEROS))


class Simulation:
    """Reproducible randomness from a NumPy generator. Not private: a seed can be found by trying.

    >>> import numpy as np
    >>> a, b = bytearray(8), bytearray(8)
    >>> Simulation(np.random.default_rng(1)).stream(0).fill(memoryview(a))
    >>> Simulation(np.random.default_rng(1)).stream(0).fill(memoryview(b))
    >>> a == b
    True
    """

    sequential = False

    def __init__(self, generator: np.random.Generator) -> None:
        # Drawn from the generator once a call, so that it goes on where it was; the blocks' streams
        # are derived from it by number, whichever thread asks first.
        self._entropy = [int(word) for word in generator.integers(0, 2**32, size=4)]

    def stream(self, block: int) -> Stream:
        import numpy as np

        seeds = np.random.SeedSequence(self._entropy, spawn_key=(block,))
        return _Simulated(np.random.PCG64(seeds))


class _Simulated:
    def __init__(self, bits: np.random.PCG64) -> None:
        self._bits = bits

    def fill(self, buffer: memoryview) -> None:
        size = len(buffer)
        words = self._bits.random_raw(-(-size // 8))
        # Little-endian on every machine, so that a seed means the same everywhere.
        buffer[:] = words.astype("<u8", copy=False).data.cast("B")[:size]


class Replay:
    """The given bytes, once each, block after block: for golden vectors and for walking every word.

    >>> source = Replay(bytes([7, 8, 9]))
    >>> buffer = bytearray(2)
    >>> source.stream(0).fill(memoryview(buffer)); list(buffer), source.left
    ([7, 8], 1)
    """

    sequential = True

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes have not been drawn yet."""
        return len(self._data) - self._at

    def stream(self, block: int) -> Stream:  # noqa: ARG002 - the next block goes on where this one ends
        return self

    def fill(self, buffer: memoryview) -> None:
        if len(buffer) > self.left:
            raise ParameterError(
                f"the replayed randomness has {self.left} bytes left and {len(buffer)} were asked for"
            )
        buffer[:] = self._data[self._at : self._at + len(buffer)]
        self._at += len(buffer)


def resolve(rng: Rng) -> Source:
    """The source that an `rng=` argument means: None is secure, a seed or a generator a simulation.

    >>> type(resolve(None)).__name__, type(resolve(7)).__name__
    ('Secure', 'Simulation')
    """
    if rng is None:
        return Secure()
    if hasattr(rng, "stream") and hasattr(rng, "sequential") and not isinstance(rng, type):
        return cast("Source", rng)
    return Simulation(_generator(rng, "None (secure), a seed"))


def generator(rng: Seed) -> np.random.Generator:
    """The NumPy generator of a simulation, which must be given: a generator, or a seed for one.

    >>> generator(7).integers(100, size=3)
    array([94, 62, 68])
    """
    return _generator(rng, "a seed")


def _generator(rng: object, choices: str) -> np.random.Generator:
    import numpy as np

    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, (bool, np.timedelta64)) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise ParameterError(
        f"rng must be {choices} (an integer from 0) or a numpy.random.Generator, not"
        f" {shown(rng) if isinstance(rng, (int, np.integer)) else _kind(rng)}"
    )


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
