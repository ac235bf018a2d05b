"""Rules of other programs: exactly the same here, or left out and named."""

from __future__ import annotations

import pytest

from nexus_cli.core.limits import Decision
from nexus_cli.imports.foreign_setup import ForeignSetup, is_key, is_secret_header, may_overlap
from nexus_cli.rules.claude_rules import map_claude_rule, map_project_rule
from nexus_cli.rules.rule_set import parse_rule

MAPPED = {
    "Bash(npm test:*)": ["bash(npm test *)"],
    "Bash(npm run *)": ["bash(npm run *)"],
    "Bash(npm test)": ["bash(npm test)"],
    "Bash": ["bash"],
    "Bash(*)": ["bash"],
    "Read(./.env)": ["read_file(./.env)"],
    "Read(.env)": ["read_file(.env)"],
    "Read(~/.ssh/**)": ["read_file(~/.ssh/**)"],
    "Read(//etc/passwd)": ["read_file(/etc/passwd)"],
    "Edit(src/**)": ["edit_file(src/**)"],
    "Edit": ["edit_file", "write_file"],
    "Write(*.md)": ["write_file(*.md)"],
    "WebFetch(domain:docs.python.org)": ["fetch(docs.python.org)"],
    "mcp__github": ["mcp__github__*"],
    "mcp__github__*": ["mcp__github__*"],
    "mcp__github__create_issue": ["mcp__github__create_issue"],
    "Task": ["agent"],
    "Task(reviewer)": ["agent(reviewer)"],
    "Agent(kit:reviewer)": ["agent(kit:reviewer)"],
    "Agent(general-purpose)": ["agent(worker)"],
    "Task(General-Purpose)": ["agent(worker)"],
    "Skill(general-purpose)": ["skill(general-purpose)"],
    "Skill(ship)": ["skill(ship)"],
    "Skill(/kit:ship)": ["skill(kit:ship)"],
}
LEFT_OUT = (
    *(
        "Bash(git * main)",
        "Bash(ls*)",
        "Bash(a && b)",
        "Bash(X=1 make:*)",
        "Bash($(x))",
        "Read(/secrets/**)",
        "Read([a-z].pem)",
    ),
    *(
        "Read(!a)",
        "Edit(\\a)",
        "WebFetch(domain:*.org)",
        "WebFetch(url:x)",
        "NotebookEdit",
        "Glob(src)",
        "mcp__a__b(c)",
    ),
    *(
        "PowerShell(rm:*)",
        "",
        "(x)",
        "Bash(x",
        "Read(" + "**/" * 9 + ")",
        "Agent(rev*)",
        "Agent(reviewer:*)",
        "Skill(ship*)",
        "Skill( ship )",
        "Bash(git ?ain *)",
        "\x00",
        "Bash(ls \u202e)",
    ),
)


@pytest.mark.parametrize("written", MAPPED)
def test_a_rule_of_claude_has_the_same_meaning_here(written: str) -> None:
    setup = ForeignSetup("claude")
    assert map_claude_rule("allow", written) == MAPPED[written]
    assert [parse_rule("allow", text, setup.tools).text for text in MAPPED[written]] == MAPPED[written]


@pytest.mark.parametrize("name", ["Edit", "Write", "MultiEdit"])
def test_a_rule_that_keeps_a_path_from_being_edited_holds_for_every_tool_that_writes(name: str) -> None:
    for decision in ("deny", "ask"):
        assert map_claude_rule(decision, f"{name}(locked/**)") == ["edit_file(locked/**)", "write_file(locked/**)"]
    walled = ["read_file(hidden/**)", "edit_file(hidden/**)", "write_file(hidden/**)"]
    assert map_claude_rule("deny", "Read(hidden/**)") == walled


