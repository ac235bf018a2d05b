"""Apply the settings of a trusted project (`.nexus/config.toml`): they only tighten those of the person (law 7).

Of `allow` and each limit the stricter value wins; compaction and truncation may be set, since they permit nothing, and
for worktrees the ignored files to copy and, if the person has none, the set-up command, which runs in the sandbox. A
project can add checks, which run in the sandbox. A
project cannot set an endpoint, model, key or permission: such keys are reported and have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nexus_cli.config.load_settings import (
    LoadedSettings,
    build_settings,
    check_consistency,
    check_value,
    decode_settings,
    join_key,
    list_values,
    load_settings,
    parse_tables,
    rule_for,
    split_key,
)
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.setting_rules import SettingValue
from nexus_cli.config.setting_tables import FIXED_TABLES, REMOVED_TABLES, SETTINGS, TABLES
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.surrogates import mask_unprintable

FOLDER, FILE = ".nexus", "config.toml"
WINDOW = ("compact.at", "compact.to", "compact.overflow_to")
"""Keys that can contradict each other."""
ITEMS = frozenset({"hook", "mcp"})
"""Tables that are trusted entry by entry, and read elsewhere (`trust_items`)."""
_CLOSED = {
    name for name in TABLES if not any(setting.in_projects for setting in FIXED_TABLES.get(name, {}).values())
}.union(REMOVED_TABLES)
"""Tables of which a project may set nothing."""
MAX_BYTES = 64 * 1024
MAX_PROBLEMS = 3
"""Most problems listed one by one."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The content of a project's file."""

    values: Mapping[str, SettingValue]
    """Validated values by dotted key."""
    refused: tuple[str, ...] = ()
    """Keys and tables that a project may not set; ignored."""
    problems: tuple[str, ...] = ()
    """Errors of invalid keys, which are ignored too: at most `MAX_PROBLEMS`, then a count."""


def settings_in(folder: Path) -> Settings:
    """Return the settings of this process for work in `folder`; raises as `load_settings` does."""
    return load_settings_in(project_root(folder)).settings


def load_settings_in(folder: Path) -> LoadedSettings:
    """Return the person's settings tightened by the trusted project `folder`, whose errors become notices."""
    loaded = load_settings(places())
    if loaded.settings.folder_keys:
        loaded = replace(loaded, settings=replace(loaded.settings, key_name=_key_name(folder, loaded.settings)))
    if not os.path.lexists(folder / FOLDER):
        return loaded
    from nexus_cli.config import trust  # noqa: PLC0415  (few projects have such a folder)

    configuration = trust.read_configuration(folder)
    state = trust.trust_state(folder, configuration)
    if state == "nothing":
        return loaded
    in_force = trust.trusted_configuration(folder, configuration)
    loaded = _apply_file(loaded, folder / FOLDER / FILE, in_force.files.get(FILE))
    if state == "trusted":
        return loaded
    waiting = [item for key, item in configuration.items.items() if key not in in_force.items]
    pending = [name for item in waiting for name in item.parts]
    why = configuration.problem or ("changed since you trusted it" if state == "changed" else "")
    return _add_notice(loaded, _not_in_effect(pending or configuration.files, why))


def _key_name(project: Path, settings: Settings) -> str:
    """Return the name of the keys for `project`: that of the deepest folder around it, or around its source if it is
    a worktree; "" for the usual keys."""
    from nexus_cli.config.worktree_record import find_source  # noqa: PLC0415  (few settings have keys by folder)

    place = os.path.realpath(find_source(project))
    names_by_folder = {
        os.path.realpath(os.path.expanduser(folder)): name for folder, name in settings.folder_keys.items()
    }
    around = [folder for folder in names_by_folder if Path(place).is_relative_to(folder)]
    return names_by_folder[max(around, key=len)] if around else ""


def read_project(data: bytes, source: str) -> ProjectSettings:
    """Parse the content of the project file `source`; raise `NexusError("config", ...)` if it is no valid TOML, not
    UTF-8 or too large."""
    if len(data) > MAX_BYTES:
        raise NexusError("config", source, f"larger than {MAX_BYTES // 1024} KiB", "Shorten the file")
    table = parse_tables(decode_settings(data, source), source)
    values: dict[str, SettingValue] = {}
    refused: dict[str, None] = {}
    wrong: list[str] = []
    for parts, value in list_values({name: entry for name, entry in table.items() if name not in ITEMS}):
        key = join_key(parts)
        setting = SETTINGS.get(key)
        if parts[0] in _CLOSED:
            refused[parts[0]] = None
        elif key in TABLES or (rule_for(split_key(key)) and not (setting and setting.in_projects)):
            refused[key] = None
        else:
            try:
                values[key] = check_value(key if setting else _printable_key(key), value, source)
            except NexusError as error:
                wrong.append(error.why)
    problems = wrong[:MAX_PROBLEMS]
    omitted = [f"{len(wrong) - MAX_PROBLEMS} more like these"] if wrong[MAX_PROBLEMS:] else []
    return ProjectSettings(values, tuple(refused), (*problems, *omitted))


