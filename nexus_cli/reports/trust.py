"""Report the effects of a project's configuration, for `nexus trust`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypedDict

from nexus_cli.config.foreign_items import HOOKS, split_commands
from nexus_cli.config.load_settings import LoadedSettings
from nexus_cli.config.project_settings import FILE, ProjectSettings, apply_project, drop_conflicts, read_project
from nexus_cli.config.setting_tables import SETTINGS
from nexus_cli.config.settings_text import toml_literal
from nexus_cli.config.trust import Configuration, part_text, trust_state, trusted_items, trusted_texts
from nexus_cli.config.trust_files import FOLDER, shown_path
from nexus_cli.config.trust_items import TrustItem
from nexus_cli.core.elide import LONGEST_LINE, one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.real_files import real_path
from nexus_cli.guides.skills import GuideKind, read_item_guide
from nexus_cli.hooks.hook_list import UNSUPPORTED, list_hooks
from nexus_cli.reports.foreign_gaps import list_gaps
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Verbatim, paragraphs
from nexus_cli.reports.text.lines import join_names, number, plural
from nexus_cli.rules.rule_set import parse_rule
from nexus_cli.sections.find_recipe import describe_recipe_problems
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.tools.registry import rule_tools

ACTIVE = {
    "settings": "settings",
    "rule": "rules",
    "variable": "environment variables for commands",
    "recipe": "recipes",
    "skill": "skills",
    "command": "commands",
    "agent": "agents",
    "hook": "hooks",
    "server": "MCP servers",
    "servers": "MCP servers",
    "identity": "identity files",
}
"""Kinds of items that take effect once they are trusted, with their names for people."""
MAX_FILES = 60
"""Most files whose names are listed."""
MAX_LINES = 5
"""From so many files on, those of a folder are on one line."""
STANDS = {
    "trusted": "Trusted.",
    "changed": "New and changed files have no effect until you trust them.",
    "untrusted": "Not in effect until you trust it.",
    "nothing": "This project has no configuration to trust.",
}
SINCE = {
    "changed": "Changed since it was trusted",
    "new": "New since it was trusted",
    "removed": "Removed since it was trusted",
}


class TrustSetting(TypedDict):
    key: str
    value: Any
    effect: str


class TrustFile(TypedDict):
    """A file of the project's configuration."""

    name: str
    bytes: int


TrustItemState = Literal["trusted", "changed", "new", "removed"]


class TrustItemObject(TypedDict):
    """A separately trusted item."""

    kind: str
    name: str
    what: str
    """For a server its entry on one line, for a command or skill its shell commands, shortened, for a disabled hook
    that it is disabled; else ""."""
    state: TrustItemState
    diff: str


class TrustReport(VersionedReport):
    """The configuration of a project and its effects."""

    project: str
    state: str
    settings: list[TrustSetting]
    refused: list[str]
    """Keys that a project cannot set."""
    files: list[TrustFile]
    items: list[TrustItemObject]
    active: list[str]
    unsupported: list[str]
    """Project configuration for other programs that nexus does not apply, each as `FILE: WHAT`."""
    problems: list[str]


class RevokedTrust(VersionedReport):
    """With `--revoke`."""

    project: str
    revoked: bool
    state: str


def trust_report(project: Path, configuration: Configuration, loaded: LoadedSettings) -> TrustReport:
    """Return `settings` (key, value, effect against the person's own), `refused` keys, `files`, `items`, `problems`,
    `state`; the parts that trust would make `active`, and those that stay `unsupported`.

    `loaded` are the person's settings without the project's. Each of `items` is trusted separately.
    """
    problems = [one_line(configuration.problem)] if configuration.problem else []
    problems += [one_line(str(left_out)) for left_out in configuration.left_out]
    project_settings = ProjectSettings({})
    if FILE in configuration.files:
        try:
            project_settings = drop_conflicts(loaded, read_project(configuration.files[FILE], f"{FOLDER}/{FILE}"))
            problems += map(one_line, [*project_settings.problems, *_unreadable_rules(project_settings)])
        except NexusError as error:
            problems.append(one_line(error.message))
    problems += describe_recipe_problems(configuration)
    return {
        "version": 1,
        "project": str(project),
        "state": trust_state(project, configuration),
        "settings": [_setting(key, value, loaded, project_settings) for key, value in project_settings.values.items()],
        "refused": [one_line(key) for key in project_settings.refused],
        "files": [
            {"name": one_line(shown_path(name)), "bytes": len(data)}
            for name, data in configuration.files.items()
            if name != FILE
        ],
        "items": [*_items(project, configuration)],
        "active": [*dict.fromkeys(ACTIVE[item.kind] for item in configuration.items.values() if item.kind in ACTIVE)],
        "unsupported": list_gaps(project),
        "problems": problems,
    }


