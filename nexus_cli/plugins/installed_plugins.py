"""Read the installed plugins: copies of folders in the data folder, and the record of the items that were accepted.

`plugins/NAME` is the copy, `plugins.json` the record: the source, and the hash of each accepted item. An item whose
hash differs from the record is not in effect. Without plugins the only cost is one attempt to open the record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nexus_cli.config.paths import places
from nexus_cli.config.record_file import RecordFile
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.version_memo import read_version
from nexus_cli.core.wire import as_table

if TYPE_CHECKING:
    from nexus_cli.config.trust_items import TrustItem
    from nexus_cli.plugins.plugin_folder import PluginFolder

ItemState = Literal["active", "off", "changed", "new", "removed"]
"""`active`: as it was accepted. `off`: not accepted. `changed`, `new`, `removed`: different from what was accepted."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A folder of the disk, or a folder in a commit of a repository."""

    place: str
    """An absolute path, or the address of a repository."""
    commit: str = ""
    inner: str = ""
    """The folder in it, or the plugin of a marketplace; "" for its root."""
    ref: str = ""
    """A branch or tag whose commit has to be found first."""

    @property
    def text(self) -> str:
        """Return the source as it is typed."""
        version = f"@{self.commit or self.ref}" if self.commit or self.ref else ""
        return f"{self.place}{version}{f':{self.inner}' if self.inner else ''}"


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin on record, and its copy as it is now."""

    name: str
    source: PluginSource
    accepted: Mapping[str, str]
    """Hashes of the accepted items by key."""
    folder: PluginFolder | None = field(repr=False)
    problem: str = ""
    """Why nothing of it is in effect; else ""."""
    update_source: PluginSource = PluginSource("")
    """The source as the person named it, perhaps with a branch or tag: where an update looks."""

    @property
    def root(self) -> Path:
        """Return the folder of the copy."""
        return plugins_root() / self.name

    def state(self, item: TrustItem) -> ItemState:
        """Return the state of an item of the copy."""
        accepted_hash = self.accepted.get(item.key)
        return "off" if accepted_hash is None else "active" if accepted_hash == item.sha256 else "changed"

    def items(self, *kinds: str) -> list[tuple[TrustItem, ItemState]]:
        """Return the items of these kinds with their states."""
        items = self.folder.items.values() if self.folder else ()
        return [(item, self.state(item)) for item in items if item.kind in kinds]

    @property
    def changed(self) -> list[str]:
        """Return the keys of the accepted items that are not in effect, because the copy was changed."""
        items = self.folder.items if self.folder else {}
        return [key for key in self.accepted if key not in items or self.state(items[key]) != "active"]

    def describe_change(self) -> str:
        """Return one line if something of it was in effect and is not any more, else ""."""
        if self.problem:
            return f"plugin {self.name} is off: {self.problem}"
        if not self.changed:
            return ""
        changed = f"plugin {self.name} was changed after you accepted it; disabled: {name_first(self.changed, 3)}"
        return f"{changed}. Run `nexus plugin update {self.name}`"


def plugins_root() -> Path:
    """Return the folder of the installed plugins."""
    return places().data / "plugins"


MAX_CACHED_COPIES = 512
"""Most copies whose content is held: a person may have a whole marketplace, which each look would read again."""
PLUGIN_RECORD = RecordFile("plugins.json", "plugins")
"""The installed plugins by name, each with its source and the hashes of the accepted items."""
switched_off: list[bool] = []
"""Not empty: no plugin takes effect in this process (`--no-plugins`)."""


def has_plugins() -> bool:
    """Return True if there is a record of plugin folders, and it is in effect."""
    return not switched_off and os.path.exists(PLUGIN_RECORD.path)  # also False in a folder that cannot be read


def installed_plugins() -> list[InstalledPlugin]:
    """Read the installed plugins, by name; none with `--no-plugins`. Never raises."""
    if not has_plugins():
        return []
    return [_read_installed(name, record) for name, record in sorted(PLUGIN_RECORD.read_items().items())]


def find_plugin(name: str) -> InstalledPlugin:
    """Return an installed plugin; raise `UsageError` if there is none of this name."""
    records = PLUGIN_RECORD.read_items()
    if name not in records:
        installed = f"Installed: {', '.join(records)}" if records else "No plugin is installed"
        raise UsageError(f"plugin '{name[:80]}'", "not installed", suggest_name(name, records, installed))
    return _read_installed(name, records[name])


def _read_installed(name: str, record: JsonObject) -> InstalledPlugin:
    root = plugins_root() / name
    folder, why = _read_copy(root, _stamp(root))
    problem = f"{why}; run `nexus plugin update {name}`" if why else ""
    source = PluginSource(*(str(record.get(key, "")) for key in ("source", "commit", "inner")))
    items = record.get("items")
    if isinstance(table := record.get("named"), dict):
        named_source = PluginSource(*(str(table.get(key, "")) for key in ("place", "commit", "inner", "ref")))
    else:
        named_source = source
    return InstalledPlugin(name, source, as_table(items), folder, problem, named_source)


@lru_cache(MAX_CACHED_COPIES)
def _read_copy(root: Path, stamp: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[PluginFolder | None, str]:
    """Return the content of a copy, or the reason that it cannot be read; read it again if its stamp has changed."""
    from nexus_cli.plugins.plugin_folder import read_plugin  # noqa: PLC0415  (few people have plugins)

    try:
        return read_plugin(root, frozenset()), ""
    except NexusError as error:
        return None, error.why


def _stamp(root: Path) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return path and version of every file: a read of all bytes for each use in a turn would take 8 ms for a plugin of
    12 files."""
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return tuple((path, read_version(path)) for path in paths)
