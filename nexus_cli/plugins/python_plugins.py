"""Load Python plugins: entry points of the group `nexus.plugins`, whose hooks return what our registries hold.

A plugin that cannot be loaded, or takes too long, is named and left out; so is an object with a name of ours, or of an
earlier plugin. Without a plugin nothing is imported: the entry points are found by their files, because
`importlib.metadata` takes 50 ms.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from nexus_cli.config.record_file import TRUST_RECORD
from nexus_cli.core.elide import one_line
from nexus_cli.core.shared_types import T
from nexus_cli.plugins.installed_plugins import PLUGIN_RECORD, installed_plugins, switched_off

GROUP = "nexus.plugins"
SECONDS = 5.0
"""Time limit of the import of a plugin with the hooks that are called once."""
HOOK_SECONDS = 0.5
"""Time limit of a hook that is called again and again."""
OBJECTS = ("tools", "commands", "contributors", "checks")
"""Kinds of objects, each with a hook `nexus_KIND`."""
MAX_BYTES = 256 * 1024
"""Most bytes of a file of entry points."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point as its package declares it."""

    name: str
    target: str
    """`MODULE` or `MODULE:OBJECT`."""
    package: str
    """Name and version of the package: `example-1.0`."""


@dataclass(slots=True)
class PythonPlugin:
    """A plugin that was loaded, or could not be."""

    entry: EntryPoint
    manager: Any = None
    """The plugin manager of pluggy with this plugin alone; None if it is left out."""
    objects: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """What its hooks returned, by kind."""
    problems: list[str] = field(default_factory=list)
    """One line for each thing that is left out."""

    def has(self, hook: str) -> bool:
        """Return True if it implements a hook that is called again and again, and is not off."""
        return self.manager is not None and bool(getattr(self.manager.hook, hook).get_hookimpls())

    def call(self, hook: str, **arguments: Any) -> Any:
        """Return the result of such a hook; None if it fails or takes too long, and then it is never called again."""
        try:
            return call_bounded(lambda: getattr(self.manager.hook, hook)(**arguments), HOOK_SECONDS)
        except BaseException as error:  # foreign code may raise anything
            self.manager = None
            self.problems.append(f"plugin {self.entry.name}: {hook} {describe_error(error)}; plugin disabled")
            return None


@cache
def python_plugins() -> tuple[PythonPlugin, ...]:
    """Load the plugins, by name; () with `--no-plugins`. The first call may take `SECONDS` for each."""
    if switched_off:
        return ()
    plugins: dict[str, PythonPlugin] = {}
    for entry in find_entry_points():
        if entry.name not in plugins:
            plugins[entry.name] = _load(entry)
        elif plugins[entry.name].entry.package != entry.package:
            line = f"plugin {entry.name} of {entry.package} is skipped: another plugin has this name"
            plugins[entry.name].problems.append(line)
    return tuple(plugins[name] for name in sorted(plugins))


def describe_problems() -> list[str]:
    """Return a line for each record that cannot be read, for each plugin folder that was changed, and for each thing of
    a Python plugin that was left out until now."""
    lines = [TRUST_RECORD.describe_problem("no project is trusted until you repair or remove it")]
    if not switched_off:
        lines.append(PLUGIN_RECORD.describe_problem("no plugin is in effect until you repair or remove it"))
    lines += [installed.describe_change() for installed in installed_plugins()]
    return [*filter(None, lines), *(problem for plugin in python_plugins() for problem in plugin.problems)]


def find_entry_points() -> Iterator[EntryPoint]:
    """Yield the entry points of our group in the folders of `sys.path`, in their order."""
    for folder in dict.fromkeys(filter(os.path.isabs, sys.path)):
        with suppress(OSError), os.scandir(folder) as entries:
            packages = sorted(entry.name for entry in entries if entry.name.endswith((".dist-info", ".egg-info")))
            for package in packages:
                try:
                    with open(f"{folder}/{package}/entry_points.txt", "rb") as file:
                        data = file.read(MAX_BYTES)
                except OSError:
                    continue
                if GROUP.encode() in data:
                    yield from _parse_entry_points(data, package.rpartition(".")[0])