def describe_item(item: TrustItem) -> str:
    """Return in one line, never cut, what the name of an item does not show: what a skill or command permits and runs
    in the turn that calls it, tools and model of an agent, the entry of a server, and what of a long name is cut."""
    text = " ".join(item.definition.split()) if item.kind == "server" or len(item.name) > LONGEST_LINE else ""
    if item.kind in (*GuideKind,) and item.file:
        guide = read_item_guide(item.name, item, item.file, "project")
        keys = {"tools": "tools", "model": "model"} if item.kind == GuideKind.AGENT else {"allowed-tools": "permits"}
        lines = [f"{word} {guide.fields[key]}" for key, word in keys.items() if guide.fields.get(key)]
        if item.kind != GuideKind.AGENT:
            with suppress(NexusError):  # a binary file runs nothing
                lines += [f"runs {line}" for line in split_commands(guide.read())[1::2]]
        text = "; ".join(lines).replace("\n", " \u2424 ")
    return "".join(one_line(text[start : start + LONGEST_LINE]) for start in range(0, len(text), LONGEST_LINE))


def _items(project: Path, configuration: Configuration) -> Iterator[TrustItemObject]:
    """Yield every item with kind, name, state (`trusted`, `changed`, `new`, `removed`) and its unified diff."""
    in_force, before = trusted_items(project, configuration), trusted_texts(project)
    parts = {
        key: {name: part_text(data) for name, data in item.parts.items()} for key, item in configuration.items.items()
    }
    known_parts = {part for texts in before.values() for part in texts.items() if isinstance(part[1], str)}
    current_parts = {part for texts in parts.values() for part in texts.items() if isinstance(part[1], str)}
    folder = real_path(project)
    off = {hook.item for hook in list_hooks(project, ()) if hook.state == UNSUPPORTED and hook.folder == folder}
    for key, item in configuration.items.items():
        state: TrustItemState = "trusted" if key in in_force else "changed" if key in before else "new"
        now = parts[key]
        then = before.get(key) or dict(now.items() & known_parts)  # a hook with another `if` has its script already
        diff = diff_parts(then, now) if before and state != "trusted" else ""
        description = "does not run here" if key in off else describe_item(item)
        yield {"kind": item.kind, "name": one_line(item.name), "what": description, "state": state, "diff": diff}
    for key in (old for old in before if old not in configuration.items):
        kind, _, name = key.partition(" ")
        yield {
            "kind": kind,
            "name": one_line(name),
            "what": "",
            "state": "removed",
            "diff": diff_parts(before[key], dict(before[key].items() & current_parts)),
        }


