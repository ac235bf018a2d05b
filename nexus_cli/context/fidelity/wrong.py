"""What a summary says that is not so, found without a model: a value nobody stated, a state that is another, a rule
turned round.

That the right words stand beside it does not help: a reader cannot know which of the two holds. So each such claim gets
a line that says what is so. Sentences that the history itself has are no claims of a summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nexus_cli.context.fidelity.analysed import History
from nexus_cli.context.fidelity.contrary import contrary, quoted
from nexus_cli.context.fidelity.exact import is_whole, sentences
from nexus_cli.context.fidelity.near import Text, mistaken
from nexus_cli.context.fidelity.turned import turned
from nexus_cli.context.fidelity.words import plain
from nexus_cli.core.entry import Entry
from nexus_cli.core.message import Role

LONGEST = 160
"""Characters of what is quoted in a line."""
_RANKS = {Role.USER: 2, Role.ASSISTANT: 1}


@dataclass(frozen=True, slots=True)
class Wrong:
    """One claim of a summary that is not so."""

    says: str
    """What it says, shortly."""
    truth: str
    """What is so, with where that comes from."""

    @property
    def line(self) -> str:
        """The line that makes it good."""
        return f"- the summary says {self.says}; {self.truth}"


def wrong(summary: str, gone: History, kept: History, beside: Iterable[str] = ()) -> tuple[Wrong, ...]:
    """The claims of `summary` that are not so.

    It stands for the entries of `gone`; who wrote it may also have seen those of `kept`, and the texts `beside`.
    """
    said = _Said(gone)
    history = list(_texts(gone.entries))
    seen = (*beside, *(text.text for text in _texts(kept.entries)))
    found = [
        Wrong(_short(one.value.said), f"what was said is {_short(one.meant.said)} (message {one.entry})")
        for one in mistaken(summary, history, seen)
    ]
    for claim in contrary(summary, [*gone.events(), *kept.events()]):
        if not said.has(claim.sentence):
            found.append(Wrong(_short(claim.says), f"{_short(claim.truth)} (message {claim.entry})"))
    for one in turned(summary, [*gone.found, *kept.found]):
        if not said.has(one.sentence):
            rule = _short(one.rule.text)
            found.append(Wrong(f'"{_short(one.sentence)}"', f'what was said is "{rule}" (message {one.rule.entry})'))
    return tuple(dict.fromkeys(found)) if found and not said.all(summary) else ()


class _Said:
    """All that stands in a history, folded when somebody asks."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._plain: str | None = None

    @property
    def plain(self) -> str:
        """Each entry on a line."""
        if self._plain is None:
            self._plain = "\n".join(plain(entry.message.content) for entry in self._history.entries)
        return self._plain

    def has(self, sentence: str) -> bool:
        """Whether somebody said this sentence, and not only in a few words that anybody would use."""
        return quoted(sentence, self.plain)

    def all(self, summary: str) -> bool:
        """Whether every sentence of a text was said."""
        return all(is_whole(self.plain, plain(sentence)) for sentence in sentences(summary))


def _texts(entries: Sequence[Entry]) -> Iterator[Text]:
    for entry in entries:
        message = entry.message
        parts = [entry.preamble, message.content]
        for call in message.tool_calls:
            parts += [call.name, call.raw, *_strings(call.arguments)]
        yield Text(entry.id, "\n".join(part for part in parts if part), _RANKS.get(message.role, 0))


def _strings(value: object) -> Iterator[str]:
    """All that stands in the arguments of a call."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (str(key), *_strings(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif value is not None:
        yield str(value)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"
