"""Seed A's loader of two layers: one personal and one project instruction file, and the environment.

It is the only reader of instruction files. `nexus_cli.context.loader` asks it for each of its many layers, also in a
session, through the `instructions` contributor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.text_file import describe_special_file, read_text, read_unasked
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles
from nexus_cli.context.sysinfo import get_system_info, working_folder
from nexus_cli.core.elide import one_line, trim_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates

__all__ = ["FilePromptSource", "LoadedPrompt", "PromptLoader", "PromptSource", "first_prompt", "get_system_info"]

INSTRUCTION_FILES = ("NEXUS.md", "AGENTS.override.md", "AGENTS.md")
"""Names in a project's folder; the first that exists and is not blank counts."""
FOREIGN_FILES = ("CLAUDE.md", ".claude/CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md")
"""Instructions for other agents: in a folder without the files above, a session reads the first one that is not blank.
"""


class PromptSource(Protocol):
    """A source of a prompt."""

    def load(self) -> str | None:
        """Return the text, None if there is none; raise `NexusError("config", ...)` if it cannot be read."""

    @property
    def path(self) -> Path | None:
        """The underlying file, if there is one."""


class FilePromptSource:
    """A prompt in a file, in any encoding (see `nexus_cli.config.text_file`)."""

    def __init__(self, path: Path, gate: UnaskedFiles | None = None, *, skips: bool = False) -> None:
        """Initialize; a file of a project is read through the `gate` of that project. If it `skips`, an unreadable file
        counts as absent, with a notice."""
        self._path = Path(path)
        self._gate = gate
        self._skips = skips
        self.notice = ""
        """After `load`: one line for the person about the encoding, a cut, or a path that is not read; else ""."""
        self.is_refused = False
        """After `load`: True if the gate refused the file."""
        self.beyond = 0
        """After `load`: bytes of the file that were not read."""

    @property
    def path(self) -> Path:
        """The file's path, even if it does not exist."""
        return self._path

    def load(self) -> str | None:
        """Return the file's text without a byte-order mark; None if there is not a regular file, or it is refused."""
        self.is_refused, self.beyond = False, 0
        try:
            gate, path = self._gate, self._path
            file_text = read_unasked(gate, path, by_name=True) if gate else read_text(path)
        except FileRefused as refused:
            self.is_refused = True
            self.notice = f"{one_line(replace_surrogates(str(self._path)))} {refused}; skipped"
            return None
        except NexusError as error:
            if not self._skips:
                raise
            self.notice = f"{one_line(error.message)}; skipped"
            return None
        self.notice, self.beyond = (
            (file_text.notice, file_text.beyond) if file_text else (one_line(describe_special_file(self._path)), 0)
        )
        return file_text.text if file_text else None


FirstPrompt: TypeAlias = tuple[str, Path | None, list[FilePromptSource]]
"""See `first_prompt`."""


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
        *,
        folder: Path | None = None,
        gate: UnaskedFiles | None = None,
        skips: bool = False,
    ) -> None:
        """Initialize; the default personal sources are `config/NEXUS.md` and the package's own, the default project
        source is `NEXUS.md`, else `AGENTS.md`, of `folder` (the current one), which pass the `gate` of its project.

        If it `skips`, an unreadable file is left out with a notice.
        """
        self._folder = folder or working_folder()
        self._gate = gate
        self._skips = skips
        self._personal = personal_sources
        self._project = project_source

    def load(self, is_repl: bool = True) -> LoadedPrompt:
        """Read everything again. Raises `NexusError("config", ...)` with the name of an unreadable file."""
        personal, personal_path, files = self.load_personal()
        project, project_path, project_files = self.load_project()
        read = (*files, *project_files)
        notices = tuple(source.notice for source in read if source.notice and not os.path.isdir(source.path))
        sections = {
            "# Personal Configuration": personal,
            "# Project Configuration": project,
            "# Environment": get_system_info(is_repl, self._folder),
        }
        content = "\n\n".join(f"{header}\n{text}" for header, text in sections.items() if text)
        return LoadedPrompt(content, personal_path, project_path, notices)

    def load_personal(self) -> FirstPrompt:
        """Read the personal prompt."""
        if self._personal is not None:
            return first_prompt(self._personal)
        folders = places().config, defaults_dir()
        return first_prompt([FilePromptSource(folder / "NEXUS.md", skips=self._skips) for folder in folders])

    def load_project(self) -> FirstPrompt:
        """Read the project prompt, by default through the gate of its project."""
        folder, gate = self._folder, self._gate
        if self._project is not None or folder is None:
            return first_prompt([self._project] if self._project else ())
        gate = gate or UnaskedFiles(project_root(folder))
        return first_prompt([FilePromptSource(folder / name, gate, skips=self._skips) for name in INSTRUCTION_FILES])


def foreign_sources(folder: Path, gate: UnaskedFiles) -> list[FilePromptSource]:
    """Return instruction files for other agents; none if the folder has one for us, even a blank one."""
    if any(os.path.lexists(folder / name) for name in INSTRUCTION_FILES):
        return []
    return [FilePromptSource(folder / name, gate, skips=True) for name in FOREIGN_FILES]


def first_prompt(sources: Sequence[PromptSource]) -> FirstPrompt:
    """Return the first text that is not blank, trimmed, and its file; `""` and None if there is none. The last value
    has the files that were read for it."""
    files: list[FilePromptSource] = []
    for source in sources:
        text = trim_text(source.load() or "")
        files += [source] if isinstance(source, FilePromptSource) else []
        if text:
            return text, source.path, files
    return "", None, files