def diff_parts(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> str:
    """Return the diff of an item's parts; for a part that is not text, only a line that it differs."""
    diffs = []
    for name in sorted({*before, *now}):
        path, old, new = shown_path(name), before.get(name, ""), now.get(name, "")
        if old is None or new is None:
            diffs.append(f"{one_line(path)}: binary, or too large to compare\n")
        elif old != new:
            diff = unified_diff(old if name in before else None, new, path)
            diffs.append(diff or f"{one_line(path)}: different\n")
    return "".join(diffs)


def _group_files(files: Sequence[JsonObject]) -> Iterator[str]:
    """Yield a line for each file, and one for each folder with many; of very many files only their number and size, so
    that what would run stays in sight."""
    is_long = len(files) > MAX_FILES
    folders = group_pairs(
        ("/".join(file["name"].split("/")[:2]) if is_long else file["name"].rpartition("/")[0], file) for file in files
    )
    for folder, inside in folders.items():
        if is_long:
            yield f"{folder}: {plural(len(inside), 'file')}, {number(sum(file['bytes'] for file in inside))} bytes"
        elif len(inside) < MAX_LINES:
            yield from (f"{file['name']}, {number(file['bytes'])} bytes" for file in inside)
        else:
            names = ", ".join(file["name"].rpartition("/")[2] for file in inside)
            yield f"{folder}, {len(inside)} files, {number(sum(file['bytes'] for file in inside))} bytes: {names}"


def _setting(key: str, value: Any, loaded: LoadedSettings, project_settings: ProjectSettings) -> TrustSetting:
    mine = loaded.values.get(key)
    met = apply_project(loaded, project_settings, "").values.get(key)
    if met == mine:
        effect = "no change" if mine == value else f"no effect (your setting is {_show(mine)})"
    elif SETTINGS[key].in_projects.startswith("adds"):
        effect = "in addition to yours" if mine else "added"
    else:
        effect = f"instead of {_show(mine)}" if mine is not None else "no limit before"
    return {"key": key, "value": value, "effect": effect}


def _show(value: Any) -> str:
    """Return a value as config.toml has it, a text without its quotes."""
    return value if isinstance(value, str) else toml_literal(value)


def _show_check(line: str) -> str:
    """Return a check, which a setting holds as JSON, with its command and its files."""
    check = json.loads(line)
    return f"`{one_line(check['command'])}` ({one_line(check['glob'])})"


def _unreadable_rules(project_settings: ProjectSettings) -> Iterator[str]:
    """Yield a line for each deny and ask rule of the project that cannot be parsed."""
    for kind in ("deny", "ask"):
        written = project_settings.values.get(f"rules.{kind}")
        for text in written if isinstance(written, tuple) else ():
            try:
                parse_rule(kind, text, rule_tools())
            except ValueError as error:
                yield f"{FOLDER}/{FILE}: {kind} {error}. Until you correct this rule, every command needs approval"


def trust_text(value: JsonObject) -> Blocks:
    """List each setting with its effect, each file by its kind, the changes since it was trusted, and the state."""
    yield Paragraph(value["project"], "  ")
    for setting in (row for row in value["settings"] if not row["key"].startswith("rules.")):  # they are items
        values = setting["value"]
        rows = map(_show_check, values) if setting["key"] == "check" and values else [f"= {_show(values)}"]
        yield from paragraphs([f"{setting['key']} {row}: {setting['effect']}" for row in rows], " " * 6, "  ")
    lines = [f"{name}: ignored, because a project cannot set it" for name in value["refused"]]
    lines += [*_group_files(value["files"]), *(f"Not in effect: {problem}" for problem in value["problems"])]
    yield from paragraphs(lines, " " * 6, "  ")
    source = ""
    for item in value["items"]:
        title = " ".join(filter(None, (item["kind"], item["name"])))
        before, mark, hook = item["name"].partition(": ")
        if item["state"] == "removed" or (item["kind"] == "rule" and before.startswith("allow ") and not mark):
            pass  # only its difference is shown, and that a project cannot allow
        elif item["kind"] == "hook" and mark and before in HOOKS:
            if before != source:
                yield Paragraph(f"hooks of {before}:", " " * 6, "  ")
            yield Paragraph(": ".join(filter(None, (hook, item["what"]))), " " * 8, " " * 4)
            source = before
        elif item["kind"] in ("rule", "variable", "hook", "server") or item["what"]:
            yield Paragraph(f"{title}: {item['what']}" if item.get("what") else title, " " * 6, "  ")
        if item["diff"]:
            yield ""
            yield Paragraph(f"{SINCE[item['state']]}: {title}", "  ")
            yield from (Verbatim(line, "    ", "  ") for line in item["diff"].splitlines())
    if value["unsupported"]:
        yield ""
        yield Paragraph("Unsupported here:", "  ")
        yield from paragraphs(value["unsupported"], " " * 6, "  ")
    stands = STANDS[value["state"]]
    if value["state"] == "trusted":
        stands += (
            f" Active: {join_names(value['active'])}{', except for the files listed above' * bool(value['problems'])}."
        )
    yield from ["", stands]
