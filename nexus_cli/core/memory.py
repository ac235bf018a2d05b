"""Facts that are kept from one session to another, in seed E's three slots, and the protocols of their store.

What the person neither said nor accepted never counts: text from tools and models must not become a standing
instruction by itself. A fact with a quote of them counts as that quote; any other wording of it waits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from nexus_cli.core.message import replace_surrogates

LONGEST = 2_000
"""Characters of one fact."""
TOLD = "facts"
"""Memo: `ids` of the facts that its entry, or a drop named in it, contains."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class MemorySlot(StrEnum):
    """Subject of a fact."""

    USER = "user"
    """The person: holds in every project."""
    PROJECT = "project"
    """This project, see `nexus_cli.config.paths.project_root`."""
    AGENT = "agent"
    """The agent's own work: lessons, conventions (seed D's journal)."""


class FactState(StrEnum):
    """The state of a fact."""

    KEPT = "kept"
    PROPOSED = "proposed"
    """Waits for the person; never in a request."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing remembered."""

    id: str
    """`m1`, `m2`, ... in a ledger."""
    slot: MemorySlot
    text: str
    at: str
    """When it was stored: ISO 8601, UTC."""
    state: FactState
    actor: str
    """The actor of the entry that it comes from: `person`, `agent`, `tool:NAME` or `nexus`."""
    session: str
    """Id of the session that it comes from; "" when the person typed it outside of one."""
    entry: int
    """The entry that it comes from; 0 when there is none."""
    quote: str = ""
    """The words of that entry on which it rests."""
    project: str = ""
    """Folder of the project; "" in the slots that hold everywhere."""
    deleted: bool = False
    """The session that it comes from is no longer there."""
    accepted: str = ""
    """When the person accepted it, ISO 8601, UTC; "" while they have not, or where they stated it themselves."""
    replaces: tuple[str, ...] = ()
    """Of a proposal: ids of the facts that are forgotten as soon as it is accepted."""

    @property
    def source(self) -> str:
        """Return the origin of the fact in words."""
        if not self.entry and self.actor == "person":
            return "typed by the person"
        if not self.entry:
            return f"made up in session {self.session}" if self.session else "merged from others"
        if self.deleted:
            return "a deleted session"
        return f"session {self.session}, entry {self.entry}"

    @property
    def is_paraphrase(self) -> bool:
        """True if the text is a wording that waits for the person: their own words are the quote alone."""
        said = self.actor == "person" and self.entry > 0 and not self.accepted
        return said and (bool(self.quote) or self.deleted) and _normalise(self.text) != _normalise(self.quote)

    @property
    def waits(self) -> bool:
        """True if there is something for the person to accept: a proposal, or the wording of a paraphrase."""
        return self.state is FactState.PROPOSED or self.is_paraphrase

    @property
    def statement(self) -> str:
        """Return the fact as a request states it: of a paraphrase the person's words alone, "" where they are gone."""
        if not self.is_paraphrase:
            return self.text
        return f'"{self.quote}"' if self.quote else ""


@dataclass(frozen=True, slots=True)
class Episode:
    """A past session, as far as it is remembered by itself (seed E's episodic memory)."""

    session: str
    at: str
    """When it was used last: ISO 8601, UTC."""
    title: str
    """Its name, else the person's first words."""


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".!")


def fact_text(text: str) -> str:
    """Return `text` as a fact: storable, on one line. `ValueError` if it is empty or longer than `LONGEST`."""
    line = " ".join(_CONTROLS.sub(" ", replace_surrogates(text)).split())
    if not line:
        raise ValueError("a fact needs a text")
    if len(line) > LONGEST:
        raise ValueError(f"a fact has at most {LONGEST:,} characters, this one has {len(line):,}")
    return line


@runtime_checkable
class Facts(Protocol):
    """The facts that a session may read and write: those of the person, of its project and of the agent."""

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        """Store a fact. It is kept at once if `quote` occurs word for word in what the person typed in this session,
        white space and case apart; else it is a proposal. What is kept is the sentence of the quote: any other `text`
        waits for the person (`Fact.statement`). The same text in the same slot again gives the fact that is there.
        `ValueError` for a text that is empty or too long; `NexusError("ledger", ...)` where it cannot be stored, also
        in a session that saves nothing."""
        ...

    def forget(self, fact_id: str) -> Fact | None:
        """Take back a proposal; None when there is none of this id here. `ValueError` for what the person stated or
        accepted: that is theirs to forget."""
        ...

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        """Return the kept facts that fit `text` best, the best first; all slots when none is named. With "" the newest,
        with an id that one."""
        ...

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        """Return the kept facts of one slot that matter for what the person just said, the best first; none when
        nothing fits. Never raises."""
        ...


@runtime_checkable
class FactMerger(Protocol):
    """Access that merges facts; only in a run that consolidates memory."""

    def merge(self, fact_ids: Sequence[str], text: str) -> Fact:
        """Return a proposal that takes the place of several facts of one slot: at once where all of them were
        proposals, else when the person accepts it, until when they stay. `ValueError` for a text that is none,
        `NexusError("usage", ...)` for facts that are unknown here or of different slots."""
        ...
