"""The memory of a session: `Facts` over the ledger, and what the person does with facts themselves.

What the model hands over counts at once only if the person typed it in this session (`user_evidence`); otherwise it
waits for them. Storing and finding is the ledger's, showing it the contributors' and the reports'.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nexus_cli.context.neutral import neutral
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.clock import Clock, local_now, stamp
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Episode, Fact, FactState, MemorySlot, fact_text
from nexus_cli.core.paths import project
from nexus_cli.core.typed_text import typed_text
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.relevance import rank_relevant
from nexus_cli.session.opening import looked_at
from nexus_cli.session.user_evidence import PERSON, find_origin

ALL = "all"
"""What stands for every proposal."""
LONGEST_TOPIC = 2_000
"""Characters of a message that say what it is about, where it has no words of the person alone."""
_FACT_ID = re.compile(r"m\d+")
_ANSWERS = re.compile(
    r"\b(?:answer(?:s|ed|ing)?|repl(?:y|ies|ied|ying)|respon(?:se|ses|d|ds|ded|ding))\b"
    r"(?!(?:\W+to\b)?\W+(?:address(?:es)?|times?|keys?|codes?|files?|headers?|body|rate|queue)\b)",
    re.IGNORECASE,
)
"""Words for the way to answer, which matters for every request; a reply address is another matter."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Implements `nexus_cli.core.memory.Facts` for one session. Safe in threads."""

    ledger: Ledger
    session: str
    lane: int
    """Its main lane: what the person says is there."""
    project: str
    clock: Clock = local_now
    saves: bool = True
    """False: nothing of this session is kept, so nothing can be remembered or forgotten in it."""

    @classmethod
    def of(cls, ledger: Ledger, made: SessionInfo, folder: Path, clock: Clock) -> SessionFacts:
        """The memory of a session that works in `folder`."""
        kept = ledger.path is not None and ledger.writes
        return cls(ledger, made.id, made.main_lane, str(project(folder)), clock, kept)

    def seams(self) -> Mapping[str, Any]:
        """What a contributor's `Sources` calls these."""
        return {"facts": self, "episodes": self.episodes}

    def episodes(self, about: str) -> Sequence[Episode]:
        """The past sessions of this project whose name or first words fit what was said, the best first.

        Of sessions with one title the newest. Never this session or what it was forked from. Raises nothing.
        """
        message, newest = typed_text(about), dict[str, Episode]()
        if not message.strip():
            return ()
        try:
            for episode in self.ledger.episodes(self.project, self.session):
                newest.setdefault(episode.title.casefold(), episode)
        except NexusError:
            return ()
        return [list(newest.values())[index] for index in rank_relevant(list(newest), message)]

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        """See `Facts`."""
        text = fact_text(text)
        self._require_saving("kept")
        origin = find_origin(self.ledger, self.lane, quote)
        return self.ledger.facts.add(
            slot, text, state=FactState.KEPT if origin.is_person else FactState.PROPOSED, at=stamp(self.clock()),
            actor=origin.actor, project=self.project, session=self.session, entry=origin.entry,
            quote=" ".join(quote.split())[:LONGEST_TOPIC],
        )  # fmt: skip

    def forget(self, fact_id: str) -> Fact | None:
        """See `Facts`."""
        fact = self._find_visible(fact_id)
        if fact is None:
            return None
        if fact.state is FactState.KEPT:  # what counts was stated or accepted by the person, in any slot
            raise ValueError(f"{fact.id} is for the person to forget, tell them: /memory forget {fact.id}")
        self._require_saving("forgotten")
        return self.ledger.facts.forget(fact.id, stamp(self.clock()))

    def merge(self, fact_ids: Sequence[str], text: str) -> Fact:
        """See `nexus_cli.core.memory.Merging`."""
        self._require_saving("merged")
        for fact_id in fact_ids:
            fact = self._find_visible(fact_id)
            if fact is None:
                raise NexusError("usage", f"no fact {one_line(fact_id)[:40]}", "nothing of this id is remembered here")
            if fact.slot is MemorySlot.USER:
                raise NexusError("usage", f"not merged: {fact.id}", "what the person said of themselves stays as it is")
        return self.ledger.facts.merge(fact_ids, text, stamp(self.clock()))

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        """See `Facts`."""
        return [replace(fact, text=neutral(fact.text)) for fact in self._find(text, slots, limit)]

    def _find(self, text: str, slots: Collection[MemorySlot], limit: int) -> Sequence[Fact]:
        if not text.strip():
            return self.ledger.facts.list_facts(self.project, slots, FactState.KEPT, limit)
        if _FACT_ID.fullmatch(text.strip()):
            fact = self._find_visible(text)
            return [fact] if fact and fact.state is FactState.KEPT and (not slots or fact.slot in slots) else []
        return self.ledger.facts.search(text, self.project, slots, limit)

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        """See `Facts`. Of the person, what they said of answers matters for every request."""
        if not about.strip():
            return ()
        facts = self.ledger.facts
        try:
            found = facts.find_relevant(typed_text(about) or about[:LONGEST_TOPIC], self.project, slot, limit)
            if slot is MemorySlot.USER:
                every = facts.list_facts(self.project, (slot,), FactState.KEPT)
                found += [fact for fact in every if _ANSWERS.search(fact.text)]
        except NexusError:
            return ()
        standing = {fact.id: fact for fact in found}
        return list(standing.values())[:limit]

    def _require_saving(self, done: str) -> None:
        """`NexusError("ledger", ...)` in a session of which nothing is kept."""
        if not self.saves:
            raise NexusError("ledger", f"not {done}", "this session saves nothing")

    def _find_visible(self, fact_id: str) -> Fact | None:
        fact = self.ledger.facts.find(fact_id)
        return fact if fact and fact.project in ("", self.project) else None


