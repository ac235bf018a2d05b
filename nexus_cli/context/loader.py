"""Seed A's many-layer form: instructions, settings and MCP servers of the global folder, the ancestors, the folder.

Reads and merges only; the settings interpret and check the values. The caller decides on trust: the `.nexus` files of
an untrusted project are listed, and not even opened.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from nexus_cli.config.paths import defaults_dir, home_folder, places, project_root
from nexus_cli.config.text_file import read_text
from nexus_cli.config.unasked_files import UnaskedFiles
from nexus_cli.context.prompt_loader import (
    FirstPrompt,
    PromptLoader,
    first_prompt,
    foreign_sources,
)
from nexus_cli.context.sysinfo import get_system_info, working_folder
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject, is_number, parse_nested
from nexus_cli.core.limits import ASK, LEVELS, parse_level
from nexus_cli.core.shared_types import Paths

Name = Literal["global", "ancestor", "local"]
TITLES: Mapping[str, str] = {"global": "Global", "ancestor": "Ancestor", "local": "Project"}


@dataclass(frozen=True, slots=True)
class ContextLayer:
    """The instructions and settings of one folder."""

    name: Name
    folder: Path
    path: Path | None = None
    """The instruction file, None when the folder has none."""
    text: str = ""
    """Its text without blank lines around it."""
    notice: str = ""
    """One line for the person about its encoding, or about ignored files; else ""."""
    config_path: Path | None = None
    """The `config.toml` that was read."""
    config: Mapping[str, Any] = field(default_factory=dict)
    mcp_path: Path | None = None
    """The `mcp.json` that was read."""
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ignored: Paths = ()
    """Existing files that are ignored: the project is not trusted, or they are outside of it."""
    beyond: int = 0
    """Bytes of the instruction file that were not read."""
    part: str = ""
    """Name of an imported file or a rule in this folder, which is a layer of its own; "" for the instruction file."""

    @property
    def header(self) -> str:
        """The header of its section; has the folder, which the packaged instructions lack."""
        place = "built in" if self.folder == defaults_dir() else one_line(str(self.path if self.part else self.folder))
        return f"# {TITLES[self.name]} Configuration ({place})"

    @property
    def files(self) -> Paths:
        """The files that were used."""
        return tuple(path for path in (self.path, self.config_path, self.mcp_path) if path is not None)


@dataclass(frozen=True, slots=True)
class ContextSources:
    """Sources of a `LoadedContext`; layers without any file are left out."""

    layers: tuple[ContextLayer, ...] = ()
    """Global, ancestors from the repository's root downwards, local."""

    @property
    def files(self) -> Paths:
        """Every file that was used, in order."""
        return tuple(path for layer in self.layers for path in layer.files)

    @property
    def ignored(self) -> Paths:
        """All existing files that are ignored."""
        return tuple(path for layer in self.layers for path in layer.ignored)

    @property
    def global_layer(self) -> ContextLayer | None:
        """The layer of the global folder."""
        return next((layer for layer in self.layers if layer.name == "global"), None)

    @property
    def ancestors(self) -> tuple[ContextLayer, ...]:
        """The layers between the repository's root and the folder."""
        return tuple(layer for layer in self.layers if layer.name == "ancestor")

    @property
    def local(self) -> ContextLayer | None:
        """The layer of the folder itself."""
        return next((layer for layer in self.layers if layer.name == "local"), None)


@dataclass(frozen=True, slots=True)
class LoadedContext:
    """The result of `ContextLoader.load`."""

    system_prompt: str
    """The instruction layers and the environment, each under its header, one blank line between them."""
    config: Mapping[str, Any]
    """The merged `config.toml` tables; the later layer wins, but a project only tightens what is permitted."""
    mcp_servers: Mapping[str, Mapping[str, Any]]
    """Servers by name; the later layer wins."""
    sources: ContextSources
    notices: tuple[str, ...] = ()
    """Notes for the person about unusual instruction files: encodings, dangling links, folders, pipes."""


class ContextLoader:
    """The loader of the layers of one folder."""

    def __init__(self, cwd: Path | None = None, *, trusted: bool = False) -> None:
        """Initialize; `cwd` defaults to the current folder; `trusted` enables a project's `.nexus` files."""
        self._cwd = Path(cwd) if cwd is not None else working_folder()
        self._trusted = trusted

    def load(self, is_repl: bool = True) -> LoadedContext:
        """Read everything again. Raises `NexusError("config", ...)` with the name of a broken file."""
        layers = [_add_configuration(layer, trusted=self._trusted) for layer in load_layers(self._cwd)]
        used = tuple(layer for layer in layers if layer.files or layer.ignored)
        config: JsonObject = {}
        servers: dict[str, JsonObject] = {}
        for layer in used:
            merged = merge(config, layer.config)
            config = merged if layer.name == "global" else tighten_settings(config, merged)
            servers.update(layer.mcp_servers)
        sections = [f"{layer.header}\n{layer.text}" for layer in used if layer.text]
        notices = tuple(layer.notice for layer in layers if layer.notice)
        sections.append(f"# Environment\n{get_system_info(is_repl, self._cwd)}")
        return LoadedContext("\n\n".join(sections), config, servers, ContextSources(used), notices)


