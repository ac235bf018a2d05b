"""Facts: what is remembered over sessions. They belong to no session and outlive the one that they come from.

A forgotten fact keeps its number and loses its text. Who may keep or forget what is said by `nexus_cli.session.memory`;
how facts are found is in `fact_index`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact, FactState, MemorySlot, fact_text
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.words import Topic, terms
from nexus_cli.ledger import fact_index, fact_traces
from nexus_cli.ledger.database import Database

_ID = re.compile(r"m([1-9][0-9]{0,17})")
_COLUMNS = (
    "'m' || key, slot, text, at, state, actor, session, entry, quote, project,"
    " session <> '' AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = facts.session), accepted, replaces"
)
_SCANNED = 5_000
"""Facts that are looked at, the newest first, where there is no index."""


class FactTable:
    """The facts of one ledger. Methods that write have committed when they return."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._elsewhere: frozenset[str] = frozenset()
        """Sessions that lent facts name, and that are in the ledger that these come from."""

    def add(
        self, slot: MemorySlot, text: str, *, state: FactState, at: str, actor: str, project: str = "",
        session: str = "", entry: int = 0, quote: str = "",
    ) -> Fact:  # fmt: skip
        """Store a fact; the same text in its slot again gives the one that is there, kept if this one would be.

        `project` counts in the project slot alone. `ValueError` for a text that is empty or too long.
        """
        text, project = fact_text(text), replace_surrogates(project) if slot is MemorySlot.PROJECT else ""
        with self._db.write():
            there = self._same(slot, project, text)
            if there is None:
                key = self._insert(slot, project, text, state, at, actor, session, entry, quote)
                fact_index.renew(self._db)
            else:
                key = there
                if state is FactState.KEPT:
                    self._db.run(
                        "UPDATE facts SET state = ?, changed = ?, actor = ?, session = ?, entry = ?, quote = ?,"
                        " replaces = '' WHERE key = ? AND state = ?",
                        state, at, actor, session, entry, replace_surrogates(quote), key, FactState.PROPOSED,
                    )  # fmt: skip
        return self.known(f"m{key}")

    def find(self, fact_id: str) -> Fact | None:
        """A fact that is kept or proposed, or None."""
        match = _ID.fullmatch(fact_id.strip().lower())
        rows = self._rows("key = ? AND state <> 'forgotten'", int(match[1])) if match else []
        return rows[0] if rows else None

    def listing(
        self, project: str | None = None, slots: Collection[MemorySlot] = (), state: FactState | None = None,
        limit: int = -1,
    ) -> list[Fact]:  # fmt: skip
        """What waits for the person, then what is kept, the newest first; `project` None means those of all."""
        where, values = fact_index.among(project, slots, state)
        order = "state = 'proposed' DESC, key DESC"
        return self._rows(f"{where} ORDER BY {order} LIMIT ?", *values, limit)

    def search(
        self, text: str, project: str | None = None, slots: Collection[MemorySlot] = (), limit: int = 20
    ) -> list[Fact]:
        """The kept facts that hold words of `text`, the best first."""
        return self._holding(terms(text), project, slots, limit)

    def relevant(self, about: Topic, project: str, slot: MemorySlot, among: int = 50) -> list[Fact]:
        """The kept facts of one slot that matter for `about`, the best first."""
        found = self._holding(about.terms, project, (slot,), among)
        scores = {fact.id: about.score(fact.text) for fact in found}
        return sorted((fact for fact in found if scores[fact.id]), key=lambda fact: -scores[fact.id])

    def accept(self, fact_id: str, at: str) -> Fact | None:
        """Keep a proposal and forget what it replaces; a fact that is kept already stays so. None when there is none of
        this id."""
        fact = self.find(fact_id)
        if fact is None or fact.state is FactState.KEPT:
            return fact
        old = [there for there in map(self.find, fact.replaces) if there is not None and there.id != fact.id]
        with self._db.write():
            self._db.run(
                "UPDATE facts SET state = 'kept', changed = ?, accepted = ?, replaces = '' WHERE key = ?",
                at, at, _key(fact.id),
            )  # fmt: skip
            self._blank(old, at)
        if old:
            self._db.shrink()
        return self.find(fact_id)

    def forget(self, fact_id: str, at: str) -> Fact | None:
        """Remove the text and the quote of a fact, and return it as it was; None when there is none of this id. What
        sessions hold of it stays, see `told_in`."""
        fact = self.find(fact_id)
        if fact is not None:
            with self._db.write():
                self._blank([fact], at)
            self._db.shrink()
        return fact

    def told_in(self, fact: Fact) -> list[str]:
        """Ids of the sessions in which `fact` can still be read, also once it is forgotten."""
        return fact_traces.told_in(self._db, fact)

    def merge(self, fact_ids: Sequence[str], text: str, at: str) -> Fact:
        """Propose one fact in the place of several of one slot. What is kept stays until the proposal is accepted;
        proposals alone give way at once.

        `NexusError("usage", ...)` for an unknown id and for facts of different slots or projects, `ValueError` for a
        text that is none.
        """
        text = fact_text(text)
        old = [self.known(fact_id) for fact_id in dict.fromkeys(fact_ids)]
        if len({(fact.slot, fact.project) for fact in old}) != 1:
            why = "they stand in different slots or projects" if old else "none is named"
            raise NexusError("usage", "facts cannot be merged", why, "Name facts of one slot")
        slot, project = old[0].slot, old[0].project
        same = [fact for fact in self.listing(project, (slot,)) if _plain(fact.text) == _plain(text)]
        there = next((fact for fact in same if fact.state is FactState.PROPOSED), None)
        rest = [fact for fact in {fact.id: fact for fact in (*old, *same)}.values() if fact != there]
        names = {name for fact in (*old, *same) for name in fact.replaces}
        with self._db.write():
            if there is None:
                key = self._insert(slot, project, text, FactState.PROPOSED, at, "nexus", "", 0, "")
            else:
                key = _key(there.id)
            if any(fact.state is FactState.KEPT for fact in rest):
                names |= {fact.id for fact in rest}
                fact_index.renew(self._db)
            else:
                self._blank(rest, at)
            self._db.run("UPDATE facts SET replaces = ? WHERE key = ?", " ".join(sorted(names, key=_key)), key)
        self._db.shrink()
        return self.known(f"m{key}")

    def borrow(self, facts: Sequence[Fact]) -> None:
        """Take over facts of another ledger (`lending`), with their ids; they must not be here yet."""
        self._elsewhere |= {fact.session for fact in facts if not fact.deleted}
        with self._db.write():
            for fact in facts:
                self._db.run(
                    "INSERT INTO facts (key, slot, project, text, state, at, changed, actor, session, entry, quote,"
                    " accepted, replaces) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    _key(fact.id), str(fact.slot), fact.project, fact.text, str(fact.state), fact.at, fact.at,
                    fact.actor, fact.session, fact.entry, fact.quote, fact.accepted, " ".join(fact.replaces),
                )  # fmt: skip

    def known(self, fact_id: str) -> Fact:
        """A fact that is kept or proposed; `NexusError("usage", ...)` when there is none of this id."""
        fact = self.find(fact_id)
        if fact is None:
            shown = " ".join(replace_surrogates(fact_id).split())[:40]
            raise NexusError("usage", f"no fact {shown}", "nothing of this id is remembered", "See nexus memory list")
        return fact

    def let_go(self, session: str) -> None:
        """Take the words of a session that is deleted out of its facts; the facts stay."""
        if self._db.one("SELECT 1 FROM facts WHERE session = ? AND quote <> ''", session):
            with self._db.write():
                self._db.run("UPDATE facts SET quote = '' WHERE session = ?", session)

    def _insert(self, slot: MemorySlot, project: str, text: str, state: FactState, at: str, *origin: Any) -> int:
        actor, session, entry, quote = origin
        return self._db.run(
            "INSERT INTO facts (slot, project, text, state, at, changed, actor, session, entry, quote)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            str(slot), project, text, str(state), at, at, actor, session, entry, replace_surrogates(quote),
        )  # fmt: skip

    def _same(self, slot: MemorySlot, project: str, text: str) -> int | None:
        """Key of the fact of this slot with the same text, letter case and a full stop aside."""
        rows = self._db.all(
            "SELECT key, text FROM facts WHERE slot = ? AND project = ? AND state <> 'forgotten'", str(slot), project
        )
        return next((int(key) for key, there in rows if _plain(there) == _plain(text)), None)

    def _blank(self, facts: Sequence[Fact], at: str) -> None:
        for fact in facts:
            self._db.run(
                "UPDATE facts SET state = 'forgotten', changed = ?, text = '', quote = '', replaces = '' WHERE key = ?",
                at, _key(fact.id),
            )  # fmt: skip
        fact_index.renew(self._db)

    def _holding(
        self, wanted: Sequence[str], project: str | None, slots: Collection[MemorySlot], limit: int
    ) -> list[Fact]:
        where, values = fact_index.among(project, slots, FactState.KEPT)
        if not wanted:
            return []
        keys = fact_index.ranked(self._db, wanted, where, values, limit)
        if keys is not None:
            found = {fact.id: fact for fact in self._rows(f"key IN ({','.join('?' * len(keys))})", *keys)}
            return [found[f"m{key}"] for key in keys if f"m{key}" in found]
        known = self._rows(f"{where} ORDER BY key DESC LIMIT ?", *values, _SCANNED)
        shares = {fact.id: fact_index.share(fact.text, wanted) for fact in known}
        return sorted((fact for fact in known if shares[fact.id]), key=lambda fact: -shares[fact.id])[:limit]

    def _rows(self, where: str, *values: Any) -> list[Fact]:
        rows = self._db.all(f"SELECT {_COLUMNS} FROM facts WHERE {where}", *values)
        return [
            Fact(
                id_, MemorySlot(slot), text, at, FactState(state), actor, session, entry, quote, project,
                bool(gone) and session not in self._elsewhere, accepted, tuple(replaces.split()),
            )
            for id_, slot, text, at, state, actor, session, entry, quote, project, gone, accepted, replaces in rows
        ]  # fmt: skip


def _key(fact_id: str) -> int:
    return int(fact_id[1:])


def _plain(text: str) -> str:
    return text.casefold().rstrip(".!")
