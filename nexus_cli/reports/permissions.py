"""Report what runs without asking in a session: the level, the rules, the decision on a command, what was allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from nexus_cli.config.paths import places, with_tilde
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.limits import ALL, ASK, AUTO, EDIT, LEVEL_LAYER, LEVELS, PLAN, Decision, LevelFields
from nexus_cli.permission.approvals import scope_name
from nexus_cli.reports.decisions import describe_part
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Table, paragraphs
from nexus_cli.reports.text.lines import CONFINED, sandbox_line
from nexus_cli.rules.decide import CommandPart, Profile
from nexus_cli.rules.rule_set import PermissionRule
from nexus_cli.sandbox.backend import BackendProbe
from nexus_cli.text.hidden_signs import mark_on_one_line

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

_RUNS = {
    ASK: "reading inside the project, and commands that only read; everything else needs approval",
    EDIT: "also editing project files, except .git, .nexus, instruction files and files that other programs load",
    AUTO: "also commands in the sandbox, which can write only in the project and have no network",
    ALL: "everything that no rule denies, without sandbox or approval",
    PLAN: "read-only; the model proposes a plan",
}
_RUNS_UNCONFINED = {
    **_RUNS,
    ASK: "reading inside the project; everything else needs approval",
    AUTO: "like edit, because without a sandbox every command needs approval",
}


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


class LevelMeaning(TypedDict):
    """A permission level."""

    name: str
    runs: str
    """What runs without asking, as words for people."""


class PermissionsReport(RulesReport):
    """The level and the rules of a session."""

    level: str
    bound_by: str
    """The layer that sets the level."""
    levels: list[LevelMeaning]
    sandbox: JsonOf[BackendProbe]
    allowed: list[str]
    """What was allowed for the session."""


def describe_level(session: Session, level: str) -> str:
    """Describe the calls that run without asking at `level` on this system. Blocks until the sandbox is detected."""
    return (_RUNS if session.dispatcher.permission.has_sandbox() else _RUNS_UNCONFINED)[level]


def permissions_report(session: Session) -> PermissionsReport:
    """Return the current level with its layer, the meaning of each level here, the sandbox, the rules with their
    places, and the permissions granted for the session. Blocks until the sandbox is detected; raises `NexusError` if
    the settings cannot be read."""
    permission = session.dispatcher.permission
    probe = permission.probe_backend()
    rules = permission.rules_in_force()
    return {
        "version": 1,
        "level": session.dispatcher.level,
        "bound_by": next((bound.bound_by for bound in session.dispatcher.bounds if bound.name == "allow"), "defaults"),
        "levels": [{"name": level, "runs": describe_level(session, level)} for level in (PLAN, *LEVELS)],
        "sandbox": to_json_value(probe),
        "rules": to_json_value(rules.listed()),
        "problems": list(rules.problems),
        "allowed": [scope_name(scope, session.dispatcher.project_root) for scope in sorted(session.dispatcher.always)],
    }


def permissions_text(value: JsonObject) -> Blocks:
    """List the levels, the current one, the sandbox, the rules, and the permissions granted for the session."""
    for level in value["levels"]:
        mark = "*" if level["name"] == value["level"] else " "
        yield Paragraph(level["runs"], " " * 8, f"{mark} {level['name']:<6}")
    by = "Set for this session" if value["bound_by"] == LEVEL_LAYER else f"Set by: {value['bound_by']}"
    yield from ["", f"{by}. Shift+Tab or /permissions LEVEL changes the level for this session."]
    if value["sandbox"]:
        yield f"Sandbox: {sandbox_line(value['sandbox'])}."
    if value["rules"]:
        yield from ["", "Rules:"]
        rules = (f"{rule['decision']:<5} {rule['rule']}  ({rule['from']})" for rule in value["rules"])
        yield from paragraphs(rules, "    ", "  - ")
    yield from paragraphs((f"Problem: {problem}" for problem in value["problems"]), "    ", "  ")
    if value["allowed"]:
        yield from ["", "Allowed for this session:"]
        yield from paragraphs(map(mark_on_one_line, value["allowed"]), "    ", "  - ")


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
