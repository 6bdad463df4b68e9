"""Token ids to text as they arrive: exact, linear, and never half a character.

Byte-level BPE makes this simple. Every token stands for a fixed run of bytes, the text of a
sequence is the UTF-8 reading of all its bytes, and a UTF-8 reader can stop and go on anywhere.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable


class Detokenizer:
    """Reads one sequence of tokens, piece by piece.

    The pieces joined, with that of `flush`, equal the decoding of all the ids at once. Bytes that
    are not UTF-8 become U+FFFD; bytes that may still become a character wait for the next token.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        """Take `token_bytes`, the bytes that an id stands for: empty for what is not shown."""
        self._token_bytes = token_bytes
        self._reader = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete."""
        return self._reader.decode(b"".join(map(self._token_bytes, ids)))

    def flush(self) -> str:
        """The end of the text: U+FFFD where a character was left unfinished, else empty."""
        return self._reader.decode(b"", final=True)


def byte_of_symbol() -> dict[str, int]:
    """The alphabet of byte-level BPE: which byte each symbol of a token stands for.

    Printable Latin-1 bytes stand for themselves; the other 68 are written, in order, as the symbols
    from U+0100 on (GPT-2, Radford et al. 2019).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    symbols = {chr(byte): byte for byte in printable}
    return symbols | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


SYMBOLS = byte_of_symbol()


def bytes_of_token(token: str) -> bytes:
    """The bytes of a token: by the alphabet, or its own text where one symbol is not of it."""
    if SYMBOLS.keys() >= set(token):
        return bytes(map(SYMBOLS.__getitem__, token))
    return token.encode()
