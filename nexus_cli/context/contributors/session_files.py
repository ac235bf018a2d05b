"""The files of the session with their state (seed E), as far as the window cannot tell: those that changed on disk
since they were last seen, and those of which nothing is in the window any more. A section for each, so that one file
is told without the others."""

from __future__ import annotations

import asyncio

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.section import Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.paths import project

CHANGED, HIDDEN = 6, 10
"""Files of each kind that are named at most, the newest first; how many more there are is not said: it would change
with every turn."""
LONGEST = 80
"""Characters of a path."""


async def read(sources: Sources) -> Value:
    """One record per file that there is something to say of: `path`, `how`, `disk`, `moment`, `hidden`."""
    root = project(sources.cwd)
    found = await asyncio.to_thread(sources.files)
    told = [one for one in found if one.disk != "same" or one.hidden]
    return [
        {
            "path": _path(one.path, f"{root}/"),
            "how": one.how,
            "disk": one.disk,
            "moment": one_line(one.moment),
            "hidden": one.hidden,
        }
        for one in told
    ]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """`File src/a.py: changed on disk at 14:35:12, after you last saw it`; `File b.py: read earlier, out of sight`."""
    altered = [one for one in value if one["disk"] != "same"][:CHANGED]
    hidden = [one for one in value if one["disk"] == "same"][:HIDDEN]
    return tuple(
        Section(
            f"session_files.{one['path']}",
            Phase.MEMORY + 50,
            (f"File {one['path']}: {_state(one)}",),
            Layer.EVENT,
            priority=78,
            weight=1.0 if one["disk"] != "same" else 0.5,
            source=one["path"],
        )
        for one in (*altered, *hidden)
    )


def _state(one: Value) -> str:
    match one["disk"]:
        case "gone":
            return "no longer there"
        case "changed":
            return f"changed on disk at {one['moment']}, after you last saw it"
        case _:
            return f"{one['how']} earlier, its text is out of sight"


def _path(path: str, root: str) -> str:
    """Relative to the project where it lies in it; on one line, its end where it is long."""
    line = one_line(path.removeprefix(root))
    return line if len(line) <= LONGEST else "..." + line[-LONGEST:]


CONTRIBUTOR = Contributor("session_files", Layer.EVENT, read, render)
