"""The memory of a session: `Facts` over the ledger, and what the person does with facts themselves.

What the model hands over counts at once only where the person said it in this session (`evidence`); otherwise it waits
for them. Storing and finding is the ledger's, showing it the contributors' and the reports'.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import project_root
from nexus_cli.context.neutral import neutral
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Episode, Fact, FactState, MemorySlot, fact_text
from nexus_cli.core.words import Topic, own_words, spoken, stem, words
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.session.episodes import relevant_episodes
from nexus_cli.session.evidence import proves, quoted
from nexus_cli.session.memo_kinds import TRIGGER
from nexus_cli.session.opening import looked_at

PERSON = "person"
ALL = "all"
"""What stands for every proposal."""
RECENT = 200
"""Entries in which the words of a tool are looked for, the newest ones."""
ABOUT = 2_000
"""Characters of a message that say what it is about, where it has no words of the person alone."""
_ID = re.compile(r"m\d+")
_OTHER_WORDS = "address addresses time times key keys code codes file files header headers body rate queue"
_OTHER = frozenset(_OTHER_WORDS.split())
"""With one of these behind it an answer, a reply or a response is a thing, and no way to answer."""
_ANSWER = "answer reply respond response"
_ANSWERING = frozenset(words(_ANSWER))
"""Every request is answered: what the person said of answers matters each time."""


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
        return cls(ledger, made.id, made.main_lane, str(project_root(folder)), clock, kept)

    def seams(self) -> Mapping[str, Any]:
        """What a contributor's `Sources` calls these."""
        return {"facts": self, "episodes": self.episodes}

    def episodes(self, about: str) -> Sequence[Episode]:
        """The past sessions of this project that matter for what was said."""
        return relevant_episodes(self.ledger, self.project, self.session, about)

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        """See `Facts`."""
        text = fact_text(text)
        self._saved("kept")
        actor, entry, proven = self._origin(quote, text, slot)
        return self.ledger.facts.add(
            slot, text, state=FactState.KEPT if proven else FactState.PROPOSED, at=format_utc(self.clock()),
            actor=actor,
            project=self.project, session=self.session, entry=entry, quote=" ".join(quote.split())[:ABOUT],
        )  # fmt: skip

    def forget(self, fact_id: str) -> Fact | None:
        """See `Facts`."""
        fact = self._visible(fact_id)
        if fact is None:
            return None
        if fact.state is FactState.KEPT:  # what counts was stated or accepted by the person, in any slot
            raise ValueError(f"{fact.id} is for the person to forget, tell them: /memory forget {fact.id}")
        self._saved("forgotten")
        return self.ledger.facts.forget(fact.id, format_utc(self.clock()))

    def merge(self, fact_ids: Sequence[str], text: str) -> Fact:
        """See `nexus_cli.core.memory.Merging`."""
        self._saved("merged")
        for fact_id in fact_ids:
            fact = self._visible(fact_id)
            if fact is None:
                raise NexusError("usage", f"no fact {one_line(fact_id)[:40]}", "nothing of this id is remembered here")
            if fact.slot is MemorySlot.USER:
                raise NexusError("usage", f"not merged: {fact.id}", "what the person said of themselves stays as it is")
        return self.ledger.facts.merge(fact_ids, text, format_utc(self.clock()))

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        """See `Facts`."""
        return [replace(fact, text=neutral(fact.text)) for fact in self._found(text, slots, limit)]

    def _found(self, text: str, slots: Collection[MemorySlot], limit: int) -> Sequence[Fact]:
        if not text.strip():
            return self.ledger.facts.listing(self.project, slots, FactState.KEPT, limit)
        if _ID.fullmatch(text.strip()):
            fact = self._visible(text)
            return [fact] if fact and fact.state is FactState.KEPT and (not slots or fact.slot in slots) else []
        return self.ledger.facts.search(text, self.project, slots, limit)

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        """See `Facts`. Of the person, what they said of answers matters for every request."""
        if not about.strip():
            return ()
        facts = self.ledger.facts
        try:
            found = facts.relevant(Topic(own_words(about) or about[:ABOUT], plain=True), self.project, slot, limit)
            if slot is MemorySlot.USER:
                every = facts.search(_ANSWER, self.project, (slot,), limit)
                found += [fact for fact in every if _of_answers(fact.text)]
        except NexusError:
            return ()
        standing = {fact.id: fact for fact in found}
        return list(standing.values())[:limit]

    def _saved(self, done: str) -> None:
        """`NexusError("ledger", ...)` in a session of which nothing is kept."""
        if not self.saves:
            raise NexusError("ledger", f"not {done}", "this session saves nothing")

    def _visible(self, fact_id: str) -> Fact | None:
        fact = self.ledger.facts.find(fact_id)
        return fact if fact and fact.project in ("", self.project) else None

    def _origin(self, quote: str, text: str, slot: MemorySlot) -> tuple[str, int, bool]:
        """Whose entry the quote stands in, which one, and whether the person's words in it carry the fact."""
        wanted, found = " ".join(quote.split()), ("agent", self.ledger.last_id(self.lane))
        if not wanted:
            return *found, False
        near, others = None, self._others()
        for entry, content in self.ledger.said(self.lane):
            own, source = own_words(content), others.get(entry, PERSON)
            if source == PERSON and proves(quote, own, text, slot):
                return PERSON, entry, True
            near = near or ((source, entry) if quoted(wanted, own) else None)
        if near is None:
            for one in reversed(self.ledger.read(self.lane, max(1, found[1] - RECENT + 1), found[1])):
                if one.actor.startswith("tool:") and wanted in " ".join(one.message.content.split()):
                    near = (one.actor, one.id)
                    break
        return *(near or found), False

    def _others(self) -> Mapping[int, str]:
        """The messages that came by another way than the person's typing (stdin), and which."""
        return {memo.entry: str(memo.value.get("source")) for memo in self.ledger.memos(self.lane, TRIGGER)}


def _of_answers(text: str) -> bool:
    """Whether a fact says how to answer: a reply address is another matter."""
    said = list(spoken(text))
    behind = [next((word for word in said[place + 1 :] if word != "to"), "") for place in range(len(said))]
    return any(stem(word) in _ANSWERING and after not in _OTHER for word, after in zip(said, behind, strict=True))


def state(ledger: Ledger, slot: MemorySlot, text: str, root: str, at: str, session: str = "") -> Fact:
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
        ids = [fact.id for fact in ledger.facts.listing(root, state=FactState.PROPOSED)]
    else:
        ids = list(dict.fromkeys(ledger.facts.known(one).id for one in which))
    kept, forgotten = list[str](), dict[str, Fact]()
    for proposal in filter(None, map(ledger.facts.find, ids)):
        old = filter(None, map(ledger.facts.find, proposal.replaces))
        forgotten.update({fact.id: fact for fact in old if fact.id != proposal.id})
        ledger.facts.accept(proposal.id, at)
        kept.append(proposal.id)
    return Accepted([fact for fact in map(ledger.facts.find, kept) if fact is not None], list(forgotten.values()))


def forget(ledger: Ledger, fact_id: str, at: str) -> Fact:
    """Forget a fact of any slot and project; as it was. `NexusError("usage", ...)` for an unknown id."""
    known = ledger.facts.known(fact_id)
    return ledger.facts.forget(known.id, at) or known


@contextmanager
def looked_up(folder: Path) -> Iterator[SessionFacts]:
    """The facts that a session in `folder` would find, from the person's ledger; none where there is none to open."""
    with looked_at() as ledger:
        yield SessionFacts(ledger, "", 0, str(project_root(folder)))
