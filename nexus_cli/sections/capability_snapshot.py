"""Take the capability snapshot: tools, skills, servers, credentials. A credential is the name of a variable,
never its value. Needs no model and no network, and starts no process.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.foreign_items import KINDS, may_have_servers
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.config.trust import read_configuration, trust_state
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.core.redact_secrets import redact
from nexus_cli.guides.skills import GuideKind, Skill, find_guides
from nexus_cli.ledger import Ledger
from nexus_cli.plugins.installed_plugins import installed_plugins
from nexus_cli.plugins.python_plugins import python_plugins
from nexus_cli.provider.available_models import keys_present, keys_to_choose_from, unnamed_model
from nexus_cli.provider.endpoint import describe_bad_key
from nexus_cli.sections.find_recipe import list_recipes

if TYPE_CHECKING:
    from nexus_cli.mcp.server_values import ServerEntry

ENVIRONMENTS = frozenset(
    ".venv venv uv.lock poetry.lock .pixi .conda env conda environment.yml environment.yaml node_modules".split()
)
"""Names in a project whose environments are looked for."""


class ItemState(StrEnum):
    """The state of an item."""

    READY = "ready"
    SETUP = "needs_setup"
    BROKEN = "broken"


def _describe_environment(cwd: Path) -> str:
    root = project_root(cwd)
    if not any((folder / name).exists() for folder in {root, cwd} for name in ENVIRONMENTS):
        return ""
    from nexus_cli.config.host_environment import host_environment  # noqa: PLC0415
    from nexus_cli.config.project_environment import find_project_environment  # noqa: PLC0415

    return find_project_environment(root, cwd, host_environment(os.environ, cwd)).describe()


def snapshot(
    cwd: Path,
    settings: Settings,
    model: str,
    tools: Sequence[str],
    *,
    skills: bool = True,
    runs: bool = True,
    find: Callable[[], tuple[Sequence[Skill], int]] | None = None,
) -> JsonDict:
    """Return the part included in requests, see `sections/contributors/capabilities.py`. A broken file affects
    only its own part. Pass `skills=False` if the model cannot read any, and `runs=False` if no command can run: the
    environments of commands are left out then. `find` returns the skills and the number of inactive ones, by default
    those of `cwd`."""
    guides, inactive = (find() if find else find_guides(cwd, GuideKind.SKILL)) if skills else ((), 0)
    available = [skill for skill in guides if not skill.shadowed]
    servers, problems = _servers(cwd)
    # Only keys in the environment: commands of the model never get a stored key.
    keys = {name: os.environ[name] for name in settings.default_models if os.environ.get(name)}
    return {
        "model": model,
        "tools": list(tools),
        "skills": [
            {"name": skill.name, "description": skill.description, "origin": skill.origin}
            for skill in available
            if not skill.problem
        ],
        "environment": _describe_environment(cwd) if runs else "",
        "servers": list(servers),
        "credentials": sorted(name for name in keys_present(settings) if os.environ.get(name)),
        "capabilities": [
            _category("tools", [(name, ItemState.READY, "") for name in tools]),
            _category(
                "skills",
                [
                    *(
                        (skill.name, ItemState.BROKEN if skill.problem else ItemState.READY, skill.problem)
                        for skill in available
                    ),
                    # Only a trusted project's names are shown to the model.
                    *[("", ItemState.SETUP, "`nexus trust`")] * inactive,
                ],
            ),
            _category(
                "servers",
                [
                    *((name, ItemState.READY, "") for name in servers),
                    *(("", ItemState.BROKEN, line) for line in problems),
                ],
            ),
            _category(
                "credentials",
                [
                    (name, ItemState.BROKEN if (bad := describe_bad_key(text)) else ItemState.READY, bad)
                    for name, text in sorted(keys.items())
                ],
            ),
        ],
    }


def _category(name: str, items: Iterable[tuple[str, ItemState, str]]) -> JsonObject:
    """Return one category as JSON data: its items with name, state and reason, and the number of items per state."""
    listed = [{"name": item, "state": state, "why": why} for item, state, why in items]
    counts = Counter(row["state"] for row in listed)
    return {"category": name, "counts": {state: counts[state] for state in ItemState}, "items": listed}


def status(cwd: Path, settings: Settings, tools: Iterable[str]) -> JsonDict:
    """Return the whole snapshot as JSON data, with the default model of a run. The facts are counted before `tools` are
    listed, which may set a damaged ledger aside."""
    from nexus_cli.config.unsupported import find_unsupported  # noqa: PLC0415  (not in requests)

    model = unnamed_model(settings)
    root = project_root(cwd)
    servers, problems = _servers(cwd)
    memory, trouble = _facts(root)
    return {
        "version": 1,
        **snapshot(cwd, settings, model, list(tools)),
        "credentials": sorted(keys_present(settings)),
        "model": redact(model) or None,
        "host": one_line(os.uname().nodename),
        "model_why": "" if model else _no_model(settings),
        "servers": [
            {"name": name, "state": "listed" if _is_listed(entry) else "not listed"} for name, entry in servers.items()
        ],
        "plugins": [plugin.name for plugin in installed_plugins()] + [plugin.entry.name for plugin in python_plugins()],
        "recipes": list_recipes(cwd),
        "project": {
            "folder": str(root),
            "trust": trust_state(root, read_configuration(root, KINDS)),
            "skills_not_trusted": find_guides(cwd, GuideKind.SKILL)[1],
            "unsupported": to_json_value(find_unsupported(root)),
        },
        "memory": memory,
        "notices": [*problems, *([trouble] if trouble else [])],
    }


def _no_model(settings: Settings) -> str:
    present = keys_to_choose_from(settings)
    if present:
        return f"none is configured, and several keys are available: {', '.join(present)}"
    return "none is configured, and no API key is set"


def _servers(cwd: Path) -> tuple[Mapping[str, ServerEntry], Sequence[str]]:
    """Return the MCP servers in effect in `cwd` by name, and the problems with the files that name them."""
    if not may_have_servers(cwd):
        return {}, ()
    from nexus_cli.mcp.server_entries import read_servers  # noqa: PLC0415  (most folders have none)

    files = read_servers(cwd)
    return files.entries, files.problems


def _is_listed(entry: ServerEntry) -> bool:
    from nexus_cli.mcp.tool_cache import read_list  # noqa: PLC0415  (not in requests)

    return read_list(entry) is not None


def _facts(root: Path) -> tuple[dict[str, int] | None, str]:
    """Count the facts by slot, and the proposals (None without a ledger); also return a ledger problem, or ""."""
    place = ledger_place()
    if not ledger_exists(place):
        return None, ""
    try:
        ledger = Ledger.open_for_reading(place)
    except NexusError as error:
        return None, error.message
    try:
        known_facts = ledger.facts.list_facts(str(root))
    except NexusError as error:
        return None, error.message
    finally:
        ledger.close()
    kept_counts = Counter(str(fact.slot) for fact in known_facts if fact.state is FactState.KEPT)
    counts = {str(slot): kept_counts[str(slot)] for slot in MemorySlot}
    return {**counts, "proposed": len(known_facts) - kept_counts.total()}, "; ".join(ledger.notices)
