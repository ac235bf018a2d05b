"""Facts that sessions share, in three slots, and the protocols of their store.

A fact that the person neither said nor accepted is never sent: text from tools and models must not become a standing
instruction. Of a fact with a quote of the person only the quote is sent until they accept another wording.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nexus_cli.core.message import replace_surrogates

LONGEST = 2_000
"""Most characters of a fact."""
COLLEAGUE = " (colleague)"
"""End of the actor of a fact that somebody else stored in a shared ledger."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class MemorySlot(StrEnum):
    """The subject of a fact."""

    USER = "user"
    """The person; sent in every project."""
    PROJECT = "project"
    """This project, see `nexus_cli.config.paths.project_root`."""
    AGENT = "agent"
    """The agent's own work: lessons, conventions."""


class FactState(StrEnum):
    """The state of a fact."""

    KEPT = "kept"
    PROPOSED = "proposed"
    """Waits for the person to accept it; never in a request."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact in memory."""

    id: str
    """`m1`, `m2`, ... in a ledger."""
    slot: MemorySlot
    text: str
    at: str
    """When it was stored: ISO 8601, UTC."""
    state: FactState
    actor: str
    """The actor of its source entry: `person`, `agent`, `tool:NAME` or `nexus`; `NAME (colleague)` for a fact of
    somebody else in a shared ledger."""
    session: str
    """Id of its source session; "" if the person typed it outside a session."""
    entry: int
    """Its source entry; 0 for none."""
    quote: str = ""
    """The quotation from that entry that supports it."""
    project: str = ""
    """Folder of the project; "" in the other slots."""
    deleted: bool = False
    """True if its source session was deleted."""
    accepted: str = ""
    """When the person accepted it, ISO 8601, UTC; "" if they have not, or stated it themselves."""
    replaces: tuple[str, ...] = ()
    """For a proposal: ids of the facts that are forgotten when it is accepted."""

    @property
    def colleague(self) -> str:
        """The name of somebody else whose fact it is, "" for one of the person's own."""
        return self.actor.removesuffix(COLLEAGUE) if self.actor.endswith(COLLEAGUE) else ""

    @property
    def source(self) -> str:
        """Describe the origin of the fact."""
        if self.colleague:
            return f"of {self.colleague}" + (f", session {self.session}" if self.session else "")
        if not self.entry and self.actor == "person":
            return "typed by the person"
        if not self.entry:
            return f"inferred in session {self.session}" if self.session else "merged from other facts"
        if self.deleted:
            return "a deleted session"
        return f"session {self.session}, entry {self.entry}"

    @property
    def is_paraphrase(self) -> bool:
        """True if the text differs from the person's quote and they have not accepted it."""
        is_from_person = (self.actor == "person" or self.colleague) and self.entry > 0 and not self.accepted
        return (
            bool(is_from_person)
            and (bool(self.quote) or self.deleted)
            and _normalise(self.text) != _normalise(self.quote)
        )

    @property
    def waits(self) -> bool:
        """True if the person can accept something: a proposal, or the wording of a paraphrase."""
        return self.state is FactState.PROPOSED or self.is_paraphrase

    @property
    def statement(self) -> str:
        """Return the text for requests: of a paraphrase only the person's quote, "" if that is gone."""
        text = self.text
        if self.is_paraphrase:
            text = f'"{self.quote}"' if self.quote else ""
        return f"{self.colleague}: {text}" if self.colleague and text else text


@dataclass(frozen=True, slots=True)
class Episode:
    """A past session that the newest message is about."""

    session: str
    at: str
    """Time of its last use: ISO 8601, UTC."""
    title: str
    """Its name, else the beginning of its first message."""


def _normalise(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".!")


def fact_text(text: str) -> str:
    """Normalize the text of a fact to one line; raise `ValueError` if it is empty or longer than `LONGEST`."""
    line = " ".join(_CONTROLS.sub(" ", replace_surrogates(text)).split())
    if not line:
        raise ValueError("the text is empty")
    if len(line) > LONGEST:
        raise ValueError(f"a fact can have at most {LONGEST:,} characters; this one has {len(line):,}")
    return line


class Facts(Protocol):
    """The facts that a session may read and write: about the person, its project and the agent."""

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        """Store a fact, or return the existing one with the same text and slot.

        It is kept at once if `quote` occurs in the messages that the person typed in this session, ignoring white space
        and case; otherwise it is a proposal. Requests get only the quoted sentence until the person accepts another
        `text` (`Fact.statement`).
        Raises `ValueError` for an empty or too long text, `NexusError("ledger", ...)` if it cannot be stored, also in a
        session that is not saved.
        """

    def forget(self, fact_id: str) -> Fact | None:
        """Forget a proposal; None if there is none. Raises `ValueError` for a fact that only the person may forget."""

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        """Search kept facts of `slots` (default: all), the best first: "" lists the newest, an id finds that fact."""

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        """Return the kept facts of one slot that are relevant to the message `about`, best first. Never raises."""


@dataclass(frozen=True, slots=True)
class FactMerger:
    """Merges facts, in runs that consolidate memory."""

    merge: Callable[[Sequence[str], str], Fact]
    """Takes ids of several facts of one slot, and proposes a text in their place.

    It replaces them at once if all are proposals, else when the person accepts it. Raises `ValueError` for an invalid
    text, `UsageError` for facts that are unknown or of different slots.
    """
