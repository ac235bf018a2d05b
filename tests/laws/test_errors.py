"""Law 9: an error has an addressee. The person gets one line with a hint and a kind, the model a tool result; neither
gets a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from laws.check import assert_laws
from laws.world import World, outcome, say, the_ledger, world
from ledger.conftest import on
from search import sample

from nexus_cli.config.settings import ProviderSettings
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.errors import EXIT_STATUS
from nexus_cli.core.event import Outcome
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Delta, Request
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry

PATIENCE, IMPATIENCE = (ProviderSettings(stall_seconds=seconds, retries=0) for seconds in (60.0, 0.4))
CALL = {"calls": [{"name": "bash", "arguments": {"command": "true"}}]}
FAILURES: dict[str, tuple[Any, str]] = {
    "too many requests": ({"fault": 429}, "rate_limit"),
    "quota used up": ({"fault": "quota"}, "provider"),
    "overloaded": ({"fault": 529}, "overloaded"),
    "out of service": ({"fault": 503}, "overloaded"),
    "wrong key": ({"fault": 401}, "auth"),
    "bad request": ({"fault": 400}, "provider"),
    "unknown model": ({"fault": 404}, "usage"),
    "reset before the first token": ({"text": "words", "fault": {"kind": "reset", "after": 0}}, "network"),
    "reset half way": ({"text": "words " * 9, "fault": {"kind": "reset", "after": 2}}, "network"),
    "closed without a byte": ({"fault": "close_before_head"}, "network"),
    "silence": ({"text": "late", "fault": {"kind": "stall_before_head", "seconds": 20}}, "network"),
    "an error inside the answer": ({"text": "words " * 9, "fault": {"kind": "error_later", "after": 2}}, "provider"),
    "nothing": ({"fault": "empty"}, "provider"),
    "no reason": ({"text": "words", "fault": "no_finish"}, "provider"),
    "the output limit": ({"text": "words", "finish": "length"}, "length"),
    "the filter": ({"text": "words", "finish": "content_filter"}, "refused"),
}


def one_turn(place: Path, steps: list[Any], **more: Any) -> tuple[World, Outcome, list[Entry]]:
    """One turn over scripted steps: how it ended, and the entries."""
    with world(place, steps, **more) as around:

        async def live() -> tuple[str, Outcome]:
            session = around.open()
            try:
                return session.id, outcome(await say(session, "DO it"))
            finally:
                await session.aclose()

        session, ended = asyncio.run(live())
        with the_ledger() as ledger:
            assert_laws(ledger, session, around.server.requests)
            main = ledger.session(session).main_lane
            return around, ended, list(on(ledger, main).read(1, on(ledger, main).last_id()))


def assert_told(ended: Outcome, kinds: set[str]) -> None:
    """The person is told one line, with the exit status of its kind."""
    assert ended.error is not None and not ended.ok
    assert ended.error["kind"] in kinds, ended.error
    assert ended.exit == EXIT_STATUS[ended.error["kind"]]
    assert ended.error["message"].strip() and "\n" not in ended.error["message"]
    assert "Traceback" not in ended.error["message"] + ended.error["hint"]
    assert ended.error["kind"] == "aborted" or ended.error["hint"], "no hint"


@pytest.mark.parametrize("name", sample(FAILURES, 4))
def test_what_the_provider_does_wrong_is_told_to_the_person_by_its_kind(name: str, place: Path) -> None:
    step, kind = FAILURES[name]
    _, ended, entries = one_turn(place, [step], provider=IMPATIENCE if name == "silence" else PATIENCE)
    assert_told(ended, {kind})
    assert entries[0].kind is Kind.USER


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("limit", "steps"),
    sample(
        [
            (Limits(max_steps=2), [CALL] * 5),
            (Limits(max_total_tokens=4000), [CALL] * 5),
            (Limits(timeout=0.5), [{"text": "late", "delay": 20}]),
            (Limits(), [CALL] * 9),
        ],
        3,
    ),
    ids=["steps", "tokens", "time", "repetition"],
)
def test_a_limit_is_told_with_the_way_to_go_on(limit: Limits, steps: list[Any], place: Path) -> None:
    _, ended, _ = one_turn(place, steps, limits=limit)
    assert_told(ended, {"limit"})


def test_a_window_smaller_than_the_system_text_sends_nothing_and_names_the_largest_parts(place: Path) -> None:
    around, ended, _ = one_turn(place, ["never"], window=1500)
    assert_told(ended, {"overflow"})
    assert not around.server.requests
    assert ended.error is not None
    assert "contract 3" in ended.error["message"] and "tool schemas" in ended.error["message"]


MISTAKES: dict[str, dict[str, Any]] = {
    "an unknown tool": {"name": "bsh", "arguments": {"command": "ls"}},
    "no name": {"name": "", "arguments": {}},
    "arguments that are no JSON": {"name": "bash", "arguments": '{"command": "ls'},
    "arguments that are a list": {"name": "bash", "arguments": "[1, 2]"},
    "no arguments": {"name": "bash", "arguments": ""},
    "a wrong type": {"name": "bash", "arguments": {"command": 7}},
    "an unknown argument": {"name": "bash", "arguments": {"command": "ls", "colour": "red"}},
    "a file that is not there": {"name": "read_file", "arguments": {"path": "absent.txt"}},
    "text that is not there": {"name": "edit_file", "arguments": {"path": "a", "edits": [{"old": "x", "new": "y"}]}},
    "an unknown drop": {"name": "recall", "arguments": {"id": "d404"}},
    "a command that fails": {"name": "bash", "arguments": {"command": "exit 3"}},
}


@pytest.mark.parametrize("name", sample(MISTAKES, 4))
def test_what_the_model_does_wrong_is_a_tool_result_that_it_can_act_on(name: str, place: Path) -> None:
    around, ended, entries = one_turn(place, [{"calls": [MISTAKES[name]]}, "done"])
    assert ended.ok and ended.text == "done"
    [result] = [entry for entry in entries if entry.kind is Kind.TOOL]
    assert result.message.content.strip() and "Traceback" not in result.message.content
    assert around.server.requests[1].body["messages"][-1]["role"] == "tool"


@pytest.mark.matrix
def test_a_bug_in_a_tool_is_a_result_for_the_model(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ToolRegistry.get

    def broken(self: ToolRegistry, name: str) -> Any:
        from dataclasses import replace

        async def run(arguments: Any, context: Any) -> Any:
            raise ZeroDivisionError("a bug")

        tool = real(self, name)
        return replace(tool, run=run) if tool else tool

    monkeypatch.setattr(ToolRegistry, "get", broken)
    _, ended, entries = one_turn(place, [CALL, "done"])
    assert ended.ok
    assert "ZeroDivisionError" in entries[2].message.content and "Traceback" not in entries[2].message.content


class Broken:
    """A provider with a bug."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Fails as no provider should."""
        raise ZeroDivisionError("a secret of the prompt")
        yield  # makes it a generator


def test_a_bug_of_ours_is_one_line_and_its_place_goes_to_the_log(place: Path) -> None:
    async def live(around: World) -> Outcome:
        options = Options(around.folder, around.model, allow="all")
        session = open_session(options, around.settings, approver=None, provider=Broken(), clock=around.clock)
        try:
            return outcome(await say(session, "DO it"))
        finally:
            await session.aclose()

    with world(place, []) as around:
        ended = asyncio.run(live(around))
    assert_told(ended, {"internal"})
    log = (place / "home" / "log" / "nexus.log").read_text()
    assert "ZeroDivisionError" in log and "secret" not in log + str(ended.error)
