"""`/resume`, `/clear`, `/fork`, `/edit` and `/rename`: list, change, copy and name sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from nexus_cli.commands.arguments import parse_session_name, require_ledger, require_record, resume_options
from nexus_cli.commands.command import Choice, Command, CommandContext, always, usage_error
from nexus_cli.config.paths import places
from nexus_cli.core.clock import format_age, local_now
from nexus_cli.core.elide import clip_text, plural
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.requests.user_messages import read_backwards
from nexus_cli.ledger import LaneLog, Ledger, SessionInfo
from nexus_cli.reports import sessions as reports
from nexus_cli.reports.conversation import shown_text

MOST = 200
"""Most sessions that are listed; a search reaches the others."""
LIST = "list"
"""The argument that lets the person choose the message to edit."""
TITLE = 100
"""Most characters of a title."""


async def resume_session(context: CommandContext, rest: str) -> None:
    """Resume another session.

    ID is an id, its start or end, or a name; WORDS are searched in titles, then in messages. Without an argument choose
    from the sessions of this folder, with --all from all, including runs of `nexus ask`. The conversation is shown
    again. --running lists all that runs, waits or asks now, in any terminal; --stop ID ends one of these sessions.
    """
    ledger = require_ledger(context)
    if rest == "--running":
        from nexus_cli.reports.running import running_report  # noqa: PLC0415  (few ask for it)

        context.show("running", await asyncio.to_thread(running_report, ledger))
        return
    option, _, name = rest.partition(" ")
    if option == "--stop":
        await asyncio.to_thread(_stop_session, context, ledger, name.strip())
        return
    if rest in ("", "--all"):
        others, _ = _others(context, everywhere=bool(rest))
        if not others:
            context.say("There is no other session in this folder; /resume --all lists all, also runs of `nexus ask`.")
            return
        chosen = await _choose_session(context, "Which session?", others, "", everywhere=bool(rest))
    else:
        chosen = await _find_session(context, rest)
    if not chosen:
        return
    found = ledger.find_session(chosen)
    if found.id == context.session.id:
        context.say("This session is already open.")
        return
    await context.reopen(resume_options(context, resume=found.id, model="", effort="", recipe=""))


def _stop_session(context: CommandContext, ledger: Ledger, name: str) -> None:
    from nexus_cli.reports.running import stop_running  # noqa: PLC0415  (few ask for it)

    session = ledger.find_session(name).id
    if session == context.session.id:
        context.say("This session is open here; /exit leaves it.")
        return
    owner = stop_running(ledger, session)
    if not ledger.end_owner(session, owner):
        raise NexusError("usage", f"session {session}", "it has just been closed", "See /resume --running")
    context.say(f"Process {owner.pid} was told to end. Completed steps are kept.")


async def _find_session(context: CommandContext, words: str) -> str:
    """Return the id of the session that `words` name or that contains them, "" if the person chooses none of several.

    Titles in this folder come before those in others, and titles before messages. Raises `NexusError("usage", ...)` if
    nothing matches.
    """
    ledger, title = require_ledger(context), f'Which session with "{words[:TITLE]}"?'
    try:
        return ledger.find_session(words).id
    except NexusError as error:
        if error.kind != "usage":
            raise
        unknown = error
    for everywhere in (False, True):
        others, _ = _others(context, words, everywhere=everywhere)
        if len(others) > 1:
            return await _choose_session(context, title, others, words, everywhere=everywhere)
        if others:
            return others[0].id
    hits = (await asyncio.to_thread(reports.search_sessions, ledger, words, None, MOST))["hits"]
    ids = [one for one in dict.fromkeys(hit["session"] for hit in hits) if one != context.session.id]
    if not ids:
        raise unknown
    where = "one session" if len(ids) == 1 else f"{len(ids)} sessions"
    context.say(f'No title has "{words[:TITLE]}"; found in messages of {where}.')
    choices = _choices(ledger, [ledger.session(one) for one in ids])
    return str(ids[0]) if len(ids) == 1 else await context.choose(title, choices) or ""


async def _choose_session(
    context: CommandContext, title: str, others: Sequence[SessionInfo], words: str, *, everywhere: bool
) -> str:
    """Let the person choose one of `others`, which match `words`; return its id, "" for none. Typing searches all
    sessions."""
    ledger = require_ledger(context)

    def search(more: str) -> tuple[Sequence[Choice], int]:
        try:
            found, total = _others(context, f"{words} {more}", everywhere=everywhere)
        except NexusError:  # a key press cannot report it; taking the choice does
            return (), 0
        return _choices(ledger, found), total

    return await context.choose(title, _choices(ledger, others), search) or ""


def _others(context: CommandContext, words: str = "", *, everywhere: bool = False) -> tuple[list[SessionInfo], int]:
    """Return the newest sessions, except the open one, that have all `words`, and their total number."""
    folder = None if everywhere else str(context.session.folder)
    return require_ledger(context).search_titles(words, folder, MOST, runs=everywhere, without=context.session.id)


def _choices(ledger: Ledger, sessions: Sequence[SessionInfo]) -> list[Choice]:
    """Return the sessions to choose from: title; age, turns, cost and end of the id in columns."""
    if not sessions:
        return []
    now = local_now()
    ends = ledger.short_ids([one.id for one in sessions])
    rows = [
        (format_age(one.updated, now), plural(one.turns, "turn"), _cost(one), end)
        for one, end in zip(sessions, ends, strict=True)
    ]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        Choice(info.id, _title(info), "  ".join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True)))
        for info, row in zip(sessions, rows, strict=True)
    ]


def _title(info: SessionInfo) -> str:
    """Return the name of a session, else its first message."""
    words = info.name or info.first_text.split("\n\n<", 1)[0]
    return one_line_title(words)


def one_line_title(words: str) -> str:
    return clip_text(" ".join(words[: 4 * TITLE].split()), TITLE) or "(no words)"


def _cost(info: SessionInfo) -> str:
    """Format dollars, with `+` if a part has no known price."""
    more, known = "+" * (info.cost_usd is None), info.known_usd
    if not known:
        return "$?" if more else "$0.00"
    return f"${known:.2f}{more}" if known >= 0.005 else f"<$0.01{more}"


def _complete_resume(context: CommandContext) -> Sequence[str]:
    try:
        return [info.name if info.name and " " not in info.name else info.id for info in _others(context)[0]]
    except NexusError:
        return ()


async def clear_session(context: CommandContext, rest: str) -> None:
    """Start a new session; this one is kept.

    Model, effort and permission level stay the same. /resume goes back.
    """
    before = context.session
    said = require_ledger(context).session(before.id).entries > 0
    await context.reopen(resume_options(context, resume="", effort=before.status().effort))
    if said:
        context.say(f"Previous session: /resume {reports.short_id(context.session.ledger, before.id)}")


async def fork_session(context: CommandContext, rest: str) -> None:
    """Continue in a copy of this session.

    The original session stays unchanged. Both share the messages sent so far, so the provider's cache still hits. NAME
    is the name of the copy.
    """
    ledger, before = require_ledger(context), context.session.id
    if not ledger.session(before).entries:
        raise usage_error("fork", rest, "this session has no messages yet", "Send one first")
    context.session.refuse_to_leave()
    from nexus_cli.session import undo_files  # noqa: PLC0415  (imports the undo)

    made = undo_files.fork_session(ledger, before, name=parse_session_name("fork", rest))
    await reopen_fork(context, made)
    context.say(f"This is a copy. Previous session: /resume {reports.short_id(ledger, before)}")


async def reopen_fork(context: CommandContext, made: SessionInfo) -> None:
    """Continue in a fork of the session; the fork is deleted if that is impossible."""
    ledger, before = require_ledger(context), context.session.id
    try:
        await context.reopen(resume_options(context, resume=made.id))
    except BaseException:
        if context.session.id == before:  # an unused copy would stay in the list
            from nexus_cli.undo.retention import forget_session  # noqa: PLC0415  (imports the undo)

            with suppress(NexusError):  # an empty one is gone already
                ledger.delete_session(made.id)
            forget_session(places().data, made.id)
        raise


async def edit_message(context: CommandContext, rest: str) -> None:
    """Edit your last message and ask again.

    With `list`, choose the message. The session continues in a copy that ends before it, with the message in the input
    box. Files stay as they are; /rewind takes them back too.
    """
    if rest not in ("", LIST):
        raise usage_error("edit", rest, f"expected nothing, or {LIST}")
    ledger, record, before = require_ledger(context), require_record(context), context.session.id
    found = await asyncio.to_thread(_messages, record, MOST if rest else 1)
    if not found:
        raise usage_error("edit", rest, "this session has no messages yet", "Type your first one")
    place = 0
    if rest:
        choices = [Choice(str(place), one_line_title(words), age) for place, (_, words, age) in enumerate(found)]
        chosen = await context.choose("Go back to which message?", choices)
        if chosen is None:
            return
        place = int(chosen)
    entry, words, _ = found[place]
    context.session.refuse_to_leave()
    from nexus_cli.session import undo_files  # noqa: PLC0415  (imports the undo)

    await reopen_fork(context, undo_files.fork_before(ledger, before, entry))
    context.fill(words)
    named = reports.short_id(ledger, before)
    context.say(f"Edit and send again. Files stay as they are. Previous session: /resume {named}")


def _messages(record: LaneLog, most: int) -> list[tuple[int, str, str]]:
    """Return the person's newest messages that began a turn: entry, text, age."""
    entries = read_backwards(record.read, record.last_id())
    said = (one for one in entries if one.kind is Kind.USER and one.actor == reports.PERSON)
    now = local_now()
    return [(one.id, shown_text(record, one), format_age(one.at, now)) for one in islice(said, most)]


async def rename_session(context: CommandContext, rest: str) -> None:
    """Name this session.

    /resume and --resume find it by that name.
    """
    if not rest:
        raise usage_error("rename", rest, "the name is missing")
    ledger = require_ledger(context)
    ledger.rename_session(context.session.id, parse_session_name("rename", rest))
    context.say(f'Renamed to "{ledger.session(context.session.id).name}".')


COMMANDS = (
    Command(
        "resume",
        "session",
        resume_session,
        "[ID|WORDS|--all|--running|--stop ID]",
        idle=True,
        complete=_complete_resume,
        aliases=("sessions",),
        is_first=True,
        served=lambda context, rest: not rest.startswith("--stop"),
    ),
    Command("clear", "session", clear_session, idle=True, aliases=("new", "reset"), is_first=True, served=always),
    Command("fork", "session", fork_session, "[NAME]", idle=True, served=always),
    Command("edit", "session", edit_message, f"[{LIST}]", idle=True, complete=lambda context: (LIST,), served=always),
    Command("rename", "session", rename_session, "NAME", served=always),
)
