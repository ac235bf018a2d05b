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
from itertools import combinations
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import Places, defaults_dir, places, project_root
from nexus_cli.config.setting_rules import REMOVED_TABLES, RULES, TABLES, SettingValue
from nexus_cli.config.settings import (
    LoadedSettings,
    Settings,
    build_settings,
    check_consistency,
    check_value,
    load_settings,
    unknown_key_error,
)
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits

FOLDER, FILE = ".nexus", "config.toml"
NESTED = ("check", "compact", "limits", "rules", "truncation", "undo", "worktree")
"""Tables with keys that a project may set."""
WINDOW = ("compact.at", "compact.to", "compact.overflow_to")
"""Keys that can contradict each other."""
ITEMS = frozenset({"hook", "mcp"})
"""Tables that are trusted entry by entry, and read elsewhere (`trust_items`)."""
NOT_FOR_PROJECTS = frozenset(
    {"compact.model", "limits.warn_cost", "rules.allow", "undo.max_file_mb", "undo.max_mb", "worktree.include_mb"}
)
"""Keys of these tables that a project may not set: they select a model, widen permissions, hide a
price or fill the disk."""
MOST_BYTES = 64 * 1024
MOST_PROBLEMS = 3
"""Most problems listed one by one."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The content of a project's file."""

    values: Mapping[str, SettingValue]
    """Validated values by dotted key."""
    refused: tuple[str, ...] = ()
    """Keys and tables that a project may not set; ignored."""
    problems: tuple[str, ...] = ()
    """Errors of invalid keys, which are ignored too: at most `MOST_PROBLEMS`, then a count."""


def settings_in(folder: Path) -> Settings:
    """Return the settings of this process for work in `folder`; raises as `load_settings` does."""
    return load_settings_in(project_root(folder), places(), defaults_dir(), os.environ).settings


def load_settings_in(folder: Path, places: Places, defaults_dir: Path, environ: Mapping[str, str]) -> LoadedSettings:
    """Return the person's settings tightened by the trusted project `folder`, whose errors become notices."""
    loaded = load_settings(places, defaults_dir, environ)
    if loaded.settings.folder_keys:
        loaded = replace(loaded, settings=replace(loaded.settings, key_name=_key_name(folder, loaded.settings)))
    if not os.path.lexists(folder / FOLDER):
        return loaded
    from nexus_cli.config import trust  # noqa: PLC0415  (few projects have such a folder)

    found = trust.read_configuration(folder)
    state = trust.trust_state(folder, found)
    if state == "nothing":
        return loaded
    in_force = trust.trusted_keys(folder, found)
    data = trust.trusted_configuration(folder, found).files.get(FILE)
    loaded = _apply_file(loaded, folder / FOLDER / FILE, data)
    if state == "trusted":
        return loaded
    waiting = [item for key, item in found.items.items() if key not in in_force]
    pending = [name for item in waiting for name in item.parts]
    why = found.problem or ("it has changed since you trusted it" if state == "changed" else "")
    return _add_notice(loaded, _not_in_effect(pending or found.files, why))


def _key_name(project: Path, settings: Settings) -> str:
    """Return the name of the keys for `project`: that of the deepest folder around it, or around its source if it is
    a worktree; "" for the usual keys."""
    from nexus_cli.config.worktree_record import find_source  # noqa: PLC0415  (few settings have keys by folder)

    place = os.path.realpath(find_source(project))
    named = {os.path.realpath(os.path.expanduser(folder)): name for folder, name in settings.folder_keys.items()}
    around = [folder for folder in named if Path(place).is_relative_to(folder)]
    return named[max(around, key=len)] if around else ""


