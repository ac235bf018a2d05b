"""What the commands of this folder share: reading the rest of a line, the session's ledger, options to go on with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.commands.command import CommandContext
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.session.next_request.draft import prepare_next_request
from nexus_cli.session.options import Options

LONGEST_NAME = 100
_RANGE = re.compile(r"(\d{0,12}):(\d{0,12})")


def refuse_arguments(name: str, rest: str) -> None:
    """`NexusError("usage", ...)` where a command that takes no arguments was given some."""
    if rest:
        raise usage_error(name, rest, "it takes no arguments")


def usage_error(name: str, rest: str, why: str, hint: str = "") -> NexusError:
    """The error for arguments that make no sense."""
    shown = rest if len(rest) <= 60 else rest[:59] + "…"
    return NexusError("usage", f"/{name} {shown}".rstrip(), why, hint or f"/help {name} tells more")


def parse_choice(name: str, rest: str, known: Sequence[str]) -> str:
    """`rest` as one of `known` words, letter case aside."""
    if rest.casefold() not in known:
        raise usage_error(name, rest, f"it must be one of {', '.join(known)}")
    return rest.casefold()


def parse_session_name(name: str, rest: str) -> str:
    """`rest` as the name of a session."""
    if len(rest) > LONGEST_NAME:
        raise usage_error(name, rest, f"a name has at most {LONGEST_NAME} characters")
    return rest


def require_ledger(context: CommandContext) -> Ledger:
    """The ledger of the session; `NexusError("ledger", ...)` where there is none."""
    if context.session.ledger is None:
        raise _no_ledger()
    return context.session.ledger


def warn_if_stale(context: CommandContext) -> None:
    """Say that a report which reads the ledger alone ends where that failed, and how full the window is by now."""
    ledger, status = context.session.ledger, context.session.status()
    if ledger is None or ledger.path is None or status.saved:
        return
    try:
        until = f"request {ledger.log(context.session.id).step()}"
    except NexusError:
        until = "the last request that it could keep"
    now = f"the window holds about {status.used:,} of {status.budget:,} tokens by now"
    context.say(f"The ledger has failed: what follows ends with {until}; {now}.")


def require_record(context: CommandContext) -> LaneLog:
    """What the session has recorded; `NexusError("ledger", ...)` where there is nothing."""
    if context.session.record is None:
        raise _no_ledger()
    return context.session.record


def _no_ledger() -> NexusError:
    return NexusError("ledger", "this session has no ledger", "it was put together by hand", "Start nexus itself")


def parse_drop_range(name: str, rest: str, context: CommandContext) -> tuple[str, str, int, int]:
    """`ID [A:B]` as the id of a drop, its whole text, and the characters that are meant.

    `NexusError("usage", ...)` where the session has no such drop, `A:B` is no range or nothing stands there.
    """
    drop_id, _, span = rest.partition(" ")
    text = require_record(context).original(drop_id)
    if text is None:
        hint = "/drops lists them; the numbers of refused compactions are skipped"
        raise usage_error(name, drop_id, "this session has no such drop", hint)
    match = _RANGE.fullmatch(span.strip() or ":")
    if match is None:
        raise usage_error(name, rest, "a range is A:B in characters", f"For example /{name} {drop_id} 0:2000")
    start, end, _ = slice(*(int(part) if part else None for part in match.groups())).indices(len(text))
    if span.strip() and start >= end:
        why = f"nothing is there: {drop_id} has {len(text):,} characters"
        raise usage_error(name, rest, why, f"For example /{name} {drop_id} 0:2000" if text else "")
    return drop_id, text, start, end


def complete_drop_ids(context: CommandContext) -> Sequence[str]:
    """The ids of the session's drops, the newest first."""
    try:
        return [drop.id for drop in reversed(require_record(context).drops())]
    except NexusError:
        return ()


def resume_options(context: CommandContext, **changes: Any) -> Options:
    """The options to go on with the present session, changed as said."""
    same: dict[str, Any] = {"resume": context.session.id, "newest": False, "model": context.session.model}
    return replace(context.options, **(same | changes))


def has_sent_request(context: CommandContext) -> bool:
    """Whether a request of the session was sent yet."""
    ledger = require_ledger(context)
    return ledger.log(context.session.id).step() > 0


async def describe_cache_miss(context: CommandContext) -> str:
    """What the next request does not find in a cache, as it is by now, as a sentence; "" where it goes on from all that
    was sent last, before the first request, and where the ledger cannot tell."""
    try:
        request = await asyncio.to_thread(context.session.look, prepare_next_request)
    except NexusError:
        return ""
    tokens, new = request.tokens, request.sent_anew
    if not new:
        return ""
    if new == tokens:
        return f"The next request is sent anew: about {tokens:,} tokens that no cache has."
    return f"Of the next request about {new:,} of {tokens:,} tokens are sent anew."
