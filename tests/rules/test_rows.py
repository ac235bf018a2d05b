"""Command lines and the decision that each must get: `rules.tsv`, with the deny rules that its header names."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules.rows import TOOLS, decide, read_rows
from search import sample

from nexus_cli.rules.rule_set import RuleSet, parse_rule

DOUBTED = RuleSet(tuple(parse_rule("deny", text, TOOLS) for text in ("bash(git push *)", "bash(rm *)")))


@pytest.mark.parametrize("name", sample(["rules.tsv", "further.tsv"], 2))
def test_every_row_gets_its_decision(name: str, tmp_path: Path) -> None:
    rows = read_rows(name)
    found = {command: decide(command, tmp_path) for command, *_ in rows}
    wrong = [
        f"{command[:100]!r}: {found[command].decision} ({found[command].why}), not {expected}"
        for command, expected, *_ in rows
        if found[command].decision != expected
    ]
    assert not wrong, "\n".join(wrong)
    assert len(rows) >= 150


def test_a_hostile_line_asks_and_its_harmless_likes_are_free(tmp_path: Path) -> None:
    found = {command: decide(command, tmp_path, "ask", RuleSet()) for command, _ in read_rows("hostile.tsv")}
    wrong = [
        f"{one}: {found[one].decision} ({found[one].why})"
        for one, expected in read_rows("hostile.tsv")
        if found[one].decision != expected
    ]
    assert not wrong, "\n".join(wrong)


def test_a_rule_for_a_reading_command_covers_its_forms_that_only_read(tmp_path: Path) -> None:
    wrong = []
    for rule, command, expected in read_rows("prefixes.tsv"):
        found = decide(command, tmp_path, "ask", RuleSet((parse_rule("allow", rule, TOOLS),)))
        if found.decision != expected:
            wrong.append(f"{rule}: {command}: {found.decision} ({found.why})")
    assert not wrong, "\n".join(wrong)


def test_what_may_be_denied_is_refused_at_all_and_asks_below(tmp_path: Path) -> None:
    wrong = []
    for command, expected in read_rows("doubts.tsv"):
        found = decide(command, tmp_path, "all", DOUBTED)
        below = decide(command, tmp_path, "auto", DOUBTED).decision
        if found.decision != expected or (expected == "deny" and below == "allow"):
            wrong.append(f"{command}: {found.decision} ({found.why}), at run {below}")
    assert not wrong, "\n".join(wrong)


def test_a_refused_doubt_names_the_rule_and_what_to_do(tmp_path: Path) -> None:
    why = decide("git $x", tmp_path, "all", DOUBTED).why
    assert "deny bash(git push *)" in why and "write the command directly" in why
    asks = RuleSet((parse_rule("ask", "bash(git push *)", TOOLS),))
    assert decide("git $x", tmp_path, "all", asks).decision == "allow", "ask rules have no effect at all"


def test_a_program_that_is_not_known_runs_no_denied_command(tmp_path: Path) -> None:
    rows = read_rows("passed_hostile.tsv")
    wrong = []
    for (command,) in rows:
        found, below = decide(command, tmp_path, "all"), decide(command, tmp_path, "auto")
        if found.decision != "deny" or below.decision == "allow":
            wrong.append(f"{command}: {found.decision} ({found.why}), at run {below.decision}")
    assert not wrong, "\n".join(wrong)
    assert len(rows) >= 100


@pytest.mark.matrix
def test_harmless_lines_with_denied_words_are_free_but_for_three(tmp_path: Path) -> None:
    rows = read_rows("passed_harmless.tsv")
    found = [(command, decide(command, tmp_path, level)) for (command,) in rows for level in ("auto", "all")]
    wrong = {command: one.why for command, one in found if one.decision != "allow"}
    assert len(wrong) <= 3, wrong
    assert len(rows) >= 130


def test_the_reason_names_the_program_the_rule_and_what_to_do(tmp_path: Path) -> None:
    why = decide("fakeroot git -C sub push", tmp_path, "all").why
    assert "fakeroot may run" in why and "deny bash(git push *)" in why and "write the command directly" in why
    asked = decide("ls; fakeroot rm x", tmp_path, "auto")
    assert asked.why == "fakeroot may run a command that matches deny bash(rm *) (this session)"
    assert [part.decision for part in asked.parts] == ["allow", "ask"]


def test_a_text_of_a_program_that_is_not_known_is_not_refused_without_the_words_of_a_rule(tmp_path: Path) -> None:
    lines = ("mytool 'alias x=y'", "mytool 'eval $x'", 'mytool "don\'t do it"', "psql <<< \"select 'it''s'\"")
    wrong = [one for one in lines for level in ("auto", "all") if decide(one, tmp_path, level).decision != "allow"]
    assert not wrong
