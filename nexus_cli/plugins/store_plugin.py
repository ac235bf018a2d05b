"""Store and remove the copy of a plugin, and record what the person accepted of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

from nexus_cli.config.paths import private_dir
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import UsageError
from nexus_cli.plugins.installed_plugins import PLUGIN_RECORD, PluginSource, plugins_root
from nexus_cli.plugins.plugin_folder import PluginFolder


def store_plugin(
    plugin: PluginFolder, source: PluginSource, keys: Iterable[str], named_source: PluginSource, *, is_new: bool = False
) -> None:
    """Copy a plugin, replacing an earlier copy, and record its source and what is accepted of it.

    `source` has the commit that was fetched, `named_source` is what the person named.

    Raises `NexusError`: `internal` if it cannot be written, `usage` if it `is_new` and another process has meanwhile
    added one of its name.
    """
    root, draft = plugins_root() / plugin.name, plugins_root() / f".{os.urandom(8).hex()}"
    accepted = {key: plugin.items[key].sha256 for key in keys}
    with PLUGIN_RECORD.change() as records:
        if is_new and plugin.name in records:
            raise UsageError(
                f"plugin {plugin.name}",
                "a plugin with this name is already installed",
                "See `nexus plugin list`",
            )
        for leftover in plugins_root().glob(".*"):  # drafts of processes that were killed
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            for name, data in plugin.files.items():
                path = draft / name
                private_dir(path.parent)
                path.write_bytes(data)
                path.chmod(0o500 if name in plugin.programs else 0o400)
            shutil.rmtree(root, ignore_errors=True)
            draft.rename(root)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        records[plugin.name] = {
            "source": source.place,
            "commit": source.commit,
            "inner": source.inner,
            "named": asdict(named_source),
            "at": utc_now(),
            "items": accepted,
        }


def remove_plugin(name: str) -> None:
    """Remove a plugin that is on record: its copy and what was accepted. Raises as `store_plugin`."""
    with PLUGIN_RECORD.change() as records:
        records.pop(name, None)
        with suppress(FileNotFoundError):
            shutil.rmtree(plugins_root() / name)
        if not records:
            with suppress(OSError):
                plugins_root().rmdir()
