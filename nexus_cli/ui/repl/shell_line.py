"""`!command` and `!!command`: the person's own shell commands, run like the `bash` tool but without a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.paths import project_root
from nexus_cli.core.tool import ToolContext
from nexus_cli.session.session import Session
from nexus_cli.tools.builtin.bash import MAX_SECONDS, BashArguments, run
from nexus_cli.ui.repl.view import ReplView

STOPPED = "[stopped by the person]"
OUTPUT = 4096
"""Characters of a running command's output that are kept for display."""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """One line that begins with `!`."""

    command: str
    private: bool
    """True if the model is not told about it."""

    @classmethod
    def of(cls, text: str) -> ShellLine | None:
        """Parse `text` as a shell line, None if it is not one."""
        if not text.startswith("!"):
            return None
        private = text.startswith("!!")
        return cls(text[2 if private else 1 :].strip(), private)


@dataclass
class Shell:
    """Runs one line after the other, shows the outputs and attaches them to the next message."""

    view: ReplView
    show_output: Callable[[str, str], None]
    """Takes a line and its whole output."""
    attach: Callable[[str, str], None]
    """Takes the text for the next message and its description."""
    output: str = ""
    """The newest output of the running line."""

    async def run(self, line: ShellLine, folder: Path, session: Session) -> None:
        """Run `line` to its end, or until the person moves it to the background as a job of `session`; a private line
        cannot become one. If cancelled, it ends at once, and its last output is kept."""
        chunks: list[str] = []
        services = {} if line.private else session.dispatcher.services
        context = ToolContext(
            folder,
            project_root(folder),
            0,
            "shell",
            self._ran_on,
            services,
            chunks.append,
            tell=self._tell,
            released=session.engine.control.released.wait,
        )
        try:
            label, work = f"!{line.command}", lambda: run(BashArguments(line.command, MAX_SECONDS), context)
            result, _ = await session.dispatcher.call_changes.follow(label, "", context.project, work, line.command)
        except asyncio.CancelledError:
            output = "".join(chunks).removesuffix("\n")
            await self._show(line, "\n".join(filter(None, (output, STOPPED))), session)
            raise
        finally:
            self.output = ""
        await self._show(line, result.text, session)

    async def _show(self, line: ShellLine, text: str, session: Session) -> None:
        self.show_output(f"!{line.command}", text)
        if not line.private:
            self.attach(*await session.share_line(line.command, text, self._tell))

    def _tell(self, notice: str) -> None:
        self.view.put(f"{notice}\n")

    def _ran_on(self, text: str) -> None:
        self.output = (self.output + text)[-OUTPUT:]
        self.view.invalidate()
