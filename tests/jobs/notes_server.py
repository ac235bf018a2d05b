"""A server of the Model Context Protocol on stdin and stdout: notes in a file. `notes_server.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

FILE = Path(sys.argv[1])
server = MCPServer("notes")


class Sure(BaseModel):
    """What the person is asked before all notes go."""

    sure: bool


@server.tool()
def add_note(text: str) -> str:
    """Write a note down."""
    with FILE.open("a") as file:
        file.write(f"{text}\n")
    return f"note {len(FILE.read_text().splitlines())}: {text}"


@server.tool()
def list_notes() -> str:
    """Return all notes."""
    return FILE.read_text() if FILE.exists() else "no notes"


@server.tool()
async def clear_notes(context: Context) -> str:
    """Throw all notes away."""
    answer = await context.elicit("Throw all notes away?", Sure)
    if answer.action != "accept" or not answer.data.sure:
        return "kept"
    FILE.unlink(missing_ok=True)
    return "thrown away"


server.run()
