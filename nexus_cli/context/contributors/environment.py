"""Where the model works: folder, project, operating system, shell. What changes during a session is not here: the
system text stays as it was sent until the next epoch."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.section import Layer, Phase, Section
from nexus_cli.context.sysinfo import one_line, operating_system
from nexus_cli.core.paths import project, repository

SLOT = 20
"""Behind the instructions, as in seed A."""


async def read(sources: Sources) -> Value:
    """The record of this place: `cwd`, `project`, `git`, `system`, `shell`."""
    return await asyncio.to_thread(_look, sources)


def _look(sources: Sources) -> dict[str, Any]:
    host = sources.host()
    return {
        "cwd": one_line(str(sources.cwd)),
        "project": one_line(str(project(sources.cwd))),
        "git": repository(sources.cwd) is not None,
        "system": operating_system(host),
        "shell": one_line(os.path.basename(host.environ.get("SHELL", ""))),
    }


def render(value: Value, view: View) -> tuple[Section, ...]:
    """One section; the project stands in it where it is not the working folder."""
    lines = ["# Environment", f"Working directory: {value['cwd']}"]
    if value["project"] != value["cwd"]:
        lines.append(f"Project: {value['project']}")
    lines += [f"Git repository: {'yes' if value['git'] else 'no'}", f"Operating system: {value['system']}"]
    if value["shell"]:
        lines.append(f"Shell: {value['shell']}")
    order = Phase.CONSTRAINT + SLOT
    text = "\n".join(lines)
    return (Section("environment", order, (text,), Layer.SYSTEM, priority=94, sticky=True, source="this machine"),)


CONTRIBUTOR = Contributor("environment", Layer.SYSTEM, read, render)
