"""`/permissions`: the permission level and the rules, which let tool calls run, ask or refuse them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.arguments import SessionSource, find_permission, highest_level, read_settings
from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Act, ActReport, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.config.paths import project_root
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import ASK, LEVELS, PLAN, Limits, level_fields, parse_level, require_level
from nexus_cli.core.option import Argument, Option
from nexus_cli.permission.approvals import remove_allowance
from nexus_cli.text.hidden_signs import mark_hidden_signs

if TYPE_CHECKING:
    from nexus_cli.rules.rule_set import RuleSet
    from nexus_cli.session.session import Session

Permissions = Report[Annotated[Any, "reports.permissions.PermissionsReport"] | ActReport]
EXIT_STATUS = {"allow": 0, "ask": 1, "deny": 3}
RuleText = Annotated[list[str], Argument("RULE", "allow, ask or deny, then TOOL or TOOL(PATTERN).", is_text=True)]
Pattern = Annotated[str, Argument("RULE", "A tool, or TOOL(PATTERN): bash(npm test *).", is_text=True)]


def _read(source: Source) -> tuple[RuleSet, NexusError | None]:
    """Return the rules in force, and the error for the first invalid one; print the others, and in a shell the notices
    of the settings."""
    rules = find_permission(source).rules_in_force()
    read_settings(source)
    for problem in rules.problems[1:]:
        source.say(problem)
    if not rules.problems:
        return rules, None
    place, _, why = rules.problems[0].partition(": ")
    return rules, NexusError(
        "config", place, why, "Correct the rule in its file; `nexus config edit` opens your settings"
    )


def list_rules(source: Source) -> Report[Annotated[Any, "reports.permissions.RulesReport"]]:
    """Print all rules with file and line, strictest first."""
    rules, error = _read(source)
    if error is not None:
        source.say(error.line.removeprefix("nexus: "))
    value = {"version": 1, "rules": to_json_value(rules.listed()), "problems": list(rules.problems)}
    return Report("rules", value, uncut=True, status=error.exit_status if error else 0)


def test_command(
    source: Source,
    command: Annotated[list[str], Argument("COMMAND", "A command line.", is_text=True)],
    allow: Annotated[str, Option("|".join(LEVELS), "The level.")] = "",
    network: Annotated[bool, Option(None, "Test a call that requests network access.")] = False,
    outside: Annotated[str, Option("WHY", "Test a call that requests to run outside the sandbox.")] = "",
) -> Report[Annotated[Any, "reports.permissions.RulesTestReport"]]:
    """Show the decision on COMMAND and the reason, without running COMMAND. Exit status: 0 allow, 1 ask, 3 deny."""
    from nexus_cli.rules.decide import decide_command  # noqa: PLC0415  (a session loads rules at the first call)

    folder, settings = source.folder(), source.settings()
    own_level, highest_level = (
        source.live.status().allow if source.live else settings.allow,
        settings.project.allow or settings.allow,
    )
    usual = LEVELS[0] if own_level == PLAN else min(own_level, highest_level, key=LEVELS.index)
    rules, error = _read(source)
    if error is not None:
        raise error
    level = require_level(allow, "--allow") if allow else usual
    decision = decide_command(
        " ".join(command),
        level=level,
        rules=rules,
        cwd=folder,
        project=project_root(folder),
        confined=(permission := find_permission(source)).has_sandbox(),
        hides=permission.hides_denied(),
        network=network,
        outside=outside,
    )
    fields = level_fields(level)
    value = {**to_json_value(decision), **fields}
    for part in value["parts"]:  # scripts know the origin by the former name of the level
        part |= {"origin": part["from"], "from": part["from"].replace(f"level {level}", f"level {fields['allow']}")}
    return Report("rule_test", value, uncut=True, status=EXIT_STATUS[decision.decision])


def add_rule(
    source: Source,
    rule: RuleText,
    here: Annotated[bool, Option(None, "Add the rule only for this project.")] = False,
) -> Act:
    """Add a rule to the personal config.toml: nexus rules add allow 'bash(npm test *)'."""
    decision, _, text = " ".join(rule).partition(" ")
    text = _unquote(text.strip())
    typed = f"{decision} {text}".rstrip()
    folder = os.path.realpath(project_identity(source.folder())) if here else ""
    added = find_permission(source).add_rule(typed, folder)
    if decision == "allow" and text.startswith("mcp__"):
        _accept_definitions(source, text)
    if not added:
        return report_act(f"rule {typed} is already in your settings.")
    return report_act(f"rule {typed} was added to your settings.", typed)


def _accept_definitions(source: Source, rule: str) -> None:
    """Keep the definitions of the tools of MCP servers that a rule allows, as they are now; show what has changed."""
    from nexus_cli.mcp.server_tools import read_tools  # noqa: PLC0415  (most rules are for other tools)

    tools = read_tools(source.folder(), source.live.options.servers if source.live else ())
    for name, change in find_permission(source).accept_definitions(rule, tools).items():
        for line in (f"accepted the changed definition of {name}:", *change.diff.split("\n")):
            source.say(mark_hidden_signs(line))


def remove_rule(source: Source, rule: RuleText) -> Act:
    """Remove a rule from the personal config.toml, or in a session revoke a granted permission, by its listed name.

    Write the rule as `nexus rules list` prints it; you may omit allow, ask or deny.
    """
    typed = _unquote(" ".join(rule))
    if source.live and remove_allowance(source.live.dispatcher.always, typed, source.live.dispatcher.project_root):
        return report_act(f"permission {typed} was revoked for this session.", typed)
    removed = find_permission(source).remove_rule(typed)
    return report_act(f"rule {typed} was removed from your settings.", *removed)


def _unquote(rule: str) -> str:
    """Remove the quotes that a rule has in a shell."""
    return rule[1:-1] if len(rule) > 1 and rule[0] == rule[-1] and rule[0] in "'\"" else rule


async def _withdraw_questions(context: CommandContext) -> None:
    """Ask no longer what the changed rules decide."""
    context.session.dispatcher.withdraw_questions()


async def set_level(
    context: CommandContext,
    level: Annotated[str, Argument("LEVEL", "The new permission level.")] = "",
) -> Permissions:
    """Show or set what runs without asking.

    Also lists the rules and the permissions you granted for the session. ask: reading inside the project, and read-only
    commands. edit: also editing inside it. auto: also commands confined to the project, without network. all:
    everything, without the sandbox. plan: read-only; the model proposes a plan (see /plan).
    """
    from nexus_cli.reports.permissions import describe_level, permissions_report  # noqa: PLC0415  (imports the engine)

    session = context.session
    if not level:
        return Report("permissions", await asyncio.to_thread(permissions_report, session))
    new_level, levels = parse_level(level), (PLAN, *LEVELS)
    if new_level not in levels:
        raise usage_error("permissions", level, f"must be one of {', '.join(levels)}")
    session.set_level(new_level)
    now = session.status().allow
    note = "" if now == new_level else f" The level {new_level} is more than {_describe_limit(session, new_level)}."
    runs = await asyncio.to_thread(describe_level, session, now)
    return print_act(f"Permission level: {now} ({runs}).{note}", now)


def _describe_limit(session: Session, level: str) -> str:
    """Return the bound that `level` exceeds, to follow "more than"."""
    highest = highest_level(session)
    if not Limits(allow=level) <= highest:
        return f"the server allows ({highest.allow})"
    return "your settings allow"


def allow(source: Source, rule: Pattern) -> Act:
    """Add an allow rule to your settings, with immediate effect."""
    return add_rule(source, ["allow", rule])


async def ask(
    context: CommandContext,
    rule: Annotated[str, Argument("[RULE]", "A tool, or TOOL(PATTERN).", is_text=True, permits=True)] = "",
) -> Permissions:
    """Add a rule that requires approval for calls; without RULE, set the level ask."""
    if not rule:
        return await set_level(context, ASK)
    report = await asyncio.to_thread(add_rule, SessionSource(context), ["ask", rule])
    await _withdraw_questions(context)
    return report


def deny(source: Source, rule: Pattern) -> Act:
    """Add a deny rule to your settings, with immediate effect."""
    return add_rule(source, ["deny", rule])


ADD = Verb(add_rule, "add", Authority.PERMITS, "nothing", then=_withdraw_questions)
PERMISSIONS = Noun(
    "permissions",
    "setup",
    (
        Verb(set_level, complete=(PLAN, *LEVELS)),
        Verb(list_rules, "list", opens="nothing"),
        Verb(test_command, "test", opens="nothing"),
        ADD,
        replace(ADD, run=allow, name="allow", only="slash"),
        Verb(ask, "ask"),
        replace(ADD, run=deny, name="deny", only="slash"),
        replace(ADD, run=remove_rule, name="remove"),
    ),
    "Show or set what runs without asking.",
    aliases=("rules", "rule", "approvals", "allowed-tools"),
    is_first=True,
)
NOUNS = (PERMISSIONS,)
