"""Token counting: never raises, never needs the network, and no input is slow.

The encoder is loaded at the first text that needs it. Its tables are the files that litellm ships, found by path
without importing litellm; without them, or without tiktoken, four characters count as one token.
`nexus_cli.conversation.tokens.estimate` corrects for the difference to a provider's reports.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import threading
from abc import ABC, abstractmethod
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nexus_cli.core.attachment import IMAGE_TOKENS
from nexus_cli.core.message import Message, replace_surrogates
from nexus_cli.core.services import Counts

OVERHEAD_PER_MESSAGE = 4
"""Tokens of a message's role and frame."""
PIECE = 8000
"""Most characters that are passed to the encoder at once: more may be slow or make it panic."""
BRIEF = 64
"""Texts shorter than this are counted without the encoder by `StoredCounter`."""
PLAIN, LONG_WORD = 1000, 40
"""So are texts shorter than `PLAIN`, almost of ASCII alone, whose words are shorter than `LONG_WORD`."""

TABLES: Mapping[str, str] = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "o200k_harmony": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "p50k_base": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "p50k_edit": "ec7223a39ce59f226a68acc30dc1af2788490e15",
    "r50k_base": "",
    "gpt2": "",
}
"""Encoding to the name of its table's file; "" for a table that litellm does not ship (counted by the simple rule)."""

