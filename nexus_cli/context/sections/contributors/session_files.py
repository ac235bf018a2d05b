"""The files of the session that changed on disk since they were last seen (seed E). A section for each of the newest,
so that one file is reported without the others, and one for all the others. Files of which the window shows nothing any
more stand in the record of the work, which every summary and every cut leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.paths import project_root
from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import shrink_forms
from nexus_cli.context.sections.section import DROP, Layer, Phase, Section
from nexus_cli.core.elide import one_line

ALONE = 6
"""Files with a section of their own, the newest first."""
LONGEST = 80
"""Characters of a path."""
MOST = 8_000_000
"""Characters for some ten thousand files."""


def read(sources: Sources) -> Value:
    """Return one record per file that is not as it was: `path`, `disk`, `moment`."""
    root = project_root(sources.cwd)
    altered = [one for one in sources.files() if one.disk != "same"]
    return [{"path": _path(one.path, f"{root}/"), "disk": one.disk, "moment": one_line(one.moment)} for one in altered]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return `[nexus: file src/a.py: changed on disk at 14:35:12, after you last saw it]` for each of the newest, and
    `[nexus: also changed on disk after you last saw them: c.py, d.py]`."""
    alone = (_section(one["path"], (f"[nexus: {_line(one)}]",), one["path"]) for one in value[:ALONE])
    return (*alone, *_rest(value[ALONE:], view))


def _section(name: str, forms: tuple[str, ...], source: str) -> Section:
    order = Phase.MEMORY + 50
    return Section(f"session_files.{name}", order, forms, Layer.EVENT, priority=78, source=source)


def _rest(rest: Sequence[Value], view: View) -> tuple[Section, ...]:
    """Return one section for the files without one of their own: their names, or their number where these need too
    much; the list of them all is its drop."""
    if not rest:
        return ()
    many = f"{len(rest):,} more file{'' if len(rest) == 1 else 's'}"
    listed = ", ".join(map(_name, rest))
    names = f'[nexus: also changed on disk after you last saw them: {listed}; when: recall("{DROP}")]'
    pointer = f'[nexus: {many} changed on disk after you last saw them: recall("{DROP}") names them]'
    forms = ("\n".join(map(_line, rest)), *shrink_forms((names, pointer), view.count))
    return (replace(_section("more_changed", forms, many), least=1),)


def _name(one: Value) -> str:
    return f"{one['path']} (gone)" if one["disk"] == "gone" else str(one["path"])


def _line(one: Value) -> str:
    gone = one["disk"] == "gone"
    state = "no longer there" if gone else f"changed on disk at {one['moment']}, after you last saw it"
    return f"file {one['path']}: {state}"


def _path(path: str, root: str) -> str:
    """Return the path relative to the project where it lies in it; on one line, its end where it is long."""
    line = one_line(path.removeprefix(root))
    return line if len(line) <= LONGEST else "..." + line[-LONGEST:]


CONTRIBUTORS = (Contributor("session_files", Layer.EVENT, read, render, most=MOST),)
