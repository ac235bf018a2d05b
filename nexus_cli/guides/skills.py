"""Skills, commands and agents of one's own: guides in Markdown that are read on demand.

A skill is a folder with a SKILL.md below `skills`, a command a file NAME.md below `commands`, an agent, which is the
role of a worker, a file below `agents`. All are found in the person's folders (`config`, `~/.nexus`, `~/.agents`,
`~/.claude`), and among the trusted items of the folders of a project, whose bytes are those that were judged. Of
several guides with one name the first counts: the person's before the project's, those of an inner folder before those
of an outer one, then by the order of `FOLDERS`. A plugin's guide whose name another one has is `PLUGIN:NAME`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nexus_cli.config.foreign_items import PARENT_PREFIX, is_guide_file
from nexus_cli.config.paths import home_folder, places, with_tilde
from nexus_cli.config.project_items import project_folders
from nexus_cli.config.text_file import FileText, decode_head, read_text, read_unasked
from nexus_cli.config.trust import read_configuration, trusted_items
from nexus_cli.config.trust_files import FOLDER
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles, holds_credentials
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import open_folder, real_path, walk_below
from nexus_cli.core.version_memo import VersionMemo, file_version, is_settled
from nexus_cli.plugins.installed_plugins import InstalledPlugin, installed_plugins
from nexus_cli.text.front_matter import FENCE, FrontMatter, read_front_matter, split_guide

if TYPE_CHECKING:
    from nexus_cli.config.trust_items import TrustItem

FILE = "SKILL.md"
FOLDERS = (FOLDER, ".agents", ".claude")
"""Folders of a project and of the home folder, in the order of precedence."""
CODEX = ".codex"
"""The folder of codex, of which skills and agents count."""
LIMIT = 1024 * 1024
"""Bytes of one guide that are read."""
HEAD = 64 * 1024
"""Bytes of the file that must contain name and description."""
MOST = 2500
"""Most guides of one kind in one personal folder."""
MAX_NAMES = 5000
"""Most names of a folder that are looked at: a link may lead to all of the disk."""
MAX_FILES = 100
"""Most other files of a personal skill that are listed."""
CALL = re.compile(r"/([\w-]+(?::[\w-]+)*)(?:\s+(.*))?\s*", re.DOTALL)
"""A message that calls a guide: its name, and the arguments."""
NEEDS_TRUST = "is not trusted; run `nexus trust`"
"""The reason that a guide of a project cannot be called yet."""
LONGEST_NAME, LONGEST_LINE = 64, 400
"""Most characters of a shown name and a shown description."""


class GuideKind(StrEnum):
    """A kind of guides."""

    SKILL = "skill"
    COMMAND = "command"
    AGENT = "agent"

    @property
    def place(self) -> str:
        """The folder of this kind in one of `folders`."""
        return f"{self}s"

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of a project and of the home folder that may have guides of this kind."""
        return FOLDERS if self is GuideKind.COMMAND else (*FOLDERS, CODEX)


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, command or agent, without its text."""

    json_fields: ClassVar = "name description path origin plugin shadowed problem denied"
    name: str
    """Its name: the front matter's `name`, else that of its folder or file. That of a command is its path:
    `frontend:button`."""
    description: str
    """One line: the front matter's, else the first paragraph of the guide; may be ""."""
    path: str
    """Its file, in a form that can be shown."""
    source: Path | bytes = field(repr=False)
    """The file itself; for a project, its content when trust in the project was judged."""
    origin: str
    """`personal`, `project` or `plugin`."""
    shadowed: bool = False
    """True if another guide of the same name and kind takes precedence."""
    problem: str = ""
    """The reason that it cannot be used; else ""."""
    kind: GuideKind = GuideKind.SKILL
    fields: Mapping[str, str] = field(default_factory=dict)
    """The front matter."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The other trusted files of a project's or plugin's skill, by their path in its folder."""
    plugin: str = ""
    """The plugin that it belongs to."""
    plugin_root: str = ""
    """The folder of that plugin."""
    denied: str = ""
    """The deny rule that hides it from the model; else ""."""

    @property
    def whole_name(self) -> str:
        """Return `PLUGIN:NAME` for one of a plugin, else its name."""
        return self.name if self.name.startswith(f"{self.plugin}:") or not self.plugin else f"{self.plugin}:{self.name}"

    @property
    def shown_origin(self) -> str:
        """Return `personal`, `project` or `plugin NAME`."""
        return f"{self.origin} {self.plugin}".rstrip()

    @property
    def is_usable(self) -> bool:
        """True if it is the one that counts of its name, and can be read."""
        return not self.shadowed and not self.problem

    @property
    def is_offered(self) -> bool:
        """True if the model may read it by itself."""
        return self.is_usable and not self.denied and self.fields.get("disable-model-invocation") != "true"

    @property
    def is_callable(self) -> bool:
        """True if the person may call it."""
        return self.is_usable and self.fields.get("user-invocable") != "false"

    def read(self) -> str:
        """Return the guide as written, without front matter; raise `NexusError("config", ...)` if that fails."""
        file_text = _read(self.source, self.path, LIMIT)
        if file_text is None:
            raise NexusError("config", self.path, "no longer exists", "`nexus skill list` lists the skills")
        return split_guide(file_text.text, self.path).text.strip("\n")

    def list_files(self) -> list[str]:
        """Return the other files of a skill, by their path in its folder, at most `MAX_FILES`."""
        if isinstance(self.source, bytes) or self.kind is not GuideKind.SKILL:
            return sorted(self.files)[:MAX_FILES]
        root, paths = self.source.parent, list[str]()
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(files)]
            if len(paths) > MAX_FILES:
                break
        return [name for name in paths if name != FILE][:MAX_FILES]

    def read_file(self, name: str) -> str:
        """Return the text of a file in a skill's folder; raise `NexusError("config", ...)` if there is none, it is
        binary, it holds credentials, or a link leads out of the folder."""
        path, location = os.path.normpath(name), f"{self.name}: {one_line(name)}"
        try:
            if isinstance(self.source, bytes):
                data = self.files.get(path)
                if data is not None and holds_credentials(os.path.basename(path), data):
                    raise FileRefused("holds credentials")
                file_text = None if data is None else decode_head(data, path, LIMIT)
            else:
                root = real_path(self.source.parent)
                file_text = read_unasked(UnaskedFiles(root), root / path, LIMIT)
        except FileRefused as refused:
            raise NexusError("config", location, str(refused)) from refused
        if file_text is None:
            raise NexusError("config", location, "the skill has no such file")
        return file_text.text


