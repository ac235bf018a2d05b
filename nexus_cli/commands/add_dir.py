"""`/add-dir`: a further folder of the session, used like the project."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Act, Authority, Noun, Verb, print_act
from nexus_cli.config.added_folders import check_folder
from nexus_cli.core.memo_kinds import ADDED_FOLDERS
from nexus_cli.core.option import Argument


async def add_folder(
    context: CommandContext, path: Annotated[str, Argument("DIR", "The folder.", is_text=True)] = ""
) -> Act:
    """Add a folder to work in, or list added folders.

    DIR has the same permissions and protection as the project. /undo covers it, and a resumed session keeps it. The
    settings and instructions of DIR do not apply, and workers cannot access it.
    """
    session = context.session
    permission, engine = session.dispatcher.permission, session.engine
    if not path:
        return print_act("\n".join(map(str, permission.added)) or "No added folders")
    project = session.dispatcher.project_root
    new_folder: Path = await asyncio.to_thread(check_folder, path, project, permission.added, "/add-dir")
    permission.added = (*permission.added, new_folder)
    conversation, folders = engine.conversation, [str(folder) for folder in permission.added]
    conversation.memo(ADDED_FOLDERS, {"folders": folders})
    engine.notices.keep("", f"The person added the folder {new_folder}: work in it as in the project.")
    return print_act(f"Added {new_folder}", str(new_folder))


NOUN = Noun("add-dir", "setup", (Verb(add_folder, authority=Authority.PERMITS),), is_idle=True)
