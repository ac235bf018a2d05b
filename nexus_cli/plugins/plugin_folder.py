"""Read a plugin folder: `plugin.json`, skills, commands, agents, hooks and servers, as Claude and codex lay them out.

Nothing of it runs here. Each part is an item with its own hash. A hook, a server, and a guide that names the plugin's
folder can run any of its files: their hash covers all of them.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.config.foreign_items import (
    PARENT_PREFIX,
    PLUGIN_ROOT,
    UNSET,
    command_line,
    describe_unread,
    read_hooks,
    read_json,
)
from nexus_cli.config.trust_files import UnfitError, find_below, read_parts
from nexus_cli.config.trust_items import TrustItem
from nexus_cli.config.unasked_files import UnaskedFiles
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject

MANIFESTS = ("plugin.json", ".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
NOT_READ = {
    "lspServers": "language servers",
    "outputStyles": "output styles",
    "apps": "apps",
    "monitors": "monitors",
    "themes": "themes",
    "workflows": "workflows",
    "bin": "programs in `bin`",
}
"""Keys of a manifest, and folders, that nexus does not have."""
OTHER_FILES = {".lsp.json": "language servers", ".app.json": "apps", "settings.json": "settings"}
LISTED = "listed"
"""A key of a manifest that comes from a marketplace."""
PARTS = ("skills", "commands", "agents", "hooks", "mcpServers")
"""Keys of a manifest that name items."""
DESCRIBES = frozenset(
    """
    $schema name version description displayName author homepage repository license keywords category tags interface
    strict
    """.split()
)
"""Keys of a manifest that change nothing here."""
MAX_NAMED = 5
"""Most keys or files that a line names."""
SKIPPED = frozenset({".git", "__pycache__"})
"""Folders of a source that are not installed."""
DEFINITION = "definition"
"""The part of a hook's or server's item that defines it, as JSON."""
_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_HINT = "A plugin is a folder with plugin.json or .claude-plugin/plugin.json"


@dataclass(frozen=True, slots=True)
class PluginFolder:
    """The content of a plugin folder, read once."""

    root: Path
    name: str
    version: str
    description: str
    files: Mapping[str, bytes]
    """All of its files by path."""
    programs: frozenset[str]
    """Paths of the executable ones."""
    items: Mapping[str, TrustItem]
    """Skills, commands, agents, hooks and servers by key. Paths of guides are those in `files`."""
    left_out: tuple[str, ...]
    """One line for each part that nexus does not have or cannot read."""


def read_plugin(root: Path, skipped: frozenset[str] = SKIPPED, listed: JsonObject | None = None) -> PluginFolder:
    """Read the plugin folder `root`, without the folders `skipped`; raise `NexusError("config", ...)` if it is none.

    The entry that a marketplace has `listed` for it completes its plugin.json, or replaces a missing one."""
    try:
        files, programs = _read_files(root, skipped)
    except UnfitError as unfit:
        raise _refusal(root, one_line(str(unfit)), "Correct the files of the plugin, then try again") from None
    except OSError as error:
        raise _refusal(root, f"cannot be read ({error.strerror})", _HINT) from error
    if listed is not None:
        files = dict(sorted(_add_listed(files, listed).items()))
    path = next((name for name in MANIFESTS if name in files), None)
    if path is None:
        raise _refusal(root, "plugin.json is missing", _HINT)
    manifest = read_json(files[path])
    if not isinstance(manifest, dict):
        raise _refusal(root, f"{path} is not a JSON object", "Correct the file")
    name = manifest.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refusal(
            root,
            f"`name` in {path} must have at most 64 letters, digits, `-` and `_`, and begin with a letter or digit",
            "Correct the name",
        )
    return _Reader(root, files, manifest).read(name, programs)


def _add_listed(files: Mapping[str, bytes], listed: JsonObject) -> Mapping[str, bytes]:
    """Return the files with what a marketplace lists in the manifest: the items that both name, else the manifest's own
    word. What only describes the plugin is left out beside a manifest: another version would change what was accepted.
    """
    path = next((name for name in MANIFESTS if name in files), None)
    manifest = read_json(files[path]) if path else {LISTED: True}
    left_out = {"source", *(DESCRIBES if path else ())}
    added = {key: value for key, value in listed.items() if key not in left_out}
    if not isinstance(manifest, dict) or (path and not added):
        return files
    merged = {
        key: [*_to_list(manifest[key]), *_to_list(added[key])] for key in PARTS if key in manifest and key in added
    }
    return {**files, path or MANIFESTS[1]: json.dumps({**added, **manifest, **merged}).encode()}


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refusal(root: Path, why: str, hint: str) -> NexusError:
    return NexusError("config", f"no plugin in {one_line(str(root))}", why, hint)


def _read_files(root: Path, skipped: frozenset[str]) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return all files by path, sorted, and the executable ones. Raises `UnfitError` and `OSError`."""
    real, files, programs = os.path.realpath(root), dict[str, bytes](), set[str]()
    parts = (
        part
        for entry in sorted(os.listdir(real))  # raises if it is no folder
        for part in find_below(PARENT_PREFIX + entry, os.path.join(real, entry), real)
        if skipped.isdisjoint(part[0].split("/"))
    )
    for name, path, data in read_parts(parts, UnaskedFiles(root)):
        files[name.removeprefix(PARENT_PREFIX)] = data
        if os.access(path, os.X_OK):
            programs.add(name.removeprefix(PARENT_PREFIX))
    return dict(sorted(files.items())), frozenset(programs)