_unchanged: VersionMemo[Skill] = VersionMemo(4 * MOST, 32 * 1024 * 1024)


def personal_folders(kind: GuideKind) -> list[Path]:
    """Return the person's folders of a kind, in the order of precedence."""
    home = Path(home_folder())
    return [places().config / kind.place, *(home / name / kind.place for name in kind.folders)]


def may_have_skills(cwd: Path) -> bool:
    """Return True if a folder of skills exists that may count in `cwd`. Looks at no skill."""
    kind = GuideKind.SKILL
    folders = (folder / name / kind.place for folder in project_folders(cwd) for name in kind.folders)
    has_folder = any(map(os.path.isdir, (*personal_folders(kind), *folders)))
    return has_folder or any(plugin.items(kind) for plugin in installed_plugins())


def find_guides(
    cwd: Path, kind: GuideKind, plugins: Iterable[InstalledPlugin] | None = None
) -> tuple[tuple[Skill, ...], int]:
    """Return the active guides of a kind by name, and the number of those in the project that are inactive, because
    they are not trusted or have changed since. `plugins` are those that are installed, unless given. Raises nothing."""
    personal = [guide for folder in personal_folders(kind) for guide in _list_personal(folder, kind)]
    mine, inactive = {guide.path for guide in personal}, 0
    candidates = [*personal]
    for folder in reversed(project_folders(cwd)):
        active, waiting = list_project_guides(folder, kind)
        inactive += len(waiting)
        candidates += [guide for guide in active if guide.path not in mine]  # the home folder may be a project
    used_names = {guide.name for guide in candidates if not guide.problem}
    for guide in _list_plugin_guides(installed_plugins() if plugins is None else plugins, kind):
        candidates.append(replace(guide, name=guide.whole_name) if guide.name in used_names else guide)
        used_names.add(guide.name)
    guides: list[Skill] = []
    names: set[str] = set()
    for guide in sorted(candidates, key=lambda guide: guide.name.casefold()):
        guides.append(replace(guide, shadowed=True) if guide.name in names else guide)
        if not guide.problem:
            names.add(guide.name)
    return tuple(guides), inactive


def _list_personal(folder: Path, kind: GuideKind) -> Iterator[Skill]:
    for number, (name, path) in enumerate(list_guide_files(folder, kind)):
        if number == MOST or path == folder:
            most = f"{MOST:,} {kind}s" if number == MOST else f"{MAX_NAMES:,} names"
            problem = f"{one_line(with_tilde(folder))} has more than {most}; the rest are ignored"
            yield Skill(_name(name), "", one_line(str(path)), path, "personal", kind=kind, problem=problem)
            return
        yield _find_guide(name, path, one_line(str(path)), "personal", kind)