def add_fact(ledger: Ledger, slot: MemorySlot, text: str, root: str, at: str, session: str = "") -> Fact:
    """Keep what the person typed as a fact; `root` is their project. `NexusError("usage", ...)` for no good text."""
    try:
        return ledger.facts.add(
            slot, text, state=FactState.KEPT, at=at, actor=PERSON, project=root, session=session
        )
    except ValueError as error:
        raise NexusError("usage", "this cannot be remembered", str(error), "Give a short sentence") from error


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting did."""

    kept: Sequence[Fact]
    forgotten: Sequence[Fact]
    """Those whose place was taken, as they were."""


def accept(ledger: Ledger, which: Sequence[str], root: str, at: str) -> Accepted:
    """Keep proposals by their ids, or `all` that wait in project `root`.

    `NexusError("usage", ...)` for an unknown id, and nothing is kept then.
    """
    if [one.strip().casefold() for one in which] == [ALL]:
        ids = [fact.id for fact in ledger.facts.list_facts(root, state=FactState.PROPOSED)]
    else:
        ids = list(dict.fromkeys(ledger.facts.get(one).id for one in which))
    kept, forgotten = list[str](), dict[str, Fact]()
    for proposal in filter(None, map(ledger.facts.find, ids)):
        old = filter(None, map(ledger.facts.find, proposal.replaces))
        forgotten.update({fact.id: fact for fact in old if fact.id != proposal.id})
        ledger.facts.accept(proposal.id, at)
        kept.append(proposal.id)
    return Accepted([fact for fact in map(ledger.facts.find, kept) if fact is not None], list(forgotten.values()))


def forget(ledger: Ledger, fact_id: str, at: str) -> Fact:
    """Forget a fact of any slot and project; as it was. `NexusError("usage", ...)` for an unknown id."""
    known = ledger.facts.get(fact_id)
    return ledger.facts.forget(known.id, at) or known


@contextmanager
def open_facts(folder: Path) -> Iterator[SessionFacts]:
    """The facts that a session in `folder` would find, from the person's ledger; none where there is none to open."""
    with looked_at() as ledger:
        yield SessionFacts(ledger, "", 0, str(project(folder)))
