"""What the process of MCP servers does for right servers of both eras, and how it and they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_play import Play, is_gone, raw

from nexus_cli.config.programs import start_program_async
from nexus_cli.mcp import host_process
from nexus_cli.mcp.host_process import McpHost
from nexus_cli.mcp.server_values import ServerEntry, ServerError, ServerPrompt, ServerQuestion

TOLD = Path(__file__).parent.parent / "jobs" / "told_server.py"
RIGHT = (sys.executable, str(Path(__file__).with_name("right_server.py")))


@pytest.mark.matrix
def test_a_server_of_the_sdk_lists_calls_reads_and_prompts(play: Play) -> None:
    server = ServerEntry("right", RIGHT, start_seconds=20)
    host = play.host
    offer = play.run(host.list_offer(server))
    tools = offer.tools
    assert [tool.name for tool in tools] == ["add", "picture", "refuse"]
    assert tools[0].parameters["required"] == ["a", "b"]
    assert play.run(host.call(server, "add", {"a": 1, "b": 2})).text == "3"
    picture = play.run(host.call(server, "picture", {}))
    assert picture.images == (("image/png", b"\x89PNG"),)
    refused = play.run(host.call(server, "refuse", {}))
    assert refused.is_error
    assert "refuse" in refused.text
    assert offer.resources == (("note://one", "one: The note."),)
    assert play.run(host.read_resource(server, "note://one")).text == "the note"
    assert offer.prompts == (ServerPrompt("review", "Review code.", (("file", True),)),)
    assert play.run(host.get_prompt(server, "review", {"file": "a.py"})).text == "Review a.py"


def test_a_tool_that_does_not_exist_is_an_error_of_one_call(play: Play) -> None:
    server = ServerEntry("right", RIGHT, start_seconds=20)
    try:
        answer = play.run(play.host.call(server, "nothing", {}))
        assert answer.is_error
    except ServerError as error:
        assert error.fault == "refused"
    assert play.run(play.host.call(server, "add", {"a": 1, "b": 2})).text == "3"


def test_a_server_of_the_new_era_is_asked_for_it_only_after_it_refused_the_handshake(
    play: Play, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    server, others = raw("modern", notes), set(play.host._groups)
    assert play.call(server, text="hi") == "hi"
    assert notes.read_text().split() == ["begin", "discover", "call"]
    (group,) = play.host._groups - others
    os.kill(group, signal.SIGKILL)
    assert is_gone(group)
    assert play.call(server, text="ho") == "ho"
    assert notes.read_text().split()[3:] == ["discover", "call"], "the era is remembered"


def test_an_old_server_is_never_asked_for_the_new_era(play: Play, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert play.call(raw("ok", notes), text="hi") == "hi"
    assert notes.read_text().split() == ["begin", "call"]


def test_progress_extends_a_call_and_is_shown(play: Play) -> None:
    shown: list[str] = []
    server = raw("progress", call=1.0)
    answer = play.run(play.host.call(server, "read_file", {}, progress=shown.append))
    assert answer.text == "done"
    assert shown == [f"{step} of 5" for step in range(5)]


def test_a_call_that_is_cancelled_is_cancelled_at_the_server(play: Play, tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def cancel() -> None:
        call = asyncio.create_task(play.host.call(raw("hang", notes), "read_file", {}))
        await wait_for_note(notes, "call")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        await wait_for_note(notes, "cancelled")

    play.run(cancel())


@pytest.mark.matrix
async def test_a_server_that_is_being_ended_has_no_revision() -> None:
    host, server = McpHost(), raw("closes")
    first = (await host.list_offer(server)).revision
    assert first == host.find_revision(server)
    call = asyncio.create_task(host.call(server, "read_file", {}))
    while host.find_revision(server) == first:  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # another process tells it
    assert host.find_revision(server) == "" and host._groups, "its process still runs"
    await asyncio.gather(call, return_exceptions=True)
    await host.aclose()


@pytest.mark.matrix
async def test_a_call_that_is_in_flight_when_the_process_is_ended_says_that_it_was_cancelled(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    host = McpHost()
    call = asyncio.create_task(host.call(raw("hang", notes), "read_file", {}))
    await wait_for_note(notes, "call")
    await host.aclose()
    with pytest.raises(ServerError, match="the call was cancelled"):
        await call


async def wait_for_note(notes: Path, word: str) -> None:
    while not notes.exists() or word not in notes.read_text():  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # another process writes it


def test_a_question_of_a_server_is_asked_and_its_time_does_not_count(play: Play) -> None:
    asked: list[ServerQuestion] = []

    async def ask(question: ServerQuestion) -> Mapping[str, Any] | None:
        asked.append(question)
        await asyncio.sleep(1.5)
        return {"name": "Ada"}

    server = raw("ask", call=1.0)
    answer = json.loads(play.run(play.host.call(server, "read_file", {}, ask=ask)).text)
    assert answer == {"action": "accept", "content": {"name": "Ada", "n": 3}}
    assert asked[0].text == "Who?"
    assert list(asked[0].parameters["properties"]) == ["name", "n"]


def test_a_question_that_is_declined_or_reaches_nobody_is_not_accepted(play: Play) -> None:
    async def decline(_question: ServerQuestion) -> None:
        return None

    server = raw("ask")
    assert json.loads(play.run(play.host.call(server, "read_file", {}, ask=decline)).text) == {"action": "decline"}
    assert json.loads(play.call(server)) == {"action": "cancel"}


def test_sampling_and_roots_are_refused(play: Play) -> None:
    assert play.call(raw("sampling")) == "True True"


def test_a_server_gets_harmless_variables_and_those_that_are_named(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-other")
    monkeypatch.setenv("GITHUB_TOKEN", "gh-1")
    server = raw("env", env=("GITHUB_TOKEN",), values={"MODE": "read"}, cwd=str(tmp_path))
    env = json.loads(play.call(server))
    assert (env["GITHUB_TOKEN"], env["MODE"], env["cwd"]) == ("gh-1", "read", str(tmp_path))
    assert "PATH" in env
    assert "SOME_API_KEY" not in env
    assert "NEXUS_HOME" not in env


@pytest.mark.matrix
def test_a_header_whose_variable_is_not_set_is_named_before_anything_is_sent(play: Play) -> None:
    server = ServerEntry("far", url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer ${NOT_SET_ANYWHERE}"})
    with pytest.raises(ServerError, match="Authorization needs NOT_SET_ANYWHERE"):
        play.run(play.host.list_offer(server))


@pytest.mark.matrix
def test_servers_end_with_the_host() -> None:
    async def use() -> list[int]:
        host = McpHost()
        answer = await host.call(raw("child"), "read_file", {})
        await host.aclose()
        await host.aclose()
        return list(map(int, answer.text.split()))

    assert all(map(is_gone, asyncio.run(asyncio.wait_for(use(), 60))))


@pytest.mark.matrix
def test_servers_end_when_nexus_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from nexus_cli.mcp.host_process import McpHost\n"
        "from nexus_cli.mcp.server_values import ServerEntry\n"
        "async def use():\n"
        "    host = McpHost()\n"
        "    entry = ServerEntry('stubborn', tuple(sys.argv[1:]), start_seconds=20)\n"
        "    print((await host.call(entry, 'x', {})).text, host._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(use())\n"
    )
    command = [sys.executable, "-c", code, *raw("stubborn").command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    pids = list(map(int, done.stdout.split()))
    assert len(pids) == 3
    assert all(map(is_gone, pids))


@pytest.mark.matrix
def test_a_list_of_one_session_hides_no_change_from_another(play: Play, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    told.write_text('{"tools": [{"name": "note", "inputSchema": {"type": "object"}}], "announces": "after"}')
    server = ServerEntry("told", (sys.executable, str(TOLD), str(told)), start_seconds=20)
    host = play.host
    assert host.find_revision(server) == "" and not told.with_suffix(".calls").exists(), "nothing is started"
    first = play.run(host.list_offer(server)).revision
    assert first and host.find_revision(server) == first
    assert play.run(host.list_resources(server)).text == "the server lists no resources"
    play.run(host.call(server, "note", {}))
    second = play.run(host.list_offer(server)).revision
    assert first != second == host.find_revision(server)
    assert told.with_suffix(".calls").read_text().split("\n") == ["tools/list", "tools/call note {}", "tools/list", ""]


@pytest.mark.matrix
def test_a_host_that_is_killed_fails_what_waits_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_process, "start_program_async", start_program_async)  # a forked one outlives its starter
    notes = tmp_path / "notes"

    async def kill() -> tuple[str, str]:
        host = McpHost()
        try:
            call = asyncio.create_task(host.call(raw("hang", notes), "read_file", {}))
            await wait_for_note(notes, "call")
            assert host._process is not None
            host._process.kill()
            with pytest.raises(ServerError) as caught:
                await call
            return caught.value.fault, (await host.call(raw("ok"), "read_file", {"text": "again"})).text
        finally:
            await host.aclose()

    assert asyncio.run(asyncio.wait_for(kill(), 60)) == ("died", "again")


@pytest.mark.matrix
def test_the_host_loads_no_module_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mcp.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "json.py").write_text("raise SystemExit('loaded')")
    monkeypatch.chdir(tmp_path)

    async def use() -> str:
        host = McpHost()
        try:
            return (await host.call(raw("ok"), "read_file", {"text": "hi"})).text
        finally:
            await host.aclose()

    assert asyncio.run(asyncio.wait_for(use(), 60)) == "hi"


@pytest.mark.matrix
def test_our_side_imports_nothing_of_the_sdk() -> None:
    code = (
        "import sys, nexus_cli.mcp.host_process; print([m for m in sys.modules if m.startswith(('mcp', 'pydantic'))])"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_request_that_was_answered_is_not_cancelled(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, real = list[Mapping[str, Any]](), play.host._send

    def send(line: dict[str, Any]) -> None:
        sent.append(line)
        real(line)

    monkeypatch.setattr(play.host, "_send", send)
    assert play.call(raw("ok"), text="hi") == "hi"
    with pytest.raises(ServerError):
        play.run(play.host.list_offer(ServerEntry("none", ("/does/not/exist",))))
    assert [line for line in sent if "do" in line] and not [line for line in sent if "cancel" in line]
