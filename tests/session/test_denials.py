"""Of every refused call a person learns what refused it, and what really lets it run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from project_files import write_files
from session.played import MODEL, Person, Played, say

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Deny
from nexus_cli.core.event import TurnEnd
from nexus_cli.core.limits import Bound, Limits
from nexus_cli.core.request import Request
from nexus_cli.reports.event_texts import describe_denials
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.outcome import explain_denial

LOOK = ("read_file", {"path": "a.txt"})
RUN = ("bash", {"command": "touch made"})
WRITE = ("write_file", {"path": "b.txt", "content": "x"})


def told(folder: Path, *calls: Any, switch: str = "--allow", **more: Any) -> str:
    """The line on the refused calls of a turn that asks for `calls` in each of its steps."""
    return describe_denials(refused(folder, *calls, **more), switch)


def refused(folder: Path, *calls: Any, steps: int = 1, approver: Any = None, **more: Any) -> Any:
    """The refused calls of such a turn."""
    (folder / "a.txt").write_text("one\n")

    def script(request: Request) -> Any:
        done = sum(1 for message in request.messages if message["role"] == "assistant")
        return list(calls) if done < steps else "done"

    own = {name: more.pop(name) for name in ("limits", "project") if name in more}
    settings = Settings(models={MODEL: {"window": 16_000}}, **own)
    session = open_session(Options(folder, MODEL, **more), settings, approver=approver, provider=Played(script))
    events, outcome = say(session, "go")
    assert outcome.ok and isinstance(events[-1], TurnEnd)
    assert all(one["by"] for one in outcome.denied)
    return outcome.denied


@pytest.fixture
def locked() -> None:
    folder = places().config / "recipes"
    folder.mkdir(parents=True)
    (folder / "locked.toml").write_text('[limits]\ntools = ["read_file"]\n')
    (folder / "reading.toml").write_text('[limits]\nallow = "read"\n')
    (folder / "short.toml").write_text("[limits]\nmax_iterations = 1\n")
    (folder / "signalled.toml").write_text("signals = true\n")


@pytest.mark.matrix
def test_a_level_that_is_too_low_is_named_with_the_one_that_does(tmp_path: Path) -> None:
    way = "--rule 'bash(touch made)' lets it run, without network. To always allow it here: "
    way += "nexus rules add --here 'allow bash(touch made)'. --allow auto lets it run too, without network."
    assert told(tmp_path, RUN) == f"1 call was refused: bash touch made. {way}"
    both = told(tmp_path, RUN, WRITE, switch="/permissions")
    assert both.startswith(
        "2 calls were refused: bash touch made; write_file b.txt. --rule 'bash(touch made)' --rule 'write_file("
    )
    assert " lets them run. To always allow `bash touch made` here: nexus rules add --here 'allow bash(" in both
    assert both.endswith("(touch made)'. /permissions auto lets them run too, without network.")


def test_the_rule_for_a_refused_command_is_that_command_and_a_wider_one_only_where_it_cannot_be_written(
    tmp_path: Path,
) -> None:
    (row,) = refused(tmp_path, RUN)
    assert row["rule"] == "bash(touch made)"
    other = ("bash", {"command": "touch other"})
    (left,) = refused(tmp_path, RUN, other, rules=(row["rule"],))
    assert left["subject"] == "touch other" and (tmp_path / "made").exists()
    (row,) = refused(tmp_path, ("bash", {"command": "touch 'made*'"}))
    assert row["rule"] == "bash(touch *)", "in a rule the star of the name would stand for any text"


@pytest.mark.matrix
def test_a_person_who_said_no_is_not_sent_to_the_permissions(tmp_path: Path) -> None:
    (row,) = rows = refused(tmp_path, RUN, approver=Person(Deny()))
    assert (row["hint"], describe_denials(rows, "--allow")) == ("you said no", ""), "the question's line has shown it"


@pytest.mark.matrix
def test_a_person_who_said_nothing_is_not_said_to_have_said_no(tmp_path: Path) -> None:
    (row,) = refused(tmp_path, RUN, approver=Person(Deny("the input ended before an answer", said=False)))
    assert row["hint"] == "the input ended before an answer"


@pytest.mark.matrix
@pytest.mark.usefixtures("locked")
def test_a_recipe_that_refused_is_named_whatever_else_is_allowed(tmp_path: Path) -> None:
    way = "start nexus with another recipe: --recipe NAME."
    assert told(tmp_path, LOOK, RUN, recipe="locked", allow="all").endswith(
        f"touch made. The recipe locked excludes bash: {way}"
    )
    assert told(tmp_path, WRITE, recipe="reading", allow="all").endswith(
        f"b.txt. The recipe reading does not allow that: {way}"
    )
    assert told(tmp_path, LOOK, steps=2, recipe="short").endswith(
        f"a.txt. The recipe short allows tool calls in only one step of a turn: ask again, or {way}"
    )
    assert told(tmp_path, LOOK, steps=2, recipe="signalled").endswith(
        ". A limit set during the turn refused the call; ask again."
    )


@pytest.mark.matrix
def test_settings_and_a_project_that_refused_are_named(tmp_path: Path) -> None:
    once = Limits(mode="single_action")
    mine = told(tmp_path, LOOK, steps=2, limits=once)
    assert mine.endswith(
        "Your setting limits.mode allows tool calls in only one step of a turn: ask again, or change it with "
        "`nexus config edit`."
    )
    theirs = told(tmp_path, LOOK, steps=2, project=once)
    assert "The setting limits.mode in this project's .nexus/config.toml allows tool calls in only one step" in theirs
    assert theirs.endswith("change it there, or turn off all of this project's configuration: nexus trust --revoke.")
    both = told(tmp_path, LOOK, steps=2, limits=once, project=once)
    assert "our setting limits." in both and "in this project's" in both


@pytest.mark.matrix
def test_a_run_that_confirms_without_a_terminal_does_not_name_a_level(tmp_path: Path) -> None:
    line = told(tmp_path, WRITE, limits=Limits(confirm=True), allow="all")
    assert line.endswith("b.txt. This run needs approval for each change, and nobody could be asked.")
    outside = ("read_file", {"path": "/etc/hostname"})
    line = told(tmp_path, outside, limits=Limits(confirm=True))
    assert line.endswith("To always allow it here: nexus rules add --here 'allow read_file(/etc/hostname)'.")


def test_many_refused_calls_are_told_in_a_few_lines() -> None:
    lines = [f"python3 tools/step_{number}.py --with a --long=list of --further arguments" for number in range(7)]
    rows = [{"tool": "bash", "subject": line, "level": "auto", "rule": f"bash({line[:20]} *)"} for line in lines]
    line = describe_denials([{**row, "option": f"--rule '{row['rule']}'"} for row in rows], "--allow")
    assert (
        line.count("--rule 'bash(") == 4
        and " *)' lets 4 of them run, without network. To always allow `bash python3 tools/step_0.py --with a…`" in line
    )
    assert line.count("nexus rules add") == 1 and len(line) <= 5 * 100, line
    line = describe_denials(rows, "--allow")
    assert line.startswith("7 calls were refused: bash python3 tools/step_0.py --with a…; ") and "and 5 more." in line
    assert "To allow 2 of them here: nexus rules add --here 'allow bash(python3 tools/step" in line
    assert " *)'. --allow auto" in line and line.count("nexus rules add") == 2
    assert len(line) <= 4 * 100, line
    reasons = [{"tool": "bash", "subject": f"c{number}", "hint": f"do {number}"} for number in range(4)]
    assert describe_denials(reasons, "--allow").endswith("Do 0; do 1 and 2 more.")


@pytest.mark.matrix
def test_the_narrowest_way_is_named_and_level_all_only_where_there_is_no_other(tmp_path: Path) -> None:
    project, beside = tmp_path / "project", tmp_path / "beside"
    project.mkdir()
    write_files(beside, {"data.txt": "one\n"})
    calls = [("read_file", {"path": str(beside / "data.txt")}), RUN, ("bash", {"command": "curl x", "network": True})]
    rows = refused(project, *calls)
    line = describe_denials(rows, "--allow")
    assert [(row["allow"], row["level"]) for row in rows] == [(None, None), ("run", "auto"), (None, None)]
    assert [row["rule"] for row in rows] == [f"read_file({beside}/data.txt)", "bash(touch made)", None]
    assert [row["option"] for row in rows] == [
        f"--add-dir {beside}",
        "--rule 'bash(touch made)'",
        "--rule 'bash(curl x)'",
    ]
    assert f". --add-dir {beside} --rule 'bash(touch made)' --rule 'bash(curl x)' lets them run. To always" in line
    assert " always allow `read_file " in line
    assert f"` here: nexus rules add --here 'allow read_file({beside}/data.txt)'. " in line
    assert line.endswith(". --allow auto lets `bash touch made` run too, without network.")

    write = ("write_file", {"path": str(beside / "new.txt"), "content": "x"})
    exact = f"--rule 'write_file({beside}/new.txt)'"  # at the level ask the folder would not be enough
    for level, option in (("ask", exact), ("edit", f"--add-dir {beside}")):
        assert [row["option"] for row in refused(project, write, allow=level)] == [option]

    places().config.mkdir(parents=True)
    places().settings.write_text(f"[rules]\nallow = {[row['rule'] for row in rows[:2]]}\n".replace("'", '"'))
    assert [row["subject"] for row in refused(project, *calls)] == ["curl x"], "the rules let them run"


@pytest.mark.matrix
def test_a_command_that_reads_outside_the_project_names_that_folder_or_that_file(tmp_path: Path) -> None:
    project, beside = tmp_path / "project", tmp_path / "beside"
    project.mkdir()
    write_files(beside, {"data.txt": "one\n"})
    look = ("bash", {"command": f"cat {beside}/data.txt"})
    (row,) = refused(project, look)
    assert (row["rule"], row["option"]) == (f"bash(cat {beside}/data.txt)", f"--add-dir {beside}")
    assert not refused(project, look, add_dirs=(beside,))
    there = ("bash", {"command": f"cd {beside} && ls"})
    (listing,) = refused(project, there)
    assert listing["option"] == f"--add-dir {beside}" and not refused(project, there, add_dirs=(beside,))
    places().config.mkdir(parents=True)
    places().settings.write_text(f'[rules]\nallow = ["{row["rule"]}"]\n')
    assert not refused(project, look)
    (other,) = refused(project, ("bash", {"command": f"cat {beside}/other.txt"}))
    assert other["rule"] == f"bash(cat {beside}/other.txt)", "though nothing is there"


@pytest.mark.matrix
def test_a_rule_of_this_run_lets_one_command_out_of_the_sandbox_and_no_other(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    project.mkdir()
    calls = [
        ("bash", {"command": f"touch {outside}", "outside": "it belongs there"}),
        ("bash", {"command": f"touch {outside}2", "outside": "it belongs there"}),
    ]
    rows = refused(project, *calls)
    rule = f"bash(touch {outside})"
    assert rows[0]["option"] == f"--rule '{rule}'"
    line = describe_denials(rows[:1], "--allow")
    assert line.endswith(f"--rule '{rule}' lets it run."), "and not: only the level all"
    (left,) = refused(project, *calls, rules=(rule,))
    assert left["subject"] == calls[1][1]["command"] and outside.exists() and not Path(f"{outside}2").exists()


@pytest.mark.matrix
def test_a_line_of_several_commands_names_a_rule_for_each_that_has_to_leave_the_sandbox(tmp_path: Path) -> None:
    inside = ("bash", {"command": "touch one && ls && touch two"})
    (row,) = refused(tmp_path, inside)
    assert (row["level"], row["rule"]) == ("auto", None), "one rule for both would allow more"
    assert row["option"] == "--rule 'bash(touch one)' --rule 'bash(touch two)'"
    (row,) = refused(tmp_path, ("bash", {"command": "sh < script"}))
    assert (row["rule"], row["option"]) == (None, "--rule 'bash(sh)'"), "no rule for good for every other script"
    assert not refused(tmp_path, inside, rules=("bash(touch one)", "bash(touch two)"))

    line = ("bash", {"command": f"touch {tmp_path}/made && ls", "outside": "it belongs there"})
    (row,) = refused(tmp_path, line)
    rules = (f"bash(touch {tmp_path}/made)", "bash(ls)")
    assert (row["level"], row["option"]) == (None, f"--rule '{rules[0]}' --rule '{rules[1]}'")
    assert refused(tmp_path, line, rules=rules[:1]), "a reader needs a rule too"
    assert not refused(tmp_path, line, rules=rules)
    long = "; ".join(f"touch {tmp_path}/{number}" for number in range(40))
    (row,) = refused(tmp_path, ("bash", {"command": long, "outside": "it belongs there"}))
    assert (row["level"], row["option"]) == ("all", None)


@pytest.mark.matrix
def test_beside_a_rule_that_cannot_be_read_no_level_or_rule_is_named_that_would_not_do(tmp_path: Path) -> None:
    places().config.mkdir(parents=True)
    places().settings.write_text('[rules]\ndeny = ["bash(rm"]\n')
    for call in (RUN, ("read_file", {"path": "/etc/hosts"})):
        (row,) = refused(tmp_path, call)
        assert (row["level"], row["rule"], row["option"]) == (None, None, None)
        assert row["hint"].endswith(f"; first correct the rule in {places().settings} line 2")
    assert refused(tmp_path, WRITE)[0]["level"] == "edit"


@pytest.mark.matrix
def test_a_rule_of_this_run_covers_a_redirect_of_descriptors_and_none_to_a_file(tmp_path: Path) -> None:
    project, made = tmp_path / "project", tmp_path / "made"
    project.mkdir()
    rule = f"bash(touch {made})"

    def rows_of(redirect: str, *rules: str) -> list[Any]:
        call = ("bash", {"command": f"touch {made} {redirect}", "outside": "it belongs there"})
        return list(refused(project, call, rules=rules))

    (row,) = rows_of("2>&1")
    assert row["option"] == f"--rule '{rule}'"
    assert not rows_of(">&2 2>&1", rule) and made.exists()
    for redirect in ("2> errors", ">&errors", "&> errors", "< /etc/hostname", "2>&1 > errors", ">&²"):
        (row,) = rows_of(redirect, rule)
        assert row["option"] is None, redirect
    assert not {"errors", "²"} & {path.name for path in project.iterdir()}


@pytest.mark.matrix
def test_a_path_that_no_rule_can_name_is_refused_without_one(tmp_path: Path) -> None:
    (row,) = refused(tmp_path, ("read_file", {"path": "/etc/\x1bred"}))
    assert (row["rule"], row["level"]) == (None, "all")


@pytest.mark.matrix
def test_a_call_in_a_run_that_began_without_tools_is_a_refused_one(tmp_path: Path) -> None:
    (row,) = refused(tmp_path, LOOK, no_tools=True)
    assert (row["tool"], row["subject"], row["limit"]) == ("read_file", "a.txt", "tools")
    assert describe_denials((row,), "--allow").endswith("--no-tools excludes read_file: omit it.")
    assert not refused(tmp_path, ("no_such_tool", {}), no_tools=True)


@pytest.mark.matrix
def test_tools_that_were_switched_off_on_a_resumed_session_name_the_option(tmp_path: Path) -> None:
    first = open_session(Options(tmp_path, MODEL), Settings(), approver=None, provider=Played(lambda request: "hi"))
    say(first, "go")
    line = told(tmp_path, LOOK, steps=2, resume=first.id, no_tools=True)
    assert line.endswith("a.txt. --no-tools excludes read_file: omit it.")


def test_of_an_unknown_layer_nothing_is_claimed() -> None:
    row = {"id": "c1", "tool": "bash", "subject": "", "why": "not for this run", "allow": "", "limit": "tools"}
    assert explain_denial(row, (), "ask", "run")["hint"] == ""
    bound = Bound("tools", frozenset[str](), "elsewhere", {"elsewhere": frozenset[str]()})
    made = explain_denial(row, (bound,), "ask", "run")
    assert (made["by"], made["hint"]) == ("elsewhere", "")
    assert describe_denials([made], "x").endswith("Not for this run.")
    assert describe_denials((), "x") == ""


@pytest.mark.matrix
def test_a_deny_rule_is_named_with_its_place_and_no_level_is_promised(tmp_path: Path) -> None:
    places().config.mkdir(parents=True)
    places().settings.write_text('[rules]\ndeny = ["bash(touch *)", "write_file(b.txt)"]\n')
    for call, rule in ((RUN, "deny bash(touch *)"), (WRITE, "deny write_file(b.txt)")):
        line = told(tmp_path, call, allow="all")
        assert f"Refused at every level: {rule}" in line and "config.toml line 2" in line and "recipe" not in line


def test_plan_mode_only_reads_whatever_the_rules_allow(tmp_path: Path) -> None:
    places().config.mkdir(parents=True)
    places().settings.write_text('[rules]\nallow = ["bash(touch *)", "write_file(b.txt)"]\n')
    rows = refused(tmp_path, RUN, WRITE, ("bash", {"command": "cat a.txt"}), allow="plan")
    assert [row["by"] for row in rows] == ["plan", "plan"], "so that a terminal does not offer to allow them"
    assert describe_denials(rows, "--allow") == ""
    assert not (tmp_path / "made").exists() and not (tmp_path / "b.txt").exists()


def test_for_a_refused_credential_the_rule_is_named_and_no_level(tmp_path: Path) -> None:
    line = told(tmp_path, ("read_file", {"path": "~/.ssh/id_rsa"}))
    assert "only a rule in your own config.toml allows it" in line and "/.ssh/id_rsa)" in line
    assert "lets it run" not in line and "--allow" not in line
    line = told(tmp_path, ("bash", {"command": "cat ~/.ssh/id_rsa"}))
    assert "holds credentials, which the sandbox hides from commands" in line
    assert "lets it run" not in line and "--allow" not in line