_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_LETTER = r"\p{Lm}\p{Lo}\p{M}"
_O200K = (
    rf"""[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}{_LETTER}]*[\p{{Ll}}{_LETTER}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    rf"""|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}{_LETTER}]+[\p{{Ll}}{_LETTER}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
PATTERNS: Mapping[str, str] = {"cl100k": _CL100K, "o200k": _O200K, "p50k": _GPT2}
"""Patterns by which each family of tables splits a text before it joins bytes to tokens."""

_LOADING = threading.Lock()
"""One thread loads a table while the others wait: a count by the simple rule meanwhile would be stored."""
_WORD = re.compile(r"_?[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\x00-\x7f]|[ \n]*\n *| {2,}")


class TokenCounter(Protocol):
    """A counter of tokens in texts and messages. Never raises, never needs the network."""

    def count(self, text: str) -> int:
        """Return the tokens of `text`."""
        ...

    def count_messages(self, messages: list[Message]) -> int:
        """Return the tokens of `messages` with `OVERHEAD_PER_MESSAGE` for each."""
        ...


class _Counting(ABC):
    """Methods that every counter derives from its `count`."""

    OVERHEAD_PER_MESSAGE: ClassVar[int] = OVERHEAD_PER_MESSAGE

    @abstractmethod
    def count(self, text: str) -> int:
        """Return the tokens of `text`."""

    def count_message(self, message: Message) -> int:
        """Return the tokens of one message."""
        return self.count_messages([message])

    def count_messages(self, messages: Iterable[Message]) -> int:
        """Return the tokens of content, images, calls, thinking that is sent back, and the overhead of each message."""
        tokens = 0
        for message in messages:
            texts = [message.content, *filter(None, [message.tool_call_id])]
            for call in message.tool_calls:
                texts += [call.sent_name, call.id, call.sent_arguments]
            texts += [message.opaque.thinking] if message.opaque else []
            tokens += OVERHEAD_PER_MESSAGE + IMAGE_TOKENS * len(message.parts) + sum(map(self.count, texts))
        return tokens


class SimpleTokenCounter(_Counting):
    """About four characters to the token: `""` is 0, `n` characters are `max(1, n // 4)`."""

    estimated = True
    """The counts come from this rule, not from a tokenizer."""

    def count(self, text: str) -> int:
        """Return the tokens of `text` by length alone."""
        return max(1, len(text) // 4) if text else 0


class TiktokenCounter(_Counting):
    """Counts with a tiktoken table; special tokens are text. Raises `ValueError` for an unknown name."""

    def __init__(self, encoding_name: str = "cl100k_base") -> None:
        if encoding_name not in TABLES:
            raise ValueError(f"unknown encoding {encoding_name!r}; known: {', '.join(TABLES)}")
        self.encoding_name = encoding_name
        self._simple = SimpleTokenCounter()
        self._encode: Callable[[str], list[int]] | None = None
        self._tried = False

    @property
    def estimated(self) -> bool:
        """True if the table or tiktoken is missing, so that the simple rule is used. Loads the encoder."""
        return self._encoder() is None

    @property
    def has_table(self) -> bool:
        """True if this machine has the table. Loads nothing."""
        return table(self.encoding_name) is not None

    def count(self, text: str) -> int:
        """Return the tokens of `text`, counted in pieces cut at line ends or white space."""
        encode = self._encoder() if text else None
        if encode is None:
            return self._simple.count(text)
        if len(text) <= PIECE:
            return self._piece(encode, text)
        return sum(self._piece(encode, piece) for piece in pieces(text))

    def _encoder(self) -> Callable[[str], list[int]] | None:
        if not self._tried:
            with _LOADING:
                self._encode = self._encode if self._tried else _load(self.encoding_name)
                self._tried = True
        return self._encode

    def _piece(self, encode: Callable[[str], list[int]], text: str) -> int:
        try:
            return len(encode(replace_surrogates(text)))
        except BaseException as error:  # includes a panic in the encoder's Rust code
            _raise_interrupt(error)
            return self._simple.count(text)


class StoredCounter(_Counting):
    """A counter that counts each text once and stores the count by its hash, so that resuming loads no encoder.

    Brief and plain texts are always counted by `brief_count` and not stored: what a person types and the clock's line
    are new each time and must not load a table of 200,000 entries, a third of the way to the first request.
    """

    def __init__(self, counter: SimpleTokenCounter | TiktokenCounter, store: Counts) -> None:
        self._counter = counter
        self._store = store
        self._encoding = getattr(counter, "encoding_name", "simple")
        self._counts: dict[bytes, int] = {}
        """Counts of this process by the hash of the text: the store returns a new one after its next commit only."""

    @property
    def estimated(self) -> bool:
        """True if the underlying counts come from the simple rule. May load the encoder."""
        return self._counter.estimated

    def count(self, text: str) -> int:
        """Return the tokens of `text`: the stored count, else a new count, which is stored."""
        if len(text) < BRIEF or _is_plain(text):
            return brief_count(text)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        tokens = self._counts.get(digest) or self._store.stored_count(self._encoding, digest)
        if tokens is None:
            tokens = self._counter.count(text)
            if self._counter.estimated:
                return tokens
            self._store.store_count(self._encoding, digest, tokens)
        self._counts[digest] = tokens
        return tokens


def get_token_counter(use_tiktoken: bool = True) -> TokenCounter:
    """Return a `TiktokenCounter`, or a `SimpleTokenCounter` without tiktoken. Imports nothing yet."""
    if use_tiktoken and _find_spec_of("tiktoken"):
        return TiktokenCounter()
    return SimpleTokenCounter()


def brief_count(text: str) -> int:
    """Estimate the tokens of a short text from its words, digits and signs; 0 for "", else at least 1."""
    if not text:
        return 0
    words = _WORD.findall(text)
    return max(1, sum(1 + (len(word) - 1) // 8 if word[-1].isalpha() else 1 for word in words))


def _is_plain(text: str) -> bool:
    """Return True for a text of common words, whose `brief_count` is near the exact one."""
    if len(text) >= PLAIN or 10 * len(text.encode("utf-8", "surrogatepass")) > 11 * len(text):
        return False
    return max(map(len, text.split()), default=LONG_WORD) < LONG_WORD


def pieces(text: str) -> Iterable[str]:
    """Yield `text` in pieces of at most `PIECE` characters, cut after a line end, else before a space, if any."""
    start, length = 0, len(text)
    while length - start > PIECE:
        end = start + PIECE
        newline = text.rfind("\n", start + PIECE // 2, end)
        space = newline if newline >= 0 else text.rfind(" ", start + PIECE // 2, end)
        # A space belongs to the word after it, a line end to the line before it.
        stop = newline + 1 if newline >= 0 else space if space > start else end
        yield text[start:stop]
        start = stop
    yield text[start:]


def tables() -> list[Path]:
    """Return the folders that are searched for token tables: litellm's own, then `TIKTOKEN_CACHE_DIR`."""
    folders = []
    spec = _find_spec_of("litellm")
    if spec and spec.submodule_search_locations:
        folders = [Path(folder, "litellm_core_utils", "tokenizers") for folder in spec.submodule_search_locations]
    token_folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    return [*folders, Path(token_folder)] if token_folder else folders


def table(encoding_name: str) -> Path | None:
    """Return the file with the table of an encoding, or None if this machine does not have it."""
    name = TABLES.get(encoding_name)
    return next((folder / name for folder in tables() if (folder / name).is_file()), None) if name else None


def _find_spec_of(module: str) -> Any:
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None


def _raise_interrupt(error: BaseException) -> None:
    """Raise `error` again unless a library failed with it. A panic in tiktoken's Rust code derives directly from
    BaseException; its class cannot be imported."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def _load(encoding_name: str) -> Callable[[str], list[int]] | None:
    """Return the encoder of a table, or None if tiktoken or the table is missing or broken in any way."""
    try:
        path = table(encoding_name)
        if path is None:
            return None
        import tiktoken  # noqa: PLC0415  (15 ms, and the table 150 to 300 ms: only for a text that needs it)

        encode = _encoder(tiktoken.Encoding, encoding_name, path)
        len(encode("nexus"))
    except BaseException as error:  # a broken package may raise anything
        _raise_interrupt(error)
        return None
    return encode


@cache
def _encoder(encoding: Callable[..., Any], name: str, path: Path) -> Callable[[str], list[int]]:
    """Return the encoder of the table at `path`, made once: the sessions of one process share it."""
    with path.open("rb") as file:  # a list of its words would take 25 MB
        ranks = {a2b_base64(token): int(rank) for token, rank in filter(None, map(bytes.split, file))}
    pattern = PATTERNS[name.partition("_")[0]]
    encoder = encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    # The core alone, where there is one: the object around it keeps `ranks`, 30 MB.
    encode: Callable[[str], list[int]] = getattr(encoder, "_core_bpe", encoder).encode_ordinary
    return encode