def _parse_entry_points(data: bytes, package: str) -> Iterator[EntryPoint]:
    import configparser  # noqa: PLC0415  (few packages have plugins)

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    try:
        parser.read_string(data.decode("utf-8"))
    except (ValueError, configparser.Error):
        return
    for name, target in parser.items(GROUP) if parser.has_section(GROUP) else ():
        yield EntryPoint(one_line(name)[:64], target.partition("[")[0].strip(), one_line(package))


def _load(entry: EntryPoint) -> PythonPlugin:
    """Return a plugin with its objects, or with the reason that it has none."""
    import_module("nexus_cli.plugins.hook_specs")  # with pluggy: it is not the plugin that takes this time
    try:
        with redirect_stdout(io.StringIO()):  # stdout is for the answer alone
            manager, objects = call_bounded(lambda: import_plugin(entry), SECONDS)
    except BaseException as error:  # foreign code may raise anything
        line = f"plugin {entry.name} ({entry.package}) {describe_error(error)}; skipped"
        return PythonPlugin(entry, problems=[line])
    return PythonPlugin(entry, manager, objects)


def import_plugin(entry: EntryPoint) -> tuple[Any, dict[str, tuple[Any, ...]]]:
    """Import a plugin and call its hooks; return pluggy's manager and the objects by kind. Raises what it raises."""
    import pluggy  # noqa: PLC0415  (only with plugins)

    from nexus_cli.plugins.hook_specs import HookSpecs  # noqa: PLC0415  (only with plugins)

    module, _, names = entry.target.partition(":")
    plugin: Any = import_module(module)
    for name in filter(None, names.split(".")):
        plugin = getattr(plugin, name)
    manager = pluggy.PluginManager("nexus")
    manager.add_hookspecs(HookSpecs)
    manager.register(plugin() if isinstance(plugin, type) else plugin)
    manager.check_pending()
    hooks = {kind: getattr(manager.hook, f"nexus_{kind}") for kind in OBJECTS}
    return manager, {
        kind: tuple(plugin_object for objects in hook() for plugin_object in objects) for kind, hook in hooks.items()
    }


_admitted: dict[str, dict[str, tuple[Any, PythonPlugin]]] = {}


def admit_objects(
    kind: str,
    is_valid: Callable[[Any], bool],
    name_of: Callable[[Any], Collection[str]],
    reserved_names: Collection[str],
) -> Mapping[str, tuple[Any, PythonPlugin]]:
    """Return the objects of a kind by name with their plugins, without taken or invalid names, which are recorded."""
    if kind in _admitted or not python_plugins():
        return _admitted.get(kind, {})
    admitted: dict[str, tuple[Any, PythonPlugin]] = {}
    used_names = set(reserved_names)
    for plugin in python_plugins():
        chosen: list[Any] = []
        for candidate in plugin.objects.get(kind, ()):
            if not is_valid(candidate):
                why = f"{one_line(repr(candidate))[:80]} is not valid"
            elif used := used_names.intersection(name_of(candidate)):
                why = f"the name {min(used)} is already taken"
            else:
                used_names.update(name_of(candidate))
                admitted[next(iter(name_of(candidate)))] = candidate, plugin
                chosen.append(candidate)
                continue
            plugin.problems.append(f"plugin {plugin.entry.name}: one of its {kind} is skipped: {why}")
        plugin.objects = {**plugin.objects, kind: tuple(chosen)}
    _admitted[kind] = admitted
    return admitted


def call_bounded(work: Callable[[], T], seconds: float) -> T:
    """Return the result of `work` in a thread, which is abandoned after `seconds`: then raise `TimeoutError`. Raises
    what `work` raises."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # handed over to the caller
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if wait([outcome], seconds).not_done:
        raise TimeoutError(f"takes longer than {seconds:g} s")
    return outcome.result()


def describe_error(error: BaseException) -> str:
    """Return a verb with the error of foreign code, on one line."""
    if isinstance(error, TimeoutError) and "takes longer" in str(error):
        return str(error)
    try:
        text = one_line(str(error))[:200]
    except Exception:  # even the text of a foreign error may fail
        text = ""
    return f"raises {type(error).__name__}{': ' * bool(text)}{text}"
