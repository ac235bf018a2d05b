"""Rules by path of a project and of the person: `.claude/rules/**/*.md`, whose front matter has globs (`paths`).

A rule without `paths` always counts, like an instruction file. One with `paths` counts once a file that it names is
read, edited or attached. Globs are those of Claude Code: relative to the folder that holds `.claude`, those of a
person's rules to the project, `**` for any folders, `{a,b}` for either; a plain name of a folder stands for all that is
in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from nexus_cli.config.paths import home_folder, project_root
from nexus_cli.config.project_items import folders_between
from nexus_cli.config.text_file import read_unasked
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles
from nexus_cli.core.elide import one_line, trim_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.path_globs import compile_signs
from nexus_cli.core.real_files import open_folder, real_path, walk_below
from nexus_cli.core.version_memo import VersionMemo, file_version
from nexus_cli.text.front_matter import read_front_matter

FOLDER = ".claude/rules"
LIMIT = 256 * 1024
"""Bytes of one rule that are read."""
MOST = 200
"""Most rules of one folder, and most globs of one rule."""
_MAX_NAMES = 5000
"""Most files and folders that are looked at for the rules of one folder."""
_SIGNS = re.compile(r"((?<![^/])\*\*/|\*\*|\*|\?)")
BLOCK = re.compile(
    r"""
    ^( [ \t>]*+(`{3,}+|~{3,}+)[^`\n]*+$ .*? (?: ^[ \t>]*\2[`~]*[ \t\r]*$ | \Z ) | <!--(?:(?!-->).)*\Z )
    | ^([ ]{0,3})<!--.*?-->[ \t\r]*\n?
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
"""A comment that begins a line, with its indentation; with a first group, a block of code, or a comment without an
end."""
_NESTED = re.compile(r"[ \t]|[-*+]\s|\d+[.)]\s")
"""The beginning of a line in a list, whose comments stay."""
_LOOKED_AT = 4000
"""Characters above such a comment that are looked at."""
_BRACES = re.compile(r"\{([^{}]*)\}")
_COMMA = re.compile(r",(?![^{]*\})")


@dataclass(frozen=True, slots=True)
class PathRule:
    """One rule."""

    path: Path
    folder: Path
    """The folder that holds `.claude`; of a personal rule that of the project."""
    globs: tuple[str, ...]
    """() for a rule that always counts."""
    text: str
    notice: str = ""
    """One line for the person about a problem with the file."""
    beyond: int = 0
    """Bytes of the file that were not read."""

    @property
    def name(self) -> str:
        """Its path below `folder`: `.claude/rules/api.md`; the whole one of a personal rule."""
        is_inside = self.path.is_relative_to(self.folder)
        return replace_surrogates(os.path.relpath(self.path, self.folder) if is_inside else str(self.path))

    def names(self, path: str) -> bool:
        """Return True if it names the file with this real path."""
        inside = path.startswith(os.path.join(self.folder, ""))
        below = os.path.relpath(path, self.folder) if inside else ""
        return inside and any(_compile_glob(glob).match(below) for glob in self.globs)


def drop_comments(text: str) -> str:
    """Return a text without the comments that Claude Code does not send: those that begin a line, and if they are
    indented neither a list nor a paragraph goes on with them."""

    def keep(block: re.Match[str]) -> str:
        return block[1] or (block[0] if block[3] and not _begins_block(text, block.start()) else "")

    return BLOCK.sub(keep, text)


def _begins_block(text: str, place: int) -> bool:
    above = text[max(0, place - _LOOKED_AT) : place]
    stripped = above.rstrip()
    line = stripped.rpartition("\n")[2]
    is_apart = not stripped or line.startswith("#") or above.count("\n", len(stripped)) > 1
    return is_apart and not _NESTED.match(line)


def list_path_rules(cwd: Path, gate: UnaskedFiles | None = None) -> tuple[PathRule, ...]:
    """Return the person's rules and those of the folders from the project's root down to `cwd`, by folder and name.
    Never raises.

    A rule that the `gate` of the project refuses has a notice and no text."""
    folder = real_path(cwd)
    gate = gate or UnaskedFiles(project_root(folder))
    folders = (gate.project, *folders_between(gate.project, folder))
    rules = [rule for above in folders for rule in list_rules(above, gate)]
    project_paths = {os.path.realpath(rule.path) for rule in rules}
    personal = [rule for rule in list_personal_rules(gate.project) if os.path.realpath(rule.path) not in project_paths]
    return (*personal, *rules)


def list_personal_rules(project: Path) -> list[PathRule]:
    """Return the rules in the person's home folder, whose links may lead out of it, with globs that are relative to
    `project`. Never raises."""
    home = real_path(home_folder())
    return [replace(rule, folder=project) for rule in list_rules(home, UnaskedFiles(Path(home.anchor)))]


def list_rules(folder: Path, gate: UnaskedFiles) -> Iterator[PathRule]:
    """Yield the rules of one folder in the project of `gate`."""
    place = folder / FOLDER
    try:
        if not os.path.isdir(place):  # as nearly always
            return
        with open_folder(gate.check(place, by_name=True)) as opened:
            names = (path for path, _ in islice(walk_below(opened), _MAX_NAMES) if path.endswith(".md"))
            paths = [place / name for name in islice(names, MOST + 1)]
    except OSError:
        return
    except FileRefused as refused:
        yield PathRule(place, folder, (), "", f"{_format_path(place)} {refused}; skipped")
        return
    for path in sorted(paths)[:MOST]:
        try:
            version = file_version(os.stat(path))
            gate.check(path, by_name=True)
            rule = _unchanged.find((path, folder), version)
            if rule is None:
                rule = _read_rule(path, folder, gate)
                _unchanged.keep((path, folder), version, rule, len(rule.text))
        except OSError:
            continue
        except FileRefused as refused:
            rule = PathRule(path, folder, (), "", f"{_format_path(path)} {refused}; skipped")
        yield rule


_unchanged: VersionMemo[PathRule] = VersionMemo(2 * MOST, 2 * MOST * LIMIT)
"""Rules are looked at before every request."""


def _read_rule(path: Path, folder: Path, gate: UnaskedFiles) -> PathRule:
    """Return the rule of a file. Raises `FileRefused`."""
    place = _format_path(path)
    try:
        file_text = read_unasked(gate, path, LIMIT, by_name=True)
    except NexusError as error:
        return PathRule(path, folder, (), "", f"{one_line(error.message)}; skipped")
    if file_text is None:
        return PathRule(path, folder, (), "")
    front = read_front_matter(file_text.text)
    paths, problem = front.fields.get("paths", ""), front.problem
    if len(paths) > 1 and paths.startswith("[") and "]" not in paths:
        paths, problem = "", "has an unclosed list in `paths`"
    globs = list(_expand(paths))
    notice = file_text.notice or (f"{place} {problem}; the rule always applies" if problem else "")
    text = replace_surrogates(trim_text(drop_comments(front.text)))
    return PathRule(path, folder, tuple(globs[:MOST]), text, notice, file_text.beyond)


def _format_path(path: Path) -> str:
    return one_line(replace_surrogates(str(path)))


def _expand(value: str) -> Iterator[str]:
    """Yield the globs of a list joined by commas, one for each reading of its `{a,b}`."""
    pending = [glob.strip().strip("\"'") for glob in reversed(_COMMA.split(value))]
    for _ in range(MOST * 4):
        if not pending:
            return
        glob = pending.pop()
        if braces := _BRACES.search(glob):
            options = reversed(braces[1].split(","))
            pending += [f"{glob[: braces.start()]}{option.strip()}{glob[braces.end() :]}" for option in options]
        elif glob:
            yield glob


@lru_cache(512)
def _compile_glob(glob: str) -> re.Pattern[str]:
    """Return the expression of a glob for paths below its folder."""
    plain = glob.removeprefix("./").strip("/")
    while "**/**/" in plain:
        plain = plain.replace("**/**/", "**/")
    end = r"\Z" if _SIGNS.search(plain.rpartition("/")[2]) else r"/|\Z"
    return compile_signs(_SIGNS.split(plain), end)
