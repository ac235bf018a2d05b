"""The job: plan in an editor, have the plan carried out, steer the turn, and choose from lists of slash commands.

The editor shows no forms. It cancels while it is asked, does something else meanwhile, and leaves in the middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from acp.exceptions import RequestError
from program.editor import Editor, connected, live, text
from program.stage import MODEL, PRICED, QUICK, Stage, calls, stage

EDIT = ("edit_file", {"path": "price.py", "edits": [{"old": "return 1", "new": "return 2"}]})
PLAN = "1. Return 2."


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}')
        (made.folder / "price.py").write_text("def price():\n    return 1\n")
        yield made


@pytest.fixture
def editor() -> Editor:
    editor = Editor()
    editor.has_forms = False
    return editor


def planner(body: Any) -> Any:
    """Plan, and carry the plan out once it may."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {"text": "Carried out."}
    return calls(EDIT) if "Proceed with the plan." in str(last["content"]) else {"text": PLAN}


def level_of(editor: Editor) -> str:
    return str(editor.of(schema.CurrentModeUpdate)[-1].current_mode_id)


async def test_a_plan_is_carried_out_in_the_same_prompt_at_the_level_that_was_chosen(
    place: Stage, editor: Editor
) -> None:
    place.script(planner)

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.set_session_mode(mode_id="plan", session_id=opened.session_id)
        editor.answer = "no"
        assert (await agent.prompt(opened.session_id, [text("fix it")])).stop_reason == "end_turn"
        assert editor.said() == PLAN and level_of(editor) == "plan", "the planning goes on"
        editor.answer = "all"
        assert (await agent.prompt(opened.session_id, [text("really?")])).stop_reason == "end_turn"
        assert level_of(editor) == "plan", "no level that was not offered"
        editor.answer = "edit"
        assert (await agent.prompt(opened.session_id, [text("fix it now")])).stop_reason == "end_turn"
    asked = [(call.title, keys[0], keys[-1]) for call, keys, _ in editor.questions]
    assert asked == [("Proceed with this plan?", "edit", "no")] * 3
    assert editor.said() == f"{PLAN * 3}Carried out." and "return 2" in (place.folder / "price.py").read_text()
    assert level_of(editor) == "edit"
    assert editor.of(schema.ConfigOptionUpdate)[-1].config_options[0].current_value == "edit"
    ended = {one.tool_call_id for one in editor.of(schema.ToolCallProgress) if one.status == "completed"}
    assert {call.tool_call_id for call, _, _ in editor.questions} <= ended


async def test_a_question_after_a_plan_is_cancelled_withdrawn_and_left_alone(place: Stage, editor: Editor) -> None:
    place.script(planner)
    editor.hangs = True
    known: list[str] = []

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        known.append(opened.session_id)
        await agent.set_session_mode(mode_id="plan", session_id=opened.session_id)

        async def ask(count: int) -> asyncio.Future[Any]:
            turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("fix it")]))
            turn.add_done_callback(lambda task: task.cancelled() or task.exception())
            await editor.until(lambda: len(editor.questions) == count)
            return turn

        turn = await ask(1)
        await agent.cancel(opened.session_id)
        assert (await turn).stop_reason == "cancelled"
        turn = await ask(2)
        assert (await agent.prompt(opened.session_id, [text("/context")])).stop_reason == "end_turn"
        assert (await turn).stop_reason == "cancelled", "the person does something else"
        turn = await ask(3)
        await agent.set_config_option("level", opened.session_id, "ask")
        assert (await turn).stop_reason == "cancelled"
        await agent.set_config_option("level", opened.session_id, "plan")
        turn = await ask(4)
        await agent.close_session(opened.session_id)
        await asyncio.wait_for(turn, 60)
        await agent.load_session(str(place.folder), opened.session_id, mcp_servers=[])
        await agent.set_session_mode(mode_id="plan", session_id=opened.session_id)
        await ask(5)  # and the editor leaves
    assert "return 1" in (place.folder / "price.py").read_text()
    assert place.run("sessions", "show", known[0], "--json").status == 0


def test_a_command_lets_the_person_choose_and_a_cancel_chooses_nothing(place: Stage, editor: Editor) -> None:
    place.script(["Done."])
    more = "".join(f'other{number} = "openai/m{number}"\n' for number in range(14))
    place.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}[alias]\nother = "openai/gpt-4o"\n{more}')

    async def work() -> None:
        async with connected(place, editor) as (agent, _):
            opened = await agent.new_session(str(place.folder), mcp_servers=[])
            await agent.prompt(opened.session_id, [text("hello")])
            for answer in ("no", "openai/gpt-4o"):
                editor.answer = answer
                assert (await agent.prompt(opened.session_id, [text("/model")])).stop_reason == "end_turn"
            editor.hangs = True
            for number, end in enumerate(("cancel", "prompt"), 3):
                turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("/model")]))
                await editor.until(lambda number=number: len(editor.questions) == number)  # type: ignore[misc]
                if end == "cancel":
                    await agent.cancel(opened.session_id)
                    assert (await turn).stop_reason == "cancelled"
                else:
                    assert (await agent.prompt(opened.session_id, [text("/permissions")])).stop_reason == "end_turn"
                    assert (await turn).stop_reason == "end_turn", "nothing was chosen"

    live(work)
    asked, keys, _ = editor.questions[0]
    assert str(asked.title).startswith(f"Model: {MODEL}.") and keys[-1] == "no" and len(keys) == 13
    assert str(asked.title).endswith(" 4 more: type the item's name after the command")
    assert "Using openai/gpt-4o." in editor.said()


async def test_a_running_turn_is_steered_and_an_idle_session_wants_a_prompt(place: Stage, editor: Editor) -> None:
    seen: list[Any] = []
    steps = iter([calls(("bash", {"command": "echo begun; until test -e go; do sleep 0.1; done"})), {"text": "Done."}])

    def model(body: Any) -> Any:
        seen.append(body["messages"])
        return next(steps, {"text": "Again."})

    place.script(model)

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])

        async def steer(words: str) -> Any:
            prompt = [text(words).model_dump(by_alias=True, exclude_none=True)]
            return await agent.ext_method("session/steering", {"sessionId": opened.session_id, "prompt": prompt})

        assert (await steer("hello"))["outcome"] == "promptRequired"
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("go")]))
        await editor.until(lambda: any("begun" in str(one.content) for one in editor.of(schema.ToolCallProgress)))
        assert (await steer("use the other name"))["outcome"] == "injected"
        assert (await steer("/context"))["outcome"] == "promptRequired"
        (place.folder / "go").write_text("")
        assert (await turn).stop_reason == "end_turn"
        assert "use the other name" in str(seen[1][-1]["content"]) and editor.said() == "Done."
        with pytest.raises(RequestError):
            await agent.ext_method("session/dance", {})
        editor.updates.clear()
        await agent.load_session(str(place.folder), opened.session_id, mcp_servers=[])
        assert editor.said(schema.UserMessageChunk) == "gouse the other name"
