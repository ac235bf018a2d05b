"""Commands about the window, the model and the work: what they show is what is, and what they change holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from commands.conftest import FakeDesk, answering
from session.played import MODEL, Played, the_ledger

from nexus_cli.config.paths import places
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Recalled
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.ledger import Ledger
from nexus_cli.session import usable
from nexus_cli.session.reports import last
from nexus_cli.ui.reports import FORMS

LONG = "".join(f"line {number} of something long\n" for number in range(9000))


def test_context_shows_the_window_with_its_largest_items(desk: FakeDesk) -> None:
    desk.run("context")
    form, value = desk.shown[-1]
    assert form == "context" and value["session"] is None and value["cached"] == {"tokens": 0}
    desk.turn("a message of " + "many words " * 300)
    desk.turn("short")
    desk.run("context")
    value = desk.shown[-1][1]
    assert value["session"] == desk.session.id and value["pending"]
    sizes = [item["tokens"] for item in value["largest"]]
    assert sizes == sorted(sizes, reverse=True) and 0 < len(sizes) <= 10
    (largest,) = [item for item in value["largest"] if "message: a message of many words" in item["what"]]
    assert largest["entry"] == 1 and largest["tokens"] > 600
    used = value["budget"]["used"]["total"]
    assert 0 < value["cached"]["tokens"] < used, "the newest answer was not sent yet"
    text = FORMS["context"](value, 80)
    assert "were sent before" in text and "message: a message" in text and "largest items:" in text


def test_context_shows_a_request_that_was_sent_and_what_it_has_more_than_the_one_before(desk: FakeDesk) -> None:
    desk.turn("one")
    desk.turn("two")
    desk.run("context --step 1")
    form, value = desk.shown[-1]
    assert form == "context" and not value["pending"] and value["request_sha256"] and value["history"]["entries"] == 1
    for typed in ("--diff", "--diff 2"):
        desk.run(f"context {typed}")
        form, value = desk.shown[-1]
        assert (form, value["step"], value["before"]) == ("between", 2, 1)
    desk.run("context --diff 1")
    assert desk.shown[-1][1]["before"] is None
    for typed in ("--step", "--step 0", "--step x", "--diff x", "--step 9", "1", "--step 1 2", "--step " + "9" * 99):
        with pytest.raises(NexusError, match=r"it takes nothing, |has sent 2 requests"):
            desk.run(f"context {typed}")


def test_after_the_ledger_has_failed_reports_say_first_where_they_end(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they read is old by then; lists that are kept in memory too are not."""

    def full(*arguments: object, **named: object) -> None:
        raise NexusError("ledger", "the ledger could not be written", "the disk is full")

    desk.turn("one")
    desk.turn("two")
    reports = ("cache", "cache why", "context", "context --step 2", "context --diff", "cost")
    for line in reports:
        desk.run(line)
    assert desk.said == []
    monkeypatch.setattr(Ledger, "append", full)
    monkeypatch.setattr(Ledger, "sending", full)
    desk.turn("three " + "many words " * 300)
    used = desk.session.status().used
    for number, line in enumerate(reports, 1):
        desk.run(line)
        assert len(desk.said) == number
        assert desk.said[-1].startswith("The ledger has failed: what follows ends with request 2; ")
        assert f"about {used:,} of " in desk.said[-1]
    assert desk.shown[-2][0] == "between" and desk.shown[-2][1]["step"] == 2
    with pytest.raises(NexusError, match="has sent 2 requests"):
        desk.run("context --step 3")
    assert len(desk.said) == len(reports) + 1, "said before the refusal, which counts what was saved"
    desk.run("drops").run("pin")
    assert len(desk.said) == len(reports) + 1


def test_after_a_switch_of_model_nothing_is_cached(desk: FakeDesk) -> None:
    desk.turn("words")
    desk.run("model fast")
    assert desk.session.model == "openai/quick" and "sent anew" in desk.said[-1] and "no cache has" in desk.said[-1]
    desk.run("context")
    assert desk.shown[-1][1]["cached"] == {"tokens": 0}
    desk.run("model openai/quick")
    assert "already" in desk.said[-1]
    session = desk.session.id
    assert desk.turn("more").outcome.ok and desk.session.id == session
    with the_ledger() as ledger:
        assert ledger.session(session).model == "openai/quick"


