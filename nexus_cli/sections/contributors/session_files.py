"""The files of the session that changed on disk since they were last seen. Each of the newest has its own section, so
that one file can be reported without the others; one more section names the rest. Files that the window no longer shows
are in the record of the work, which every summary and every cut keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.paths import project_root
from nexus_cli.core.elide import one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

ALONE = 6
"""Most files with their own section, newest first."""
LONGEST = 80
"""Most characters of a path."""
MOST = 8_000_000
"""Most characters of the value, for some ten thousand files."""


def read(sources: Sources) -> Value:
    """Return one record per changed file: `path`, `disk`, `moment`."""
    root = project_root(sources.cwd)
    altered = [file for file in sources.files() if file.disk != "same"]
    return [
        {"path": _path(seen_file.path, f"{root}/"), "disk": seen_file.disk, "moment": one_line(seen_file.moment)}
        for seen_file in altered
    ]


def render(value: Value, view: View) -> Sections:
    """Render `[nexus: file src/a.py: changed on disk at 14:35:12, after you last saw it]` for each of the newest, and
    `[nexus: also changed on disk after you last saw them: c.py, d.py]`."""
    alone = (_section(file["path"], (f"[nexus: {_line(file)}]",), file["path"]) for file in value[:ALONE])
    return (*alone, *_render_unlisted(value[ALONE:], view))


def _section(name: str, forms: tuple[str, ...], source: str) -> Section:
    order = Phase.MEMORY + 50
    return Section(f"session_files.{name}", order, forms, Layer.EVENT, priority=78, source=source)


def _render_unlisted(files: Sequence[Value], view: View) -> Sections:
    """Return one section for the files without their own: their names, or only their number if these take too much; the
    complete list is its drop."""
    if not files:
        return ()
    number = plural(len(files), "more file")
    listed = ", ".join(map(_name, files))
    names = f'[nexus: also changed on disk after you last saw them: {listed}; times: recall("{DROP}")]'
    pointer = f'[nexus: {number} changed on disk after you last saw them: recall("{DROP}") names them]'
    forms = ("\n".join(map(_line, files)), *shrink_forms((names, pointer), view.count))
    return (replace(_section("more_changed", forms, number), least=1),)


def _name(file: Value) -> str:
    return f"{file['path']} (gone)" if file["disk"] == "gone" else str(file["path"])


def _line(file: Value) -> str:
    is_deleted = file["disk"] == "gone"
    state = "no longer there" if is_deleted else f"changed on disk at {file['moment']}, after you last saw it"
    return f"file {file['path']}: {state}"


def _path(path: str, root: str) -> str:
    """Return the path relative to the project if it is inside; on one line, and only the end of a long one."""
    line = one_line(path.removeprefix(root))
    return line if len(line) <= LONGEST else "..." + line[-LONGEST:]


CONTRIBUTORS = (Contributor("session_files", Layer.EVENT, read, render, most=MOST),)
