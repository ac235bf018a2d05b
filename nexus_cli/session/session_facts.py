"""The memory of a session: `Facts` over the ledger.

A fact from the model is kept at once only if the person typed its quote in this session (`user_evidence`), else it is a
proposal. The text may misrepresent the quote, so that requests state the quote (`Fact.statement`) until the person
accepts the text. The ledger stores and finds facts; contributors and reports show them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.memory import Episode, Fact, Facts, FactState, MemorySlot, fact_text
from nexus_cli.core.typed_text import typed_text
from nexus_cli.ledger import Ledger
from nexus_cli.text.untrusted_text import neutralize

LONGEST_TOPIC = 2_000
"""Most characters of a stored quote, and of a message without typed text that are used as its topic."""
_FACT_ID = re.compile(r"m\d+")
_ANSWERS = re.compile(
    r"\b(?:answer(?:s|ed|ing)?|repl(?:y|ies|ied|ying)|respon(?:se|ses|d|ds|ded|ding))\b"
    r"(?!(?:\W+to\b)?\W+(?:address(?:es)?|times?|keys?|codes?|files?|headers?|body|rate|queue)\b)",
    re.IGNORECASE,
)
"""Words of facts about how to answer, which are relevant to every request, but not "reply address" and the like."""


@dataclass(frozen=True, slots=True)
class SessionFacts(Facts):
    """Implements `nexus_cli.core.memory.Facts` for one session. Safe in threads."""

    ledger: Ledger
    session: str
    project: str
    clock: Clock = local_now
    saves: bool = True
    """False if the session is not saved, so that facts are read-only."""

    @classmethod
    def of(cls, ledger: Ledger, session: str, folder: Path, clock: Clock) -> SessionFacts:
        """Return the memory of the session with this id, which works in `folder`."""
        is_kept = ledger.is_kept and ledger.writes
        return cls(ledger, session, ledger.project_of(folder), clock, is_kept)

    def misses(self) -> Mapping[str, tuple[int, int]]:
        """Count the left-out sections of this project, and those recalled; empty if the ledger cannot be read."""
        try:
            return self.ledger.count_misses(self.project)
        except NexusError:
            return {}

    def episodes(self, about: str) -> Sequence[Episode]:
        """Return past sessions of this project with a title relevant to the message `about`, most relevant first.

        Of sessions with the same title only the newest is returned; this session and its relatives are excluded. Never
        raises.
        """
        newest = dict[str, Episode]()
        try:
            for episode in self.ledger.episodes(self.project, self.session):
                newest.setdefault(episode.title.casefold(), episode)
        except NexusError:
            return ()
        if not newest or not (message := typed_text(about)).strip():
            return ()
        from nexus_cli.ledger.relevance import rank_relevant  # noqa: PLC0415  (a new project has no past)

        return [list(newest.values())[index] for index in rank_relevant(list(newest), message)]

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        text = fact_text(text)
        self._require_saving("kept")
        from nexus_cli.session.user_evidence import find_origin  # noqa: PLC0415  (few sessions learn a fact)

        origin = find_origin(self.ledger.log(self.session), quote)
        return self.ledger.facts.add(
            slot,
            text,
            state=FactState.KEPT if origin.is_person else FactState.PROPOSED,
            at=format_utc(self.clock()),
            actor=origin.actor,
            project=self.project,
            session=self.session,
            entry=origin.entry,
            quote=" ".join((origin.words or quote).split())[:LONGEST_TOPIC],
        )

    def forget(self, fact_id: str) -> Fact | None:
        fact = self._find_visible(fact_id)
        if fact is None:
            return None
        if fact.state is FactState.KEPT:  # kept facts were stated or accepted by the person, in any slot
            raise ValueError(f"only the person can forget {fact.id}; tell them to run /memory forget {fact.id}")
        self._require_saving("forgotten")
        return self.ledger.facts.forget(fact.id, format_utc(self.clock()))

    def merge(self, fact_ids: Sequence[str], text: str) -> Fact:
        """See `nexus_cli.core.memory.FactMerger`."""
        self._require_saving("merged")
        for fact_id in fact_ids:
            fact = self._find_visible(fact_id)
            if fact is None:
                raise UsageError(f"fact {one_line(fact_id)[:40]}", "there is no such fact")
            if fact.slot is MemorySlot.USER:
                raise UsageError(f"not merged: {fact.id}", "what the person said of themselves stays as it is")
        return self.ledger.facts.merge(fact_ids, text, format_utc(self.clock()))

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        facts = [fact for fact in self._find(text, slots, limit) if fact.statement]
        return [replace(fact, text=neutralize(fact.text), quote=neutralize(fact.quote)) for fact in facts]

    def _find(self, text: str, slots: Collection[MemorySlot], limit: int) -> Sequence[Fact]:
        along = *self.ledger.memory_queries(self.project), self.ledger.episodes_query(self.project, self.session)
        kept_facts = self.ledger.facts.read_kept(self.project, *along)
        if not kept_facts or not text.strip():
            return [fact for fact in kept_facts if not slots or fact.slot in slots][:limit]
        if _FACT_ID.fullmatch(text.strip()):
            fact = self._find_visible(text)
            return [fact] if fact and fact.state is FactState.KEPT and (not slots or fact.slot in slots) else []
        return self.ledger.facts.search(text, self.project, slots, limit)

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        """See `Facts`. A fact of the person about how to answer is relevant for every message."""
        try:
            visible = self.ledger.facts.read_kept(self.project, self.ledger.episodes_query(self.project, self.session))
            kept_facts = [fact for fact in visible if fact.slot is slot]
        except NexusError:
            return ()
        if not kept_facts or not about.strip():
            return ()
        from nexus_cli.ledger.relevance import rank_relevant  # noqa: PLC0415  (a new project has no facts)

        message = typed_text(about) or about[:LONGEST_TOPIC]
        best = rank_relevant([fact.text for fact in kept_facts], message, allow_common=True)
        facts = [kept_facts[index] for index in best[:limit]]
        if slot is MemorySlot.USER:
            facts += [fact for fact in kept_facts if _ANSWERS.search(fact.statement)]
        standing = {fact.id: fact for fact in facts if fact.statement}
        return list(standing.values())[:limit]

    def _require_saving(self, action: str) -> None:
        """Raise `NexusError("ledger", ...)` if the session is not saved."""
        if not self.saves:
            raise NexusError("ledger", f"not {action}", "this session is not saved")

    def _find_visible(self, fact_id: str) -> Fact | None:
        fact = self.ledger.facts.find(fact_id)
        return fact if fact and fact.project in ("", self.project) else None