def list_project_guides(folder: Path, kind: GuideKind) -> tuple[list[Skill], list[Skill]]:
    """Return the active guides of a kind in one folder of a project, and the inactive ones. Raises nothing."""
    if not any(os.path.lexists(folder / name / kind.place) for name in kind.folders):
        return [], []
    configuration = read_configuration(folder, (kind,))
    trusted = trusted_items(folder, configuration)
    active, inactive = list[Skill](), list[Skill]()
    for name, item in _list_items(configuration.items.values(), kind):
        guide = read_item_guide(name, item, _place(folder, item), "project")
        (active if item.key in trusted else inactive).append(guide)
    return active, inactive


def index_guides(guides: Iterable[Skill]) -> dict[str, Skill]:
    """Return guides by name, those of plugins also by `PLUGIN:NAME`."""
    every = [*guides]
    return {guide.whole_name: guide for guide in every} | {guide.name: guide for guide in every}


def find_callable(cwd: Path) -> dict[str, Skill]:
    """Return the guides that the person may call, by name: of a skill and a command with one name the skill. Blocks."""
    return index_guides(
        guide
        for kind in (GuideKind.COMMAND, GuideKind.SKILL)
        for guide in find_guides(cwd, kind)[0]
        if guide.is_callable
    )


def mark_denied(guides: Iterable[Skill], find_denial: Callable[[str, str], str]) -> tuple[Skill, ...]:
    """Return skills or agents with the deny rule for each, which `find_denial` returns for a kind and a whole name."""
    denials = ((guide, find_denial(guide.kind, guide.whole_name)) for guide in guides)
    return tuple(replace(guide, denied=denial) if denial else guide for guide, denial in denials)


def explain_uncallable(cwd: Path, kinds: Sequence[GuideKind] = (GuideKind.SKILL, GuideKind.COMMAND)) -> dict[str, str]:
    """Return the reason that a guide cannot be called, by its name: its file is not trusted or no guide, or it is for
    the model alone. A name may also be that of a guide that can be called. Raises nothing."""
    reasons: dict[str, str] = {}
    for folder, kind in product(project_folders(cwd), kinds):
        waiting = list_project_guides(folder, kind)[1]
        reasons |= {guide.name: f"{guide.path} {NEEDS_TRUST}" for guide in waiting}
    for guide in chain.from_iterable(find_guides(cwd, kind)[0] for kind in kinds):
        if not (guide.is_callable or guide.shadowed):
            reasons[guide.name] = f"{guide.path} {guide.problem or 'can only be used by the model (user-invocable)'}"
    return reasons


def list_guide_files(folder: Path, kind: GuideKind) -> Iterator[tuple[str, Path]]:
    """Yield name and file of the guides of a kind among the first `MAX_NAMES` names of a folder, without hidden
    ones, then, if there are more names, those of the folder itself. A skill has the name of its folder, any other guide
    that of its path."""
    if kind != GuideKind.SKILL:
        with suppress(OSError), open_folder(os.path.realpath(folder)) as opened:
            walk = walk_below(opened)
            entries = islice(walk, MAX_NAMES)
            paths = sorted(path for path, entry in entries if is_guide_file(f"{folder}/{path}") and not entry.is_dir())
            visible = [path for path in paths if not any(part.startswith(".") for part in path.split("/"))]
            yield from ((_command_name(path), folder / path) for path in visible)
            yield from ((folder.name, folder) for _ in islice(walk, 1))
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    seen = [name for name in names[:MAX_NAMES] if name[0] != "." and _is_skill(folder / name)]
    yield from ((name, folder / name / FILE) for name in seen)
    yield from ((folder.name, folder) for _ in names[MAX_NAMES : MAX_NAMES + 1])


def _is_skill(place: Path) -> bool:
    """Return True for a folder of a skill, and for a dangling link, which is listed with its problem."""
    return os.path.lexists(place / FILE) or (os.path.islink(place) and not os.path.exists(place))


def _command_name(path: str) -> str:
    return path.removesuffix(".md").removesuffix(".toml").replace("/", ":")


def _list_items(items: Iterable[TrustItem], kind: GuideKind) -> list[tuple[str, TrustItem]]:
    """Return the guides among the items of a project, with their names, in the order of precedence."""
    listed = []
    for place in kind.folders:
        prefix = f"{kind.place}/" if place == FOLDER else f"{PARENT_PREFIX}{place}/{kind.place}/"
        for item in items:
            name = item.file.removeprefix(prefix)
            if item.kind == kind and name != item.file and not (kind == GuideKind.SKILL and name.startswith(".")):
                listed.append((name.partition("/")[0] if kind == GuideKind.SKILL else _command_name(name), item))
    return listed


