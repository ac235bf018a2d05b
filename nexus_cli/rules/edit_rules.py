"""Add rules to the personal config.toml, and remove them: a rule as a person types it, `allow bash(npm test *)`."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.config.settings_file import change_list
from nexus_cli.core.errors import UsageError
from nexus_cli.core.limits import Decision
from nexus_cli.core.tool import Tool
from nexus_cli.rules.rule_set import DECISIONS, RuleSet, parse_rule, rules_key

LISTED = "`nexus rules list` and /permissions list the active rules"


def add_rule(typed: str, tools: Mapping[str, Tool], folder: str = "") -> bool:
    """Add a rule to the personal settings, for the projects in `folder` or ("") for all; return False if it is there
    already.

    `tools` are those that it may name. Raises `UsageError` for what is no rule, and as
    `config.settings_file.write_setting` does.
    """
    decision, text = _split_decision(typed)
    if decision is None:
        hint = "Example: nexus rules add allow 'bash(npm test *)'"
        raise UsageError(typed, "a rule must begin with allow, ask or deny", hint)
    try:
        parse_rule(decision, text, tools)
    except ValueError as error:
        raise UsageError(f"{decision} rule", str(error), LISTED) from None
    return change_list(rules_key(decision, folder), text, add=True)


def remove_rule(typed: str, in_force: RuleSet) -> list[str]:
    """Remove a rule from the personal settings, with or without its decision; each of them where it has several. Those
    of other projects' folders stay. Return what was removed, with its decision.

    Raises `UsageError` if it is not there; one that is `in_force` from elsewhere is named with its place.
    """
    decision, text = _split_decision(typed)
    decisions = DECISIONS if decision is None else (decision,)
    rules = [rule for rule in in_force.rules if rule.text == text and rule.decision in decisions]
    keys = {rules_key(rule_decision): rule_decision for rule_decision in decisions} | {
        rule.key: rule.decision for rule in rules if rule.folder
    }
    removed = [rule_decision for key, rule_decision in keys.items() if change_list(key, text, add=False)]
    if not removed:
        why = f"this rule comes from {rules[0].origin}" if rules else "there is no such rule"
        raise UsageError(text, why, LISTED)
    return [f"{decision} {text}" for decision in dict.fromkeys(removed)]


def _split_decision(typed: str) -> tuple[Decision | None, str]:
    """Return the decision that a rule begins with, None if it has none, and the rest."""
    first, _, rule_text = typed.strip().partition(" ")
    decision = next((candidate for candidate in DECISIONS if candidate == first), None)
    return (decision, rule_text.strip()) if decision and rule_text.strip() else (None, typed.strip())
