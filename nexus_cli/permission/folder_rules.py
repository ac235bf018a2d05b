"""Allow rules beside those of the settings: offered to the person when a call needs approval (folders outside the
project, network addresses), of the option `--rule`, of a session.

A rule for a folder never covers credentials in it: they need a rule that names their own path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.paths import home_folder, places
from nexus_cli.config.protected_places import GIT_FOLDER, SecretPlaces
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import UsageError
from nexus_cli.core.real_files import real_path
from nexus_cli.core.tool import Effect, Tool, find_governing
from nexus_cli.tools.registry import discover_tools, rule_tools

if TYPE_CHECKING:
    from nexus_cli.rules.rule_set import PermissionRule

COMMAND_LINE_ORIGIN = "allowed with --rule"
"""The origin of a rule that is given ahead, on the command line or with a schedule."""
ALLOWED = "allowed for this session"
"""`CallDecision.origin` of a call that an earlier answer for the whole session covers."""
GRANTED = "allowed for this turn by a skill or command"
"""The origin of a rule of `allowed-tools`."""
NAMED_TOOL = re.compile(r"[^\s,()]+(?:\s*\([^)]*\)?)?")
"""A tool in a list of Claude's, with its pattern, also one that nothing closes: without it the tool would be more."""
SUBTREE = "/**"
"""Pattern suffix: the folder and everything in it."""
SIGNS = frozenset("*?()\n")
"""Characters with a meaning of their own in a rule: a folder with one in its name cannot be written as a pattern."""
COMMAND_SIGNS = frozenset("*()\n")
"""The same in a rule for a command."""


def folder_rules(targets: Iterable[Path], project: Path) -> tuple[str, ...]:
    """Return allow rules for the folders of those real paths `targets` that are outside `project`.

    The folder of a path is its git repository, else the path itself or its parent. Returns () if one of the folders is
    too wide: it contains the project, the home folder or credentials, or is directly below the root.
    """
    root = real_path(project)
    folders = dict.fromkeys(_find_folder(path) for path in targets if not path.is_relative_to(root))
    secrets, protected = SecretPlaces(places(), project), (root, real_path(home_folder()))
    for folder in folders:
        above = any(kept_folder.is_relative_to(folder) for kept_folder in protected)
        if above or len(folder.parts) < 3 or secrets.are_below(folder) or SIGNS & set(str(folder)):
            return ()
    reading = find_governing(discover_tools().values(), Effect.READ)
    return tuple(f"{reading.name}({folder}{SUBTREE})" for folder in folders) if reading else ()


def folder_of(rule: str) -> str:
    """Return the folder of a rule that `folder_rules` made."""
    return rule.partition("(")[2].removesuffix(")").removesuffix(SUBTREE)


def _find_folder(path: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    return next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent / GIT_FOLDER)), folder)


def opens_secrets(rule: PermissionRule, project: Path) -> bool:
    """Return True if an allow rule covers credentials too: a rule for a folder does only if that folder is, or is
    inside, a place of credentials; one of a guide never does."""
    if rule.origin == GRANTED:
        return False
    pattern = os.path.expanduser(rule.pattern.removesuffix(SUBTREE))
    if "/" not in pattern or "*" in pattern or "?" in pattern:
        return bool(pattern)
    return SecretPlaces(places(), project).find(real_path(project / pattern)) is not None


def address_rules(tool: Tool, address: str) -> tuple[str, ...]:
    """Return the allow rule for the host of an address, () for what is no plain address."""
    match = re.match(r"([a-z]+)://([\w.-]+(?::\d+)?)(?=[/?]|\Z)", address, re.ASCII)
    return (f"{tool.name}({match[0]})",) if match else ()


def check_rules(rules: Iterable[str]) -> None:
    """Raise `UsageError` for an allow rule of `--rule` that cannot be read."""
    for rule in rules:
        try:
            parse_allowed((rule,), COMMAND_LINE_ORIGIN)
        except ValueError as error:
            raise UsageError(f"--rule {rule[:80]!r}", str(error), "See `nexus docs rules`") from None


@lru_cache(64)
def read_granted(written: str) -> tuple[list[str], list[str]]:
    """Return the rules of ours that `allowed-tools` of a guide names as Claude does, and a line for each part of it
    that permits nothing."""
    from nexus_cli.rules.claude_rules import map_claude_rule  # noqa: PLC0415  (few guides name any)

    granted, problems = list[str](), list[str]()
    for part in NAMED_TOOL.findall(written):
        try:
            rules = tuple(map_claude_rule("allow", part))
            parse_allowed(rules, GRANTED)
            granted += rules
        except ValueError as error:
            problems.append(one_line(f"{part} has no effect: {error}"))
    return granted, problems


@lru_cache(64)
def parse_condition(written: str) -> tuple[PermissionRule, ...]:
    """Return a rule by which Claude names calls as rules of ours, which deny. Raises `ValueError` if none says it."""
    from nexus_cli.rules.claude_rules import map_claude_rule  # noqa: PLC0415  (few hooks have a condition)
    from nexus_cli.rules.rule_set import parse_rule  # noqa: PLC0415

    return tuple(parse_rule("deny", text, rule_tools()) for text in map_claude_rule("allow", written))


@lru_cache(64)
def parse_allowed(rules: tuple[str, ...], origin: str) -> tuple[PermissionRule, ...]:
    """Parse the allow rules of a command line or schedule (`COMMAND_LINE_ORIGIN`), of a session (`ALLOWED`), or of a
    guide that the person called (`GRANTED`). Raises `ValueError`."""
    if not rules:
        return ()
    from nexus_cli.rules.rule_set import parse_rule  # noqa: PLC0415

    parsed = (parse_rule("allow", rule, rule_tools(), origin) for rule in rules)
    return tuple(replace(rule, lifts=origin == COMMAND_LINE_ORIGIN) for rule in parsed)