@pytest.mark.parametrize("name", ["nobody-knows-this", "[/bold]", "openai/", "%s/{}"])
def test_a_model_that_cannot_be_asked_changes_nothing(desk: FakeDesk, name: str) -> None:
    with pytest.raises(NexusError, match="cannot be asked"):
        desk.run(f"model {name}")
    assert desk.session.model == MODEL and desk.turn("words").outcome.ok


def test_models_are_offered_with_window_price_and_cache(desk: FakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable, "local_servers", list)
    monkeypatch.setenv("NEXUS_MODEL", "anthropic/claude-sonnet-4-5")
    desk.run("model")
    labels = {choice.key: choice.label for choice in desk.offered}
    assert "openai/quick" in labels and "alias fast" in labels["openai/quick"]
    assert "$3 / $15" in labels["anthropic/claude-sonnet-4-5"] and "  cache  " in labels["anthropic/claude-sonnet-4-5"]
    assert desk.session.model == MODEL
    desk.pick = lambda choices: "openai/quick"
    desk.run("model")
    assert desk.session.model == "openai/quick"


def test_the_effort_is_set_and_holds(desk: FakeDesk) -> None:
    with pytest.raises(NexusError, match="not known to take an effort"):
        desk.run("effort high")
    assert desk.session.status().effort == ""
    desk.run("model openai/gpt-5")
    desk.turn("words")
    desk.run("effort HIGH")
    assert desk.session.status().effort == "high" and "sent anew" in desk.said[-1]
    desk.pick = lambda choices: choices[0].key
    desk.run("effort")
    assert desk.session.status().effort == "none" == desk.offered[0].key
    with pytest.raises(NexusError, match="one of none, minimal"):
        desk.run("effort enormous")
    assert desk.turn("more").outcome.ok


def test_permissions_are_shown_and_set(desk: FakeDesk) -> None:
    desk.run("permissions")
    value = desk.shown[-1][1]
    assert value["level"] == "read" and not value["allowed"] and [one["name"] for one in value["levels"]]
    desk.run("permissions edit")
    assert desk.session.status().allow == "edit" and "editing files" in desk.said[-1]
    desk.session._parts.dispatcher.always |= {("bash", "run"), ("read_file", "outside", "/etc/hosts")}
    desk.run("permissions READ").run("permissions")
    value = desk.shown[-1][1]
    assert value["level"] == "read" and value["allowed"] == ["every bash command", "read_file of /etc/hosts"]
    assert "every bash command" in FORMS["permissions"](value, 80)
    with pytest.raises(NexusError, match="one of read, edit, all"):
        desk.run("permissions everything")


def test_what_was_allowed_in_the_session_is_not_said_to_come_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    desk = FakeDesk(tmp_path, Played(answering), allow="edit")
    desk.turn("words")
    for line, value, origin in (("model fast", "edit", "command line"), ("permissions all", "all", "/permissions")):
        desk.run(line).run("why allow")
        (bound,) = desk.shown[-1][1]["limits"]
        assert (bound["value"], bound["bound_by"], bound["said"]) == (value, origin, {origin: value})
        desk.run("context").run("permissions")
        bounds = {one["name"]: one["bound_by"] for one in desk.shown[-2][1]["limits"]}
        assert bounds["allow"] == origin == desk.shown[-1][1]["bound_by"]


def test_tools_say_what_they_do_cost_and_ask(desk: FakeDesk) -> None:
    asks = {}
    for level in ("read", "edit", "all"):
        desk.run(f"permissions {level}").run("tools")
        tools = {tool["name"]: tool for tool in desk.shown[-1][1]["tools"]}
        assert all(tool["tokens"] > 20 for tool in tools.values())
        asks[level] = {name: tool["asks"] for name, tool in tools.items()}
    assert asks["read"]["bash"] == asks["read"]["edit_file"] == asks["edit"]["bash"] == "yes"
    assert asks["edit"]["edit_file"].startswith("outside") and set(asks["all"].values()) == {"no"}
    assert asks["read"]["recall"] == "no" and asks["read"]["read_file"] == "outside the project"


def dropped(desk: FakeDesk) -> str:
    """A session with one drop: its whole text."""
    desk.turn(LONG)
    with the_ledger() as ledger:
        (drop,) = ledger.drops(desk.session.id)
        return ledger.drop_text(desk.session.id, drop.id) or ""


