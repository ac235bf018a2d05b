"""The server's own counter: tokens of a request, what of it was cached, and what the answer costs.

It is no tokenizer of anybody's. Cached tokens are true: they come from the longest beginning that this request shares
with an earlier one to the same model (Anthropic: that an earlier request had marked).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from server.blocks import Block
from server.step import Step
from server.tokens import Tokens

IMAGE = 1000
LOOKBACK = 20
"""Blocks before a mark that Anthropic looks through for what it cached."""
CJK, CODE = re.compile("[\u2e80-\U0010ffff]"), re.compile(r"[{}()\[\];=_<>/0-9]")


def quarter(text: str) -> int:
    """A token for every four bytes of UTF-8, at least one for any text."""
    return max(1, len(text.encode("utf-8", "replace")) // 4) if text else 0


def shape(text: str) -> str:
    """`cjk`, `json`, `code` or `prose`, by a look at the first 2,000 characters."""
    head = text[:2000].strip()
    if not head:
        return "prose"
    if len(CJK.findall(head)) * 3 > len(head):
        return "cjk"
    if len(CODE.findall(head)) * 12 <= len(head):
        return "prose"
    return "json" if head[0] in "{[" else "code"


class Meter:
    """Counts, and remembers what it has seen. Used by one thread."""

    def __init__(
        self,
        count: Callable[[str], int] = quarter,
        factor: float = 1.0,
        factors: Mapping[str, float] | None = None,
        overhead: int = 4,
    ) -> None:
        self.count = count
        self.factor = factor
        self.factors = dict(factors or {})
        """By role (`tools system user assistant tool`) or shape (`cjk json code prose`); both multiply."""
        self.overhead = overhead
        """Tokens per message."""
        self._seen: set[bytes] = set()
        self._written: set[bytes] = set()

    def tokens(self, text: str, role: str) -> int:
        """Tokens of `text` in a block of `role`."""
        if not text:
            return 0
        factor = self.factor * self.factors.get(role, 1.0)
        if self.factors:
            factor *= self.factors.get(shape(text), 1.0)
        return max(1, round(self.count(text) * factor))

    def sizes(self, content: Sequence[Block]) -> list[int]:
        """Tokens of each block, the overhead of a message on its first."""
        sizes, last = [], -1
        for block in content:
            size = IMAGE if block.image else self.tokens(block.text, block.role)
            sizes.append(size + (self.overhead if block.place != last else 0))
            last = block.place
        return sizes

    def request(self, content: Sequence[Block], sizes: Sequence[int], form: str, model: str) -> Tokens:
        """What a request takes that is answered: input, and what of it is read from and written to the cache."""
        keys = _prefixes(content, f"{form} {model}")
        total = sum(sizes)
        if form == "anthropic":
            return self._marked(content, keys, sizes, total)
        shared = 0
        while shared < len(keys) and keys[shared] in self._seen:
            shared += 1
        self._seen.update(keys)
        return Tokens(input=total, cache_read=0 if form == "ollama" else sum(sizes[:shared]))

    def answer(self, step: Step) -> tuple[int, int]:
        """Tokens of the answer and, of these, of its thinking."""
        thinking = self.tokens(step.thinking, "assistant")
        spoken = self.tokens(step.text, "assistant") * step.repeat
        called = sum(self.tokens(call.name + call.arguments, "assistant") for call in step.calls)
        return thinking + spoken + called, thinking

    def forget(self) -> None:
        """Drops the cache, as its time limit would."""
        self._seen.clear()
        self._written.clear()

    def _marked(self, content: Sequence[Block], keys: list[bytes], sizes: Sequence[int], total: int) -> Tokens:
        marks = [place for place, block in enumerate(content) if block.marked]
        read = 0
        for mark in marks:
            for place in range(mark, max(-1, mark - LOOKBACK), -1):
                if keys[place] in self._written:
                    read = max(read, place + 1)
                    break
        end = marks[-1] + 1 if marks else 0
        self._written.update(keys[mark] for mark in marks)
        return Tokens(input=total, cache_read=sum(sizes[:read]), cache_write=sum(sizes[read:end]))


def _prefixes(content: Sequence[Block], seed: str) -> list[bytes]:
    """One digest per block, each of everything up to it."""
    digest, made = hashlib.sha256(seed.encode()), []
    for block in content:
        digest.update(block.line.encode("utf-8", "replace") + b"\n")
        made.append(digest.digest())
    return made