def drop_conflicts(loaded: LoadedSettings, project: ProjectSettings) -> ProjectSettings:
    """Return `project` without values that contradict the settings or each other; the dropped keys become a problem."""
    window = {key: project.values[key] for key in WINDOW if key in project.values}
    problem = _find_conflict(loaded, window)
    if not problem:
        return project
    accepted: dict[str, SettingValue] = {}
    for key, value in window.items():
        if not _find_conflict(loaded, {**accepted, key: value}):
            accepted[key] = value
    dropped = [key for key in window if key not in accepted]
    values = {key: value for key, value in project.values.items() if key not in dropped}
    return replace(
        project, values=values, problems=(*project.problems, f"{', '.join(dropped)} cannot be set: {problem}")
    )


def _find_conflict(loaded: LoadedSettings, values: Mapping[str, SettingValue]) -> str:
    """Return the reason that `values` contradict the other settings or each other, "" for none."""
    try:
        check_consistency(build_settings({**loaded.values, **values}), Path(FILE))
    except NexusError as error:
        return error.why
    return ""


def apply_project(loaded: LoadedSettings, project: ProjectSettings, origin: str) -> LoadedSettings:
    """Return `loaded` tightened by a project's settings; values that would widen or contradict it are ignored."""
    project, values, origins = drop_conflicts(loaded, project), dict(loaded.values), dict(loaded.origins)
    for key, value in project.values.items():
        met = SETTINGS[key].combine(key.rpartition(".")[2], values.get(key), value)
        if met != values.get(key):
            values[key], origins[key] = met, origin
    names = {key.partition(".")[2]: value for key, value in project.values.items() if key.startswith("limits.")}
    limits: Any = names | ({"allow": project.values["allow"]} if "allow" in project.values else {})
    mine = loaded.settings
    # The person's limits stay separate from the project's, so that the origin of a limit can be named.
    settings = replace(
        build_settings(values), allow=mine.allow, limits=mine.limits, key_name=mine.key_name, project=Limits(**limits)
    )
    return replace(loaded, settings=replace(settings, notices=mine.notices), origins=origins, values=values)


def _apply_file(loaded: LoadedSettings, path: Path, data: bytes | None) -> LoadedSettings:
    if data is None:
        return loaded
    try:
        project = read_project(data, str(path))
        project = drop_conflicts(loaded, project)
        settings = apply_project(loaded, project, str(path))
    except NexusError as error:
        return _add_notice(loaded, f"{error.message}; the whole file is ignored")
    if not project.refused and not project.problems:
        return settings
    names = ", ".join(map(_printable_key, project.refused[:8])) + (", ..." if len(project.refused) > 8 else "")
    notices = (
        [f"{path} cannot set {names}: a project can only tighten settings"]
        if names
        else [f"{path} is not fully in effect"]
    )
    outcome = "the rest is in effect" if project.values else "nothing in this file is in effect"
    return _add_notice(settings, "; ".join((*notices, *project.problems, outcome)))


def _add_notice(loaded: LoadedSettings, notice: str) -> LoadedSettings:
    return replace(loaded, settings=replace(loaded.settings, notices=(*loaded.settings.notices, notice)))


def _not_in_effect(files: Iterable[str], why: str) -> str:
    own_files = (name for name in files if not name.startswith("../"))
    kinds = list(dict.fromkeys(name.partition("/")[0] for name in own_files)) or [""]
    names = ", ".join(f"{FOLDER}/{kind}".rstrip("/") for kind in kinds)
    verb = "is" if len(kinds) == 1 else "are"
    reason = f" ({why})" if why else ""
    return f"this project has {names}, which {verb} not in effect{reason}; run `nexus trust`"


def _printable_key(key: str) -> str:
    line = mask_unprintable(key[:60])
    return line if len(key) <= 60 else line + "..."
