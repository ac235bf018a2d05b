"""`/goal`, `/reflect`, `/why`: what they show, and what they say when there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext
from search import sample
from worktrees.repository import git

from nexus_cli.commands import discover, find
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits


def shown(context: FakeContext, line: str) -> Any:
    context.run(line)
    return context.shown[-1][1]


@pytest.mark.matrix
def test_a_goal_is_set_listed_done_and_dropped(context: FakeContext) -> None:
    assert shown(context, "goal")["goals"] == []
    context.provider.script = lambda request: "Write it.\nTest it."
    value = shown(context, "goal a parser for dates")
    assert value["goals"] == [
        {
            "id": "g1",
            "text": "a parser for dates",
            "done": False,
            "steps": [
                {"id": "g2", "text": "Write it.", "done": False},
                {"id": "g3", "text": "Test it.", "done": False},
            ],
        }
    ]
    complete = find("goal", context.commands).complete
    assert complete is not None and "done g2" in complete(context)
    assert find_form("goals")(shown(context, "goal done g2"), 80).splitlines()[1] == "  [x] g2 Write it."
    assert shown(context, "goal drop g1")["goals"] == []
    with pytest.raises(NexusError, match="there is no such"):
        context.run("goal done g7")
    with pytest.raises(NexusError, match="missing: ID"):
        context.run("goal done")


def test_several_goals_are_done_or_dropped_at_once_and_pay_for_no_request(context: FakeContext) -> None:
    context.provider.script = lambda request: "Write it.\nTest it."
    for goal in ("a parser", "a printer", "a linker"):
        context.run(f"goal {goal}")
    sent = len(context.provider.seen)
    value = shown(context, "goal done g2, g3")
    assert [(one["id"], one["done"]) for one in value["goals"]] == [("g1", True), ("g4", False), ("g7", False)]
    assert [one["id"] for one in shown(context, "goal drop g4 g5 g1")["goals"]] == ["g7"]
    with pytest.raises(NexusError, match="drop g40: there is no such goal or step"):
        context.run("goal drop g7 g40")
    for line in ("goal", "goal list", "goal add", "goal SET", "goal show"):
        assert [one["id"] for one in shown(context, line)["goals"]] == ["g7"]
    assert len(context.provider.seen) == sent
    assert shown(context, "goal DROP G7; G8")["goals"] == [], "letter case and commas do not matter"


@pytest.mark.parametrize(
    ("line", "right"),
    sample(
        [
            ("done", "/goal done ID"),
            ("clear", "/goal drop ID"),
            ("dropp g1", "/goal drop g1"),
            ("finish g1 please", "/goal done g1"),
            ("remove g2, g1", "/goal drop g2 g1"),
            ("drop g1 g2 now", "/goal drop"),
            ("done the login page", "/goal done"),
            ("g1", "/goal done g1"),
            ("Doen G1", "Did you mean /goal done g1?"),
            ("drop support for it", "put another word"),
        ],
        3,
    ),
)
def test_what_only_looks_like_a_verb_sets_no_goal_and_costs_nothing(
    context: FakeContext, line: str, right: str
) -> None:
    context.run("goal a parser")
    sent = len(context.provider.seen)
    with pytest.raises(NexusError) as caught:
        context.run(f"goal {line}")
    assert caught.value.kind == "usage" and right in caught.value.line
    for lists in ("list", "SHOW"):
        assert [goal["text"] for goal in shown(context, f"goal {lists}")["goals"]] == ["a parser"]
    assert len(context.provider.seen) == sent


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["clear the cache of the build", "list the files", "close the socket", "one parser"])
def test_a_goal_may_begin_with_what_would_be_a_verb_elsewhere(context: FakeContext, text: str) -> None:
    assert [goal["text"] for goal in shown(context, f"goal {text}")["goals"]] == [text]


def test_a_reflection_shows_what_was_learned(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="has no turn yet"):
        context.run("reflect")
    context.turn("begin")
    context.provider.script = lambda request: "Look before you leap."
    before = context.session.engine.conversation.counted
    assert find_form("reflection")(shown(context, "reflect"), 80) == "Look before you leap."
    assert context.session.engine.conversation.counted == before


def test_a_reflection_says_which_of_its_lessons_wait(context: FakeContext) -> None:
    lessons = [("remember", {"text": f"Lesson number {n} is to look first", "slot": "agent"}) for n in range(3)]
    context.turn("begin")
    context.provider.script = lambda request: lessons[:1] if request.messages[-1]["role"] == "user" else "one lesson"
    value = shown(context, "reflect")
    assert value["waiting"] == ["m1"] and value["older"] == 0
    assert find_form("reflection")(value, 120).splitlines()[-1] == (
        "1 new lesson (m1): review with /memory, keep with /memory accept m1."
    )
    context.provider.script = lambda request: lessons[1:] if request.messages[-1]["role"] == "user" else "two lessons"
    value = shown(context, "reflect")
    assert value["waiting"] == ["m2", "m3"] and value["older"] == 1
    assert "2 new lessons (m2, m3)" in find_form("reflection")(value, 120)
    assert "/memory accept ID" in find_form("reflection")(value, 120), "all would keep the older one as well"
    assert "/memory accept all" in find_form("reflection")(value | {"older": 0}, 120)


def test_why_speaks_of_signals_only_where_they_bind_limits(context: FakeContext) -> None:
    value = shown(context, "why")["in_force"]
    text = find_form("why")(value, 200)
    assert "max_steps" in text and "Pressure" not in text and "in a row" not in text
    binding = value | {"signals": value["signals"] | {"bind": True, "recent_errors": 1}}
    text = " ".join(find_form("why")(binding, 200).split())
    assert "1 consecutive call could not run" in text and "The recipe chat tightens its limits accordingly." in text


def test_why_names_the_layer_and_what_each_said(context: FakeContext) -> None:
    (limit,) = shown(context, "why max_steps")["limits"]
    assert (limit["value"], limit["bound_by"]) == (9, "command line")
    assert limit["said"] == {"command line": 9}
    (limit,) = shown(context, "why allow")["limits"]
    assert limit == {"name": "allow", "value": "ask", "bound_by": "settings", "said": {"settings": "ask"}}
    assert {limit["name"] for limit in shown(context, "why")["in_force"]["limits"]} == {"max_steps", "allow"}
    text = find_form("why")(shown(context, "why mode"), 80)
    assert text == "mode has no limit."
    with pytest.raises(NexusError, match="there is no such call or limit in this session"):
        context.run("why nonsense")


def test_why_explains_the_decision_on_a_call(context: FakeContext) -> None:
    context.provider.script = lambda request: (
        "done" if len(request.messages) > 2 else [("bash", {"command": "touch made"})]
    )
    context.turn("go")
    context.run("why")
    (row,) = context.shown[-1][1]["decisions"]
    text = find_form(context.shown[-1][0])(context.shown[-1][1], 80)
    assert row["subject"] == "touch made" and text.index("touch made") < text.index("max_steps")
    value = shown(context, f"why {row['id']}")
    assert (value["decision"], value["from"], value["ran"]) == ("ask", "level ask", False)


@pytest.mark.matrix
def test_why_tells_signals_from_the_other_layers(context: FakeContext) -> None:
    context.session.dispatcher.signals = True
    context.session.dispatcher.bounds = ()
    context.turn("begin")
    value = shown(context, "why mode")
    assert value["limits"] == [
        {"name": "mode", "value": "single_action", "bound_by": "signals", "said": {"signals": "single_action"}}
    ]
    assert value["signals"]["bind"] and value["signals"]["event_class"] == "communication"
    assert "Kind of turn: communication" in find_form("why")(value, 200)
    assert context.session.dispatcher.limits == Limits(max_steps=9, allow="ask")


def test_init_starts_a_turn_with_the_instructions_for_nexus_md(context: FakeContext) -> None:
    context.run("init").run("init in German")
    assert all("NEXUS.md" in text and "{" not in text for text in context.started)
    assert context.started[1].endswith("\nin German")


@pytest.mark.matrix
def test_review_gives_the_model_the_uncommitted_change_or_a_range(context: FakeContext, tmp_path: Path) -> None:
    with pytest.raises(NexusError, match="not in a git repository"):
        context.run("review")
    (tmp_path / "a.py").write_text("one = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    with pytest.raises(NexusError, match="nothing has changed"):
        context.run("review")
    (tmp_path / "a.py").write_text("one = 2\n")
    (tmp_path / "new.py").write_text("two = 2\n")
    context.run("review")
    text = context.started[-1]
    assert '<shell command="git diff HEAD">' in text and "+one = 2" in text and text.count("new.py") == 1
    assert text.endswith("</shell>") and "uncommitted change" in text
    git(tmp_path, "commit", "-qam", "second")
    context.run("review HEAD~1..HEAD only the names")
    text = context.started[-1]
    assert '"git diff HEAD~1..HEAD"' in text and "+one = 2" in text and "new.py" not in text
    assert "\nonly the names\n" in text
    wrongs = (("nosuch", "unknown git revision `nosuch`"), ("--output=x", "no such option"), ("HEAD..HEAD", "nothing"))
    for wrong, why in wrongs:
        with pytest.raises(NexusError, match=why):
            context.run(f"review {wrong}")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == ["a.py", "new.py"]


def test_config_writes_a_setting_and_applies_it(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, value in (("config limits.max_steps 7", 7), ("config limits.max_steps = 8", 8)):
        context.run(typed)
        assert context.said[-1].startswith("Set limits.max_steps in ") and "/reload" not in context.said[-1]
        assert context.settings.limits.max_steps == value
    context.run('config ui.theme = "light"')
    assert '[ui]\ntheme = "light"\n' in places().settings.read_text()
    text = find_form("settings")(shown(context, "config ui.theme"), 200)
    assert 'ui.theme = "light" # ' in " ".join(text.split()) and text.count("~/nexus/config/config.toml") == 2
    for wrong, why in (("limits.max_steps many", "whole number"), ("limits.max_stepz 3", "unknown setting limits")):
        with pytest.raises(NexusError, match=why):
            context.run(f"config {wrong}")
    monkeypatch.setenv("NEXUS_MODEL", "openai/other")
    context.run("config model openai/mine")
    assert context.said[-1].endswith(". Here environment NEXUS_MODEL takes precedence: openai/other.")
    complete = discover()["config"].complete
    assert complete is not None and "ui.theme" in complete(context)


@pytest.mark.matrix
def test_status_names_the_model_of_the_session_and_config_the_settings(context: FakeContext) -> None:
    value = shown(context, "status")
    assert value["model"] == context.session.model and "bash" in value["tools"]
    value = shown(context, "config max_steps")
    assert list(value["settings"]) == ["limits.max_steps"]
    text = find_form("settings")(value, 80)
    assert (
        "limits.max_steps = 200\n" in text and "config set KEY VALUE" in text and value["path"] in "".join(text.split())
    )
    assert len(shown(context, "config")["settings"]) > 5
    with pytest.raises(NexusError, match="no matching setting"):
        context.run("config nosuch")
    with pytest.raises(NexusError, match="no matching setting") as caught:
        context.run("config edit")
    assert caught.value.hint == "In a shell: nexus config edit"


def test_plan_turns_plan_mode_on_and_off_and_takes_a_first_message(context: FakeContext) -> None:
    context.run("permissions auto").run("plan")
    assert context.session.status().allow == "plan" and "read-only" in context.said[-1]
    context.run("plan")
    assert context.session.status().allow == "auto" and "Permission level: auto." in context.said[-1]
    for words in (
        "look at shop.py",
        "list the files",
        "add x --in 2h",
        "add tests for the parser",
        "remove the dead code",
        "add x --in 2h\nto the docs",
        "add a --dry-run flag to the CLI",
        "add --name and --zone options",
        "remove dead-code",
        "run tests",
    ):
        context.run(f"plan {words}")
        assert context.started[-1] == words and context.session.status().allow == "plan"


def test_work_is_scheduled_with_the_options_of_the_shell(context: FakeContext) -> None:
    context.run(
        'schedule add "keep --ask in the notes" --cron @daily --max-steps 40 --max-cost 0.5 --ask'
        " --rule 'bash(git push origin nightly)' --rule \"bash(npm test *)\" --until 'npm test' --allow auto"
    )
    (warning,) = context.said
    assert warning.startswith("The price of ") and "a run with --max-cost fails without it" in warning
    context.run("schedule add push it --in 2h --model openai/gpt-4o --max-cost 2")
    context.run("schedule add push it --in 2h --model ollama/qwen3 --max-cost 2")
    context.run("schedule add push it --in 2h --max-cost-day 2").run("schedule add push it --in 2h")
    assert context.said == [warning]
    asked, *_, plain = (value["plans"][0] for _, value in context.shown)
    assert (asked["prompt"], asked["max_steps"], asked["max_cost"]) == ("keep --ask in the notes", 40, 0.5)
    assert (asked["ask"], asked["cron"], asked["until"]) == (True, "0 0 * * *", "npm test")
    assert (asked["worktree"], plain["until"]) == (False, "")
    assert asked["rules"] == ["bash(git push origin nightly)", "bash(npm test *)"]
    assert (plain["prompt"], plain["ask"], plain["rules"], plain["max_steps"]) == ("push it", False, [], None)
    for options in (
        "--max-steps 0",
        "--max-steps two",
        "--max-cost nan",
        "--max-cost inf",
        "--rule 'nope(x)'",
        "--model nope/x",
        "--as x",
    ):
        with pytest.raises(NexusError):
            context.run(f"schedule add x --in 2h {options}")


def test_what_the_project_would_do_once_trusted_is_shown_and_nothing_is_trusted(
    context: FakeContext, tmp_path: Path
) -> None:
    assert context.run("trust").shown[-1][1]["state"] == "nothing"
    (tmp_path / ".nexus").mkdir()
    (tmp_path / ".nexus" / "config.toml").write_text("[limits]\nmax_steps = 7\n")
    context.pick = lambda choices: ""
    for _ in range(2):
        form, value = context.run("trust").shown[-1]
        assert (form, value["state"]) == ("trust", "untrusted") and "max_steps" in str(value["settings"])