@pytest.mark.parametrize("written", LEFT_OUT)
def test_a_rule_without_the_same_meaning_is_left_out_and_named(written: str) -> None:
    for decision in ("allow", "deny"):
        setup = ForeignSetup("claude")
        kind: Decision = "deny" if decision == "deny" else "allow"
        setup.add_rules(kind, written, lambda: map_claude_rule(kind, written))  # noqa: B023
        if decision == "deny" and written in (
            "WebFetch(domain:*.org)",
            "Bash(git * main)",
            "Bash(ls*)",
        ):  # it may name more than one
            assert len(setup.rules) == 1 and not setup.lost
            continue
        assert not setup.rules and len(setup.lost if kind == "deny" else setup.notes) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_an_allow_rule_goes_with_the_rule_that_limited_it(order: int) -> None:
    setup = ForeignSetup("claude")
    rules: list[tuple[Decision, str]] = [
        ("deny", "Bash(git push [m]ain)"),
        ("allow", "Bash(git push:*)"),
        ("allow", "Bash(npm test:*)"),
        ("allow", "Read(~/docs/**)"),
    ]
    for decision, written in rules[::order]:
        setup.add_rules(decision, written, lambda: map_claude_rule(decision, written))  # noqa: B023
    assert set(setup.rules) == {("allow", "bash(npm test *)"), ("allow", "read_file(~/docs/**)")}
    assert any("Bash(git push:*)" in line and "because the rule" in line for line in setup.notes)


@pytest.mark.parametrize("written", ["Skill(ship *)", "Skill(ship:*)"])
def test_a_beginning_of_the_name_of_a_skill_is_no_word_of_its_arguments(written: str) -> None:
    assert map_claude_rule("deny", written) == ["skill(ship*)"]


def test_a_rule_with_a_key_in_it_is_left_out_and_the_key_is_not_shown() -> None:
    setup = ForeignSetup("claude")
    written = 'Bash(curl -H "Authorization: Bearer sk-' + "a1b2c3" * 6 + '":*)'
    setup.add_rules("allow", written, lambda: map_claude_rule("allow", written))
    assert not setup.rules and "seems to contain a key" in setup.notes[0] and "a1b2c3" not in str(setup.notes)


def test_what_may_overlap() -> None:
    assert (
        may_overlap("Bash(git:*)", "Bash(git * main)")
        and may_overlap("Bash", "Bash(x*)")
        and may_overlap("Read(a)", "Read([b])")
    )
    assert not may_overlap("Bash(npm:*)", "Bash(git * x)") and not may_overlap("Edit(a)", "Read([a])")


def test_keys_are_recognized_by_name_and_by_form_and_references_are_none() -> None:
    key = "ghp_" + "A1b2" * 9
    assert is_key("abc", "GITHUB_TOKEN") and is_key(key, "X") and is_key("Bearer " + "x1" * 20, "Authorization")
    assert is_key(f"${{A}} {key}") and not is_key("Bearer ${A}", "Authorization")
    assert (
        not is_key("${GITHUB_TOKEN}", "GITHUB_TOKEN") and not is_key("test", "NODE_ENV") and not is_key("", "A_TOKEN")
    )
    assert (
        is_secret_header("Cookie", "a=b") and not is_secret_header("X-Key", "${A}") and not is_secret_header("X-A", "b")
    )


def test_unmapped_rules_say_why() -> None:
    with pytest.raises(ValueError, match="absolute path"):
        map_claude_rule("deny", "Read(/x)")


def test_a_path_of_a_project_s_rule_begins_at_the_project() -> None:
    assert map_project_rule("deny", "Edit(/src/**)") == ["edit_file(./src/**)", "write_file(./src/**)"]
    assert map_project_rule("ask", "Read(//etc/x)") == ["read_file(/etc/x)"]
    assert map_project_rule("deny", "Bash(/bin/rm *)") == ["bash(/bin/rm *)"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Bash(git)", "bash(git push)"),
        ("Write(src/**)", "Edit(/src/keys)"),
        ("mcp__github", "mcp__*"),
        ("Read(a)", "*"),
    ],
)
def test_a_lost_rule_limits_the_other_names_of_its_tool_too(one: str, other: str) -> None:
    assert may_overlap(one, other) and not may_overlap("Read(a)", "Edit(/a)")
