"""The job: "find the bug and fix it", from an editor over the Agent Client Protocol, driven by the SDK's own client.

A question with the diff in it, a command that is asked for and declined, an editor that leaves in the middle of a
question, and the same session picked up later, in the editor and in the terminal.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from acp import schema
from acp.exceptions import RequestError
from images import png
from program.editor import Editor, connected, live, text
from program.stage import MODEL, PRICED, QUICK, Stage, calls, stage

from nexus_cli.acp.updates import UpdateStream
from nexus_cli.core.event import ToolCallEvent, ToolResultEvent
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.ledger import Ledger
from nexus_cli.tools.registry import ToolRegistry

PNG = png()
EDIT = ("edit_file", {"path": "price.py", "edits": [{"old": "return 1", "new": "return 2"}]})
TODO = ("todo", {"items": [{"text": "fix it", "state": "doing"}, {"text": "test it", "state": "open"}]})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}')
        (made.folder / "price.py").write_text("def price():\n    return 1\n")
        subprocess.run(["git", "init", "-q", str(made.folder)], check=True)
        yield made


def test_an_editor_that_leaves_without_reading_an_answer_is_no_bug(place: Stage) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}).encode()
    child = place.begin("acp", installed=True, stdin=subprocess.PIPE)
    try:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(40 * (line + b"\n"))
        child.stdin.flush()
        child.stdout.close()
        child.stdin.close()
        said = child.stderr.read().decode()
        assert child.wait(60) == 0 and "a bug in nexus" not in said, said
    finally:
        child.kill()
        child.wait()


def test_a_bug_is_fixed_from_an_editor_with_a_question_a_diff_and_a_plan(place: Stage) -> None:
    seen: list[Any] = []
    steps = iter([calls(TODO), calls(EDIT), calls(("bash", {"command": "touch outside; echo ok"})), None])

    def model(body: Any) -> Any:
        seen.append(body)
        return next(steps, None) or {"text": "Fixed.", "thinking": "It was one."}

    place.script(model)
    editor = Editor()
    file = (place.folder / "price.py").as_uri()
    quoted = schema.EmbeddedResourceContentBlock(
        type="resource", resource=schema.TextResourceContents(uri=file, text="def price():\n    return 1  # unsaved\n")
    )
    image = schema.ImageContentBlock(type="image", mime_type="image/png", data=base64.b64encode(PNG).decode())
    link = schema.ResourceContentBlock(type="resource_link", uri=file, name="price.py")

    async def work() -> None:
        async with connected(place, editor) as (agent, _):
            opened = await agent.new_session(str(place.folder), mcp_servers=[])
            options = {one.id: one.current_value for one in opened.config_options or ()}
            assert options == {"level": "ask", "model": MODEL, "effort": "default"}
            blocks: list[Any] = [text("Fix the price in "), link, quoted, image]
            end = await agent.prompt(opened.session_id, blocks)
            assert end.stop_reason == "end_turn" and end.usage is not None and end.usage.output_tokens > 0
            told = await agent.list_sessions(str(place.folder))
            assert [one.session_id for one in told.sessions] == [opened.session_id]
            assert (told.sessions[0].title or "").startswith("Fix the price")

    live(work)
    assert (place.folder / "price.py").read_text() == "def price():\n    return 2\n"
    words = json.dumps(seen[0]["messages"][-1]["content"])
    assert "Fix the price in price.py" in words and "# unsaved" in words and "image/png" in words
    (edit, choices, why), (command, _, _) = editor.questions
    assert choices[0] == "once" and choices[-1] == "no" and edit.kind == "edit"
    diff = edit.content[0]  # type: ignore[index]
    assert isinstance(diff, schema.FileEditToolCallContent) and (diff.old_text, diff.new_text) == (
        "return 1",
        "return 2",
    )
    assert Path(diff.path) == place.folder / "price.py" and why["nexus"]["why"]
    assert command.title == "touch outside; echo ok" and command.kind == "execute"
    starts = {one.tool_call_id: one for one in editor.of(schema.ToolCallStart)}
    assert [one.kind for one in starts.values()] == ["think", "edit", "execute"]
    ends = [one for one in editor.of(schema.ToolCallProgress) if one.status]
    assert [one.status for one in ends] == ["completed"] * 3 and {one.tool_call_id for one in ends} == set(starts)
    plan = editor.of(schema.AgentPlanUpdate)[0].entries
    assert [(one.content, one.status) for one in plan] == [("fix it", "in_progress"), ("test it", "pending")]
    assert editor.said() == "Fixed."
    usage = editor.of(schema.UsageUpdate)[-1]
    assert 0 < usage.used < usage.size and usage.cost.amount > 0
    named = {one.name for one in editor.of(schema.AvailableCommandsUpdate)[0].available_commands}
    assert {"context", "compact"} <= named and "exit" not in named


@pytest.mark.matrix
async def test_own_commands_are_offered_a_compaction_is_told_and_a_loaded_session_shows_the_diff_of_its_time(
    place: Stage,
) -> None:
    (place.folder / ".nexus/commands").mkdir(parents=True)
    hello = "---\ndescription: Greet somebody\nargument-hint: [who]\n---\nGreet $1.\n"
    (place.folder / ".nexus/commands/hello.md").write_text(hello)
    assert place.run("trust").status == 0
    write = calls(("write_file", {"path": "note.txt", "content": "later\n"}))
    seen: list[Any] = []

    def model(body: Any) -> Any:
        seen.append(body)
        is_asked = "WRITE" in str(body["messages"][-1]["content"]) and body["messages"][-1]["role"] == "user"
        return write if is_asked else {"text": "Fine."}

    place.script(model)
    editor = Editor()

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await editor.until(lambda: bool(editor.of(schema.AvailableCommandsUpdate)))
        offered = {one.name: one for one in editor.of(schema.AvailableCommandsUpdate)[0].available_commands}
        assert "Greet somebody" in offered["hello"].description
        assert offered["hello"].input is not None and offered["hello"].input.root.hint == "[who]"
        for words in ("/hello Ann", "WRITE it", "one", "two", "three", "four"):
            await agent.prompt(opened.session_id, [text(words)])
        assert "Greet Ann." in json.dumps(seen[0]["messages"][-1])
        await agent.prompt(opened.session_id, [text("/compact")])
        await editor.until(lambda: "not compacted: " in editor.said(schema.AgentThoughtChunk))
        assert editor.said(schema.AgentThoughtChunk).count("compacting ") == 1
        await agent.close_session(opened.session_id)
        editor.updates.clear()
        await agent.load_session(str(place.folder), opened.session_id, mcp_servers=[])
        [diff] = [one for call in editor.of(schema.ToolCallStart) for one in call.content or ()]
        assert (diff.old_text, diff.new_text) == (None, "later\n")


async def test_a_declined_call_ends_the_turn_and_the_session_goes_on_at_another_level(place: Stage) -> None:
    place.script(lambda body: calls(EDIT) if body["messages"][-1]["role"] == "user" else {"text": "Done."})
    editor = Editor("no")

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        assert (await agent.prompt(opened.session_id, [text("fix")])).stop_reason == "end_turn"
        assert "return 1" in (place.folder / "price.py").read_text()
        changed = await agent.set_config_option("level", opened.session_id, "edit")
        assert changed is not None
        assert next(one for one in changed.config_options if one.id == "level").current_value == "edit"
        assert (await agent.prompt(opened.session_id, [text("fix it after all")])).stop_reason == "end_turn"
        with pytest.raises(RequestError):
            await agent.set_config_option("level", opened.session_id, "everything")
        for option, words in (
            ("level", "allow bash(rm *)"),
            ("model", "use openai/evil"),
            ("model", "use"),
            ("model", ""),
        ):
            with pytest.raises(RequestError, match="unknown value"):
                await agent.set_config_option(option, opened.session_id, words)
        back = await agent.set_config_option("level", opened.session_id, "ask")
        assert back is not None
        assert next(one for one in back.config_options if one.id == "level").current_value == "ask"
        with pytest.raises(RequestError):
            await agent.prompt("nothing", [text("hello")])
        await agent.prompt(opened.session_id, [text("/context")])
    assert len(editor.questions) == 1 and "return 2" in (place.folder / "price.py").read_text()
    assert editor.said().startswith("Done.") and "system" in editor.said()


async def test_a_level_is_a_mode_too_and_each_change_of_it_is_told(place: Stage) -> None:
    """Some editors know options alone, and some modes."""
    place.script(lambda body: calls(EDIT) if body["messages"][-1]["role"] == "user" else {"text": "Done."})
    editor = Editor()

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        assert opened.modes is not None and opened.modes.current_mode_id == "ask"
        assert [one.id for one in opened.modes.available_modes] == ["plan", "ask", "edit", "auto", "all"]
        await agent.set_session_mode(mode_id="edit", session_id=opened.session_id)
        await agent.prompt(opened.session_id, [text("fix")])
        await agent.prompt(opened.session_id, [text("/permissions ask")])
        await agent.set_config_option("level", opened.session_id, "plan")
        for wrong in ("everything", "", "allow bash(rm *)"):
            with pytest.raises(RequestError):
                await agent.set_session_mode(mode_id=wrong, session_id=opened.session_id)
        again = await agent.load_session(str(place.folder), opened.session_id, mcp_servers=[])
        assert again is not None and again.modes is not None and again.modes.current_mode_id == "ask"
        await agent.prompt(opened.session_id, [text("/tokens")])
        await editor.until(lambda: "This session's level was plan; it continues at ask" in str(editor.updates))
    assert "next request" in editor.said(), "an alias is a command too"
    assert not editor.questions and "return 2" in (place.folder / "price.py").read_text()
    told = [one.current_mode_id for one in editor.updates if isinstance(one, schema.CurrentModeUpdate)]
    assert told == ["edit", "ask", "plan"]
    options = [one for one in editor.updates if isinstance(one, schema.ConfigOptionUpdate)]
    assert [one.config_options[0].current_value for one in options] == told


def test_an_editor_that_leaves_in_the_middle_of_a_question_loses_nothing(place: Stage) -> None:
    place.script(lambda body: calls(EDIT) if body["messages"][-1]["role"] == "user" else {"text": "Done."})
    first, second = Editor(), Editor()
    first.hangs = True
    known: list[str] = []

    async def leave() -> None:
        async with connected(place, first) as (agent, _):
            opened = await agent.new_session(str(place.folder), mcp_servers=[])
            known.append(opened.session_id)
            asyncio.ensure_future(agent.prompt(opened.session_id, [text("fix the price")])).add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )
            await first.until(lambda: bool(first.questions))

    async def come_back() -> None:
        async with connected(place, second) as (agent, _):
            await agent.load_session(str(place.folder), known[0], mcp_servers=[])
            assert second.said(schema.UserMessageChunk) == "fix the price"
            assert [one.kind for one in second.of(schema.ToolCallStart)] == ["edit"]
            assert (await agent.prompt(known[0], [text("go on")])).stop_reason == "end_turn"

    live(leave)
    assert "return 1" in (place.folder / "price.py").read_text()
    live(come_back)
    assert second.questions and "return 2" in (place.folder / "price.py").read_text()
    listed = place.run("sessions", "list", "--json").result["sessions"]
    assert [one["id"] for one in listed] == known
    place.script(["In the terminal."])
    assert place.ask("-r", known[0], "and here?").text == "In the terminal.\n"


async def test_a_command_that_starts_a_turn_starts_it_and_one_that_opens_another_session_is_not_offered(
    place: Stage,
) -> None:
    touch = calls(("bash", {"command": "touch passed.txt"}))
    place.script(lambda body: {"text": "Done."} if body["messages"][-1]["role"] == "tool" else touch)
    editor = Editor()

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await editor.until(lambda: bool(editor.of(schema.AvailableCommandsUpdate)))
        offered = {one.name for one in editor.of(schema.AvailableCommandsUpdate)[0].available_commands}
        assert {"undo", "diff", "export"} <= offered and not {"clear", "resume", "fork", "login"} & offered
        goal = "/goal make it --until 'test -e passed.txt'"
        assert (await agent.prompt(opened.session_id, [text(goal)])).stop_reason == "end_turn"
        assert (place.folder / "passed.txt").exists() and "Done." in editor.said(schema.AgentMessageChunk)
        for line in ("/export md talk.md", "/undo"):
            await agent.prompt(opened.session_id, [text(line)])
        assert "Done." in (place.folder / "talk.md").read_text() and not (place.folder / "passed.txt").exists()
        told = {
            "/clear": "Start a new session in the editor",
            "/new": "Start a new session in the editor",
            "/resume": "Choose the session in the editor",
            "/resume 01J": "Choose the session in the editor",
            "/sessions": "Choose the session in the editor",
            "/fork": f"nexus -r {opened.session_id}, then /fork",
            "/edit": f"nexus -r {opened.session_id}, then /edit",
            "/rewind 1": "Use /rewind N files",
        }
        for line, hint in told.items():
            with pytest.raises(RequestError, match="only the editor can open another session") as refused:
                await agent.prompt(opened.session_id, [text(line)])
            assert hint in str(refused.value), line
        for line in ("/sessions list", "/sessions LIST", "/resume --running"):
            await agent.prompt(opened.session_id, [text(line)])
        with pytest.raises(RequestError, match="there is no such folder"):
            await agent.fork_session(opened.session_id, str(place.folder), ["/nope/nope"], mcp_servers=[])
        assert len((await agent.list_sessions(str(place.folder))).sessions) == 1, "a refused fork leaves no copy"
        works = place.settings('effort = "none of these"')
        with pytest.raises(RequestError, match="effort"):
            await agent.fork_session(opened.session_id, str(place.folder), mcp_servers=[])
        works.write_text(f'model = "{MODEL}"\n{QUICK}{PRICED}')
        assert len((await agent.list_sessions(str(place.folder))).sessions) == 1, "nor does one that cannot open"
        copy = await agent.fork_session(opened.session_id, str(place.folder), mcp_servers=[])
        assert copy.session_id != opened.session_id and copy.modes is not None
        assert (await agent.prompt(copy.session_id, [text("/doctor --instructions")])).stop_reason == "end_turn"


async def test_a_running_command_is_cancelled_and_a_question_of_the_model_is_a_form(place: Stage) -> None:
    asked = ("ask_person", {"questions": [{"question": "Which one?", "choices": ["first", "second"]}]})
    sleep, later = ("bash", {"command": "echo begun; sleep 600"}), ("bash", {"command": "touch later"})
    steps = iter([calls(asked), calls(sleep, later)])
    place.script(lambda body: next(steps, {"text": "Done."}))
    editor = Editor()

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("go")]))
        await editor.until(lambda: any("begun" in str(one.content) for one in editor.of(schema.ToolCallProgress)))
        await agent.cancel(opened.session_id)
        assert (await turn).stop_reason == "cancelled"
        await agent.close_session(opened.session_id)
    assert editor.forms == ["Which one?"]
    told = [str(one.content) for one in editor.of(schema.ToolCallProgress) if one.status]
    assert "the second one" in told[0]
    begun = {one.tool_call_id: one.title for one in editor.of(schema.ToolCallStart)}
    ended = [one.tool_call_id for one in editor.of(schema.ToolCallProgress) if one.status]
    assert list(begun) == ended and begun[ended[2]] == "touch later", "an update is of a call that the editor knows"


@pytest.mark.matrix
async def test_servers_of_the_editor_are_those_of_its_session_alone(place: Stage) -> None:
    pytest.importorskip("mcp")
    server, notes = str(Path(__file__).with_name("notes_server.py")), place.folder / "notes.txt"
    add = "mcp__Team_notes__add_note"
    seen: list[Any] = []

    def model(body: Any) -> Any:
        seen.append(body)
        last = body["messages"][-1]
        if last["role"] == "tool" and f"{add}:" in str(last["content"]):
            return calls(("use_tool", {"name": add, "arguments": {"text": "milk"}}))
        if last["role"] == "tool":
            return {"text": f"The server said: {last['content']}"}
        named = {one["function"]["name"] for one in body["tools"]}
        if "NOTE" in str(last["content"]):  # a search waits until the tools are known
            return calls((add, {"text": "milk"}) if add in named else ("use_tool", {"name": "the notes"}))
        return {"text": "Done."}

    place.script(model)
    place.settings(
        f'model = "{MODEL}"\n{QUICK}{PRICED}[mcp.mine]\ncommand = ["{place.folder}/none"]\nstart_seconds = 20\n'
    )
    editor = Editor()
    stdio = schema.McpServerStdio(
        name="Team notes",
        command=sys.executable,
        args=[server, str(notes)],
        env=[schema.EnvVariable(name="TOKEN", value="${OPENAI_API_KEY}")],
    )
    mine = schema.HttpMcpServer(type="http", name="mine", url="http://127.0.0.1:9/", headers=[])
    events = schema.SseMcpServer(type="sse", name="old", url="http://127.0.0.1:9/", headers=[])

    async with connected(place, editor) as (agent, _):
        first = await agent.new_session(str(place.folder), mcp_servers=[stdio, mine, events])
        await agent.prompt(first.session_id, [text("NOTE it")])
        await agent.prompt(first.session_id, [text("what is in @Team_notes:note://all?")])
        again = await agent.new_session(str(place.folder), mcp_servers=[stdio])
        await editor.until(lambda: "mcp__Team_notes__review_note" in str(editor.of(schema.AvailableCommandsUpdate)))
        await agent.prompt(again.session_id, [text("NOTE it")])
        await agent.prompt(again.session_id, [text("/mcp__Team_notes__review_note bread")])
        other = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(other.session_id, [text("NOTE it")])
    assert notes.read_text() == "milk\nmilk\n", editor.said()
    assert [one.title for one, _, _ in editor.questions] == [f"{add} milk"] * 2, editor.questions
    told = editor.said(schema.AgentThoughtChunk)
    assert "mine (the editor) is skipped: you have a server with this name" in told and "transport sse" in told
    words = [str(body["messages"]) for body in seen]
    assert any('<resource server="Team_notes" uri="note://all">' in one for one in words)
    assert any("be kind." in one and "bread" in one for one in words), "a prompt, as a command of the editor"
    assert "Team_notes" not in str(seen[-1]), "the other session has none of them"
    assert "Team_notes" not in place.run("mcp", "list").text


@pytest.mark.matrix
async def test_prompts_at_once_run_one_after_the_other_and_a_cancel_ends_them_all(place: Stage) -> None:
    steps = iter([calls(EDIT), {"text": "Second."}, calls(EDIT), {"text": "Third."}, {"text": "Fourth."}])
    place.script(lambda body: next(steps))
    editor = Editor()

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        editor.hangs = True
        first = asyncio.ensure_future(agent.prompt(opened.session_id, [text("fix the price")]))
        await editor.until(lambda: bool(editor.questions))
        second = asyncio.ensure_future(agent.prompt(opened.session_id, [text("and this")]))
        with pytest.raises(RequestError, match="a turn is running"):
            await agent.set_config_option("model", opened.session_id, "openai/other")
        await agent.cancel(opened.session_id)  # nobody ever answers the question
        assert [(await one).stop_reason for one in (first, second)] == ["cancelled", "cancelled"]
        editor.hangs = False
        assert (await agent.prompt(opened.session_id, [text("go on")])).stop_reason == "end_turn"
        third = asyncio.ensure_future(agent.prompt(opened.session_id, [text("fix it now")]))
        fourth = asyncio.ensure_future(agent.prompt(opened.session_id, [text("anything else?")]))
        assert [(await one).stop_reason for one in (third, fourth)] == ["end_turn", "end_turn"]
    assert editor.said() == "Second.Third.Fourth." and "return 2" in (place.folder / "price.py").read_text()


async def test_a_diff_is_shown_and_our_own_instruction_starts_a_turn_in_the_same_session(place: Stage) -> None:
    seen: list[Any] = []

    def model(body: Any) -> Any:
        seen.append(body["messages"])
        return {"text": "Done."}

    place.script(model)
    editor = Editor()

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        for line in ("/diff", "/init", "/model openai/gpt-4o", "/runs", "and now?"):
            assert (await agent.prompt(opened.session_id, [text(line)])).stop_reason == "end_turn"
        with pytest.raises(RequestError, match="another session"):
            await agent.prompt(opened.session_id, [text("/fork")])
    assert "+++ b/price.py" in editor.said() and "No runs." in editor.said()
    assert "NEXUS.md" in str(seen[0][-1]) and len(seen) == 2
    assert "Mode: HTTP" not in str(seen[1]), "the model that follows is no less in an editor"


async def test_what_a_command_attaches_goes_with_the_next_message(place: Stage) -> None:
    seen: list[Any] = []
    steps = iter([calls(("bash", {"command": "seq 100000"})), None])

    def model(body: Any) -> Any:
        seen.append(body["messages"][-1])
        return next(steps, None) or {"text": "Done."}

    place.script(model)
    editor = Editor()

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        for line in ("count", "/drops recall d1 0:20", "and now?", "and then?"):
            assert (await agent.prompt(opened.session_id, [text(line)])).stop_reason == "end_turn"
    assert '<recalled id="d1" characters="0:20' in str(seen[2]["content"]) and "recalled" not in str(seen[3]["content"])


async def test_a_session_that_waits_continues_by_itself_in_the_editor(place: Stage) -> None:
    wait = calls(("wait_for", {"file": "ci.log", "event": "appears"}))
    place.script(lambda body: {"text": "It passed."} if "RESUME" in str(body["messages"][-1]["content"]) else wait)
    editor = Editor()

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        assert (await agent.prompt(opened.session_id, [text("wait for CI")])).stop_reason == "end_turn"
        told = len(editor.of(schema.UsageUpdate))
        (place.folder / "ci.log").write_text("passed")
        await editor.until(lambda: len(editor.of(schema.UsageUpdate)) > told)
    assert editor.said() == "It passed."
    assert {row["state"] for row in place.run("runs", "list", "--json").result["runs"]} <= {"done"}


async def test_while_a_turn_runs_a_command_that_reads_answers_and_one_that_waits_is_cancelled_with_it(
    place: Stage,
) -> None:
    place.script([calls(("bash", {"command": "echo begun; sleep 600"})), "Done."])
    editor = Editor()

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("go")]))
        await editor.until(lambda: any("begun" in str(one.content) for one in editor.of(schema.ToolCallProgress)))
        assert (await agent.prompt(opened.session_id, [text("/permissions")])).stop_reason == "end_turn"
        assert "all" in editor.said() and not turn.done()
        waits = asyncio.ensure_future(agent.prompt(opened.session_id, [text("/compact")]))
        await asyncio.sleep(0.2)
        await agent.cancel(opened.session_id)
        assert [(await one).stop_reason for one in (turn, waits)] == ["cancelled", "cancelled"]
        assert (await agent.prompt(opened.session_id, [text("go on")])).stop_reason == "end_turn"
    assert editor.said().endswith("Done.")


@pytest.mark.matrix
async def test_a_key_that_the_provider_refuses_asks_the_editor_to_authenticate(place: Stage) -> None:
    place.script([{"fault": {"status": 401, "message": "wrong key"}}, {"fault": {"status": 400, "message": "no"}}])

    async with connected(place, Editor()) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        for code, kind in ((-32000, "auth"), (-32603, "provider")):
            with pytest.raises(RequestError) as refused:
                await agent.prompt(opened.session_id, [text("go")])
            assert (refused.value.code, (refused.value.data or {})["kind"]) == (code, kind), refused.value


async def test_a_session_that_is_open_elsewhere_is_not_opened_twice(place: Stage) -> None:
    place.script(lambda body: {"text": "Done."})
    first, second = Editor(), Editor()

    async with connected(place, first) as (agent, _), connected(place, second) as (other, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(opened.session_id, [text("hello")])
        for open_again in (other.load_session, other.resume_session):
            with pytest.raises(RequestError, match="open") as refused:
                await open_again(session_id=opened.session_id, cwd=str(place.folder), mcp_servers=[])
            assert (refused.value.data or {})["hint"], "what to do instead"
        asked = await asyncio.to_thread(place.ask, "-r", opened.session_id, "and here?")
        assert asked.status != 0 and "Traceback" not in "\n".join(asked.told), asked
        assert (await agent.prompt(opened.session_id, [text("still here?")])).stop_reason == "end_turn"
        await agent.close_session(opened.session_id)
        await other.load_session(str(place.folder), opened.session_id, mcp_servers=[])
        assert second.said(schema.UserMessageChunk) == "hellostill here?"


def test_garbage_and_what_libraries_print_harm_no_message(place: Stage) -> None:
    place.script(["Hello."])
    child = place.begin(
        "acp",
        bug="import nexus_cli.acp.agent as a\n_make = a.EditorAgent._make_session\n"
        "def make(self, *arguments):\n    print('a library says something')\n    return _make(self, *arguments)\n"
        "a.EditorAgent._make_session = make\n",
        stdin=subprocess.PIPE,
        installed=False,
    )
    lines = [
        "no JSON at all",
        "[1]",
        "[" * 100_000,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}),
        json.dumps(
            {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(place.folder), "mcpServers": []}}
        ),
        json.dumps(
            {"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": "/nowhere", "mcpServers": []}}
        ),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "session/dance", "params": {}}),
    ]
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("".join(f"{line}\n" for line in lines).encode())
    child.stdin.flush()
    answers: dict[int, Any] = {}
    while len(answers) < 4:
        one = json.loads(child.stdout.readline())
        if one.get("id") is not None:
            answers[one["id"]] = one
    child.stdin.close()
    assert child.wait() == 0
    assert answers[1]["result"]["agentInfo"]["name"] == "nexus" and answers[2]["result"]["sessionId"]
    assert (
        "absolute path of an existing folder" in answers[3]["error"]["message"]
        and answers[4]["error"]["code"] == -32601
    )


FOLDERS = ("", "..", "a\0b", "/" + "x" * 5000, "/dev/null", "\ud800")
BLOCKS = (
    {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png", "uri": "http://[x"},
    {"type": "resource_link", "uri": "http://[x", "name": "n"},
)


@pytest.mark.matrix
def test_what_no_right_editor_sends_is_answered_in_one_line_each(place: Stage) -> None:
    place.script(lambda body: {"text": "Hello."})
    child = place.begin("acp", stdin=subprocess.PIPE)
    written, read = child.stdin, child.stdout
    assert written is not None and read is not None and child.stderr is not None

    def ask(method: str, number: Any = 7, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": number, "method": f"session/{method}", "params": params}
        written.write(f"{json.dumps(message)}\n".encode())
        written.flush()
        while (one := json.loads(read.readline())).get("id") != number or "method" in one:
            pass
        return dict(one)

    for folder in FOLDERS:
        told = ask("new", cwd=folder, mcpServers=[])["error"]
        assert "absolute path of an existing folder" in told["message"] and len(told["message"]) < 300, told
    here = {"cwd": str(place.folder), "mcpServers": []}
    opened = ask("new", **here)["result"]["sessionId"]
    for name in ("", "../../etc/passwd", "a/b", "%", "\0"):
        for method in ("load", "resume"):
            assert "there is no such session" in ask(method, sessionId=name, **here)["error"]["message"]
    for number in ("x", 0, -1, 2**70, ""):
        assert "error" in ask("dance", number)
    for block in BLOCKS:
        assert ask("prompt", sessionId=opened, prompt=[block])["result"]["stopReason"] == "end_turn"
    for key, value in (("effort", "insane"), ("level", "root"), ("model", "../x"), ("", "")):
        assert "error" in ask("set_config_option", sessionId=opened, configId=key, value=value)
    assert ask("close", sessionId=opened)["result"] == {}
    for _ in range(2):
        told = ask("prompt", sessionId=opened, prompt=[{"type": "text", "text": "hi"}])["error"]
        assert "no open session" in told["data"]["message"]
    written.write(b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "no"}}\n' * 5000)
    assert ask("new", **here)["result"]["sessionId"] != opened
    written.close()
    assert child.wait() == 0 and b"Traceback" not in child.stderr.read()


def test_without_the_package_one_line_says_what_to_install(place: Stage) -> None:
    done = place.run("acp", bug="import sys\nsys.modules['acp'] = None\n")
    assert done.status == 2 and len(done.told) == 1
    assert done.told[0].startswith("nexus: nexus acp: a required package is missing. ")
    assert done.told[0].endswith(" install 'agent-client-protocol>=0.12.1,<0.13'.")


def test_a_file_in_place_of_the_editor_is_one_line(place: Stage) -> None:
    child = place.begin("acp", stdin=subprocess.DEVNULL)
    _, stderr = child.communicate()
    assert child.returncode == 2 and stderr.count(b"\n") == 1 and b"must be pipes" in stderr, stderr


def test_a_call_that_a_former_process_left_open_is_not_begun_twice(tmp_path: Path) -> None:
    call = ToolCall("c1", "bash", {"command": "make"})
    loaded = UpdateStream(ToolRegistry(()), tmp_path, replays=True)
    assert len([*loaded.translate(ToolCallEvent(call, "make"))]) == 1
    turn = UpdateStream(ToolRegistry(()), tmp_path, earlier=loaded)
    (ended,) = turn.translate(ToolResultEvent(call, ToolResult(error="outcome unknown"), 1, 0.0))
    assert isinstance(ended, schema.ToolCallProgress)


@pytest.mark.matrix
def test_an_editor_is_shown_no_session_of_a_worktree_in_the_folder_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexus_cli.acp.agent import EditorAgent

    ledger, agent = Ledger.open(tmp_path / "ledger.db"), object.__new__(EditorAgent)
    made: Any = {"model": "m", "recipe": "chat", "at": "2026-01-01T00:00:00Z", "front": "chat", "project": "/p"}
    here = ledger.create_session(folder="/p", **made)
    apart = ledger.create_session(folder="/data/fix", worktree="fix", **made)
    agent._pool = cast(Any, SimpleNamespace(open_ledger=lambda: ledger))
    for cwd, ids in (("/p", [here.id]), ("/data/fix", [apart.id]), (None, [apart.id, here.id])):
        assert [row.session_id for row in asyncio.run(agent.list_sessions(cwd)).sessions] == ids
    monkeypatch.setattr("nexus_cli.acp.agent.MAX_LISTED", 1)
    (row,) = asyncio.run(agent.list_sessions("/p")).sessions
    assert row.session_id == here.id, "a newer one of a worktree takes no place"
    ledger.close()