def read_project(data: bytes, where: str) -> ProjectSettings:
    """Parse the content of the project file `where`; raise `NexusError("config", ...)` if it is no valid TOML, not
    UTF-8 or too large."""
    import tomllib  # noqa: PLC0415  (see `nexus_cli.config.settings`)

    if len(data) > MOST_BYTES:
        raise NexusError("config", where, f"it is larger than {MOST_BYTES // 1024} KiB", "Make it shorter")
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise NexusError("config", where, "it is not UTF-8", "Save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise NexusError("config", where, f"it is not valid TOML: {error}", "Correct it") from None
    values: dict[str, SettingValue] = {}
    refused: list[str] = []
    problems: list[str] = []
    more = 0
    for key, value in _dotted_keys({name: one for name, one in table.items() if name not in ITEMS}):
        try:
            is_known = key in RULES or key in TABLES or key.partition(".")[0] in REMOVED_TABLES
            if not is_known:
                if len(problems) < MOST_PROBLEMS:
                    raise unknown_key_error(_printable_key(key), where)
                more += 1
            elif key == "allow" or (key.partition(".")[0] in NESTED and key in RULES and key not in NOT_FOR_PROJECTS):
                values[key] = check_value(key, value, where)
            else:
                refused.append(key)
        except NexusError as error:
            more += len(problems) >= MOST_PROBLEMS
            problems += [error.why] * (len(problems) < MOST_PROBLEMS)
    return ProjectSettings(values, tuple(refused), (*problems, *([f"{more} more like these"] if more else ())))


def drop_conflicts(loaded: LoadedSettings, said: ProjectSettings) -> ProjectSettings:
    """Return `said` without values that contradict the settings or each other; the dropped keys become a problem."""
    window = [key for key in WINDOW if key in said.values]
    problem = ""
    for count in range(len(window), -1, -1):
        for stay in combinations(window, count):
            values = {key: value for key, value in said.values.items() if key not in window or key in stay}
            try:
                check_consistency(build_settings({**loaded.values, **{key: values[key] for key in stay}}), Path(FILE))
            except NexusError as error:
                problem = problem or error.why
                continue
            left = ", ".join(key for key in window if key not in stay)
            problems = (*said.problems, f"{left} cannot be set: {problem}") if left else said.problems
            return replace(said, values=values, problems=problems)
    return replace(said, values={key: value for key, value in said.values.items() if key not in window})


def apply_project(loaded: LoadedSettings, said: ProjectSettings, origin: str) -> LoadedSettings:
    """Return `loaded` tightened by a project's settings; values that would widen or contradict it are ignored."""
    said, values, origins = drop_conflicts(loaded, said), dict(loaded.values), dict(loaded.origins)
    for key, value in said.values.items():
        met = _combine_values(key, values.get(key), value)
        if met != values.get(key):
            values[key], origins[key] = met, origin
    names = {key.partition(".")[2]: value for key, value in said.values.items() if key.startswith("limits.")}
    limits: Any = names | ({"allow": said.values["allow"]} if "allow" in said.values else {})
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
        said = read_project(data, str(path))
        said = drop_conflicts(loaded, said)
        made = apply_project(loaded, said, str(path))
    except NexusError as error:
        return _add_notice(loaded, f"{error.message}; the whole file is ignored")
    if not said.refused and not said.problems:
        return made
    names = ", ".join(map(_printable_key, said.refused[:8])) + (", ..." if len(said.refused) > 8 else "")
    notices = [f"{path} cannot set {names}: a project can only tighten"] if names else [f"{path} is not all in effect"]
    rest = "the rest is in effect" if said.values else "nothing of this file is in effect"
    return _add_notice(made, "; ".join((*notices, *said.problems, rest)))


def _add_notice(loaded: LoadedSettings, notice: str) -> LoadedSettings:
    return replace(loaded, settings=replace(loaded.settings, notices=(*loaded.settings.notices, notice)))


def _combine_values(key: str, mine: SettingValue | None, theirs: SettingValue) -> SettingValue:
    """Combine the person's value `mine` with the project's."""
    if key == "compact.extract":
        return bool(mine) and bool(theirs)
    if key in ("undo.require", "worktree.setup"):
        return mine or theirs
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return mine + tuple(one for one in theirs if one not in mine)
    if mine is None or not (key == "allow" or key.startswith("limits.")):
        return theirs
    name = key.rpartition(".")[2]
    limits: tuple[dict[str, Any], dict[str, Any]] = ({name: mine}, {name: theirs})
    met: SettingValue = getattr(Limits(**limits[0]) & Limits(**limits[1]), name)
    return met


def _dotted_keys(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return dotted keys and values; a table that a project may not set is one key."""
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        if name in NESTED and isinstance(value, Mapping):
            flat += [(f"{name}.{key}", inner) for key, inner in value.items()]
        else:
            flat.append((name, value))
    return flat


def _not_in_effect(files: Iterable[str], why: str) -> str:
    own = (name for name in files if not name.startswith("../"))
    kinds = list(dict.fromkeys(name.partition("/")[0] for name in own)) or [""]
    names = ", ".join(f"{FOLDER}/{kind}".rstrip("/") for kind in kinds)
    verb = "is" if len(kinds) == 1 else "are"
    reason = f" ({why})" if why else ""
    return f"this project has {names}, which {verb} not in effect{reason}: nexus trust"


def _printable_key(key: str) -> str:
    line = "".join(char if char.isprintable() else "?" for char in key[:60])
    return line if len(key) <= 60 else line + "..."
