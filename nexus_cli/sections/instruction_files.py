"""The instruction files of a session: the layers of `context/loader`, Claude's files beside them, the files that these
import by `@PATH`, and the rules that always count. Each of these is a layer of its own, so that it has its own section.
Other folders of the project have layers as soon as a file in them was read, which also name their skills.

An import is relative to the file that names it, and stays in that file's text. It counts outside of code, once, and at
most `DEEPEST` files deep. A project's files import from the project alone; personal ones from anywhere. Claude's
files, and what they import, are sent without comments, as Claude Code sends them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from nexus_cli.config.paths import defaults_dir, project_root
from nexus_cli.config.protected_places import BUILD_FOLDERS
from nexus_cli.config.record_file import TRUST_RECORD
from nexus_cli.config.text_file import read_text, read_unasked
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles
from nexus_cli.context.loader import ContextLayer, Name, load_folder, load_layers
from nexus_cli.context.prompt_loader import FOREIGN_FILES, INSTRUCTION_FILES, FilePromptSource
from nexus_cli.core.elide import name_first, one_line, plural, trim_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.file_names import looks_like_file
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import join_path, real_path
from nexus_cli.core.version_memo import VersionMemo, read_version
from nexus_cli.guides.skills import GuideKind, list_guide_files, list_project_guides
from nexus_cli.sections.path_rules import (
    BLOCK,
    FOLDER,
    PathRule,
    drop_comments,
    list_path_rules,
    list_personal_rules,
    list_rules,
)
from nexus_cli.sections.project_outline import walk_files

BESIDE = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
"""Files that Claude Code reads all, and that count beside the instruction file of a folder unless that is NEXUS.md."""
DEEPEST = 4
"""Most files between an instruction file and one that it imports through others, that one included."""
MOST = 100
"""Most imported files of a session."""
MAX_FOLDERS = 100
"""Most folders beside those of the session that have instructions."""
SKILL_HEADER = "Skills for work in this folder. If a skill fits your task, read its file first."
"""What a request says before the skills of a folder below."""
LIMIT = 1024 * 1024
"""Bytes of one imported file that are read."""
LONGEST_LINE = 4000
"""Characters of a line above which it is not searched: matching code spans takes quadratic time."""
MOST_LOOKED_FOR = 2000
"""Most names after `@` in a session that are looked for on disk."""
MAX_NAMED = 5
"""Most imports of one file that its notice names."""
_SKILLS = tuple(f"{name}/{GuideKind.SKILL.place}" for name in GuideKind.SKILL.folders)
"""The folders of skills."""
_NOT_OWN = BUILD_FOLDERS | {".git", ".nexus", ".claude"}
"""Folded names of folders whose files are not instructions for what is in them."""
_NO_TEXT = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|<!--.*?-->")
"""A code span, or a comment."""
_COMMENTED = re.compile(r"/(?:\.claude/rules/.*|CLAUDE(?:\.local)?\.md)\Z")
"""The path of a file whose comments Claude Code does not send, if they begin a line; codex sends those of AGENTS.md,
nexus those of NEXUS.md."""
_IMPORT = re.compile(r"(?<![^\s(\[\"'*_])@((?:\\ |[^\s\\@`<>])+)")
_ENDS = ".,;:!?)]}\"'*_"


def instruction_layers(cwd: Path | None, is_denied: Callable[[Path], bool] | None = None) -> list[ContextLayer]:
    """Return the layers of `cwd` with instructions, each followed by its imports and its rules, or with a notice about
    their absence; without settings, servers and environment. If the folder has vanished, only the global layer remains.

    No import and no link of a project leads to a real path that `is_denied`.
    """
    gate = UnaskedFiles(project_root(cwd), is_denied) if cwd is not None else None
    layers = load_layers(cwd, for_session=True, gate=gate)
    reader = _ImportReader({os.path.realpath(layer.path) for layer in layers if layer.path})
    context_layers: list[ContextLayer] = []
    for layer in layers:
        if gate is None or layer.name == "global":
            context_layers += reader.with_imports(layer, None)
            rules = list_personal_rules(gate.project) if gate else ()  # those that always count, in any project
            context_layers += [
                _rule_layer("global", rule) for rule in rules if not rule.globs and reader.is_new(rule.path)
            ]
        else:
            context_layers += reader.with_rules(layer, gate)
    return [layer for layer in context_layers if layer.text or layer.notice]


def layers_below(
    cwd: Path,
    paths: Iterable[str],
    known_layers: Callable[[], Sequence[ContextLayer]],
    gate: UnaskedFiles | None = None,
    find_denial: Callable[[str, str], str] = lambda kind, name: "",
) -> list[ContextLayer]:
    """Return the layers of the folders that lead to the real `paths` in the project of `cwd`, which has the `gate`,
    outermost first, without those of `instruction_layers`, which `known_layers` returns. Folders that tools install or
    build into have none, nor have other repositories. No skill for which `find_denial` returns a rule is named."""
    real_cwd = real_path(cwd)
    gate = gate or UnaskedFiles(project_root(real_cwd))
    below = os.path.join(gate.project, "")
    inside = [path for path in paths if path.startswith(below)]
    folders = _list_folders(inside, str(gate.project)) - {str(folder) for folder in (real_cwd, *real_cwd.parents)}
    candidates = (Path(folder) for folder in sorted(folders) if any(map(os.path.lexists, _named_in(folder))))
    layers = [load_folder(folder, gate) for folder in islice(candidates, MAX_FOLDERS) if _is_own(folder, gate.project)]
    reader = _ImportReader(
        {os.path.realpath(layer.path) for layer in known_layers() if layer.path} if layers else set()
    )
    context_layers: list[ContextLayer] = []
    for layer in layers:
        is_new = layer.path is None or reader.is_new(layer.path)
        context_layers += reader.with_rules(layer if is_new else ContextLayer(layer.name, layer.folder), gate, inside)
        context_layers.append(_skill_layer(layer.folder, find_denial))
    return [layer for layer in context_layers if layer.text or layer.notice]


def list_instructions(cwd: Path, is_denied: Callable[[Path], bool]) -> Iterator[tuple[ContextLayer, tuple[str, ...]]]:
    """Yield all layers that a session in `cwd` can send, rules as well, with the globs or the folder of the files that
    they are sent with. Blocks."""
    gate = UnaskedFiles(project_root(real_path(cwd)), is_denied)
    root = gate.project
    layers = instruction_layers(cwd, is_denied)
    yield from ((layer, ()) for layer in layers)
    names, _ = walk_files(root)
    for layer in layers_below(cwd, (f"{root}/{name}" for name in names), lambda: layers, gate):
        yield layer, (f"{layer.folder.relative_to(root)}/",)
    for rule in list_path_rules(cwd, gate):
        if rule.globs:
            yield _rule_layer("local", rule), rule.globs


def _list_folders(paths: Iterable[str], project: str) -> set[str]:
    """Return the folders in `project` that lead to one of `paths`. Called before every request: no `Path` is made."""
    folders = set[str]()
    for path in paths:
        while len(path := os.path.dirname(path)) > len(project) and path not in folders:
            folders.add(path)
    return folders


def _named_in(folder: str) -> Iterator[str]:
    return (f"{folder}/{name}" for name in (*INSTRUCTION_FILES, *FOREIGN_FILES, *BESIDE, FOLDER, *_SKILLS))


def _is_own(folder: Path, project: Path) -> bool:
    """Return True if neither `folder` nor one between it and `project` is made by tools or a repository of its own."""
    names = folder.relative_to(project).parts
    is_repository = any(os.path.lexists(path / ".git") for path in (folder, *folder.parents)[: len(names)])
    return not is_repository and _NOT_OWN.isdisjoint(map(str.casefold, names))


def find_imports(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and path of each `@PATH` outside of code and comments."""
    prose = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        if "@" in line and len(line) <= LONGEST_LINE:
            for written in _IMPORT.findall(_NO_TEXT.sub(" ", line)):
                path = written.replace("\\ ", " ").partition("#")[0].rstrip(_ENDS)
                if path:
                    yield number, path


