"""Signals to runs: something happened that they wait for. All functions are called inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.run import QUEUED, RUNNING, WAITING, SpaceMessage, Wait
from nexus_cli.ledger.database import Database

OPEN = f"state IN ('{QUEUED}', '{RUNNING}', '{WAITING}')"
"""The condition of the index of open runs, in its words: a query that has it looks at no run that has ended."""


def add_signal(db: Database, run: int, kind: str, value: Mapping[str, Any], at: str) -> None:
    """Record a signal; the run may wait for it already, or later."""
    text = json.dumps(dict(value))
    db.run("INSERT INTO signals (run, at, kind, value) VALUES (?, ?, ?, ?)", run, at, kind, text)
    db.notify()


def signal_replies(db: Database, message: SpaceMessage) -> tuple[list[int], set[int]]:
    """Signal the runs for which a message is the last reply that they wait for.

    Return them, and the agents of all runs for which it is a reply.
    """
    db.lock(f"space {message.space}")  # a run begins to wait, and a message comes, one after the other
    rows = db.all(
        f"SELECT key, waits, entity FROM runs WHERE {OPEN} AND state = '{WAITING}' AND waits LIKE '%\"reply\"%'"
        " ORDER BY key"
    )
    resumed, answered = [], set[int]()
    for key, waits, entity in rows:
        wait = Wait.from_json(json.loads(waits))
        if wait.kind != "reply" or not _is_reply(wait, message.space, message.key, message.sender.key):
            continue
        if entity is not None:
            answered.add(int(entity))
        if _find_replies(db, wait):
            add_signal(db, key, "reply", {"message": message.key}, message.at)
            resumed.append(int(key))
    return resumed, answered


def signal_earlier_replies(db: Database, run: int, wait: Wait, at: str) -> None:
    """Signal a run that begins to wait if everything that it waits for was said already."""
    db.lock(f"space {wait.value['space']}")
    if replies := _find_replies(db, wait):
        add_signal(db, run, "reply", {"message": replies[-1]}, at)


def _find_replies(db: Database, wait: Wait) -> list[int]:
    """Return the keys of the replies; none while somebody has not answered who has to."""
    space, message = wait.value["space"], wait.value["message"]
    rows = db.all("SELECT key, sender FROM messages WHERE space = ? AND key > ? ORDER BY key", space, message)
    replies = [(int(key), int(sender)) for key, sender in rows if _is_reply(wait, space, key, sender)]
    return [key for key, _ in replies] if set(wait.value["from"]) <= {sender for _, sender in replies} else []


def _is_reply(wait: Wait, space: int, message: int, sender: int) -> bool:
    asked = wait.value["from"]
    right = sender in asked if asked else sender != wait.value["sender"]
    return bool(space == wait.value["space"] and message > wait.value["message"] and right)