def test_drops_are_listed_and_printed_by_range(desk: FakeDesk) -> None:
    desk.run("drops")
    assert FORMS["drops"](desk.shown[-1][1], 80) == "Nothing was left out."
    whole = dropped(desk)
    desk.run("drops").run("drops d1").run("drops d1 5:25")
    listed, beginning, piece = (value for _, value in desk.shown[1:])
    assert [one["id"] for one in listed["drops"]] == ["d1"]
    assert beginning["text"] == whole[: beginning["end"]] and beginning["total"] == len(whole)
    assert piece["text"] == whole[5:25]
    assert f"/drops d1 {beginning['end']}: shows what follows" in FORMS["drop"](beginning, 80)
    for wrong, why in (
        ("d9", "no such drop"), ("nope", "no such drop"), ("d1 x:y", "A:B"), ("d1 -5:3", "A:B"),
        ("d1 9:4", "nothing is there: d1 has"), ("d1 999999999:", "nothing is there"),
    ):  # fmt: skip
        with pytest.raises(NexusError, match=why):
            desk.run(f"drops {wrong}")


def test_a_recall_goes_along_with_the_next_message_and_is_counted(desk: FakeDesk) -> None:
    with pytest.raises(NexusError, match="names no drop"):
        desk.run("recall")
    whole = dropped(desk)
    desk.run("recall d1 100:300")
    block, what = desk.attached[-1]
    assert block == f'<recalled id="d1" characters="100:300 of {len(whole)}">\n{whole[100:300]}\n</recalled>'
    assert "d1" in what and isinstance(desk.fed[-1], Recalled) and desk.fed[-1].drop_id == "d1"
    desk.run("recall d1")
    block, _ = desk.attached[-1]
    counter, cap = desk.session.context.counter, desk.session._parts.engine.budget.output_cap
    assert counter.count(block) <= cap + 60 and 'recall("d2"' in block, "as much as one tool result may take"
    with the_ledger() as ledger:
        assert next(drop.recalls for drop in ledger.drops(desk.session.id)) == 2
    assert desk.session.status().recalled == 1
    with pytest.raises(NexusError, match="nothing is there"):
        desk.run("recall d1 7:7")


def test_cost_is_summed_by_model_kind_and_turn(desk: FakeDesk) -> None:
    desk.run("cost")
    assert "no request yet" in FORMS["cost"](desk.shown[-1][1], 80)
    for number in range(12):
        desk.turn(f"turn number {number + 1}")
    desk.run("model fast").turn("the last [/bold] {}")
    desk.run("cost")
    value = desk.shown[-1][1]
    assert value["total"]["requests"] == 13 and value["total"]["cost_usd"] == 13 * 0.25
    assert {row["name"]: row["requests"] for row in value["models"]} == {MODEL: 12, "openai/quick": 1}
    assert [turn["turn"] for turn in value["turns"]] == list(range(4, 14))
    assert all(turn["requests"] == 1 and turn["input"] == 100 for turn in value["turns"])
    text = FORMS["cost"](value, 100)
    assert "$3.25 for 13 requests" in text and "13. the last [/bold] {}" in text


def test_reload_reads_instructions_and_settings(desk: FakeDesk, tmp_path: Path) -> None:
    desk.run("reload")
    assert "first message" in desk.said[-1]
    desk.turn("words")
    (tmp_path / "NEXUS.md").write_text("Always answer in rhyme.")
    places().config.mkdir(parents=True)
    places().settings.write_text('[alias]\nslow = "openai/slow"\n')
    desk.run("reload")
    assert desk.settings.alias == {"slow": "openai/slow"} and "sent anew" in desk.said[-1]
    desk.turn("more")
    assert "in rhyme" in str(desk.provider.seen[-1][0]) and "in rhyme" not in str(desk.provider.seen[0][0])
    assert desk.session.model == MODEL
    places().settings.write_text("alias = \n")
    with pytest.raises(NexusError, match="line 1"):
        desk.run("reload")
    assert desk.turn("still here").outcome.ok


def test_the_editor_fills_the_box_and_sends_nothing(desk: FakeDesk) -> None:
    desk.run("editor begin with ")
    assert desk.filled == "begin withwritten in an editor" and not desk.provider.seen


