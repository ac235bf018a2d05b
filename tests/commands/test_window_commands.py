"""Commands about the window, the model and the work: what they show is what is, and what they change holds."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext, answering
from ledger.conftest import fail_writes
from session.played import MODEL, Played, the_ledger
from worktrees.repository import git

from nexus_cli.commands import model
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import ContextRecall
from nexus_cli.core.memo_kinds import CLIPPED_MESSAGE, WAITING_TEXTS
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.reports.last_exchange import last_exchange
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.session.factory import open_session
from nexus_cli.ui.repl.last_turns import describe_open_calls

LONG = "".join(f"line {number} of something long\n" for number in range(9000))


@pytest.mark.matrix
def test_context_shows_the_window_with_its_largest_items(context: FakeContext) -> None:
    context.run("context")
    form, value = context.shown[-1]
    assert form == "context_summary" and value["session"] is None and value["cached"]["tokens"] == 0
    context.turn("a message of " + "many words " * 300)
    context.turn("short")
    context.run("context").run("context all")
    (short, summary), (form, value) = context.shown[-2:]
    assert (short, form) == ("context_summary", "context") and summary == value
    assert value["session"] == context.session.id and value["pending"]
    sizes = [item["tokens"] for item in value["largest"]]
    assert sizes == sorted(sizes, reverse=True) and 0 < len(sizes) <= 10
    (largest,) = [item for item in value["largest"] if "message: a message of many words" in item["what"]]
    assert largest["entry"] == 1 and largest["tokens"] > 600
    used = value["budget"]["used"]["total"]
    assert 0 < value["cached"]["tokens"] < used, "the newest answer was not sent yet"
    text = find_form("context")(value, 80)
    assert "cached: " in text and "message: a message" in text and "largest items:" in text


@pytest.mark.matrix
def test_context_shows_a_request_that_was_sent_and_what_it_has_more_than_the_one_before(context: FakeContext) -> None:
    context.turn("one")
    context.turn("two")
    context.run("context --step 1")
    form, value = context.shown[-1]
    assert form == "context" and not value["pending"] and value["request_sha256"] and value["history"]["entries"] == 1
    for typed in ("--diff", "--diff 2"):
        context.run(f"context {typed}")
        form, value = context.shown[-1]
        assert (form, value["step"], value["before"]) == ("between", 2, 1)
    context.run("context --diff 1")
    assert context.shown[-1][1]["before"] is None
    context.run("context 1")
    assert (context.shown[-1][0], context.shown[-1][1]["history"]["entries"]) == ("context", 1)
    for typed in ("--step", "--step 0", "--step x", "--diff x", "--step 9", "--step 1 2", "--step " + "9" * 99):
        with pytest.raises(NexusError, match=r"missing|whole number|unexpected argument|has sent 2 requests"):
            context.run(f"context {typed}")


def test_context_shows_what_another_model_would_be_sent(context: FakeContext) -> None:
    for sent in (0, 1):
        context.run("context --model openai/gpt-4o").run("context all")
        (form, other), (_, own) = context.shown[-2:]
        assert (form, other["model"], own["model"]) == ("context", "openai/gpt-4o", MODEL)
        assert other["pending"] and other["history"]["entries"] == own["history"]["entries"] == 2 * sent
        context.turn("words")


@pytest.mark.matrix
def test_after_the_ledger_has_failed_reports_say_first_where_they_end(context: FakeContext) -> None:
    """What they read is old by then; lists that are kept in memory too are not."""
    context.turn("one")
    context.turn("two")
    reports = ("cache", "cache why", "context", "context --step 2", "context --diff", "cost")
    for line in reports:
        context.run(line)
    assert context.said == []
    assert context.session.ledger is not None
    fail_writes(context.session.ledger)
    context.turn("three " + "many words " * 300)
    used = context.session.status().used
    for number, line in enumerate(reports, 1):
        context.run(line)
        assert len(context.said) == number
        assert context.said[-1].startswith("Part of this session is not saved: this report ends with request 2; ")
        assert f"about {used:,} of " in context.said[-1]
    assert context.shown[-2][0] == "between" and context.shown[-2][1]["step"] == 2
    with pytest.raises(NexusError, match="has sent 2 requests"):
        context.run("context --step 3")
    assert len(context.said) == len(reports) + 1, "said before the refusal, which counts what was saved"
    context.run("drops").run("pin")
    assert len(context.said) == len(reports) + 1


def test_after_a_switch_of_model_nothing_is_cached(context: FakeContext) -> None:
    context.turn("words")
    context.run("model fast")
    assert context.session.model == "openai/quick" and "misses the cache" in context.said[-1]
    context.run("context")
    assert context.shown[-1][1]["cached"] == {"tokens": 0, "expected": 0}
    context.run("model openai/quick")
    assert "Already" in context.said[-1]
    session = context.session.id
    assert context.turn("more").outcome.ok and context.session.id == session
    with the_ledger() as ledger:
        assert ledger.session(session).model == "openai/quick"


@pytest.mark.matrix
def test_after_a_switch_to_a_free_model_no_cache_is_said_to_be_missed(context: FakeContext) -> None:
    context.settings = replace(context.settings, models={"openai/quick": {"input_price": 0.0}})
    context.turn("words")
    context.run("model fast")
    assert context.said[-1] == "Using openai/quick."


def test_a_switch_of_model_never_waits_for_a_keyring_in_the_event_loop(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[threading.Thread]()
    monkeypatch.setattr(model, "resolve_endpoint", lambda *_: asked.append(threading.current_thread()))
    context.run("model fast")
    assert context.session.model == "openai/quick" and len(asked) == 1
    assert asked[0] is not threading.main_thread()


def test_models_are_offered_with_window_price_and_cache(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "local_servers", list)
    monkeypatch.setenv("NEXUS_MODEL", "anthropic/claude-sonnet-4-5")
    context.run("model")
    labels = {choice.key: choice.label for choice in context.offered}
    assert "openai/quick" in labels and "alias fast" in labels["openai/quick"]
    assert "$3 / $15" in labels["anthropic/claude-sonnet-4-5"] and "  cache  " in labels["anthropic/claude-sonnet-4-5"]
    assert context.session.model == MODEL
    context.pick = lambda choices: "openai/quick"
    context.run("model")
    assert context.session.model == "openai/quick"


def test_the_effort_is_set_and_holds(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="has no known effort levels"):
        context.run("effort high")
    assert context.session.status().effort == ""
    context.run("model openai/gpt-5")
    context.turn("words")
    context.run("effort HIGH")
    assert context.session.status().effort == "high" and re.search("miss(es)? the cache", context.said[-1])
    context.pick = lambda choices: choices[1].key
    context.run("effort")
    assert context.session.status().effort == "none" and context.offered[0].key == "default"
    with pytest.raises(NexusError, match="one of default, none, minimal"):
        context.run("effort enormous")
    assert context.turn("more").outcome.ok
    context.run("effort default")
    assert context.session.status().effort == "" and context.turn("again").outcome.ok
    assert context.session.engine.conversation.epoch.effort == ""


def test_permissions_are_shown_and_set(context: FakeContext) -> None:
    context.run("permissions")
    value = context.shown[-1][1]
    assert value["level"] == "ask" and not value["allowed"] and [one["name"] for one in value["levels"]]
    context.run("permissions edit")
    assert context.session.status().allow == "edit" and "editing project files" in context.said[-1]
    always = context.session.dispatcher.always
    always |= {("bash", "run", "make"), ("edits", "edit"), ("read_file", "outside", "/etc/hosts")}
    context.run("permissions ask").run("permissions")
    value = context.shown[-1][1]
    assert value["level"] == "ask"
    assert value["allowed"] == ["bash: make", "edits", "read_file of /etc/hosts"]
    assert "bash: make" in find_form("permissions")(value, 80)
    context.run("permissions remove edits").run("permissions remove read_file of /etc/hosts")
    assert always == {("bash", "run", "make")} and "Permission read_file of /etc/hosts was revoked" in context.said[-1]
    with pytest.raises(NexusError, match="one of plan, ask, edit, auto, all"):
        context.run("permissions everything")


def test_rules_are_shown_with_their_place_edited_and_in_force_at_once(context: FakeContext) -> None:
    context.provider.script = lambda request: (
        "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "touch made"})]
    )
    assert [row["subject"] for row in context.turn("go").outcome.denied] == ["touch made"]
    context.run("permissions allow bash(touch *)")
    assert not context.turn("again").outcome.denied and (context.session.folder / "made").exists()
    context.run("permissions allow bash(touch *)").run("permissions deny bash(touch made)").run("permissions")
    assert "is already in your settings" in context.said[-2]
    value = context.shown[-1][1]
    assert [(rule["decision"], rule["rule"]) for rule in value["rules"]] == [
        ("deny", "bash(touch made)"),
        ("allow", "bash(touch *)"),
    ]
    assert all(rule["from"].rpartition(" line ")[2].isdigit() for rule in value["rules"])
    (refused,) = context.turn("and again").outcome.denied
    assert "deny bash(touch made)" in refused["why"]
    context.run("permissions remove bash(touch made)").run("permissions remove allow bash(touch *)").run("permissions")
    assert context.shown[-1][1]["rules"] == []
    for wrong, why in (
        ("allow", "missing: RULE"),
        ("deny", "missing: RULE"),
        ("allow bsh(ls)", "Did you mean bash"),
        ("ask bash()", "empty"),
        ("remove bash(touch made)", "there is no such rule"),
    ):
        with pytest.raises(NexusError, match=why):
            context.run(f"permissions {wrong}")


def test_permissions_say_what_each_level_means_on_this_system(tmp_path: Path) -> None:
    context = FakeContext(tmp_path, Played(answering))
    context.settings = replace(context.settings, sandbox=SandboxSettings(backend="off"))
    asyncio.run(context.reopen(context.options, context.settings))
    context.run("permissions").run("status tools").run("permissions run")
    value = context.shown[-2][1]
    runs = {one["name"]: one["runs"] for one in value["levels"]}
    assert value["sandbox"]["backend"] == "none" and "off" in value["sandbox"]["why"]
    assert (
        "without a sandbox every command needs approval" in runs["auto"]
        and "commands that only read" not in runs["ask"]
    )
    assert "without a sandbox every command needs approval" in context.said[-1]
    assert {one["name"]: one["asks"] for one in context.shown[-1][1]["tools"]}["bash"] == "yes"
    assert "Sandbox: none" in find_form("permissions")(value, 200)
    assert not context.session.status().has_sandbox
    context.run("permissions all")
    assert context.session.status().has_sandbox, "the level needs none"


@pytest.mark.matrix
def test_what_was_allowed_in_the_session_is_not_said_to_come_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    context = FakeContext(tmp_path, Played(answering), allow="edit")
    context.turn("words")
    for line, value, origin in (("model fast", "edit", "command line"), ("permissions all", "all", "this session")):
        context.run(line).run("why allow")
        (bound,) = context.shown[-1][1]["limits"]
        assert (bound["value"], bound["bound_by"], bound["said"]) == (value, origin, {origin: value})
        context.run("context").run("permissions")
        bounds = {one["name"]: one["bound_by"] for one in context.shown[-2][1]["limits"]}
        assert bounds["allow"] == origin == context.shown[-1][1]["bound_by"]


def test_tools_say_what_they_do_cost_and_ask(context: FakeContext) -> None:
    asks = {}
    for level in ("ask", "edit", "auto", "plan", "all"):
        context.run(f"permissions {level}").run("status tools")
        tools = {tool["name"]: tool for tool in context.shown[-1][1]["tools"]}
        assert all(tool["tokens"] > 20 for tool in tools.values() if tool["tokens"] is not None)
        assert {"bash", "use_tool"} <= {name for name, tool in tools.items() if tool["tokens"]} and "fetch" in tools
        asks[level] = {name: tool["asks"] for name, tool in tools.items()}
    assert asks["ask"]["edit_file"] == "yes"
    assert asks["ask"]["bash"] == asks["edit"]["bash"] == "yes, unless the command only reads"
    assert asks["auto"]["bash"] == "outside the sandbox" and asks["plan"]["edit_file"] == "refused"
    assert asks["edit"]["edit_file"].startswith("outside") and set(asks["all"].values()) == {"no"}
    assert asks["ask"]["recall"] == "no" and asks["ask"]["read_file"] == "outside the project"
    assert asks["auto"]["fetch"] == "yes" and asks["plan"]["fetch"] == "refused"
    assert asks["ask"]["agent"] == "for work in the background" and asks["auto"]["agent"] == "no"
    assert asks["auto"]["jobs"] == "for input to a job"


def dropped(context: FakeContext) -> str:
    """A session with one drop: its whole text."""
    context.turn(LONG)
    with the_ledger() as ledger:
        (drop,) = ledger.log(context.session.id).drops()
        return ledger.log(context.session.id).original(drop.id) or ""


def test_drops_are_listed_and_printed_by_range(context: FakeContext) -> None:
    context.run("drops")
    assert find_form("drops")(context.shown[-1][1], 80) == "Nothing was left out."
    whole = dropped(context)
    context.run("drops").run("drops d1").run("drops d1 5:25").run("drops show d1 --range 5:25")
    listed, beginning, piece, same = (value for _, value in context.shown[1:])
    assert piece == same
    assert [one["id"] for one in listed["drops"]] == ["d1"]
    assert beginning["text"] == whole[: beginning["end"]] and beginning["total"] == len(whole)
    assert piece["text"] == whole[5:25]
    assert f"`/drops d1 {beginning['end']}:` shows more" in find_form("drop")(beginning, 80)
    for wrong, why in (
        ("d9", "drop d9"),
        ("nope", "drop nope"),
        ("d1 x:y", "A:B"),
        ("d1 -5:3", "the range is empty: d1 has"),
        ("d1 9:4", "the range is empty: d1 has"),
        ("d1 999999999:", "the range is empty: d1 has"),
    ):
        with pytest.raises(NexusError, match=why):
            context.run(f"drops {wrong}")


@pytest.mark.matrix
def test_a_recall_goes_along_with_the_next_message_and_is_counted(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="/drops recall: the argument is missing: ID"):
        context.run("drops recall")
    whole = dropped(context)
    context.run("drops recall d1 100:300")
    block, what = context.attached[-1]
    assert context.reported == {"version": 1, "ids": ["d1"], "message": ""}
    assert block == f'<recalled id="d1" characters="100:300 of {len(whole)}">\n{whole[100:300]}\n</recalled>'
    assert (
        what.startswith("d1, about ") and isinstance(context.fed[-1], ContextRecall) and context.fed[-1].drop_id == "d1"
    )
    context.run("drops recall d1")
    block, _ = context.attached[-1]
    counter, cap = context.session.context.counter, context.session.engine.context.budget.output_cap
    assert counter.count(block) <= cap + 60, "as much as one tool result may take"
    sent = int(context.said[-1].split()[-1].split(":")[0])
    assert block == f'<recalled id="d1" characters="0:{sent} of {len(whole)}">\n{whole[:sent]}\n</recalled>'
    left = counter.count(whole[sent:])
    assert context.said[-1].startswith(f"About {left:,} of {counter.count(block) + left:,} tokens are left out")
    assert context.said[-1].endswith(f"/drops recall d1 {sent}:{len(whole)}")
    with the_ledger() as ledger:
        assert next(drop.recalls for drop in ledger.log(context.session.id).drops()) == 2
    with pytest.raises(NexusError, match="the range is empty: d1 has"):
        context.run("drops recall d1 7:7")


@pytest.mark.matrix
def test_the_timeline_names_what_was_recalled_and_not_what_only_looks_like_it(context: FakeContext) -> None:
    dropped(context)
    context.run("drops recall d1 100:300")
    block, what = context.attached[-1]
    assert context.session.attached_texts.store([{"text": block, "what": what}], [])
    session, options = context.session, context.options
    asyncio.run(session.aclose())
    context.session = open_session(options, context.settings, approver=None, provider=context.provider)
    assert context.session.attached_texts.load()["texts"] == [{"text": block, "what": what}]
    context.turn(f"what is this?\n\n{block}")
    context.turn('and what is this?\n\n<recalled id="d9" characters="0:1 of 1">\nx\n</recalled>')
    with the_ledger() as ledger:
        rows = session_timeline(ledger, session.id)["rows"]
    assert [row["recalled"] for row in rows if "recalled" in row] == [["d1"]]


@pytest.mark.matrix
def test_cost_is_summed_by_model_kind_and_turn(context: FakeContext) -> None:
    context.run("cost")
    assert "not sent a request yet" in find_form("cost")(context.shown[-1][1], 80)
    context.provider.usage = Usage(1500, 10, cost_usd=0.25)
    for number in range(12):
        context.turn(f"turn number {number + 1}")
    context.run("model fast").turn("the last [/bold] {}")
    context.run("cost")
    value = context.shown[-1][1]
    assert value["total"]["requests"] == 13 and value["total"]["cost_usd"] == 13 * 0.25
    assert {row["name"]: row["requests"] for row in value["models"]} == {MODEL: 12, "openai/quick": 1}
    assert [turn["turn"] for turn in value["turns"]] == list(range(4, 14))
    assert all(turn["requests"] == 1 and turn["input"] == 1500 for turn in value["turns"])
    text = find_form("cost")(value, 100)
    assert "$3.25 for 13 requests" in text and "13. the last [/bold] {}" in text


def test_usage_is_that_of_this_session_unless_options_ask_for_all(context: FakeContext) -> None:
    context.turn("words")
    context.run("usage").run("usage --by model").run("usage --all").run("usage --since 2020-01-01")
    (one, own), *others = context.shown
    assert one == "cost" and own["session"] == context.session.id
    assert [form for form, _ in others] == ["usage"] * 3
    assert {value["total"]["requests"] for _, value in context.shown} == {1}
    for wrong in ("--by colour", "--since yesterday"):
        with pytest.raises(NexusError, match=r"must be one of|not a valid date"):
            context.run(f"usage {wrong}")


@pytest.mark.matrix
def test_reload_reads_instructions_and_settings(context: FakeContext, tmp_path: Path) -> None:
    context.run("reload")
    assert "first message" in context.said[-1]
    context.turn("words")
    (tmp_path / "NEXUS.md").write_text("Always answer in rhyme.")
    places().config.mkdir(parents=True)
    places().settings.write_text('[alias]\nslow = "openai/slow"\n')
    context.run("reload")
    assert context.settings.alias == {"slow": "openai/slow"} and re.search("miss(es)? the cache", context.said[-1])
    context.turn("more")
    assert "in rhyme" in str(context.provider.seen[-1][0]) and "in rhyme" not in str(context.provider.seen[0][0])
    assert context.session.model == MODEL
    places().settings.write_text("alias = \n")
    with pytest.raises(NexusError, match="line 1"):
        context.run("reload")
    assert context.turn("still here").outcome.ok


def test_the_editor_fills_the_box_and_sends_nothing(context: FakeContext) -> None:
    context.run("editor begin with ")
    assert context.filled == "begin withwritten in an editor" and not context.provider.seen


def test_copy_takes_the_answer_or_a_block_of_it(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="no answer yet"):
        context.run("copy")
    context.last_answer = "Look:\n\n```python\nx = '`'\n```\n\n- in a list\n\n  ~~~\n  two\n  ~~~\n\n```\nhalf open"
    assert context.run("copy").copied == context.last_answer and context.said[-1] == "copied"
    assert context.run("copy 1").copied == "x = '`'"
    assert context.run("copy 2").copied == "two"
    assert context.run("copy 3").copied == "half open"
    for wrong in ("4", "0", "-1", "x", "99999999999"):
        with pytest.raises(NexusError):
            context.run(f"copy {wrong}")
    context.last_answer = "nothing but prose"
    with pytest.raises(NexusError, match="no fenced code block"):
        context.run("copy 1")


@pytest.mark.matrix
def test_diff_is_git_against_the_last_commit(context: FakeContext, tmp_path: Path) -> None:
    context.run("diff")
    assert context.shown[-1][1]["source"] == "session" and "not in a git repository" in context.shown[-1][1]["why"]
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    context.run("diff")
    assert "+one" in context.shown[-1][1]["text"], "before the first commit everything is new"
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "config", "diff.external", "touch ran")
    git(tmp_path, "config", "core.fsmonitor", "touch ran")
    git(tmp_path, "config", "color.ui", "always")
    (tmp_path / "a.txt").write_text("two [/bold] \x1b[31m\n")
    (tmp_path / "new {}.txt").write_text("x")
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").write_text("x")
    context.run("diff")
    value = context.shown[-1][1]
    assert (
        value["source"] == "git" and "-one\n+two [/bold] \x1b[31m" in value["text"] and value["text"].count("\x1b") == 1
    )
    assert value["untracked"] == [".gitignore", "new {}.txt"] and not (tmp_path / "ran").exists()
    assert "--- /dev/null\n+++ b/new {}.txt\n@@ -0,0 +1 @@\n+x\n" in value["text"] and "+ignored\n" in value["text"]
    (tmp_path / "large.log").write_text("x" * 80_000)
    (tmp_path / "odd.bin").write_bytes(b"\0" * 9)
    (tmp_path / "elsewhere").symlink_to("/etc/hostname")
    context.run("diff")
    assert context.shown[-1][1]["unread"] == ["elsewhere", "large.log", "odd.bin"]
    (tmp_path / "a.txt").write_text("x" * 79 + "\n" + "many lines\n" * 200_000)
    context.run("diff")
    value = context.shown[-1][1]
    assert len(value["text"]) < 600_000 and "more bytes" in value["cut"]


def test_diff_without_git_names_what_the_session_changed(
    context: FakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.provider.script = lambda request: (
        [("write_file", {"path": "made.txt", "content": "x\n"})] if len(request.messages) == 2 else "done"
    )
    context.run("permissions all").turn("make it")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    context.run("diff")
    value = context.shown[-1][1]
    assert value["why"] == "git was not found" and value["files"] == ["made.txt"]


def test_a_call_of_a_process_that_died_is_shown_as_what_it_is(context: FakeContext) -> None:
    context.turn("words")
    lane = context.session.engine.conversation
    lane.append(Kind.USER, Message(Role.USER, "run the [/bold] tests"), "person")
    calls = (ToolCall("c9a", "bash", {"command": "pytest\n -q"}), ToolCall("c9b", "read_file", {"path": "x.py"}))
    lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, "I run them.", calls), "agent")
    assert context.session.record is not None
    context.session.record.record_start("c9a", "bash")
    value = last_exchange(context.session)
    assert value["open"] == [
        {"name": "bash", "subject": "pytest -q", "started": True},
        {"name": "read_file", "subject": "x.py", "started": False},
    ]
    assert describe_open_calls(value) == [
        "bash pytest -q: outcome unknown: the process ended while it was running",
        "read_file x.py: not run yet",
    ]
    assert not value["finished"]
    context.run("continue")
    assert context.started == [""]


def test_a_key_in_the_place_of_a_model_is_refused_and_not_repeated(context: FakeContext) -> None:
    with pytest.raises(NexusError) as caught:
        context.run("model sk-proj-Ab12Cd34Ef56Gh78")
    assert "sk-proj" not in caught.value.line + caught.value.hint and "[redacted]" in caught.value.line


def test_waiting_texts_are_loaded_with_one_look_for_clipped_messages(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.turn("begin")
    session = context.session
    assert session.attached_texts.store([{"text": "<shell>x</shell>", "what": "output"}], [])
    for number in range(3):
        context.turn(f"message {number}")
    session.conversation.memo(CLIPPED_MESSAGE, {"drop": "d1"})  # of the result of a tool
    real, looks = session.conversation.log.memos, list[str]()

    def memos(kind: str) -> Any:
        looks.append(kind)
        return real(kind)

    monkeypatch.setattr(session.conversation.log, "memos", memos)
    assert [text["what"] for text in session.attached_texts.load()["texts"]] == ["output"]
    assert sorted(looks) == sorted([WAITING_TEXTS, CLIPPED_MESSAGE])
