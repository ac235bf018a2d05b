"""`/export`: the session as a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, record_of
from nexus_cli.session.reports.export import FORMATS, default_name, exported, save


async def run(desk: Desk, rest: str) -> None:
    """Write the whole session to a file.

    md is Markdown to read, jsonl is JSON Lines for programs. FILE is taken from the working folder; without it, or
    where it is a folder, a name is made up. A file that is there is never written over: the new one gets a number.
    Without a format the ending of FILE decides.
    """
    first, _, more = rest.partition(" ")
    form, name = (first, more.strip()) if first in FORMATS else ("", rest)
    form = form or ("jsonl" if name.casefold().endswith(".jsonl") else "md")
    record, info = record_of(desk), ledger_of(desk).session(desk.session.id)
    target = desk.session.folder / os.path.expanduser(name)
    if os.path.isdir(target):
        target /= default_name(info, form)
    path = await asyncio.to_thread(lambda: save(exported(record, info, form), target, beside=True))
    desk.say(f"Written to {path}")


def _formats(desk: Desk) -> Sequence[str]:
    return FORMATS


COMMAND = Command("export", "session", run, "[md|jsonl] [FILE]", complete=_formats)
