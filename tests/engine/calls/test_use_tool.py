"""A call through `use_tool` is a call of the tool that it names, for all but the requests that show it again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from permission.test_call_permission import results, write_settings
from session.played import MODEL, Person, Played, say, the_ledger

from nexus_cli.acp.updates import UpdateStream
from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Deny
from nexus_cli.core.event import ContextPlan, Event, ToolCallEvent, ToolResultEvent
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import Message, Role, ToolCall, from_record, to_record, unwrap_call
from nexus_cli.core.request import Request
from nexus_cli.reports.export import session_pieces
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

ITEMS = {"items": [{"text": "look", "state": "doing"}]}
TODO = {"name": "todo", "arguments": ITEMS}
LATER = {"action": "add", "prompt": "run the tests", "in": "2 hours"}
SETTINGS = Settings(models={MODEL: {"window": 60_000}})


class Model(Played):
    """Makes the given calls one by one, and keeps the tools of every request."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.tools: list[list[str]] = []

        def script(request: Request) -> Any:
            self.tools.append([tool["function"]["name"] for tool in request.tools])
            done = sum(message["role"] == "assistant" for message in request.messages)
            return [calls[done]] if done < len(calls) else "done"

        super().__init__(script)


def opened(folder: Path, model: Model, person: Person | None = None, **options: Any) -> Session:
    made = Options(folder, MODEL, **{"allow": "all", **options})
    return open_session(made, SETTINGS, approver=person, provider=model, services=SERVICES)


def called(events: list[Event]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, ToolCallEvent)]


def test_the_call_is_that_of_the_tool_and_requests_show_it_as_it_was_sent(tmp_path: Path) -> None:
    model = Model(("use_tool", TODO), ("use_tool", {"name": "context", "arguments": "{}"}))
    session = opened(tmp_path, model)
    events, _ = say(session, "go on")
    assert [(call.name, call.arguments) for call in called(events)] == [("todo", ITEMS), ("context", {})]
    assert all(result.success for result in results(events)), results(events)
    value = to_json_value(events[[type(event) for event in events].index(ToolCallEvent)])
    assert value["call"] == {"id": called(events)[0].id, "name": "todo", "arguments": ITEMS, "raw": ""}
    shown = [call["function"] for call in model.seen[-1][2]["tool_calls"] + model.seen[-1][4]["tool_calls"]]
    assert shown[0] == {"name": "use_tool", "arguments": json.dumps(TODO, separators=(",", ":"))}
    assert json.loads(shown[1]["arguments"]) == {"name": "context", "arguments": {}}
    for before, after in zip(model.seen, model.seen[1:], strict=False):
        assert after[: len(before)] == before
    assert {"todo", "context"}.isdisjoint(model.tools[0]) and model.tools[0] == model.tools[-1], "no epoch of its own"
    with the_ledger() as ledger:
        entries = list(ledger.log(session.id).read(1, 99))
    assert [call.name for entry in entries for call in entry.message.tool_calls] == ["todo", "context"]
    assert [entry.actor for entry in entries if entry.message.role is Role.TOOL] == ["tool:todo", "tool:context"]
    again = Model()
    say(opened(tmp_path, again, resume=session.id), "and now")
    assert again.seen[0][: len(model.seen[-1])] == model.seen[-1]


def test_a_name_alone_and_wrong_arguments_bring_the_schema(tmp_path: Path) -> None:
    wrong = {"name": "todo", "arguments": {"steps": []}}
    model = Model(("use_tool", {"name": "todo"}), ("use_tool", wrong), ("todo", {}), ("use_tool", {"name": "the web"}))
    asked, mistaken, direct, found = results(say(opened(tmp_path, model), "go on")[0])
    assert asked.success and asked.output.startswith("todo: Replace the list") and '"items":' in asked.output
    for result in (mistaken, direct):
        assert "bad arguments for todo: `items` is required" in result.error and asked.output in result.error
        assert not result.ran
    assert "fetch: get a web page" in found.output


def test_an_unknown_name_leads_to_those_that_there_are(tmp_path: Path) -> None:
    model = Model(("use_tool", {"name": "zzz"}), ("use_tool", {"name": "Todo", "arguments": {}}))
    one, other = results(say(opened(tmp_path, model), "go on")[0])
    assert "there is no tool 'zzz'" in one.error and "wait_for" in one.error
    assert "there is no tool 'Todo'. Did you mean todo?" in other.error


