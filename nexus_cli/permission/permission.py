"""Decide whether a call runs, a person is asked first, or it is refused (`nexus docs rules`).

Resolves paths, but changes nothing and asks nobody. `engine/calls/call_decider` asks, and refuses the call if nobody
can be asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from nexus_cli.config.paths import is_below, places
from nexus_cli.config.protected_places import (
    EDITOR_FILES,
    INSTRUCTION_FILES,
    PROTECTED_FOLDERS,
    SHELL_FILES,
    SecretPlaces,
    obeyed_name,
    protected_name,
)
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ALL, ASK, LEVELS
from nexus_cli.core.real_files import join_path, real_path
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.call_decision import CallDecision
from nexus_cli.tools.files import ToolError, resolve_path

OF_JOB = "of_job"
"""The argument that `approvals.as_command` adds to a call whose address is one of a job."""


def resolve_targets(tool: Tool, arguments: JsonObject, cwd: Path) -> dict[str, Path]:
    """Map each path as the model wrote it to its real path; raise `ToolError` for a path that is no string."""
    paths: tuple[object, ...] = tool.find_paths(arguments)
    names = [path for path in paths if isinstance(path, str)]
    if len(names) < len(paths):
        raise ToolError("a path must be a string")
    return {path: resolve_path(path, cwd) for path in names}


def decide(
    tool: Tool,
    arguments: JsonObject,
    *,
    allow: str,
    cwd: Path,
    project: Path,
    added: Sequence[Path] = (),
    config_dirs: Iterable[Path] = (),
    targets: Mapping[str, Path] | None = None,
    lifts: Callable[[], bool] = lambda: False,
    answers: bool = False,
) -> CallDecision:
    """Decide whether a call runs at level `allow`, one of `LEVELS`; raise `ValueError` for another.

    The `added` folders (real paths) count like the project.
    Paths are judged by their real path (`targets`, if already resolved), names case-insensitively.
    `lifts()` returns True if a personal rule allows credentials for this call. `answers`: this session may post
    messages without approval. A call granted at one level is granted at every higher level.
    """
    LEVELS.index(allow)
    if allow == ASK and tool.works_later(arguments):
        return CallDecision("ask", "the call starts work that continues after this turn and can cost money", "later")
    if allow == ASK and tool.sends and not answers:
        return CallDecision("ask", "others in the space will read this message", "send")
    if allow == ALL:
        return CallDecision("allow")
    if tool.stands:
        return CallDecision("ask", "the call affects every later run of this agent", "later")
    if tool.server:
        return CallDecision("ask", f"the call runs on the MCP server {tool.server}", "server")
    if tool.effect is Effect.RUN:
        return CallDecision("ask", "the call runs a command", "run")
    if tool.reaches in arguments and OF_JOB not in arguments:
        is_subject = tool.reaches == tool.subject
        address = "" if is_subject else f": {' '.join(str(arguments[tool.reaches]).split())[:200]}"
        return CallDecision("ask", f"the call uses the network{address}", "network")
    if tool.effect is Effect.NONE:
        return CallDecision("allow")
    try:
        resolved = resolve_targets(tool, arguments, cwd) if targets is None else targets
    except ToolError as refused:
        return CallDecision("ask", str(refused), "protected")
    secrets = SecretPlaces(places(), project)
    for path, target in resolved.items():
        secret = None if lifts() else secrets.find(target)
        if secret:
            return CallDecision("deny", _describe_secret(tool, path, target, cwd, secret))
    writes = tool.effect is Effect.EDIT
    within = [real_path(folder) for folder in config_dirs]
    roots = (real_path(project), *added)
    for path, target in resolved.items():
        need = _check_place(path, target, writes, cwd, roots, within)
        if need is not None:
            return need
    if writes and allow == ASK:
        return CallDecision("ask", "the call changes files", "edit")
    return CallDecision("allow")


def _check_place(
    path: str, target: Path, writes: bool, cwd: Path, roots: Sequence[Path], config_dirs: list[Path]
) -> CallDecision | None:
    """Return the approval that a path needs at every level below `all`, None if it needs none."""
    path_name = _name_path(path, target, cwd)
    verb = "writes" if writes else "reads"
    for root in roots:
        if target.is_relative_to(root):
            break
    else:
        return CallDecision("ask", f"the call {verb} outside the project: {path_name}", "outside")
    if not writes:
        return None
    if is_below(target, *config_dirs):
        return CallDecision("ask", f"the call writes to nexus's configuration: {path_name}", "protected")
    for place in (target, _written_path(path, cwd)):
        names = (place.relative_to(root) if place.is_relative_to(root) else place).parts
        name = protected_name(names)
        if name:
            return CallDecision("ask", f"the call writes {_describe_protected(name)}: {path_name}", "protected")
        if obeyed_name(names):
            return CallDecision("ask", f"the call writes files that other programs load: {path_name}", "protected")
    if _is_in_repository(target, root):
        return CallDecision(
            "ask", f"the call writes to a folder that git may treat as a repository: {path_name}", "protected"
        )
    return None


def _is_in_repository(target: Path, root: Path) -> bool:
    """Return True if `target` may become part of a bare repository: it is named HEAD, or a folder above it has one."""
    if target.name.casefold() == "head":
        return True
    heads = [folder / "HEAD" for folder in target.parents if folder.is_relative_to(root)]
    return any(head.is_symlink() or head.is_file() for head in heads)


def _written_path(path: str, cwd: Path) -> Path:
    """Return the absolute path with `~` and `..` expanded and links kept."""
    return Path(join_path(os.path.realpath(cwd), os.path.expanduser(path)))


def _name_path(path: str, target: Path, cwd: Path) -> str:
    """Return a path for a message, in one line: `link -> target` if it is a link."""
    leads = "" if _written_path(path, cwd) == target else f" -> {target}"
    return " ".join(f"{path}{leads}".split())


def _describe_secret(tool: Tool, path: str, target: Path, cwd: Path, secret: Path) -> str:
    verb = "writes to" if tool.effect is Effect.EDIT else "reads"
    is_own = is_below(secret, places().config, places().data, places().log)
    noun = "nexus's own files" if is_own else "credentials"
    rule = " ".join(f'allow = ["{tool.name}({target})"]'.split())
    place = _name_path(path, target, cwd)
    return f"the call {verb} {noun}: {place}; only a rule in your own config.toml allows it: {rule}"


def _describe_protected(name: str) -> str:
    """Return the object of "the call writes ..." for a protected name."""
    if name in PROTECTED_FOLDERS:
        return f"to {name}"
    if name in INSTRUCTION_FILES:
        return "an instruction file"
    if name in SHELL_FILES:
        return "a shell start-up file"
    return "an editor start-up file" if name in EDITOR_FILES else "a git configuration file"
