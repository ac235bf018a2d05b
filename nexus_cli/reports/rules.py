"""Text of the permission rules, and of the decision on a command."""

from __future__ import annotations

from nexus_cli.config.paths import places, with_tilde
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport
from nexus_cli.core.limits import Decision, LevelFields
from nexus_cli.reports.decisions import describe_part
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.lines import CONFINED
from nexus_cli.rules.decide import CommandPart, Profile
from nexus_cli.rules.rule_set import PermissionRule


class TestedPartObject(JsonOf[CommandPart]):
    """A command of a line; `from` names a level by its former name."""

    origin: str
    """`built in`, `level ask`, or file and line of the rule."""


class RulesTestReport(LevelFields):
    """The decision on a command line."""

    decision: Decision
    profile: Profile
    parts: list[TestedPartObject]
    why: str


class RulesReport(VersionedReport):
    """All rules."""

    rules: list[JsonOf[PermissionRule]]
    """Strictest first."""
    problems: list[str]


def rules_text(value: JsonObject) -> Blocks:
    """List the rules with their places, the strictest first."""
    columns = {"decision": "decision", "rule": "rule", "holds": _describe_extent, "from": "from"}
    none = "" if value["problems"] else "No rules. Example: nexus rules add allow 'bash(npm test *)'"
    return [Table(columns, value["rules"], none, headed=False)]


def _describe_extent(rule: JsonObject) -> str:
    """Describe the scope of a rule: a folder, everywhere, or this project."""
    if rule["folder"]:
        return with_tilde(rule["folder"])
    return "everywhere" if rule["file"] == str(places().settings) else "this project"


def rule_test_text(value: JsonObject) -> Blocks:
    """Show the decision on a command: a summary line, then a line for each part."""
    yield f"{value['decision']}: {value['why']} ({CONFINED[value['profile']]})"
    for part in value["parts"]:
        yield describe_part({**part, "from": part["origin"]})