class _Reader:
    """Reads the items of one plugin."""

    def __init__(self, root: Path, files: Mapping[str, bytes], manifest: JsonObject) -> None:
        self._root = root
        self._files = files
        self._manifest = manifest
        self._items: dict[str, TrustItem] = {}
        self._left_out: list[str] = []
        self._all = TrustItem("plugin", "", files).sha256.encode()
        """Stands for the content of all files."""

    def read(self, name: str, programs: frozenset[str]) -> PluginFolder:
        """Return the plugin."""
        for path in self._paths("skills"):
            self._add_skills(path)
        for kind in ("command", "agent"):
            for path in self._paths(f"{kind}s"):
                self._add_texts(kind, path)
        for location, data in self._tables("hooks", "hooks/hooks.json"):
            self._add_hooks(location, data)
        for location, data in self._tables("mcpServers", ".mcp.json"):
            self._add_servers(location, data)
        self._name_others()
        version, described = (one_line(str(self._manifest.get(key) or "")) for key in ("version", "description"))
        items, left_out = dict(sorted(self._items.items())), tuple(self._left_out)
        return PluginFolder(self._root, name, version, described, self._files, programs, items, left_out)

    def _paths(self, key: str) -> Iterator[str]:
        """Yield the folders and files of a kind of guides: the usual one, and those that the manifest names. What a
        marketplace lists may be one of several plugins of a folder: then those alone that it names."""
        if not (self._manifest.get(LISTED) and key in self._manifest):
            yield key
        for entry, path in self._list_named(key):
            if path is None:
                self._left_out.append(
                    f"`{key}` in the manifest: {one_line(str(entry))[:80]} is not a path in the plugin"
                )
            elif path != key:
                yield path

    def _tables(self, key: str, usual: str) -> Iterator[tuple[str, Any]]:
        """Yield source and JSON of the hooks or servers: the usual file, and what the manifest has or names."""
        if usual in self._files:
            yield usual, self._files[usual]
        for entry, path in self._list_named(key):
            if isinstance(entry, dict):
                yield "plugin.json", json.dumps(entry if key in entry else {key: entry}).encode()
            elif path is None or path not in self._files:
                self._left_out.append(
                    f"`{key}` in the manifest: {one_line(str(entry))[:80]} is not a file of the plugin"
                )
            elif path != usual:
                yield path, self._files[path]

    def _list_named(self, key: str) -> Iterator[tuple[Any, str | None]]:
        """Yield each value that the manifest has for a key, as a path too."""
        value = self._manifest.get(key, [])
        yield from ((entry, self._inside(entry)) for entry in _to_list(value))

    def _inside(self, entry: object) -> str | None:
        """Return a path of the manifest as `files` has it, None if it is none in the plugin."""
        if not isinstance(entry, str):
            return None
        path = posixpath.normpath(entry.replace(f"${{{PLUGIN_ROOT}}}/", "./"))
        return None if path.startswith(("/", "..")) else path

    def _add_skills(self, folder: str) -> None:
        """Add the skills in a folder, which may be one itself."""
        for path in self._files:
            above, _, file = path.rpartition("/")
            if file == "SKILL.md" and above and folder in (above, posixpath.dirname(above), "."):
                parts = {name: data for name, data in self._files.items() if name.startswith(f"{above}/")}
                self._add_guide("skill", posixpath.basename(above), path, parts)

    def _add_texts(self, kind: str, place: str) -> None:
        """Add the commands or agents in a folder, or the one that is a file."""
        for path, data in self._files.items():
            if path.endswith(".md") and (path == place or path.startswith(f"{place}/")):
                above = posixpath.dirname(path) if path == place else place
                name = path[len(above) :].strip("/").removesuffix(".md").replace("/", ":")
                self._add_guide(kind, name, path, {path: data})

    def _add_guide(self, kind: str, name: str, path: str, parts: Mapping[str, bytes]) -> None:
        if PLUGIN_ROOT.encode() in self._files[path]:
            parts = {**parts, "": self._all}
        item = TrustItem(kind, name, parts, path)
        if self._items.setdefault(item.key, item).file != path:
            self._left_out.append(f"{one_line(path)}: another {kind} has this name")

    def _add_hooks(self, location: str, data: bytes) -> None:
        hooks, left_out = read_hooks(data)
        self._left_out += [f"{location} {why}" for why in left_out]
        if not hooks and not left_out:
            self._left_out.append(f"{location}: contains no hooks")
        for event, matcher, hook in hooks:
            name = " ".join(filter(None, (event, matcher, command_line(hook) or json.dumps(hook, sort_keys=True))))
            self._add_program("hook", one_line(name), (event, matcher, hook))

    def _add_servers(self, location: str, data: bytes) -> None:
        value = read_json(data)
        servers = value.get("mcpServers", value) if isinstance(value, dict) else None
        if not isinstance(servers, dict):
            self._left_out.append(f"{location}: the servers must be an object")
            return
        for name, entry in servers.items():
            self._add_program("server", one_line(str(name)), entry)
            if unread := describe_unread(entry):
                self._left_out.append(f"server {one_line(str(name))}: {unread}")

    def _add_program(self, kind: str, name: str, definition: Any) -> None:
        text = json.dumps(definition, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
        item = TrustItem(kind, name, {DEFINITION: text, "": self._all}, DEFINITION)
        self._items.setdefault(item.key, item)

    def _name_others(self) -> None:
        folders = {path.partition("/")[0] for path in self._files if "/" in path}
        unsupported = [label for key, label in NOT_READ.items() if key in folders or self._manifest.get(key)]
        unsupported += [label for path, label in OTHER_FILES.items() if path in self._files]
        keys = [key for key in self._manifest if key not in (*PARTS, *NOT_READ, *DESCRIBES, LISTED)]
        unsupported += [f"{name_first(keys, MAX_NAMED)} in the manifest"] if keys else []
        texts = {path: data.decode("latin-1") for path, data in self._files.items()}
        for sign in sorted({*UNSET.findall("\n".join(texts.values()))}):
            unsupported.append(
                f"{sign} in {name_first([path for path, text in texts.items() if sign in text], MAX_NAMED)}"
            )
        self._left_out += [f"{one_line(label)}: not supported" for label in dict.fromkeys(unsupported)]