@pytest.mark.matrix
def test_calls_of_the_former_tool_mcp_are_answered(tmp_path: Path) -> None:
    model = Model(
        ("mcp", {"action": "call", "tool": "todo", "arguments": ITEMS}),
        ("mcp", {"action": "describe", "tool": "todo"}),
        ("mcp", {"action": "search", "query": "the web"}),
        ("mcp", {"action": "call", "tool": "context"}),
        ("mcp", {"action": "other"}),
    )
    done, described, found, plain, wrong = results(say(opened(tmp_path, model), "go on")[0])
    assert done.success and done.ran and "[mcp is todo here]" in done.output
    assert described.output.startswith("todo: Replace the list") and "fetch: get a web page" in found.output
    assert plain.output.startswith("context: "), "its arguments are asked for"
    assert "there is no tool 'mcp'. Did you mean use_tool?" in wrong.error
    shown = model.seen[-1][2]["tool_calls"][0]["function"]
    assert shown["name"] == "mcp" and json.loads(shown["arguments"])["arguments"] == ITEMS, "as it was sent"


def test_a_deny_rule_holds_for_a_call_through_the_former_tool_mcp(tmp_path: Path) -> None:
    model = Model(("mcp", {"action": "call", "tool": "todo", "arguments": ITEMS}))
    write_settings('[rules]\ndeny = ["todo"]\n')
    [result] = results(say(opened(tmp_path, model), "go on")[0])
    assert not result.ran and "deny" in result.error, result


def test_a_hidden_tool_can_be_called_by_its_name(tmp_path: Path) -> None:
    model = Model(("todo", ITEMS))
    [result] = results(say(opened(tmp_path, model), "go on")[0])
    assert result.success and "todo" not in model.tools[0]


def test_permission_and_rules_see_the_tool(tmp_path: Path) -> None:
    write_settings('[rules]\nallow = []\ndeny = ["bash(rm *)", "fetch"]\n')
    model = Model(
        ("use_tool", {"name": "plan", "arguments": LATER}),
        ("use_tool", {"name": "bash", "arguments": {"command": "rm a"}}),
        ("use_tool", {"name": "fetch", "arguments": {"url": "https://example.org"}}),
    )
    session = opened(tmp_path, model, person := Person(Deny("no")), allow="ask")
    _, outcome = say(session, "go on")
    assert [question.call.name for question in person.asked] == ["plan"]
    denied = session.result(outcome)["denied"]
    assert [row["tool"] for row in denied] == ["plan", "bash", "fetch"]
    assert "deny bash(rm *)" in denied[1]["why"] and "deny fetch" in denied[2]["why"]


@pytest.mark.matrix
def test_limits_see_the_tool(tmp_path: Path) -> None:
    model = Model(("use_tool", {"name": "fetch", "arguments": {"url": "https://example.org"}}), ("use_tool", TODO))
    session = opened(tmp_path, model, limits=Limits(tools=frozenset({"bash", "todo"})))
    refused, ran = results(say(session, "go on")[0])
    assert refused.denied and "fetch" in str(session.dispatcher.denied) and ran.success
    assert "todo" in model.tools[0] and "use_tool" not in model.tools[0], "what the limits name is offered"


@pytest.mark.matrix
def test_repeated_calls_are_equal_however_they_are_made(tmp_path: Path) -> None:
    both: list[tuple[str, dict[str, Any]]] = [("use_tool", TODO), ("todo", ITEMS)]
    model = Model(*both * 6)
    events, outcome = say(opened(tmp_path, model), "go on")
    assert outcome.error and "repeated the same todo call 5 times" in str(outcome.error), outcome
    assert sum(isinstance(event, ToolResultEvent) for event in events) < 12


def test_calls_that_are_cut_off_again_and_again_end_the_turn_as_such(tmp_path: Path) -> None:
    cut: Any = "no object"
    _, outcome = say(opened(tmp_path, Model(*[("bash", cut)] * 6)), "go on")
    why = "5 times, with arguments that were cut off or are not a JSON object; none ran"
    assert outcome.error and why in str(outcome.error), outcome


