"""Canonical JSON by the rules of RFC 8785, by hand: a second opinion on `bisample.protocol.canonical`.

Nothing of the library and nothing of Python's json is used, so that the digests of vectors/ are evidence.
"""

from __future__ import annotations

import hashlib
from typing import Any

LARGEST = 2**53 - 1
# Section 3.2.2.2: these five have a short escape, other characters below U+0020 are \u and four small hex
# digits, and all the rest, U+007F and what lies beyond the first plane among it, stands for itself.
SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class Raw:
    """A piece of JSON put in as it is, for texts that must be refused.

    `careless` is what a reader takes it for that does not refuse it: the stated digest is that of this,
    so that the text is refused for the piece and not for the digest.
    """

    def __init__(self, text: str, careless: Any) -> None:
        self.text, self.careless = text, careless


def write(value: Any) -> str:
    """The canonical text of a value, whose raw pieces stand in it as they are."""
    return _write(value, raw=True)


def digest(value: Any) -> str:
    """SHA-256 of the canonical bytes, with raw pieces as a careless reader takes them."""
    return hashlib.sha256(_write(value, raw=False).encode("utf-8")).hexdigest()


def _write(value: Any, raw: bool) -> str:
    if isinstance(value, Raw):
        return value.text if raw else _write(value.careless, raw)
    if value is None or isinstance(value, bool):  # null is only in what must be refused
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        assert -LARGEST <= value <= LARGEST
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_write(part, raw) for part in value) + "]"
    assert isinstance(value, dict), type(value)
    # Section 3.2.3: keys by their UTF-16 code units; those of ASCII are their bytes.
    keys = sorted(value, key=lambda key: key.encode("ascii"))
    return "{" + ",".join(f"{_text(key)}:{_write(value[key], raw)}" for key in keys) + "}"


def _text(text: str) -> str:
    return '"' + "".join(_character(character) for character in text) + '"'


def _character(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    return f"\\u{ord(character):04x}" if character < " " else character