def test_copy_takes_the_answer_or_a_block_of_it(desk: FakeDesk) -> None:
    with pytest.raises(NexusError, match="no answer yet"):
        desk.run("copy")
    desk.last_answer = "Look:\n\n```python\nx = '`'\n```\n\n- in a list\n\n  ~~~\n  two\n  ~~~\n\n```\nhalf open"
    assert desk.run("copy").copied == desk.last_answer and desk.said[-1] == "copied"
    assert desk.run("copy 1").copied == "x = '`'"
    assert desk.run("copy 2").copied == "two"
    assert desk.run("copy 3").copied == "half open"
    for wrong in ("4", "0", "-1", "x", "99999999999"):
        with pytest.raises(NexusError):
            desk.run(f"copy {wrong}")
    desk.last_answer = "nothing but prose"
    with pytest.raises(NexusError, match="no block of code"):
        desk.run("copy 1")


def test_leaving_is_asked_for_by_two_names(desk: FakeDesk) -> None:
    assert desk.run("exit").left
    desk.left = False
    assert desk.run("quit").left


def git(folder: Path, *arguments: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **who})


def test_diff_is_git_against_the_last_commit(desk: FakeDesk, tmp_path: Path) -> None:
    desk.run("diff")
    assert desk.shown[-1][1]["source"] == "session" and "no git repository" in desk.shown[-1][1]["why"]
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    desk.run("diff")
    assert "+one" in desk.shown[-1][1]["text"], "before the first commit everything is new"
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "config", "diff.external", "touch ran")
    git(tmp_path, "config", "core.fsmonitor", "touch ran")
    git(tmp_path, "config", "color.ui", "always")
    (tmp_path / "a.txt").write_text("two [/bold] \x1b[31m\n")
    (tmp_path / "new {}.txt").write_text("x")
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").write_text("x")
    desk.run("diff")
    value = desk.shown[-1][1]
    assert (
        value["source"] == "git" and "-one\n+two [/bold] \x1b[31m" in value["text"] and value["text"].count("\x1b") == 1
    )
    assert value["untracked"] == [".gitignore", "new {}.txt"] and not (tmp_path / "ran").exists()
    text = FORMS["diff"](value, 80)
    assert "2 untracked files:" in text and "+two" in text
    (tmp_path / "a.txt").write_text("x" * 79 + "\n" + "many lines\n" * 200_000)
    desk.run("diff")
    value = desk.shown[-1][1]
    assert len(value["text"]) < 600_000 and "more bytes" in value["cut"]


def test_diff_without_git_names_what_the_session_changed(
    desk: FakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.provider.script = lambda request: (
        [("write_file", {"path": "made.txt", "content": "x\n"})] if len(request.messages) == 2 else "done"
    )
    desk.run("permissions all").turn("make it")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    desk.run("diff")
    value = desk.shown[-1][1]
    assert value["why"] == "git is not installed" and value["files"] == ["made.txt"]
    assert "made.txt" in FORMS["diff"](value, 80)


def test_a_call_of_a_process_that_died_is_shown_as_what_it_is(desk: FakeDesk) -> None:
    desk.turn("words")
    lane = desk.session._parts.engine.lane
    lane.append(Kind.USER, Message(Role.USER, "run the [/bold] tests"), "person")
    calls = (ToolCall("c9a", "bash", {"command": "pytest\n -q"}), ToolCall("c9b", "read_file", {"path": "x.py"}))
    entry = lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, "I run them.", calls), "agent")
    with the_ledger() as ledger:
        ledger.start_call(ledger.session(desk.session.id).main_lane, "c9a", "bash", entry.at)
    value = last.value(desk.session)
    assert value["open"] == [
        {"name": "bash", "subject": "pytest -q", "started": True},
        {"name": "read_file", "subject": "x.py", "started": False},
    ]
    text = FORMS["last"](value, 200)
    assert "bash pytest -q: outcome unknown, the process ended while it ran" in text and "I run them." in text
    assert "read_file x.py: not run yet" in text and "The turn is not finished: /continue goes on." in text
    desk.run("continue")
    assert desk.started == [""]


def test_a_key_in_the_place_of_a_model_is_refused_and_not_repeated(desk: FakeDesk) -> None:
    with pytest.raises(NexusError) as caught:
        desk.run("model sk-proj-Ab12Cd34Ef56Gh78")
    assert "sk-proj" not in caught.value.line + caught.value.hint and "environment" in caught.value.hint
