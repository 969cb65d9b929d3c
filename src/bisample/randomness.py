"""Where random bits come from: the system's secure source, a simulation, or a replay for tests.

Everything random in bisample reads bytes from a `Source` that is passed in, so that the same code
runs on the secure default, on a seed and on the bytes of a golden vector.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from .errors import ParameterError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Replay", "Rng", "Secure", "Seed", "Simulation", "Source", "generator", "resolve"]

# Below this many bytes one call of the system is cheaper than setting up a cipher.
_CIPHER_FROM = 2048


class Source(Protocol):
    """Anything that fills a buffer with uniformly random bytes."""

    simulated: bool

    def fill(self, buffer: memoryview) -> None:
        """Overwrite all of a writable, contiguous buffer of bytes."""


Seed: TypeAlias = "np.random.Generator | int"
Rng: TypeAlias = "Source | Seed | None"


class Secure:
    """Cryptographic randomness; the default.

    Small requests go to the operating system. Large ones are the keystream of AES-128 in counter
    mode under a key that the operating system gave: indistinguishable from it, and several GB/s a
    core. A `Secure` is made for one call and then dropped, so that no state is ever shared by
    processes that forked.

    >>> buffer = bytearray(4)
    >>> Secure().fill(memoryview(buffer))
    """

    simulated = False

    def __init__(self) -> None:
        self._zeros = b""

    def fill(self, buffer: memoryview) -> None:
        size = len(buffer)
        if size < _CIPHER_FROM:
            buffer[:] = os.urandom(size)
            return
        if not self._zeros:
            self._start()
        if len(self._zeros) < size:
            self._zeros = bytes(size)
        self._update(memoryview(self._zeros)[:size], buffer)

    def _start(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        secret = os.urandom(32)
        cipher = Cipher(algorithms.AES(secret[:16]), modes.CTR(secret[16:]))
        self._update = cipher.encryptor().update_into


class Simulation:
    """Reproducible randomness from a NumPy generator. Not private: a seed can be found by trying.

    >>> import numpy as np
    >>> a, b = bytearray(8), bytearray(8)
    >>> Simulation(np.random.default_rng(1)).fill(memoryview(a))
    >>> Simulation(np.random.default_rng(1)).fill(memoryview(b))
    >>> a == b
    True
    """

    simulated = True

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def fill(self, buffer: memoryview) -> None:
        import numpy as np

        size = len(buffer)
        words = self._generator.integers(0, 2**64, size=-(-size // 8), dtype=np.uint64)
        # Little-endian on every machine, so that a seed means the same everywhere.
        buffer[:] = words.astype("<u8", copy=False).data.cast("B")[:size]


class Replay:
    """The given bytes, once each: for golden vectors and for walking every word.

    >>> source = Replay(bytes([7, 8, 9]))
    >>> buffer = bytearray(2)
    >>> source.fill(memoryview(buffer)); list(buffer), source.left
    ([7, 8], 1)
    """

    simulated = True

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes have not been drawn yet."""
        return len(self._data) - self._at

    def fill(self, buffer: memoryview) -> None:
        if len(buffer) > self.left:
            raise ParameterError(
                f"the replayed randomness has {self.left} bytes left and {len(buffer)} were asked for"
            )
        buffer[:] = self._data[self._at : self._at + len(buffer)]
        self._at += len(buffer)


def resolve(rng: Rng) -> Source:
    """The source that an `rng=` argument means: None is secure, a seed or a generator a simulation.

    >>> resolve(None).simulated, resolve(7).simulated
    (False, True)
    """
    if rng is None or isinstance(rng, Secure):
        return Secure()  # a new one even for one that was passed: no keystream outlives a fork or a thread
    # NumPy's own arrays and scalars have a `fill`, which is something else.
    if hasattr(rng, "fill") and hasattr(rng, "simulated"):
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
        f" {f'the integer {rng}' if isinstance(rng, (int, np.integer)) else type(rng).__name__}"
    )
