"""From words, stdin and attached files to the trigger of a turn. Reads; decides nothing about the session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.core.attachment import Part, Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.ui.input.attached_files import file_block, read_attachment
from nexus_cli.ui.input.piped import Reader


@dataclass(frozen=True, slots=True)
class Prompt:
    """A trigger with what should be said about how it was read."""

    trigger: Trigger
    notices: tuple[str, ...] = ()


class Question:
    """What a person gave: words, `-`, a pipe, files. `check` is quick, `read` reads everything."""

    def __init__(self, words: Sequence[str], files: Sequence[str], *, resumes: bool) -> None:
        self._from_stdin = list(words) == ["-"] or not words
        self._words = "" if self._from_stdin else " ".join(words)
        self._files = files
        self._resumes = resumes
        self._reader = None if os.isatty(0) else Reader(0, "stdin")
        if self._reader is None and list(words) == ["-"]:
            raise NexusError(
                "usage", "nothing to ask", "`-` wants the prompt on stdin, which is a terminal", 'Try nexus ask "..."'
            )

    def check(self) -> None:
        """`NexusError("usage", "nothing to ask", ...)` where that can be known before stdin is read to its end."""
        if self._resumes or self._words.strip():
            return
        if not self._from_stdin or self._reader is None or self._reader.empty:
            why = "there is no prompt, and stdin is empty" if self._reader else "there is no prompt"
            raise NexusError("usage", "nothing to ask", why, 'Try nexus ask "..." or pipe something in')

    def read(self) -> Prompt:
        """The whole prompt: words, then a block for each file, then one for stdin, or stdin alone."""
        blocks, parts, notices, uncounted = [self._words], [], [], 0
        for name in self._files:
            read = read_attachment(name, f"--file {name}")
            if isinstance(read, Part):
                parts.append(read)
                continue
            blocks.append(file_block(name, read.text))
            notices += [read.notice] if read.notice else []
            uncounted += read.uncounted
        if self._reader and not self._reader.empty:
            piped = self._reader.read()
            notices += [piped.notice] if piped.notice else []
            uncounted += piped.uncounted
            if self._from_stdin:
                blocks[0] = piped.text.strip("\n")
            else:
                blocks.append(f"<stdin>\n{piped.text.removesuffix(chr(10))}\n</stdin>")
        text = "\n\n".join(block for block in blocks if block.strip())
        source = "stdin" if self._from_stdin and blocks[0] else "person"
        return Prompt(Trigger(text, source, tuple(parts), uncounted), tuple(notices))
