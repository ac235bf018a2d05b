"""Seed A's two-layer convenience: one personal and one project instruction file, and the environment.

The form with many layers is `nexus_cli.context.loader`; both read through `FilePromptSource`. Sessions use only the
layers, through the `instructions` contributor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles
from nexus_cli.context.sysinfo import get_system_info, working_folder
from nexus_cli.context.text_file import FileText, odd_file, read_text, read_unasked
from nexus_cli.core.elide import one_line
from nexus_cli.core.message import replace_surrogates

__all__ = ["FilePromptSource", "LoadedPrompt", "PromptLoader", "PromptSource", "first_prompt", "get_system_info"]

INSTRUCTION_FILES = ("NEXUS.md", "AGENTS.md")
"""Names in a project's folder; the first that exists and is not blank counts."""
FOREIGN_FILES = ("CLAUDE.md", ".claude/CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md")
"""Instructions for other agents: in a folder without the files above, a session reads the first one that is not blank.
"""


class PromptSource(Protocol):
    """A source of a prompt."""

    def load(self) -> str | None:
        """Return the text, None if there is none; raise `NexusError("config", ...)` if it cannot be read."""
        ...

    @property
    def path(self) -> Path | None:
        """The underlying file, if there is one."""
        ...


class FilePromptSource:
    """A prompt in a file, in any encoding (see `nexus_cli.context.text_file`)."""

    def __init__(self, path: Path, gate: UnaskedFiles | None = None) -> None:
        """Initialize; a file of a project is read through the `gate` of that project."""
        self._path = Path(path)
        self._gate = gate
        self.notice = ""
        """After `load`: one line for the person about the encoding, a cut, or a path that is not read; else ""."""
        self.is_refused = False
        """After `load`: True if the gate refused the file."""
        self.beyond = 0
        """After `load`: bytes of the file that were not read."""

    @property
    def path(self) -> Path | None:
        """The file's path, even if it does not exist."""
        return self._path

    def load(self) -> str | None:
        """Return the file's text without a byte-order mark; None if there is not a regular file, or it is refused."""
        self.is_refused, self.beyond = False, 0
        try:
            found = self._read()
        except FileRefused as refused:
            self.is_refused = True
            self.notice = f"{one_line(replace_surrogates(str(self._path)))} {refused}: it is left out"
            return None
        self.notice, self.beyond = (found.notice, found.beyond) if found else (one_line(odd_file(self._path)), 0)
        return found.text if found else None

    def _read(self) -> FileText | None:
        return read_unasked(self._gate, self._path, by_name=True) if self._gate else read_text(self._path)


@dataclass(frozen=True, slots=True)
class LoadedPrompt:
    """The result of `PromptLoader.load`."""

    content: str
    """All sections with their headers, one blank line between them."""
    personal_path: Path | None
    """The personal (or packaged) file that was used."""
    project_path: Path | None
    """The project's file that was used."""
    notices: tuple[str, ...] = ()
    """Notes for the person about unusual files: encodings, dangling links, pipes. A folder counts as absent."""


class PromptLoader:
    """The personal and the project prompt with the environment (seed A)."""

    def __init__(
        self,
        personal_sources: Sequence[PromptSource] | None = None,
        project_source: PromptSource | None = None,
    ) -> None:
        """Initialize; the default personal sources are `config/NEXUS.md` and the package's own, the default project
        source is `NEXUS.md`, else `AGENTS.md`, of the current folder."""
        self._folder = working_folder()
        self._personal = personal_sources
        self._project: Sequence[PromptSource] = project_sources(self._folder)
        if project_source is not None:
            self._project = [project_source]

    def load(self, is_repl: bool = True) -> LoadedPrompt:
        """Read everything again. Raises `NexusError("config", ...)` with the name of an unreadable file."""
        sources = personal_sources() if self._personal is None else self._personal
        personal, personal_path = first_prompt(sources)
        project, project_path = first_prompt(self._project)
        files = [one for one in (*sources, *self._project) if isinstance(one, FilePromptSource)]
        notices = tuple(one.notice for one in files if one.notice and not os.path.isdir(one.path or ""))
        sections = {
            "# Personal Configuration": personal,
            "# Project Configuration": project,
            "# Environment": get_system_info(is_repl, self._folder),
        }
        content = "\n\n".join(f"{header}\n{text}" for header, text in sections.items() if text)
        return LoadedPrompt(content, personal_path, project_path, notices)


def personal_sources() -> list[FilePromptSource]:
    """Return the person's own file, then the one that comes with the package."""
    return [FilePromptSource(places().config / "NEXUS.md"), FilePromptSource(defaults_dir() / "NEXUS.md")]


def project_sources(folder: Path | None, gate: UnaskedFiles | None = None) -> list[FilePromptSource]:
    """Return the instruction files of one folder, in the order of lookup; by default through the gate of its
    project."""
    if folder is None:
        return []
    gate = gate or UnaskedFiles(project_root(folder))
    return [FilePromptSource(folder / name, gate) for name in INSTRUCTION_FILES]


def foreign_sources(folder: Path, gate: UnaskedFiles) -> list[FilePromptSource]:
    """Return instruction files for other agents; none if the folder has one for us, even a blank one."""
    if any(os.path.lexists(folder / name) for name in INSTRUCTION_FILES):
        return []
    return [FilePromptSource(folder / name, gate) for name in FOREIGN_FILES]


def first_prompt(sources: Sequence[PromptSource]) -> tuple[str, Path | None]:
    """Return the first text that is not blank, trimmed, and its file; `("", None)` if there is none."""
    for source in sources:
        text = trim_text(source.load() or "")
        if text:
            return text, source.path
    return "", None


def trim_text(text: str) -> str:
    """Return `text` without leading blank lines and trailing white space; its first line keeps its indent."""
    body = text.rstrip()
    start = len(body) - len(body.lstrip())
    return body[body.rfind("\n", 0, start) + 1 :]