async def test_an_epoch_that_comes_anyway_offers_what_was_called(tmp_path: Path) -> None:
    model = Model(("use_tool", TODO))
    session = opened(tmp_path, model)

    events = [event async for event in session.run("go on")]
    session.reload()
    events += [event async for event in session.run("and on")]
    await session.aclose()
    assert sum(isinstance(event, ContextPlan) for event in events) == 3
    assert ["todo" in tools for tools in model.tools] == [False, False, True]
    [line] = [tool["function"]["description"] for tool in _offered(session) if tool["function"]["name"] == "use_tool"]
    assert "- todo:" not in line


def _offered(session: Session) -> tuple[Any, ...]:
    return tuple(session.engine.conversation.epoch.tools)


@pytest.mark.parametrize("name", ["agent", "plan"])
def test_the_first_message_decides_what_is_offered_by_itself(tmp_path: Path, name: str) -> None:
    said = {"agent": "Let a worker look at it.", "plan": "Do it every night."}[name]
    say(opened(tmp_path, model := Model()), said)
    assert name in model.tools[0] and "use_tool" in model.tools[0]


@pytest.mark.matrix
def test_stored_facts_offer_memory(tmp_path: Path) -> None:
    model = Model(
        ("use_tool", {"name": "remember", "arguments": {"text": "Tabs.", "slot": "user", "quote": "Use tabs"}})
    )
    [result] = results(say(opened(tmp_path, model), "Use tabs")[0])
    assert result.success and "remember" not in model.tools[0], result
    say(opened(tmp_path, later := Model()), "go on")
    assert {"remember", "search_memory"} <= {*later.tools[0]}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"name": "todo"},
        {"name": 3, "arguments": {}},
        {"name": "todo", "arguments": []},
        {"name": "todo", "arguments": "{"},
        {"name": "todo", "arguments": {}, "why": "x"},
    ],
)
def test_only_a_name_with_arguments_is_a_call_of_the_tool(arguments: dict[str, Any]) -> None:
    call = ToolCall("c", "use_tool", arguments)
    assert unwrap_call(call) is call


def test_a_wrapped_call_is_stored_as_such() -> None:
    call = unwrap_call(ToolCall("c", "use_tool", {"name": "use_tool", "arguments": TODO}))
    assert (call.name, call.arguments, call.is_wrapped) == ("todo", ITEMS, True)
    assert (call.sent_name, json.loads(call.sent_arguments)) == ("use_tool", TODO)
    message = Message(Role.ASSISTANT, "", (call, ToolCall("d", "todo", ITEMS)))
    assert from_record(json.loads(json.dumps(to_record(message)))) == message


@pytest.mark.matrix
@pytest.mark.parametrize(("matcher", "runs"), [("todo", False), ("TodoWrite", False), ("use_tool", True), ("", False)])
def test_a_hook_is_matched_with_the_tool_and_sees_its_arguments(matcher: str, runs: bool, tmp_path: Path) -> None:
    guard = HookTable("PreToolUse", "cat > given; echo keep out >&2; exit 2", matcher=matcher)
    model = Model(("use_tool", TODO))
    session = open_session(
        Options(tmp_path, MODEL, allow="all"),
        replace(SETTINGS, hook=(guard,)),
        approver=None,
        provider=model,
        services=SERVICES,
    )
    [result] = results(say(session, "go on")[0])
    assert result.success is runs and (runs or "keep out" in result.text)
    if not runs:
        given = json.loads((tmp_path / "given").read_text())
        assert given["tool_name"] == "todo" and given["tool_input"] == ITEMS


def test_exports_and_editors_show_the_tool(tmp_path: Path) -> None:
    session = opened(tmp_path, Model(("use_tool", TODO)))
    events, _ = say(session, "go on")
    with the_ledger() as ledger:
        info = ledger.session(session.id)
        pages = {form: "".join(session_pieces(ledger.log(session.id), info, form)) for form in ("md", "jsonl")}
    assert "**todo**" in pages["md"] and "use_tool" not in pages["md"]
    calls = [call for line in pages["jsonl"].splitlines() for call in json.loads(line).get("calls", ())]
    assert [call["name"] for call in calls] == ["todo"], pages["jsonl"]
    updates = UpdateStream(session.dispatcher.registry, tmp_path)
    shown = [update for event in events for update in updates.translate(event)]
    assert [one.title for one in shown if one.session_update == "tool_call"] == ["todo"]
    assert [one.entries[0].content for one in shown if one.session_update == "plan"] == ["look"]
