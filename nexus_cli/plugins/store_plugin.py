"""Store and remove the copy of a plugin, and record what the person accepted of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import private_dir
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.plugins.installed_plugins import PluginSource, plugin_record_path, plugins_root, read_record
from nexus_cli.plugins.plugin_folder import PluginFolder

WAIT = 10.0
"""Seconds to wait for another process's change of the record."""


def store_plugin(plugin: PluginFolder, source: PluginSource, keys: Iterable[str], *, is_new: bool = False) -> None:
    """Copy a plugin, replacing an earlier copy, and record its source and the accepted items.

    Raises `NexusError`: `internal` if it cannot be written, `usage` if it `is_new` and another process has meanwhile
    added one of its name.
    """
    root, draft = plugins_root() / plugin.name, plugins_root() / f".{os.urandom(8).hex()}"
    accepted = {key: plugin.items[key].sha256 for key in keys}
    with _change_record() as known:
        if is_new and plugin.name in known:
            raise NexusError(
                "usage",
                f"plugin {plugin.name}",
                "a plugin with this name is already installed",
                "Try nexus plugin list",
            )
        for left in plugins_root().glob(".*"):  # drafts of processes that were killed
            shutil.rmtree(left, ignore_errors=True)
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
        known[plugin.name] = {
            "source": source.place,
            "commit": source.commit,
            "inner": source.inner,
            "at": format_utc(local_now()),
            "items": accepted,
        }


def remove_plugin(name: str) -> None:
    """Remove a plugin that is on record: its copy and what was accepted. Raises as `store_plugin`."""
    with _change_record() as known:
        known.pop(name, None)
        with suppress(FileNotFoundError):
            shutil.rmtree(plugins_root() / name)


@contextmanager
def _change_record() -> Iterator[dict[str, Any]]:
    """Lock the record, yield it for changes, and replace it atomically; remove it with its folder once it is empty."""
    path = plugin_record_path()
    with named_write_errors(path), FileLock.wait_for(path.with_name("trust.lock"), WAIT):
        known = read_record()
        yield known
        if known:
            replace_private_file(path, (json.dumps({"version": 1, "plugins": known}, indent=1) + "\n").encode())
        else:
            path.unlink(missing_ok=True)
            with suppress(OSError):
                plugins_root().rmdir()
