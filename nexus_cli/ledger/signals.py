"""Signals: events that runs wait for. All functions must be called inside a transaction."""

from __future__ import annotations

import json
from dataclasses import replace

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.run import ENDED, QUEUED, RUNNING, WAITING, SpaceMessage, Wait
from nexus_cli.ledger.database import Database

OPEN = f"state IN ('{QUEUED}', '{RUNNING}', '{WAITING}')"
"""The condition of the index of open runs, word for word, so that SQLite uses the index."""


def add_signal(db: Database, run: int, kind: str, value: JsonObject, at: str, *, is_taken: bool = False) -> None:
    """Record a signal; the run may be waiting for it already or begin to wait later. One that `is_taken` wakes none."""
    text, taken_flag = json.dumps(dict(value)), int(is_taken)
    db.run("INSERT INTO signals (run, at, kind, value, taken) VALUES (?, ?, ?, ?, ?)", run, at, kind, text, taken_flag)
    db.notify()


def signal_replies(db: Database, message: SpaceMessage) -> tuple[list[int], set[int]]:
    """Signal the runs for which a message is the last awaited reply.

    Return these runs, and the agents of all runs that the message replies to.
    """
    db.lock(f"space {message.space}")  # serializes the beginning of waits with new messages
    resumed, answered = [], set[int]()
    for key, wait, entity in _waits_for_replies(db):
        if not _is_reply(wait, message.space, message.key, message.sender.key):
            continue
        if entity is not None:
            answered.add(entity)
        if _find_replies(db, wait):
            add_signal(db, key, "reply", {"message": message.key}, message.at)
            resumed.append(key)
    return resumed, answered


def signal_unanswered(db: Database, run: int, at: str) -> None:
    """Signal the runs that wait for a reply of a run's agent, if the run ended without replying to the message that it
    was started for."""
    row = db.one(
        "SELECT r.entity, r.message, e.name FROM runs r JOIN entities e ON e.key = r.entity WHERE r.key = ?", run
    )
    if row is None:
        return
    entity, message, name = row
    reply_rows = db.all("SELECT value FROM signals WHERE run = ? AND kind = 'reply' AND taken = 1", run)
    awaited = {message, *(json.loads(value)["message"] for (value,) in reply_rows)}
    for key, wait, _ in _waits_for_replies(db):
        senders = wait.value["from"]
        if wait.value["message"] not in awaited or (
            entity not in senders if senders else _find_other_members(db, wait) != [entity]
        ):
            continue
        if not _find_replies(db, replace(wait, value={**wait.value, "from": [entity]})):
            add_signal(db, key, "unanswered", {"entity": entity, "name": name, "run": run}, at)


def signal_member_left(db: Database, space: int, entity: int, name: str, at: str) -> None:
    """Signal the runs that wait in a space for a reply of a member who has left it."""
    for key, wait, _ in _waits_for_replies(db):
        senders = wait.value["from"]
        if wait.value["space"] == space and (entity in senders if senders else not _find_other_members(db, wait)):
            add_signal(db, key, "unanswered", {"entity": entity, "name": name}, at)


def _find_other_members(db: Database, wait: Wait) -> list[int]:
    rows = db.all("SELECT entity FROM members WHERE space = ?", wait.value["space"])
    return [key for (key,) in rows if key != wait.value["sender"]]


def _waits_for_replies(db: Database) -> list[tuple[int, Wait, int | None]]:
    """Return the runs that wait for replies, with their agents."""
    rows = db.all(
        f"SELECT key, waits, entity FROM runs WHERE {OPEN} AND state = '{WAITING}' AND waits LIKE '%\"reply\"%'"
        " ORDER BY key"
    )
    parsed = [(key, Wait.from_json(json.loads(waits)), entity) for key, waits, entity in rows]
    return [(key, wait, entity) for key, wait, entity in parsed if wait.kind == "reply"]


def signal_earlier_replies(db: Database, run: int, wait: Wait, at: str) -> None:
    """Signal a run that begins to wait if all awaited replies have come already or can no longer come."""
    space, message = wait.value["space"], wait.value["message"]
    db.lock(f"space {space}")
    if replies := _find_replies(db, wait):
        add_signal(db, run, "reply", {"message": replies[-1]}, at)
        return
    ended = ", ".join(f"'{state}'" for state in ENDED)
    rows = db.all(f"SELECT key FROM runs WHERE space = ? AND message = ? AND state IN ({ended})", space, message)
    for (key,) in rows:
        signal_unanswered(db, key, at)


def _find_replies(db: Database, wait: Wait) -> list[int]:
    """Return the keys of the replies; none while an awaited reply is missing."""
    space, message = wait.value["space"], wait.value["message"]
    rows = db.all("SELECT key, sender FROM messages WHERE space = ? AND key > ? ORDER BY key", space, message)
    replies = [(key, sender) for key, sender in rows if _is_reply(wait, space, key, sender)]
    return [key for key, _ in replies] if set(wait.value["from"]) <= {sender for _, sender in replies} else []


def _is_reply(wait: Wait, space: int, message: int, sender: int) -> bool:
    senders = wait.value["from"]
    right = sender in senders if senders else sender != wait.value["sender"]
    return bool(space == wait.value["space"] and message > wait.value["message"] and right)


def count_caused(db: Database, message: int) -> tuple[int, float]:
    """See `RunTable.count_caused`. The cause of such a run begins with the id of that message."""
    ((count, dollars),) = db.all(
        "SELECT count(*), coalesce(sum(coalesce(r.cost, (SELECT s.cost FROM sessions s WHERE s.id = r.session), 0.0)),"
        " 0.0)"
        " FROM runs r WHERE r.cause <> '' AND r.cause >= ? AND r.cause < ?",
        f"msg-{message} ",
        f"msg-{message}!",  # the character after the blank
    )
    return int(count), float(dollars)
