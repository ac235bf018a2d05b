"""The table of facts: what is remembered across sessions. A fact outlives the session that it comes from.

A forgotten fact keeps its number and loses its text. `nexus_cli.session.session_facts` decides which facts a model may
keep or forget, the noun `memory` has what the person does; `relevance` ranks their texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from nexus_cli.core.errors import UsageError
from nexus_cli.core.memory import COLLEAGUE, Fact, FactState, MemorySlot, fact_text
from nexus_cli.core.message import replace_surrogates
from nexus_cli.ledger.database import Database, Query, Row

ALL = 1 << 60
"""More rows than any table has."""
_ID = re.compile(r"m([1-9][0-9]{0,17})")
_COLUMNS = (
    "'m' || key, slot, text, at, state, actor, session, entry, quote, project,"
    " session <> '' AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = facts.session), accepted, replaces"
)
_ORDER = "state = 'proposed' DESC, key DESC"
_COLUMNS_SHARED = _COLUMNS.replace(
    "actor", f"CASE WHEN made_by = current_user THEN actor ELSE made_by || '{COLLEAGUE}' END"
)


class FactTable:
    """The facts of one ledger. Methods that write have committed when they return."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lent_sessions: frozenset[str] = frozenset()
        """Sessions of borrowed facts: they exist in the ledger of origin, not in this one."""

    def add(
        self,
        slot: MemorySlot,
        text: str,
        *,
        state: FactState,
        at: str,
        actor: str,
        project: str = "",
        session: str = "",
        entry: int = 0,
        quote: str = "",
    ) -> Fact:
        """Store a fact, or return the one with the same text in its slot; `state` decides if it is kept or proposed.

        `project` counts only in the project slot. Raise `ValueError` if the text is empty or too long.
        """
        text, project = fact_text(text), replace_surrogates(project) if slot is MemorySlot.PROJECT else ""
        quote = replace_surrogates(quote)
        with self._db.write():
            self._db.lock("facts")
            find = "SELECT key, text FROM facts WHERE slot = ? AND project = ? AND state <> 'forgotten'"
            rows = self._db.all(find, str(slot), project)
            existing = next((int(key) for key, stored in rows if _normalise(stored) == _normalise(text)), None)
            if existing is None:
                key = self._insert(Fact("", slot, text, at, state, actor, session, entry, quote, project))
            else:
                key = existing
                if state is FactState.KEPT:
                    self._db.run(
                        "UPDATE facts SET state = ?, changed = ?, actor = ?, session = ?, entry = ?, quote = ?,"
                        " replaces = '' WHERE key = ? AND state = ?",
                        state,
                        at,
                        actor,
                        session,
                        entry,
                        quote,
                        key,
                        FactState.PROPOSED,
                    )
        return self.get(f"m{key}")

    def find(self, fact_id: str) -> Fact | None:
        """Return a kept or proposed fact, or None."""
        match = _ID.fullmatch(fact_id.strip().lower())
        rows = self._select("key = ? AND state <> 'forgotten'", int(match[1])) if match else []
        return rows[0] if rows else None

    def list_facts(
        self,
        project: str | None = None,
        slots: Collection[MemorySlot] = (),
        state: FactState | None = None,
        limit: int = ALL,
    ) -> list[Fact]:
        """Return proposals, then kept facts, each newest first; those of all projects if `project` is None."""
        where, values = _condition(project, slots, state)
        return self._select(f"{where} ORDER BY {_ORDER} LIMIT ?", *values, limit)

    def kept_query(self, project: str) -> Query:
        """Return the query of `read_kept`, with its values."""
        where, values = _condition(project, (), FactState.KEPT)
        return self._query(f"{where} ORDER BY {_ORDER} LIMIT ?", *values, ALL)

    def read_kept(self, project: str, *along: Query) -> list[Fact]:
        """Return the kept facts of the project and the global ones, newest first; `along` as in `Database.recent`."""
        return self._read(self._db.recent(self.kept_query(project), *along))

    def search(
        self, text: str, project: str | None = None, slots: Collection[MemorySlot] = (), limit: int = 20
    ) -> list[Fact]:
        """Return the kept facts that hold any word of `text`, the best match first."""
        from nexus_cli.ledger.relevance import rank_matches  # noqa: PLC0415  (few sessions search)

        facts = self.list_facts(project, slots, FactState.KEPT)
        return [facts[index] for index in rank_matches([fact.text for fact in facts], text, limit)]

    def accept(self, fact_id: str, at: str) -> Fact | None:
        """Keep a proposal and forget the facts that it replaces. Of a kept paraphrase, which counted as its quote,
        accept the wording. Return the kept fact, or None if the id is unknown."""
        fact = self.find(fact_id)
        if fact is None or (fact.state is FactState.KEPT and not fact.is_paraphrase):
            return fact
        old = [
            replaced for replaced in map(self.find, fact.replaces) if replaced is not None and replaced.id != fact.id
        ]
        with self._db.write():
            self._db.run(
                "UPDATE facts SET state = 'kept', changed = ?, accepted = ?, replaces = '' WHERE key = ?",
                at,
                at,
                _key(fact.id),
            )
            self._erase(old, at)
        if old:
            self._db.shrink()
        return self.find(fact_id)

    def forget(self, fact_id: str, at: str) -> Fact | None:
        """Remove text and quote of a fact and return it as it was, or None if the id is unknown.

        Requests that were sent with it stay as they are, see `fact_traces`.
        """
        fact = self.find(fact_id)
        if fact is not None:
            with self._db.write():
                self._erase([fact], at)
            self._db.shrink()
        return fact

    def merge(self, fact_ids: Sequence[str], text: str, at: str) -> Fact:
        """Propose one fact that replaces several of one slot.

        Kept facts stay until the proposal is accepted. If all are proposals, they are forgotten at once. Raise
        `UsageError` for an unknown id or facts of different slots or projects, `ValueError` for a text
        that is empty or too long.
        """
        text = fact_text(text)
        old = [self.get(fact_id) for fact_id in dict.fromkeys(fact_ids)]
        if len({(fact.slot, fact.project) for fact in old}) != 1:
            why = "the facts are in different slots or projects" if old else "none is named"
            raise UsageError("facts cannot be merged", why, "Choose facts from the same slot and project")
        slot, project = old[0].slot, old[0].project
        equal_facts = [fact for fact in self.list_facts(project, (slot,)) if _normalise(fact.text) == _normalise(text)]
        proposal = next((fact for fact in equal_facts if fact.state is FactState.PROPOSED), None)
        replaced = [fact for fact in {fact.id: fact for fact in (*old, *equal_facts)}.values() if fact != proposal]
        names = {name for fact in (*old, *equal_facts) for name in fact.replaces}
        with self._db.write():
            if proposal is None:
                fact = Fact("", slot, text, at, FactState.PROPOSED, "nexus", "", 0, project=project)
                key = self._insert(fact)
            else:
                key = _key(proposal.id)
            if any(fact.state is FactState.KEPT for fact in replaced):
                names |= {fact.id for fact in replaced}
            else:
                self._erase(replaced, at)
            self._db.run("UPDATE facts SET replaces = ? WHERE key = ?", " ".join(sorted(names, key=_key)), key)
        self._db.shrink()
        return self.get(f"m{key}")

    def borrow(self, facts: Sequence[Fact]) -> None:
        """Copy facts of another ledger into this one with their ids, which must be free."""
        self._lent_sessions |= {fact.session for fact in facts if not fact.deleted}
        with self._db.write():
            for fact in sorted(facts, key=lambda fact: _key(fact.id)):  # else the next fact skips keys
                self._db.run("UPDATE facts SET key = ? WHERE key = ?", _key(fact.id), self._insert(fact))

    def get(self, fact_id: str) -> Fact:
        """Return a kept or proposed fact; raise `UsageError` if the id is unknown."""
        fact = self.find(fact_id)
        if fact is None:
            quoted_id = " ".join(replace_surrogates(fact_id).split())[:40]
            raise UsageError(f"fact {quoted_id}", "there is no such fact", "See `nexus memory list`")
        return fact

    def clear_quotes(self, session: str) -> None:
        """Remove the quotes from the facts of a deleted session; the facts stay."""
        if self._db.one("SELECT 1 FROM facts WHERE session = ? AND quote <> ''", session):
            with self._db.write():
                self._db.run("UPDATE facts SET quote = '' WHERE session = ?", session)

    def _insert(self, fact: Fact) -> int:
        """Store a fact under a new key, whatever its id is; return the key."""
        return self._db.insert(
            "INSERT INTO facts (slot, project, text, state, at, changed, actor, session, entry, quote, accepted,"
            " replaces) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            str(fact.slot),
            fact.project,
            fact.text,
            str(fact.state),
            fact.at,
            fact.at,
            fact.actor,
            fact.session,
            fact.entry,
            fact.quote,
            fact.accepted,
            " ".join(fact.replaces),
        )

    def move(self, before: str, project: str) -> int:
        """Give the facts of the project `before` to another one, inside a transaction; return their number."""
        count = self._db.number("SELECT count(*) FROM facts WHERE project = ? AND state <> 'forgotten'", before)
        self._db.run("UPDATE facts SET project = ? WHERE project = ?", project, before)
        return count

    def _erase(self, facts: Sequence[Fact], at: str) -> None:
        for fact in facts:
            self._db.run(
                "UPDATE facts SET state = 'forgotten', changed = ?, text = '', quote = '', replaces = '' WHERE key = ?",
                at,
                _key(fact.id),
            )

    def _query(self, where: str, *values: Any) -> Query:
        return f"SELECT {_COLUMNS_SHARED if self._db.is_shared else _COLUMNS} FROM facts WHERE {where}", *values

    def _select(self, where: str, *values: Any) -> list[Fact]:
        return self._read(self._db.all(*self._query(where, *values)))

    def _read(self, rows: Iterable[Row]) -> list[Fact]:
        return [
            Fact(
                id_,
                MemorySlot(slot),
                text,
                at,
                FactState(state),
                actor,
                session,
                entry,
                quote,
                project,
                bool(is_gone) and session not in self._lent_sessions,
                accepted,
                tuple(replaces.split()),
            )
            for id_, slot, text, at, state, actor, session, entry, quote, project, is_gone, accepted, replaces in rows
        ]


def _condition(project: str | None, slots: Collection[MemorySlot], state: FactState | None) -> tuple[str, list[Any]]:
    """Return an SQL condition for facts that are not forgotten, and its values."""
    where, values = ["state <> 'forgotten'"], list[Any]()
    if project is not None:
        where.append("project IN ('', ?)")
        values.append(replace_surrogates(project))
    if slots:
        where.append(f"slot IN ({','.join('?' * len(slots))})")
        values += map(str, slots)
    if state is not None:
        where.append("state = ?")
        values.append(str(state))
    return " AND ".join(where), values


def _key(fact_id: str) -> int:
    return int(fact_id[1:])


def _normalise(text: str) -> str:
    return text.casefold().rstrip(".!")
