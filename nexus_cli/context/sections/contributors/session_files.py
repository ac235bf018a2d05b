"""The files of the session with their state (seed E), as far as the window does not show it: those that changed on disk
since they were last seen, and those of which nothing is in the window any more. A section for each of the newest, so
that one file is reported without the others, and one for all the others of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.paths import project_root
from nexus_cli.context.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.context.sections.identity_files import shrink_forms
from nexus_cli.context.sections.section import DROP, Layer, Phase, Section
from nexus_cli.core.elide import one_line

CHANGED, HIDDEN = 6, 10
"""Files of each kind with a section of their own, the newest first."""
LONGEST = 80
"""Characters of a path."""
MOST = 8_000_000
"""Characters for some ten thousand files."""


def read(sources: Sources) -> Value:
    """Return one record per file that there is something to say of: `path`, `how`, `disk`, `moment`, `hidden`."""
    root = project_root(sources.cwd)
    found = sources.files()
    shown = [one for one in found if one.disk != "same" or one.hidden]
    return [
        {
            "path": _path(one.path, f"{root}/"),
            "how": one.how,
            "disk": one.disk,
            "moment": one_line(one.moment),
            "hidden": one.hidden,
        }
        for one in shown
    ]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """Return `File src/a.py: changed on disk at 14:35:12, after you last saw it`; `File b.py: read earlier, out of
    sight`; and `Also changed on disk after you last saw them: c.py, d.py`."""
    altered = [one for one in value if one["disk"] != "same"]
    hidden = [one for one in value if one["disk"] == "same"]
    alone = (*altered[:CHANGED], *hidden[:HIDDEN])
    more = (*_changed_rest(altered[CHANGED:], view), *_hidden_rest(hidden[HIDDEN:], view))
    return (*(_section(one["path"], (_line(one),), one["path"], one["disk"] != "same") for one in alone), *more)


def _section(name: str, forms: tuple[str, ...], source: str, changed: bool) -> Section:
    weight = 1.0 if changed else 0.5
    order = Phase.MEMORY + 50
    return Section(f"session_files.{name}", order, forms, Layer.EVENT, priority=78, weight=weight, source=source)


def _changed_rest(rest: Sequence[Value], view: View) -> tuple[Section, ...]:
    """Return the changed files without a section of their own: their names, or their number where these need too much.
    """
    if not rest:
        return ()
    names = f'Also changed on disk after you last saw them: {", ".join(map(_name, rest))} [when: recall("{DROP}")]'
    pointer = f'[{_some(rest, "more file")} changed on disk after you last saw them: recall("{DROP}") names them]'
    return (_rest("more_changed", rest, (names, pointer), view, changed=True),)


def _hidden_rest(rest: Sequence[Value], view: View) -> tuple[Section, ...]:
    """Return the number of files out of sight without a section of their own."""
    if not rest:
        return ()
    pointer = f'[{_some(rest, "more file")} read or changed earlier, out of sight: recall("{DROP}") names them]'
    return (_rest("more_hidden", rest, (pointer,), view, changed=False),)


def _rest(name: str, rest: Sequence[Value], short: tuple[str, ...], view: View, *, changed: bool) -> Section:
    """Return one section for many files; the list of them all is its drop."""
    full = "\n".join(map(_line, rest))
    forms = (full, *shrink_forms(short, view.count))
    return replace(_section(name, forms, _some(rest, "more file"), changed), least=1)


def _some(rest: Sequence[Value], noun: str) -> str:
    return f"{len(rest):,} {noun}{'' if len(rest) == 1 else 's'}"


def _name(one: Value) -> str:
    return f"{one['path']} (gone)" if one["disk"] == "gone" else str(one["path"])


def _line(one: Value) -> str:
    return f"File {one['path']}: {_state(one)}"


def _state(one: Value) -> str:
    match one["disk"]:
        case "gone":
            return "no longer there"
        case "changed":
            return f"changed on disk at {one['moment']}, after you last saw it"
        case _:
            return f"{one['how']} earlier, its text is out of sight"


def _path(path: str, root: str) -> str:
    """Return the path relative to the project where it lies in it; on one line, its end where it is long."""
    line = one_line(path.removeprefix(root))
    return line if len(line) <= LONGEST else "..." + line[-LONGEST:]


CONTRIBUTORS = (Contributor("session_files", Layer.EVENT, read, render, most=MOST),)