def read_item_guide(name: str, item: TrustItem, location: str, origin: str) -> Skill:
    """Return the guide of an item from the bytes that were judged: nothing is read again. What is shown of a guide is
    read from here too, so that nothing else of it can run."""
    above = f"{item.file.rpartition('/')[0]}/"
    other_files = {part.removeprefix(above): data for part, data in item.parts.items() if part not in ("", item.file)}
    kind = GuideKind(item.kind)
    skill = _find_guide(name, item.parts[item.file], location, origin, kind)
    return replace(skill, files=other_files) if other_files and kind is GuideKind.SKILL else skill


def _place(root: Path, item: TrustItem) -> str:
    """Return the path of a project's guide, in a form that can be shown."""
    return one_line(os.path.normpath(root / FOLDER / item.file))


def _list_plugin_guides(plugins: Iterable[InstalledPlugin], kind: GuideKind) -> Iterator[Skill]:
    """Yield the accepted ones of plugins, from the bytes that were compared with the record."""
    for plugin in plugins:
        for item, state in plugin.items(kind):
            if state == "active":
                skill = read_item_guide(item.name, item, one_line(str(plugin.root / item.file)), "plugin")
                yield replace(skill, plugin=plugin.name, plugin_root=str(plugin.root))


def _find_guide(name: str, source: Path | bytes, location: str, origin: str, kind: GuideKind) -> Skill:
    """Return the guide of a file; one that has not changed since is read once per process."""
    key = (name, location, origin, kind)
    try:
        status = os.stat(source) if isinstance(source, Path) else None
    except (OSError, ValueError):
        return _make_guide(name, source, location, origin, kind)
    version = file_version(status) if status else source
    skill = _unchanged.find(key, version)
    if skill is None:
        skill = _make_guide(name, source, location, origin, kind)
        if status is None or is_settled(status):
            _unchanged.keep(key, version, skill, len(source) if isinstance(source, bytes) else len(skill.description))
    return skill


def _make_guide(name: str, source: Path | bytes, location: str, origin: str, kind: GuideKind) -> Skill:
    blank = Skill(_name(name), "", location, source, origin, kind=kind)
    try:
        file_text = _read(source, location, LIMIT if location.endswith(".toml") else HEAD)
    except NexusError as error:
        return replace(blank, problem=one_line(error.why))
    if file_text is None:
        return replace(blank, problem="is not a regular file")
    front = split_guide(file_text.text, location, cut=file_text.beyond > 0)
    described = front.fields.get("description", "")
    is_other = kind == GuideKind.AGENT and "name" not in front.fields  # a page about the agents beside them
    description = described or ("" if front.problem or is_other else _paragraph(front.text))
    problem = front.problem or _problem(file_text.text, front, source, location)
    if not problem and not description and kind != GuideKind.COMMAND:
        problem = "has no description"
    own_name = "" if kind == GuideKind.COMMAND else _name(front.fields.get("name", ""))
    line = "" if problem and not described else _one_line(description)
    return replace(blank, name=own_name or blank.name, description=line, problem=problem, fields=front.fields)


def _problem(text: str, front: FrontMatter, source: Path | bytes, location: str) -> str:
    """Return the reason that a readable file is not a guide, "" if it is one; `text` is its beginning."""
    if not text.strip():
        return "is empty"
    if not front.text.strip().strip("-"):
        file_text = _read(source, location, LIMIT)
        if not read_front_matter(file_text.text if file_text else "").text.strip().strip("-"):
            return "has no text after its front matter"
    return ""


def _read(source: Path | bytes, location: str, limit: int) -> FileText | None:
    return decode_head(source, location, limit) if isinstance(source, bytes) else read_text(source, limit)


def _name(text: str) -> str:
    """Return `text` as one word that can be typed; "" if nothing is left."""
    return "-".join(one_line(text).split())[:LONGEST_NAME]


def _one_line(text: str) -> str:
    return cut_at_word(" ".join(one_line(text[: 4 * LONGEST_LINE]).split()), LONGEST_LINE)


def _paragraph(body: str) -> str:
    """Return the first text lines of `body`, without headings and rules."""
    lines: list[str] = []
    for line in body.splitlines():
        plain = line.strip()
        if plain and not plain.startswith(("#", FENCE, "```")):
            lines.append(plain)
        elif lines:
            break
    return " ".join(lines)
