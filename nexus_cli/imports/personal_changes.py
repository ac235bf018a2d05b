"""The changes that an import makes to the personal files: planned in memory, shown as diffs, written one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from nexus_cli.config.load_settings import read_settings_text, read_values, split_key
from nexus_cli.config.paths import Places, with_tilde
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.config.settings_file import (
    lock_settings,
    parse_value,
    replace_settings,
    require_unchanged,
    set_listed,
    set_value,
)
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import Decision
from nexus_cli.core.real_files import real_path
from nexus_cli.imports.foreign_setup import ForeignSetup
from nexus_cli.rules.rule_set import DECISIONS

MINE, THEIRS, BOTH = "mine", "theirs", "both"
Choose = Callable[[str, Sequence[str]], str]
"""Asks the person which of two to keep: the question, and the possible answers."""


@dataclass(frozen=True, slots=True)
class PersonalChange:
    """The new text of one personal file."""

    path: Path
    before: str
    after: str
    is_settings: bool = False

    @property
    def shown(self) -> str:
        """The path for people."""
        return with_tilde(self.path)

    def write(self) -> None:
        """Write the file; raise `NexusError` if it cannot be written, or is no longer what the diff began with."""
        path = real_path(self.path)
        if self.is_settings:
            with lock_settings(path):
                replace_settings(path, self.after, self.before)
            return
        with named_write_errors(path):
            replace_private_file(path, self.after.encode(), lambda: require_unchanged(path, self.before))


@dataclass
class ImportPlan:
    """Hold the changes that an import would make."""

    ask: Choose
    changes: list[PersonalChange] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Where the person has something else and keeps it."""

    def add(self, change: PersonalChange) -> None:
        """Add a change of a file, if it changes it."""
        if change.before != change.after:
            self.changes.append(change)

    def choose(self, subject: str, answers: Sequence[str]) -> str:
        """Ask which value to keep; note that the person keeps theirs."""
        answer = self.ask(subject, answers)
        if answer == MINE:
            self.kept.append(f"{subject}: nexus keeps your value")
        return answer


def plan_import(setup: ForeignSetup, places: Places, choose: Choose) -> ImportPlan:
    """Return the changes by `setup`, asking `choose` about differences; raise `NexusError("config", ...)`."""
    plan = ImportPlan(choose)
    path = places.settings
    before = read_settings_text(real_path(path))
    try:
        document = tomlkit.parse(before)
    except TOMLKitError:
        read_values(path)
        raise
    _plan_settings(setup, document, read_values(path), plan)
    _plan_rules(setup, document, plan)
    for name, entry in setup.servers.items():
        mine = _plain(document.get("mcp", {}).get(name))
        if mine is None or (mine != entry and plan.choose(f"server {name}", (MINE, THEIRS)) == THEIRS):
            set_value(document, ["mcp", name], entry)
    plan.add(PersonalChange(path, before, tomlkit.dumps(document), is_settings=True))
    _plan_instructions(setup, places, plan)
    for name, text in setup.commands.items():
        file = places.config / "commands" / f"{name}.md"
        mine = read_settings_text(file)
        if not mine or (mine != text and plan.choose(f"command {name}", (MINE, THEIRS)) == THEIRS):
            plan.add(PersonalChange(file, mine, text))
    return plan


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _plan_settings(setup: ForeignSetup, document: Any, mine: JsonObject, plan: ImportPlan) -> None:
    for key, text in setup.settings.items():
        try:
            value = parse_value(key, text)
        except NexusError as error:
            plan.kept.append(f"{key}: {error.why}")
            continue
        if key in mine and mine[key] == value:
            continue
        if key not in mine or plan.choose(f"{key} (yours: {mine[key]}; imported: {text})", (MINE, THEIRS)) == THEIRS:
            set_value(document, split_key(key), text)


def _plan_rules(setup: ForeignSetup, document: Any, plan: ImportPlan) -> None:
    """Add rules; of one that stands under another decision both may stay, where the strictest counts."""
    table = document.get("rules", {})
    mine = {decision: set(table.get(decision, ())) for decision in DECISIONS}
    added: dict[Decision, list[str]] = {decision: [] for decision in DECISIONS}
    for decision, text in setup.rules:
        other = next((candidate for candidate in DECISIONS if candidate != decision and text in mine[candidate]), None)
        if text in mine[decision]:
            continue
        answer = BOTH
        if other is not None:
            answer = plan.choose(f"rule {other} {text} (imported: {decision})", (MINE, THEIRS, BOTH))
        if answer != MINE:
            added[decision].append(text)
        if answer == THEIRS and other is not None:
            set_listed(document, ["rules", other], text, add=False)
    for name, texts in added.items():
        if texts and not mine[name]:  # at once: adding to a list one by one is slow
            set_value(document, ["rules", name], tuple(texts))
            continue
        for text in texts:
            set_listed(document, ["rules", name], text, add=True)


def _plan_instructions(setup: ForeignSetup, places: Places, plan: ImportPlan) -> None:
    path, theirs = places.config / "NEXUS.md", setup.instructions
    mine = read_settings_text(real_path(path))
    if not theirs or theirs in mine:
        return
    answer = plan.choose("NEXUS.md", (MINE, THEIRS, BOTH)) if mine.strip() else THEIRS
    if answer == MINE:
        return
    head = f"{mine.rstrip()}\n\n" if answer == BOTH else ""
    plan.add(PersonalChange(path, mine, f"{head}{theirs}\n"))


def refuse_without_terminal() -> NexusError:
    """Return the error of an import that nobody can confirm."""
    hint = "Use --yes to make the changes and keep your values, or --dry-run to show the changes"
    return UsageError("nothing was imported", "stdin is not a terminal", hint)
