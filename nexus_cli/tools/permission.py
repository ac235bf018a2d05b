"""Decide whether a call runs or a person is asked first (interface.md section 2).

Pure: looks where paths lead and changes nothing. The session asks, and refuses where nobody can be asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import (
    EDITOR_FILES,
    INSTRUCTION_FILES,
    PROTECTED_FOLDERS,
    SHELL_FILES,
    protected_name,
)
from nexus_cli.core.limits import LEVELS
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.tools.files import ToolError, resolve_path


@dataclass(frozen=True, slots=True)
class Grant:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class ApprovalNeed:
    """The call needs approval; without a person to ask it is refused."""

    why: str
    """One line, fit for `Question.why`."""
    kind: str
    """`run`, `edit`, `outside` or `protected`: what an answer for the rest of the session may cover. For `outside`
    and `protected` it should cover no more than the same paths."""


Verdict = Grant | ApprovalNeed


def decide(
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    allow: str,
    cwd: Path,
    project: Path,
    config_dirs: Iterable[Path] = (),
) -> Verdict:
    """Decide whether this call runs at level `allow` (one of `LEVELS`; `ValueError` for another).

    Paths are judged by where they lead, links and `..` resolved, names compared without regard to case. Raising the
    level never turns a granted call into one that asks.
    """
    LEVELS.index(allow)
    if allow == "all" or tool.effect is Effect.NONE:
        return Grant()
    if tool.effect is Effect.RUN:
        return ApprovalNeed("it runs a command", "run")
    writes = tool.effect is Effect.EDIT
    within = [Path(os.path.realpath(folder)) for folder in config_dirs]
    try:
        found = [_place(path, writes, cwd, project, within) for path in tool.paths(arguments)]
    except ToolError as refused:
        return ApprovalNeed(str(refused), "protected")
    for verdict in found:
        if verdict is not None:
            return verdict
    if writes and allow == "read":
        return ApprovalNeed("it changes files", "edit")
    return Grant()


def _place(path: str, writes: bool, cwd: Path, project: Path, config_dirs: list[Path]) -> ApprovalNeed | None:
    """Return why a path needs approval at every level below `all`, or None."""
    target = resolve_path(path, cwd)
    named = " ".join(path.split())
    verb = "writes" if writes else "reads"
    root = Path(os.path.realpath(project))
    if not target.is_relative_to(root):
        return ApprovalNeed(f"it {verb} outside the project: {named}", "outside")
    if target.is_relative_to(os.path.realpath(places().keys)):  # the project is the person's home
        return ApprovalNeed(f"it {verb} the stored keys of nexus: {named}", "protected")
    if not writes:
        return None
    if any(target.is_relative_to(folder) for folder in config_dirs):
        return ApprovalNeed(f"it writes to the configuration of nexus: {named}", "protected")
    written = Path(os.path.normpath(os.path.join(cwd, os.path.expanduser(path))))
    for place in (target, written):
        name = protected_name((place.relative_to(root) if place.is_relative_to(root) else place).parts)
        if name:
            return ApprovalNeed(f"it writes {_describe_protected(name)}: {named}", "protected")
    return None


def _describe_protected(name: str) -> str:
    """Return what a protected name is, for a person."""
    if name in PROTECTED_FOLDERS:
        return f"to {name}"
    if name in INSTRUCTION_FILES:
        return "an instruction file"
    if name in SHELL_FILES:
        return "a shell start-up file"
    return "an editor start-up file" if name in EDITOR_FILES else "a git configuration file"
