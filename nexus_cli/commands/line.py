"""What the commands of this folder share: reading the rest of a line, the session's ledger, options to go on with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.commands.command import Desk
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.session.options import Options
from nexus_cli.session.reports.anew import anew

LONGEST_NAME = 100
_RANGE = re.compile(r"(\d{0,12}):(\d{0,12})")


def nothing(name: str, rest: str) -> None:
    """`NexusError("usage", ...)` where a command that takes no arguments was given some."""
    if rest:
        raise wrong(name, rest, "it takes no arguments")


def wrong(name: str, rest: str, why: str, hint: str = "") -> NexusError:
    """The error for arguments that make no sense."""
    shown = rest if len(rest) <= 60 else rest[:59] + "…"
    return NexusError("usage", f"/{name} {shown}".rstrip(), why, hint or f"/help {name} tells more")


def one_of(name: str, rest: str, known: Sequence[str]) -> str:
    """`rest` as one of `known` words, letter case aside."""
    if rest.casefold() not in known:
        raise wrong(name, rest, f"it must be one of {', '.join(known)}")
    return rest.casefold()


def name_in(name: str, rest: str) -> str:
    """`rest` as the name of a session."""
    if len(rest) > LONGEST_NAME:
        raise wrong(name, rest, f"a name has at most {LONGEST_NAME} characters")
    return rest


def ledger_of(desk: Desk) -> Ledger:
    """The ledger of the session; `NexusError("ledger", ...)` where there is none."""
    if desk.session.ledger is None:
        raise _bare()
    return desk.session.ledger


def say_if_old(desk: Desk) -> None:
    """Say that a report which reads the ledger alone ends where that failed, and how full the window is by now."""
    ledger, status = desk.session.ledger, desk.session.status()
    if ledger is None or ledger.path is None or status.saved:
        return
    try:
        until = f"request {ledger.log(desk.session.id).step()}"
    except NexusError:
        until = "the last request that it could keep"
    now = f"the window holds about {status.used:,} of {status.budget:,} tokens by now"
    desk.say(f"The ledger has failed: what follows ends with {until}; {now}.")


def record_of(desk: Desk) -> LaneLog:
    """What the session has recorded; `NexusError("ledger", ...)` where there is nothing."""
    if desk.session.record is None:
        raise _bare()
    return desk.session.record


def _bare() -> NexusError:
    return NexusError("ledger", "this session has no ledger", "it was put together by hand", "Start nexus itself")


def original(name: str, rest: str, desk: Desk) -> tuple[str, str, int, int]:
    """`ID [A:B]` as the id of a drop, its whole text, and the characters that are meant.

    `NexusError("usage", ...)` where the session has no such drop, `A:B` is no range or nothing stands there.
    """
    drop_id, _, span = rest.partition(" ")
    text = record_of(desk).original(drop_id)
    if text is None:
        hint = "/drops lists them; the numbers of refused compactions are skipped"
        raise wrong(name, drop_id, "this session has no such drop", hint)
    match = _RANGE.fullmatch(span.strip() or ":")
    if match is None:
        raise wrong(name, rest, "a range is A:B in characters", f"For example /{name} {drop_id} 0:2000")
    start, end, _ = slice(*(int(part) if part else None for part in match.groups())).indices(len(text))
    if span.strip() and start >= end:
        why = f"nothing is there: {drop_id} has {len(text):,} characters"
        raise wrong(name, rest, why, f"For example /{name} {drop_id} 0:2000" if text else "")
    return drop_id, text, start, end


def drop_ids(desk: Desk) -> Sequence[str]:
    """The ids of the session's drops, the newest first."""
    try:
        return [drop.id for drop in reversed(record_of(desk).drops())]
    except NexusError:
        return ()


def going_on(desk: Desk, **changes: Any) -> Options:
    """The options to go on with the present session, changed as said."""
    same: dict[str, Any] = {"resume": desk.session.id, "newest": False, "model": desk.session.model}
    return replace(desk.options, **(same | changes))


def begun(desk: Desk) -> bool:
    """Whether a request of the session was sent yet."""
    ledger = ledger_of(desk)
    return ledger.log(desk.session.id).step() > 0


async def sent_anew(desk: Desk) -> str:
    """What the next request does not find in a cache, as it is by now, as a sentence; "" where it goes on from all that
    was sent last, before the first request, and where the ledger cannot tell."""
    try:
        value = await asyncio.to_thread(desk.session.look, anew)
    except NexusError:
        return ""
    tokens, new = value["tokens"], value["tokens"] - value["cached"]
    if not new:
        return ""
    if not value["cached"]:
        return f"The next request is sent anew: about {tokens:,} tokens that no cache has."
    return f"Of the next request about {new:,} of {tokens:,} tokens are sent anew."
