"""`/undo` and `/redo`: take back what a turn did to files, and bring it back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from nexus_cli.commands.arguments import require_record
from nexus_cli.commands.command import Choice, Command, CommandContext, always

T = TypeVar("T")
_NUMBERED = re.compile(r"#?0*([1-9][0-9]{0,8})(?:\s+(.+))?")
"""`N [PATH]`."""


def parse_turn(rest: str) -> tuple[int | None, Sequence[str]]:
    """Split `[N] [PATH]` into the number of a turn and paths. A file named as a number is given as `./7`."""
    match = _NUMBERED.fullmatch(rest)
    turn, path = (int(match[1]), match[2]) if match else (None, rest)
    return turn, (path.strip("\"'"),) if path else ()


async def undo(context: CommandContext, rest: str) -> None:
    """Take back what a turn did to files.

    Without an argument the newest turn that changed files and is not undone yet; again goes further back. N is the
    number of a message, PATH a file or folder. What you changed since stays: merged where that works, else the earlier
    version is put beside it (NAME.nexus-undo). Branches, tags, stashes and the index of git go back too, unless they
    moved on. The model is told. What changed while a command ran and was not named by it may be yours: you are asked
    before it is taken back.
    """
    turn, paths = parse_turn(rest)
    await _restore(context, turn, paths, redo=False)


async def redo(context: CommandContext, rest: str) -> None:
    """Bring back what /undo took back.

    With a PATH that path alone. Again goes further forward.
    """
    await _restore(context, None, (rest.strip("\"'"),) if rest else (), redo=True)


async def _restore(context: CommandContext, turn: int | None, paths: Sequence[str], *, redo: bool) -> None:
    from nexus_cli.reports.undo import UNSURE_QUESTION, describe_unsure  # noqa: PLC0415
    from nexus_cli.session.undo_files import restore_files, undo_request  # noqa: PLC0415
    from nexus_cli.undo.journal import disk_errors  # noqa: PLC0415
    from nexus_cli.undo.undo_turn import find_unsure  # noqa: PLC0415

    record = require_record(context)
    with disk_errors("nothing was undone: the last changes are not written down yet"):
        await asyncio.to_thread(context.session.dispatcher.call_changes.journal.save_waiting)
    request = undo_request(record, context.session.folder, turn=turn, paths=paths)
    if not redo and (unsure := await asyncio.to_thread(find_unsure, request)):
        context.say(describe_unsure(unsure, request.project))
        choices = [Choice("", "no"), Choice("yes", "yes")]
        if (answer := await context.choose(UNSURE_QUESTION, choices)) is None:
            return
        request = replace(request, takes_unsure=bool(answer))

    async def work() -> None:
        context.show("undo", await wait_settled(asyncio.to_thread(restore_files, record, request, redo=redo)))

    await context.busy("redoing" if redo else "undoing", work())


async def wait_settled(work: Coroutine[Any, Any, T], stopped: Callable[[], object] = lambda: None) -> T:
    """Return the result of `work`, which runs in a thread. If the command is stopped, call `stopped` and wait for the
    result all the same: what was begun is completed, and shown."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopped()
        return await asyncio.shield(task)


COMMANDS = (
    Command("undo", "work", undo, "[N | PATH]", idle=True, is_first=True, served=always),
    Command("redo", "work", redo, "[PATH]", idle=True, served=always),
)
