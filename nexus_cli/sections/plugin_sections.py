"""The contributors of Python plugins, and a section `recall.PLUGIN` for each plugin that is a memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from nexus_cli.core.elide import one_line
from nexus_cli.plugins.python_plugins import PythonPlugin, admit_objects, python_plugins
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

MAX_LINES, LONGEST_LINE = 20, 500
"""Most lines that a memory may add, and most characters of one."""
_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")


def plugin_contributors(reserved_ids: Collection[str]) -> Mapping[str, Contributor]:
    """Return the contributors by id, without those whose id is `reserved_ids`. Their text is never taken for ours."""
    admitted = admit_objects("contributors", _is_valid, lambda contributor: (contributor.id,), reserved_ids)
    contributors = {name: replace(contributor, verbatim=False) for name, (contributor, _) in admitted.items()}
    for plugin in python_plugins():
        if plugin.has("nexus_recall"):
            name = f"recall.{plugin.entry.name}"
            contributors[name] = Contributor(
                name, Layer.EVENT, partial(_recall, plugin), partial(_render, name, plugin.entry.package)
            )
    return contributors


def _is_valid(contributor: Any) -> bool:
    return isinstance(contributor, Contributor) and bool(_ID.fullmatch(contributor.id))


def _recall(plugin: PythonPlugin, sources: Sources) -> Value:
    topic = sources.about()
    results = plugin.call("nexus_recall", project=str(sources.cwd), about=topic) if topic and plugin.manager else None
    if plugin.manager is None:
        raise RuntimeError(plugin.problems[-1])  # the reader names it once
    lines = [contributor for result in results or () for contributor in result]
    return [one_line(str(line))[:LONGEST_LINE] for line in lines[:MAX_LINES]]


def _render(name: str, package: str, value: Value, view: View) -> Sections:
    text = "\n".join(f"- {line}" for line in value if line.strip())
    if not text:
        return ()
    return (Section(name, Phase.MEMORY + 70, (text,), Layer.EVENT, priority=40, source=f"plugin {package}"),)
