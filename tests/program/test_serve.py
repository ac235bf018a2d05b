"""`nexus serve` as programs use it: its one line, the token, the ends, and the session with curl of the room."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, end, stage, until
from programs import need

from nexus_cli.client import CallError, Client

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "nexus_cli" / "rpc" / "README.md",)
SECONDS = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("serve")) as made:
        yield made


@contextmanager
def serving(place: Stage, *arguments: str, **more: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A running `nexus serve --json`, and what it printed."""
    child = place.begin("serve", "--json", *arguments, **more)
    try:
        assert child.stdout is not None
        yield child, json.loads(child.stdout.readline())
    finally:
        end(child)


def left(child: Any) -> tuple[int, str, str]:
    """The status of an ended child, and the rest of its streams."""
    stdout, stderr = child.communicate(timeout=SECONDS)
    return child.returncode, stdout.decode(), stderr.decode()


def token_of(printed: dict[str, Any]) -> str:
    return Path(printed["token_file"]).read_text().strip()


def test_it_serves_until_it_is_told_to_stop(place: Stage) -> None:
    place.script(None)
    with serving(place) as (child, printed):
        file = Path(printed["token_file"])
        assert printed["pid"] == child.pid and printed["url"].startswith("http://127.0.0.1:")
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        assert file.is_relative_to(place.nexus_home / "data")

        async def talk() -> str:
            async with Client(printed["url"], token_of(printed)) as client:
                made = await client.create_agent("w")
                result = await client.send("w", "hi")
                assert result["ok"] and result["session"] == made["session"]
                events: list[Any] = [event async for event in client.stream("w", "again")]
                assert events[-1]["type"] == "result" and events[-1]["ok"]
                await client.shutdown()
                return str(made["session"])

        session = asyncio.run(talk())
        assert left(child) == (0, "", "")
        assert not file.exists()
    assert "hi" in place.run("sessions", "show", session).text


def test_a_socket_file_is_for_the_person_alone_and_goes_with_the_server(place: Stage) -> None:
    with serving(place, "--socket", "n.sock") as (child, printed):
        path = place.folder / "n.sock"
        assert printed["url"] == f"unix:{path}" and path.stat().st_mode & 0o777 == 0o600

        async def talk() -> None:
            async with Client(printed["url"], token_of(printed)) as client:
                assert await client.list_agents() == []

        asyncio.run(talk())
        again = place.run("serve", "--socket", "n.sock")
        assert again.status == 2 and "another process listens" in again.told[-1]
        child.send_signal(signal.SIGTERM)
        assert left(child)[0] == 143
        assert not path.exists()


@pytest.mark.matrix
@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs /proc")
def test_it_may_open_a_file_for_each_agent_and_each_connection(place: Stage) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    with serving(place, installed=True, preexec_fn=lower) as (child, _):
        limits = Path(f"/proc/{child.pid}/limits").read_text()
        assert int(limits.partition("Max open files")[2].split()[0]) > 1024


def test_a_second_signal_ends_it_at_once_and_leaves_no_file(place: Stage) -> None:
    place.script({"default": {"fault": {"kind": "stall", "seconds": 60, "after": 0}}})
    with serving(place, "--socket", "n.sock") as (child, printed):
        before = len(place.server.requests)

        async def talk() -> None:
            async with Client(printed["url"], token_of(printed)) as client:
                await client.create_agent("w")
                turn = asyncio.create_task(client.send("w", "go"))
                await asyncio.to_thread(until, lambda: len(place.server.requests) > before)
                child.send_signal(signal.SIGTERM)
                assert (await client.list_agents())[0]["state"] == "running", "its step is not over"
                child.send_signal(signal.SIGTERM)
                with pytest.raises(ConnectionError):
                    await turn

        asyncio.run(talk())
        assert left(child)[0] == 143
        assert not (place.folder / "n.sock").exists() and not Path(printed["token_file"]).exists()
    place.script(None)


def test_garbage_is_one_line_without_a_traceback_and_the_server_goes_on(place: Stage) -> None:
    with serving(place) as (child, printed):
        address = ("127.0.0.1", int(printed["url"].rpartition(":")[2]))
        for data in (
            b"\x16\x03\x01\x02\x00\x01",
            b"GET / HTTP/1.1\r\n: x\r\n\r\n",
            b"x" * 70_000,
            b"POST /rpc HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\nA\0: \xff\r\n\r\n",
        ):
            with socket.create_connection(address, SECONDS) as one, suppress(ConnectionError):
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
                one.recv(1 << 16)

        async def talk() -> None:
            async with Client(printed["url"], token_of(printed)) as client:
                assert await client.list_agents() == []
                await client.shutdown()

        asyncio.run(talk())
        assert left(child) == (0, "", "nexus: malformed HTTP from 127.0.0.1: BadHttpMethod\n")


