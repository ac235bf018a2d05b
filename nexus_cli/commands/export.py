"""`/export`: the session as a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from nexus_cli.commands.arguments import require_ledger, require_record, usage_error
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.session.reports.export import FORMATS, default_name, exported, save


async def run(context: CommandContext, rest: str) -> None:
    """Write the whole session to a file.

    md is Markdown to read, jsonl is JSON Lines for programs. FILE is taken from the working folder; without it, or
    where it is a folder, a name is made up. A file that is there is never written over: the new one gets a number.
    Without a format the ending of FILE decides; one word without an ending is no FILE then.
    """
    first, _, more = rest.partition(" ")
    form, name = (first.casefold(), more.strip()) if first.casefold() in FORMATS else ("", rest)
    if not form and _bare(name) and not os.path.isdir(context.session.folder / name):
        raise usage_error(
            "export", rest, f"formats are {', '.join(FORMATS)}", f"For a file of this name: /export md {name}"
        )
    form = form or ("jsonl" if name.casefold().endswith(".jsonl") else "md")
    record, info = require_record(context), require_ledger(context).session(context.session.id)
    target = context.session.folder / os.path.expanduser(name)
    if os.path.isdir(target):
        target /= default_name(info, form)
    path = await asyncio.to_thread(lambda: save(exported(record, info, form), target, beside=True))
    context.say(f"Written to {path}")


def _bare(name: str) -> bool:
    """Whether this may be meant as a format: one word that is neither a path nor a name with an ending."""
    return bool(name) and not any(char in "./\\~" or char.isspace() for char in name)


def _formats(context: CommandContext) -> Sequence[str]:
    return FORMATS


COMMAND = Command("export", "session", run, "[md|jsonl] [FILE]", complete=_formats)
