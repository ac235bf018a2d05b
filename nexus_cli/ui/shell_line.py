"""`!command` and `!!command`: a shell command of the person's own, run like the `bash` tool but asked of nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from nexus_cli.core.message import ToolResult
from nexus_cli.core.paths import project
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.builtin.bash import MOST_SECONDS, TOOL


@dataclass(frozen=True, slots=True)
class ShellLine:
    """One line that begins with `!`."""

    command: str
    private: bool
    """The model does not learn of it."""

    @classmethod
    def of(cls, text: str) -> ShellLine | None:
        """What `text` is as a shell line, None when it is none."""
        if not text.startswith("!"):
            return None
        private = text.startswith("!!")
        return cls(text[2 if private else 1 :].strip(), private)


async def run(line: ShellLine, folder: Path, show: Callable[[str], None]) -> ToolResult:
    """The output and how it ended; `show` is given pieces of it while it runs. Cancelling ends the command."""
    context = ToolContext(folder, project(folder), 0, "shell", show)
    return await TOOL.run({"command": line.command, "timeout": MOST_SECONDS}, context)


def block(line: ShellLine, output: str) -> str:
    """What the model is given of it."""
    return f'<shell command="{escape(line.command)}">\n{output.rstrip()}\n</shell>'