def _skill_layer(folder: Path, find_denial: Callable[[str, str], str]) -> ContextLayer:
    """Return a layer that names the skills of a folder below, with a notice about those that are not trusted. Called
    before every request: they are read once they have changed."""
    files = [path for place in _SKILLS for _, path in list_guide_files(folder / place, GuideKind.SKILL)]
    version = read_version(TRUST_RECORD.path), *map(read_version, files)
    cached = _unchanged.find((folder, *files), version)
    described, notice = cached or _read_skills(folder)
    if cached is None:
        _unchanged.keep((folder, *files), version, (described, notice), sum(map(len, described.values())))
    lines = [line for name, line in described.items() if not find_denial(GuideKind.SKILL, name)]
    return ContextLayer("local", folder, text="\n".join([SKILL_HEADER, *lines] if lines else []), notice=notice)


def _read_skills(folder: Path) -> tuple[dict[str, str], str]:
    """Return the lines of the skills of a folder by name, and the notice about those that are not trusted."""
    guides, waiting = list_project_guides(folder, GuideKind.SKILL)
    lines = {guide.name: f"- {guide.name}: {guide.description} ({guide.path})" for guide in guides if guide.is_offered}
    place = one_line(shlex.quote(str(folder)))
    notice = f"{plural(len(waiting), 'skill')} of {place} not active (see `nexus trust {place}`)" if waiting else ""
    return lines, notice


def _rule_layer(name: Name, rule: PathRule) -> ContextLayer:
    part = one_line(rule.name)
    return ContextLayer(name, rule.folder, rule.path, rule.text, rule.notice, beyond=rule.beyond, part=part)


_unchanged: VersionMemo[tuple[dict[str, str], str]] = VersionMemo(MAX_FOLDERS, LIMIT)