def merge(base: JsonObject, over: JsonObject) -> JsonObject:
    """Return `base` with the values of `over`; tables are merged key by key, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def tighten_settings(base: JsonObject, merged: JsonObject) -> JsonObject:
    """Return `merged` with `allow` and the numbers under `limits` never looser than in `base` (law 7)."""
    result = dict(merged)
    if "allow" in result:
        levels = [parse_level(str(text)) for text in (base.get("allow", ASK), result["allow"])]
        if all(level in LEVELS for level in levels):
            result["allow"] = min(levels, key=LEVELS.index)
    old, new = base.get("limits"), result.get("limits")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        numbers = {
            key: min(value, new[key]) for key, value in old.items() if is_number(value) and is_number(new.get(key))
        }
        result["limits"] = {**new, **numbers}
    return result


def load_layers(cwd: Path | None, *, for_session: bool = False, gate: UnaskedFiles | None = None) -> list[ContextLayer]:
    """Return every layer of `cwd` from the outermost to the innermost, with its instructions.

    The files of the project pass its `gate`. Raises `NexusError("config", ...)` for an unreadable file. For a session
    an unreadable file is left out with a notice, and a folder without instructions for us has those for other agents
    (`FOREIGN_FILES`), with a notice that names them.
    """
    config = places().config
    layers = [_layer("global", config, PromptLoader(skips=for_session).load_personal())]
    if cwd is None:
        return layers
    local = Path(cwd).absolute().resolve()
    root, home, config_folder = project_root(local), Path(os.path.realpath(home_folder())), config.absolute().resolve()
    outer = [folder for folder in reversed(local.parents) if folder.is_relative_to(root) and folder != home]
    gate = gate or UnaskedFiles(root)
    for folder in (path for path in (*outer, local) if path != config_folder):
        name: Name = "local" if folder == local else "ancestor"
        layers.append(load_folder(folder, gate, name, for_session=for_session))
    return layers


def load_folder(folder: Path, gate: UnaskedFiles, name: Name = "local", *, for_session: bool = True) -> ContextLayer:
    """Return the layer of one folder of a project (see `load_layers`). Instructions for other agents come with a notice
    that has the name of their file."""
    layer = _layer(name, folder, PromptLoader(folder=folder, gate=gate, skips=for_session).load_project())
    if for_session and not layer.text and (foreign := foreign_sources(folder, gate)):
        layer = _layer(name, folder, first_prompt(foreign))
        if layer.path:
            file = f"{one_line(os.path.relpath(layer.path, folder))} in {one_line(str(folder))}"
            notice = f"{file} is used as instructions; a NEXUS.md there would replace it"
            return replace(layer, notice="; ".join(filter(None, (notice, layer.notice))))
    return layer


def _layer(name: Name, folder: Path, first: FirstPrompt) -> ContextLayer:
    """Return the layer with a prompt. Files that the gate of the project refused are ignored (law 7)."""
    text, path, files = first
    home = path.parent if path and name == "global" else folder
    notice = "; ".join(file.notice for file in files if file.notice)
    ignored = tuple(file.path for file in files if file.is_refused)
    return ContextLayer(name, home, path, text, notice, ignored=ignored, beyond=files[-1].beyond if text else 0)


def _add_configuration(layer: ContextLayer, *, trusted: bool) -> ContextLayer:
    """Return `layer` with its settings and servers, or with the names of ignored ones."""
    folder = places().config if layer.name == "global" else layer.folder / ".nexus"
    settings, servers = folder / "config.toml", folder / "mcp.json"
    if layer.name != "global" and not trusted:
        paths = (path for path in (settings, servers) if os.path.isfile(path))
        return replace(layer, ignored=(*layer.ignored, *paths))
    config = _parse_file(settings, _toml)
    table = _parse_file(servers, parse_servers)
    notices = [layer.notice]
    if table == {} and "servers" in (_parse_file(servers, json.loads) or {}):
        notices.append(f'{one_line(str(servers))} uses the VS Code key "servers"; nexus reads only "mcpServers"')
    return replace(
        layer,
        notice="; ".join(filter(None, notices)),
        config_path=settings if config is not None else None,
        config=config or {},
        mcp_path=servers if table is not None else None,
        mcp_servers=table or {},
    )


def _parse_file(path: Path, parse: Callable[[str], JsonObject]) -> JsonObject | None:
    file_text = read_text(path)
    if file_text is None:
        return None
    try:
        return parse(file_text.text) if file_text.text.strip() else {}
    except ValueError as error:
        raise NexusError("config", one_line(str(path)), str(error), "Correct the file or move it away") from error


def _toml(text: str) -> JsonObject:
    return parse_nested(tomllib.loads, text.replace("\r\n", "\n"))


def parse_servers(text: str) -> JsonObject:
    """Return the servers of `{"mcpServers": {NAME: {...}}}`; raise `ValueError` with the reason if it is invalid."""
    value = parse_nested(json.loads, text)
    if not isinstance(value, dict):
        raise ValueError('it must be an object like {"mcpServers": {"name": {"command": "..."}}}')
    servers = value.get("mcpServers", {})
    if not isinstance(servers, dict):
        raise ValueError('"mcpServers" must be an object')
    for name, server in servers.items():
        if not isinstance(server, dict):
            raise ValueError(f'the server "{name}" must be an object')
    return servers
