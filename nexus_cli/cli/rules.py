"""`nexus rules list | test | add | remove`: the permission rules for tool calls."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json, level_option, refuse_empty
from nexus_cli.cli.print_report import print_json, print_text
from nexus_cli.config.paths import places, project_root, with_tilde, working_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.elide import clip_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import LEVELS
from nexus_cli.reports.text.lines import CONFINED
from nexus_cli.rules.decide import CommandDecision, decide_command
from nexus_cli.rules.edit_rules import add_rule, remove_rule
from nexus_cli.rules.rule_set import PermissionRule, RuleSet, read_rules
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.tools.registry import rule_tools
from nexus_cli.ui.print.stream import write_stderr_line

EXIT_STATUS = {"allow": 0, "ask": 1, "deny": 3}
app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show, test and change the rules for tool calls.")

Words = Annotated[
    list[str],
    typer.Argument(metavar="RULE", show_default=False, help="allow, ask or deny, then TOOL or TOOL(PATTERN)."),
]


def _read() -> RuleSet:
    """Load the rules in force, and print the notices of the settings."""
    folder = project_root(working_folder())
    for notice in settings_in(folder).notices:
        write_stderr_line(f"nexus: {notice}")
    return read_rules(places(), folder, rule_tools())


def _refuse_problems(rules: RuleSet) -> None:
    """Raise `NexusError("config", ...)` for the first invalid rule; print the others on stderr."""
    for problem in rules.problems[1:]:
        write_stderr_line(f"nexus: {problem}")
    if rules.problems:
        where, _, why = rules.problems[0].partition(": ")
        raise NexusError("config", where, why, "Correct the rule; `nexus config edit` opens the file")


@app.command("list")
def list_rules(json: Json = False) -> int:
    """Print every rule with its file and line, the strictest first."""
    rules = _read()
    listed = rules.listed()
    if json:
        rows = [rule.to_json() for rule in listed]
        print_json({"version": 1, "rules": rows, "problems": list(rules.problems)})
    elif listed:
        table = [(rule.decision, rule.text, _extent(rule), rule.origin) for rule in listed]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)][:-1]
        lines = ("  ".join(map(str.ljust, line, [*widths, 0])) for line in table)
        print_text("\n".join(lines))
    elif not rules.problems:
        print_text("No rules. nexus rules add allow 'bash(npm test *)' adds one.")
    _refuse_problems(rules)
    return 0


def _extent(rule: PermissionRule) -> str:
    """Describe the scope of a rule: a folder, everywhere, or this project."""
    if rule.folder:
        return with_tilde(rule.folder)
    return "everywhere" if rule.file == str(places().settings) else "this project"


@app.command("test")
def test_command(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", show_default=False, help="A command line.")],
    allow: Annotated[str, level_option("The level.")] = "",
    network: Annotated[bool, typer.Option("--network", help="As if the call asked for the network.")] = False,
    outside: Annotated[
        str, typer.Option("--outside", metavar="WHY", help="As if it asked to run outside.", callback=refuse_empty)
    ] = "",
    json: Json = False,
) -> int:
    """Show the decision on COMMAND and its reason, without running it. Exit status: 0 allow, 1 ask, 3 deny."""
    folder = working_folder()
    project = project_root(folder)
    settings = settings_in(project)
    level = allow or min(settings.allow, settings.project.allow or settings.allow, key=LEVELS.index)
    rules = _read()
    _refuse_problems(rules)
    probe = find_backend(settings.sandbox.backend, own=places(), project=project)
    decision = decide_command(
        " ".join(command),
        level=level,
        rules=rules,
        cwd=folder,
        project=project,
        confined=probe.backend != "none",
        network=network,
        outside=outside,
    )
    if json:
        print_json(decision.to_json())
    else:
        print_text(decision_text(decision))
    return EXIT_STATUS[decision.decision]


def decision_text(value: CommandDecision) -> str:
    """Format the decision: a summary line, then a line for each part."""
    lines = [f"{value.decision}: {value.why} ({CONFINED[value.profile]})"]
    for part in value.parts:
        shown = clip_text(" ".join(part.command), 100, "...")
        rule = f"{part.rule} in " if part.rule else ""
        lines.append(f"  {part.decision:<5}  {shown}  ({rule}{part.source})")
    return "\n".join(lines)


@app.command("add")
def add(
    rule: Words, here: Annotated[bool, typer.Option("--here", help="For this project only, not for all.")] = False
) -> int:
    """Add a rule to the personal config.toml: nexus rules add allow 'bash(npm test *)'."""
    typed = " ".join(rule)
    folder = os.path.realpath(project_identity(working_folder())) if here else ""
    done = "was added" if add_rule(typed, rule_tools(), folder) else "is there already"
    write_stderr_line(f"nexus: {typed} {done}.")
    return 0


@app.command("remove")
def remove(rule: Words) -> int:
    """Remove a rule from the personal config.toml, as `nexus rules list` prints it; with or without its decision."""
    typed = " ".join(rule)
    remove_rule(typed, _read())
    write_stderr_line(f"nexus: {typed} was removed.")
    return 0