@dataclass
class _ImportReader:
    """Reads imported files, each once in a session."""

    read_paths: set[str]
    """Real paths of the instruction files, and of what was imported."""
    count: int = 0
    looked_for: int = 0

    def is_new(self, path: Path) -> bool:
        """Return True, once, for a rule that no file has imported."""
        real = os.path.realpath(path)
        is_new = real not in self.read_paths
        self.read_paths.add(real)
        return is_new

    def with_rules(self, layer: ContextLayer, gate: UnaskedFiles, paths: Sequence[str] = ()) -> list[ContextLayer]:
        """Return `layer` with its imports, what is beside it, and the rules of its folder that always count or name one
        of `paths`."""
        layers = [*self.with_imports(layer, gate), *self._beside(layer, gate)]
        for rule in list_rules(layer.folder, gate):
            if (not rule.globs or any(map(rule.names, paths))) and self.is_new(rule.path):
                context_layer = _rule_layer(layer.name, rule)
                layers += [context_layer] if rule.globs else self.with_imports(context_layer, gate)
        return layers

    def _beside(self, layer: ContextLayer, gate: UnaskedFiles) -> Iterator[ContextLayer]:
        """Yield Claude's files in the folder of `layer` that were not read yet, with their imports; those that differ
        from `layer` in imports alone without their text."""
        if layer.path is not None and layer.path.name == INSTRUCTION_FILES[0]:
            return
        for name in BESIDE:
            path = layer.folder / name
            if path == layer.path or not os.path.lexists(path) or not self.is_new(path):
                continue
            source = FilePromptSource(path, gate, skips=True)
            text = source.load() or ""
            if source.is_refused and source.notice in layer.notice:
                continue
            context_layer = ContextLayer(
                layer.name, layer.folder, path, text, source.notice, beyond=source.beyond, part=one_line(name)
            )
            own_layer, *imported = self.with_imports(context_layer, gate)
            says_more = text.strip() != layer.text.strip() and bool(_IMPORT.sub("", own_layer.text).strip())
            yield from (own_layer, *imported) if says_more or own_layer.notice else imported

    def with_imports(
        self, layer: ContextLayer, gate: UnaskedFiles | None, chain: Sequence[str] = (), first: str = ""
    ) -> list[ContextLayer]:
        """Return `layer`, with a notice about the imports that are not read, and those that are. Those of a project
        pass its `gate`. The real paths of `chain` led here, from the file that the program reads at `first`."""
        if layer.path is None or layer.folder == defaults_dir():
            return [layer]
        first = first or str(layer.path)
        chain = (*chain, os.path.realpath(layer.path))
        parts: list[ContextLayer] = []
        problems = dict[str, None]()
        for number, name in find_imports(layer.text):
            if self.looked_for >= MOST_LOOKED_FOR:
                problems[f"all from line {number} on (limit of {MOST_LOOKED_FOR:,} per session reached)"] = None
                break
            self.looked_for += 1
            path = Path(join_path(layer.path.parent, os.path.expanduser(name)))
            context_layer, problem = self._read(layer, name, path, gate, chain)
            if problem:
                problems[one_line(f"@{name} (line {number}) {problem}")] = None
            if context_layer:
                parts += self.with_imports(context_layer, gate, chain, first)
        if _COMMENTED.search(first):
            layer = replace(layer, text=trim_text(drop_comments(layer.text)))
        if not problems:
            return [layer, *parts]
        reasons = name_first(list(problems), MAX_NAMED, "; ")
        notice = f"{one_line(replace_surrogates(str(layer.path)))} has imports that were not read: {reasons}"
        return [replace(layer, notice="; ".join(filter(None, (layer.notice, notice)))), *parts]

    def _read(
        self, layer: ContextLayer, name: str, path: Path, gate: UnaskedFiles | None, chain: Sequence[str]
    ) -> tuple[ContextLayer | None, str]:
        """Return the layer of an import, or the reason why it is not read; neither if it is no import or was read."""
        real = os.path.realpath(path)
        if real in chain:
            return None, "is a circular import"
        if real in self.read_paths:
            return None, ""
        if not os.path.isfile(real):
            return None, "is not there" if looks_like_file(name) and not os.path.isdir(real) else ""
        if len(chain) > DEEPEST:
            return None, f"is nested more than {DEEPEST} files deep"
        if self.count >= MOST:
            return None, f"exceeds the limit of {MOST} files per session"
        try:
            file_text = read_unasked(gate, path, LIMIT) if gate else read_text(Path(real), LIMIT)
        except FileRefused as refused:
            return None, str(refused)
        except NexusError as error:
            return None, one_line(error.why)
        if file_text is None:
            return None, "is not a file"
        self.read_paths.add(real)
        self.count += 1
        part = replace_surrogates(os.path.relpath(path, layer.folder) if gate else str(path))
        text = trim_text(file_text.text)
        return ContextLayer(
            layer.name, layer.folder, path, text, file_text.notice, beyond=file_text.beyond, part=one_line(part)
        ), ""
