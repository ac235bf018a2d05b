"""The environment of the model: folder, project, machine, shell, package manager. Runs nothing.

Nothing here changes during a session: the system text stays the same until the next epoch.
"""

from __future__ import annotations

import os

from nexus_cli.config.paths import project_root, repository_root
from nexus_cli.context.sysinfo import operating_system
from nexus_cli.core.elide import one_line
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

SLOT = 20
"""After the instructions."""
MANAGERS = {
    "uv.lock": "uv",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "Pipfile.lock": "pipenv",
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
    "Cargo.toml": "cargo",
    "go.mod": "go",
    "Gemfile": "bundler",
    "composer.json": "composer",
    "pom.xml": "maven",
    "build.gradle": "gradle",
    "build.gradle.kts": "gradle",
}
"""Map a file at the top of a project to its package manager."""


def read(sources: Sources) -> Value:
    """Return the record of this place: `cwd`, `project`, `git`, `system`, `machine`, `shell`, `managers`, `mode`;
    `added` if there are any."""
    host, root = sources.host(), project_root(sources.cwd)
    added = list(map(one_line, map(str, sources.added())))
    return ({"added": added} if added else {}) | {
        "cwd": one_line(str(sources.cwd)),
        "project": one_line(str(root)),
        "git": repository_root(sources.cwd) is not None,
        "system": operating_system(host),
        "machine": one_line(host.machine),
        "shell": one_line(os.path.basename(host.environ.get("SHELL", ""))),
        "managers": list(dict.fromkeys(name for file, name in MANAGERS.items() if os.path.exists(root / file))),
        "mode": sources.mode,
    }


def render(value: Value, view: View) -> Sections:
    """Return one section; it names the project if that is not the working folder."""
    lines = ["# Environment", f"Working directory: {value['cwd']}"]
    if value["project"] != value["cwd"]:
        lines.append(f"Project: {value['project']}")
    if added := value.get("added"):
        lines.append(f"Added folders (work there as in the project): {', '.join(added)}")
    lines.append(f"Git repository: {'yes' if value['git'] else 'no'}")
    lines.append(f"Operating system: {', '.join(filter(None, (value['system'], value['machine'])))}")
    if value["shell"]:
        lines.append(f"Shell: {value['shell']}")
    if value["managers"]:
        lines.append(f"Package manager: {', '.join(value['managers'])}")
    if mode := value.get("mode"):
        lines.append(f"Mode: {mode}")
    order = Phase.CONSTRAINT + SLOT
    text = "\n".join(lines)
    return (Section("environment", order, (text,), Layer.SYSTEM, priority=94, sticky=True, source="this machine"),)


CONTRIBUTORS = (Contributor("environment", Layer.SYSTEM, read, render, required=True),)