def test_a_person_reads_what_the_server_does(place: Stage) -> None:
    with serving(place, "--verbose") as (child, printed):

        async def talk() -> None:
            async with Client(printed["url"], token_of(printed)) as client:
                await client.create_agent("w")
                assert (await client.send("w", "hi"))["ok"]
                await client.shutdown()

        asyncio.run(talk())
        status, _, stderr = left(child)
    lines = [line.partition(" ")[2] for line in stderr.splitlines()]
    cost = lines.pop()
    assert status == 0 and cost.startswith("agent w: done, 1 step"), stderr
    assert lines == [f"listening at {printed['url']}", "connected: 127.0.0.1", "agent w: turn started"]


@pytest.mark.matrix
def test_every_start_has_a_token_of_its_own(place: Stage) -> None:
    with serving(place) as (child, printed):
        old, port = token_of(printed), printed["url"].rpartition(":")[2]
        child.send_signal(signal.SIGINT)
        assert left(child)[0] == 130
    with serving(place, "--port", port) as (child, printed):
        assert token_of(printed) != old

        async def talk() -> None:
            async with Client(printed["url"], old) as client:
                with pytest.raises(CallError) as failed:
                    await client.list_agents()
                assert failed.value.code == 401

        asyncio.run(talk())
        again = place.run("serve", "--port", port)
        assert again.status == 2 and f"port {port}" in again.told[-1] and again.stdout == b""
        assert Path(printed["token_file"]).exists(), "the second one took nothing away from the first"


@pytest.mark.matrix
def test_sigterm_lets_the_step_finish_and_names_what_resumes_the_turn(place: Stage) -> None:
    file = place.folder / "begun"
    slow = {"command": "echo > begun; sleep 1; echo finished"}
    place.script({"rules": [{"when": {"contains": "go"}, "then": calls(("bash", slow))}]})
    with serving(place, "--allow", "all") as (child, printed):

        async def talk() -> tuple[str, CallError]:
            async with Client(printed["url"], token_of(printed)) as client:
                session = (await client.create_agent("w"))["session"]
                turn = asyncio.create_task(client.send("w", "go"))
                await asyncio.to_thread(until, file.exists)
                child.send_signal(signal.SIGTERM)
                with pytest.raises(CallError) as failed:
                    await turn
                return session, failed.value

        session, failed = asyncio.run(talk())
        assert failed.code == -32004 and failed.data["kind"] == "aborted"
        status, _, stderr = left(child)
    assert status == 143 and stderr.rstrip().endswith(f"nexus ask -r {session}")
    assert "for agent w to finish" in stderr.splitlines()[0] and "second signal" in stderr.splitlines()[0]
    place.script({"default": "all done"})
    resumed = place.ask("-r", session)
    assert resumed.status == 0 and resumed.text == "all done\n"
    sent = place.server.requests[-1].body["messages"]
    assert any(message["role"] == "tool" and "finished" in str(message["content"]) for message in sent)


def test_the_session_with_curl_is_as_it_is_written(place: Stage) -> None:
    need("curl")
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    blocks = [block for page in pages for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    sessions = [block for block in blocks if "nexus serve" in block and "curl" in block]
    assert sessions
    for block in sessions:
        place.script({"default": "hello from the model"})
        (place.folder / "server.json").unlink(missing_ok=True)
        done = place.shell(f"{block}wait\n")
        assert done.status == 0, done
        lines = [line for line in done.text.splitlines() if line.startswith("{")]
        first, second, last = (json.loads(line) for line in lines)
        assert first["result"]["agent_id"] == "w" and second["result"]["text"] == "hello from the model"
        assert last == {"jsonrpc": "2.0", "id": block.count("call '"), "result": {"ok": True}}
        events = [json.loads(line[6:]) for line in done.text.splitlines() if line.startswith("data: ")]
        assert bool(events) is ("text/event-stream" in block)
        if events:
            assert events[0]["type"] == "session.start" and events[-1]["type"] == "result" and events[-1]["ok"]
