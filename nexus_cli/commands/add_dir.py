"""`/add-dir`: a further folder of the session, used like the project."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.config.added_folders import check_folder
from nexus_cli.core.memo_kinds import ADDED_FOLDERS

NOT_UNDONE = "/undo reverts edits there, but not changes by commands"


async def add_folder(context: CommandContext, rest: str) -> None:
    """Work in a second folder, or list added folders.

    DIR gets the same permissions and protection as the project, in this session and when it is resumed. Settings and
    instructions in DIR do not apply, workers have no access to DIR, and /undo reverts edits there, but not changes by
    commands.
    """
    session = context.session
    permission, engine = session.dispatcher.permission, session.engine
    if not rest:
        context.say("\n".join(map(str, permission.added)) or "No added folders")
        return
    project = session.dispatcher.project_root
    found: Path = await asyncio.to_thread(check_folder, rest, project, permission.added, "/add-dir")
    permission.added = (*permission.added, found)
    conversation, folders = engine.conversation, [str(one) for one in permission.added]
    conversation.memo(ADDED_FOLDERS, {"folders": folders})
    engine.tell_model(f"The person added the folder {found}: work in it like in the project.")
    context.say(f"Added {found}; {NOT_UNDONE}")


COMMANDS = (Command("add-dir", "setup", add_folder, "[DIR]", idle=True),)
