"""Who may come in, and how much they may take: token, Host, Origin, sizes, times, connections, slow readers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.http_exceptions import BadStatusLine
from rpc.serving import TOKEN, Answering, Served, serving, until
from search import sample

from nexus_cli.client import CallError, Client
from nexus_cli.config.server_token import UNIX
from nexus_cli.core.errors import NexusError
from nexus_cli.core.request import Request
from nexus_cli.rpc import event_feed, http_server
from nexus_cli.rpc.event_feed import EventFeed
from nexus_cli.rpc.listening import bind_address, bind_file, remove_file
from nexus_cli.rpc.trigger_door import BODY_SECONDS

CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list_agents"})
RIGHT = f"Bearer {TOKEN}"


class Raw:
    """A connection on which bytes are written by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def head(self) -> str:
        """The head of an answer; "" where the connection was closed instead."""
        try:
            return (await self.reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            return getattr(error, "partial", b"").decode()


async def connect(served: Served) -> Raw:
    """A connection to a server."""
    if served.url.startswith(UNIX):
        return Raw(*await asyncio.open_unix_connection(served.url.removeprefix(UNIX)))
    parts = urlsplit(served.url)
    return Raw(*await asyncio.open_connection(parts.hostname, parts.port))


async def status(served: Served, *headers: str, path: str = "/rpc", body: str = CALL, method: str = "POST") -> int:
    """The status of one request with exactly these headers."""
    one = await connect(served)
    lines = [f"{method} {path} HTTP/1.1", *headers, f"Content-Length: {len(body)}", "", body]
    one.writer.write("\r\n".join(lines).encode())
    head = await one.head()
    one.writer.close()
    return int(head.split()[1])


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN.upper()}",
        "Bearer \u00e9\u00ff",
        f"Token {TOKEN}",
    ],
)
async def test_without_the_token_nobody_comes_in(tmp_path: Path, given: str | None) -> None:
    async with serving(tmp_path) as served:
        headers = ["Host: 127.0.0.1"] + ([] if given is None else [f"Authorization: {given}"])
        paths = (("/rpc", "POST"), ("/openrpc.json", "GET"), ("/agents/a/events", "GET"), ("/nothing", "GET"))
        for path, method in paths:
            assert await status(served, *headers, path=path, method=method) == 401
        assert await status(served, "Host: 127.0.0.1", f"Authorization: bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        (("Host: 127.0.0.1",), 200),
        (("Host: localhost:1",), 200),
        (("Host: [::1]:80",), 200),
        (("Host: LOCALHOST",), 200),
        ((), 403),
        (("Host:",), 403),
        (("Host: evil.example",), 403),
        (("Host: 127.0.0.1.evil.example",), 403),
        (("Host: localhost.evil.example",), 403),
        (("Host: evil.example@localhost.",), 403),
        (("Host: 10.0.0.1",), 403),
        (("Host: [::1",), 403),
        (("Host: 127.0.0.1", "Origin: http://127.0.0.1:8000"), 200),
        (("Host: 127.0.0.1", "Origin: http://evil.example"), 403),
        (("Host: 127.0.0.1", "Origin: null"), 403),
        (("Host: 127.0.0.1", "Origin: file://"), 403),
        (("Host: 127.0.0.1", "Origin: "), 403),
        (("Host: 127.0.0.1", "Origin: http://[::1"), 403),
        (("Host: 127.0.0.1", "Origin: //localhost"), 403),
    ],
)
async def test_a_foreign_host_or_origin_is_turned_away(tmp_path: Path, headers: tuple[str, ...], wanted: int) -> None:
    async with serving(tmp_path) as served:
        assert await status(served, *headers, f"Authorization: {RIGHT}") in ({wanted} if headers else {400, 403})


async def test_a_server_on_every_address_takes_addresses_and_its_own_name(tmp_path: Path) -> None:
    async with serving(tmp_path, host="0.0.0.0") as served:
        for host, wanted in (("10.0.0.1", 200), (socket.gethostname(), 200), ("evil.example", 403)):
            assert await status(served, f"Host: {host}", f"Authorization: {RIGHT}") == wanted


async def test_other_paths_and_methods_are_named_as_such(tmp_path: Path) -> None:
    head = ("Host: 127.0.0.1", f"Authorization: {RIGHT}")
    async with serving(tmp_path) as served:
        assert await status(served, *head, method="GET") == 405
        assert await status(served, *head, path="/") == 404
        assert await status(served, *head, path="/agents/a/events", method="GET") == 404
        assert await status(served, *head, "Content-Encoding: gzip") == 415
        await served.client.create_agent("a")
        for seen in ("x", "-2", "1.5", "9" * 40):
            events = await status(
                served, *head, f"Last-Event-ID: {seen}", path="/agents/a/events", method="GET", body=""
            )
            assert events == 400


async def test_a_large_body_is_refused_and_the_server_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as served:
        large = b" " * (http_server.MAX_BODY + 1)
        assert (await served.post(large))[0] == 413
        one = await connect(served)
        head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\nTransfer-Encoding: chunked\r\n\r\n"
        one.writer.write(head.encode())
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(http_server.MAX_BODY // 0x100000 + 1):
                one.writer.write(chunk)
                await one.writer.drain()
        except ConnectionError:
            pass
        assert "413" in (await one.head()).split("\r\n")[0]
        one.writer.close()
        assert await served.client.list_agents() == []


async def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        one = await connect(served)
        head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\nContent-Length: {10**12}\r\n\r\n"
        one.writer.write(head.encode())
        assert "413" in (await asyncio.wait_for(one.head(), BODY_SECONDS / 2)).split("\r\n")[0]
        one.writer.close()


async def test_long_headers_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        head = ("Host: 127.0.0.1", f"Authorization: {RIGHT}")
        assert await status(served, *head, f"X: {'x' * 20_000}") == 400
        assert await status(served, *head, *(f"X{number}: x" for number in range(500))) == 400
        assert await status(served, *head, path="/" + "x" * 20_000) in (400, 414)


async def test_who_sends_no_headers_or_no_body_in_time_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(http_server, "IDLE_SECONDS", 0.1)
        await _is_let_go_without_headers(tmp_path)
    async with serving(tmp_path) as served:
        one = await connect(served)
        one.writer.write(
            f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\nContent-Length: 9\r\n\r\n{{".encode()
        )
        assert (await one.head()).startswith("HTTP/1.1 408")


async def _is_let_go_without_headers(folder: Path) -> None:
    async with serving(folder) as served:
        for begun in (b"", b"POST /rpc HTTP/1.1\r\nHost: 127"):
            one = await connect(served)
            one.writer.write(begun)
            assert await one.reader.read() == b""


async def enter(served: Served) -> Raw:
    """A connection on which the token was shown."""
    one = await connect(served)
    one.writer.write(f"GET /openrpc.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\n\r\n".encode())
    assert (await one.head()).startswith("HTTP/1.1 200")
    return one


async def test_one_connection_too_many_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 3)
    async with serving(tmp_path) as served:
        held = [await enter(served) for _ in range(3)]
        one = await connect(served)
        assert (await one.head()).startswith("HTTP/1.1 503")
        for each in (*held, one):
            each.writer.close()
        for _ in range(1000):  # until the server has noticed
            with suppress(CallError, ConnectionError):
                assert await served.client.list_agents() == []
                return
            await asyncio.sleep(0.05)
        pytest.fail("the places of those that left stay taken")


IDLE = {
    "nothing": b"",
    "half a head": b"POST /rpc HTTP/1.1\r\nHost: 127",
    "a wrong token": b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\nContent-Length: 9\r\n\r\n{",
}


@pytest.mark.matrix
@pytest.mark.parametrize("held", sample(IDLE, 3))
@pytest.mark.parametrize("file", [False, True])
async def test_who_has_no_token_cannot_hold_the_places_of_those_who_have_one(
    tmp_path: Path, held: str, file: bool
) -> None:
    async with serving(tmp_path, file=tmp_path / "s" if file else None) as served:
        await served.client.create_agent("w")
        events: list[dict[str, Any]] = []
        follow = asyncio.create_task(_follow(served, events))
        await until(lambda: _listeners_of(served, "w"))
        strangers: list[Raw] = []
        for number in range(http_server.MAX_CONNECTIONS + 100):
            strangers.append(await connect(served))
            strangers[-1].writer.write(IDLE[held])
            if number % 50 == 49:
                async with Client(served.url, TOKEN) as other:
                    assert len(await other.list_agents()) == 1
        assert (await served.client.send("w", "hi"))["ok"]
        await until(lambda: any(one.get("type") == "result" for one in events))
        follow.cancel()
        told = await asyncio.wait_for(strangers[0].reader.read(), 120)
        assert told == http_server._FULL or (held == "a wrong token" and told.startswith(b"HTTP/1.1 401"))
        for one in strangers:
            one.writer.close()


@pytest.mark.matrix
async def test_a_storm_of_connections_keeps_nobody_out_who_has_the_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        open_ones: list[Raw] = []

        async def storm() -> None:
            while True:
                open_ones.append(await connect(served))

        storms = [asyncio.create_task(storm()) for _ in range(4)]
        try:
            await until(lambda: len(open_ones) > http_server.MAX_CONNECTIONS)
            for _ in range(20):
                async with Client(served.url, TOKEN) as other:
                    assert await other.list_agents() == []
        finally:
            for task in storms:
                task.cancel()
            for one in open_ones:
                one.writer.transport.abort()


async def _follow(served: Served, into: list[Any]) -> None:
    async for event in served.client.events("w"):
        into.append(event)


def _listeners_of(served: Served, agent_id: str) -> bool:
    return bool(_feed(served, agent_id)._listeners)


GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\0" * 100,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"\xff\xfe / HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET // HTTP/1.1\r\nHost: [\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"A" * 70_000,
    b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nA b: x\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x85abcd",
    b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nCookie: \x01=\x02\r\nAuthorization: \xff\r\n\r\n",
    b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\nrest",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=\xff\r\n"
    b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
)


@pytest.mark.matrix
async def test_what_is_no_request_is_refused_without_a_word_in_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    generator = random.Random(7)
    right = f"Host: 127.0.0.1\r\nAuthorization: {RIGHT}\r\nContent-Length: {len(CALL)}\r\n\r\n{CALL}"
    good = f"POST /rpc HTTP/1.1\r\n{right}".encode()
    spoilt = []
    for _ in range(300):
        draft = bytearray(good)
        for _ in range(generator.randint(1, 6)):
            draft[generator.randrange(len(draft))] = generator.choice(b"\0\xff\r\n :\t[]%,;\x80" + bytes(range(256)))
        spoilt.append(bytes(draft[: generator.randint(1, len(draft))] if generator.random() < 0.2 else draft))
    async with serving(tmp_path) as served:
        for data in (*GARBAGE, *spoilt):
            one = await connect(served)
            one.writer.write(data)
            one.writer.write_eof()
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.5):
                    await one.reader.read()
            one.writer.close()
        assert await served.client.list_agents() == []
    assert not caplog.records


def test_a_bug_in_an_answer_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    logger = http_server._quiet_logger(told.append)
    try:
        raise ValueError("secret words")
    except ValueError:
        logger.exception("Error handling request from %s", "x")
    logger.error("a word of aiohttp without an exception")
    (line,) = told
    assert "ValueError" in line and "secret" not in line and "\n" not in line
    assert capfd.readouterr() == ("", "")


def test_malformed_requests_are_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    told, now = list[str](), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    logger = http_server._quiet_logger(told.append)
    for second in range(130):
        now[0] = 100.0 + second
        try:
            raise BadStatusLine("secret words")
        except BadStatusLine:
            logger.exception("Error handling request from %s", "10.0.0.7")
    first = "malformed HTTP from 10.0.0.7: BadStatusLine"
    assert told == [first, f"{first} (61 so far)", f"{first} (121 so far)"]


async def test_webhooks_and_connections_are_noted_and_refused_ones_no_flood(tmp_path: Path) -> None:
    noted: list[str] = []
    async with serving(tmp_path, note=noted.append) as served:
        for _ in range(3):
            async with aiohttp.ClientSession() as http, http.post(f"{served.url}/trigger/ci", data="{}") as answer:
                assert answer.status == 401
            assert await served.client.list_agents() == []
    assert noted == ['webhook ci: 401 {"error": "the token is missing or wrong"}', "connected: 127.0.0.1"]


def flood(request: Request) -> str:
    """A long answer."""
    return "x" * 200_000


async def listen_without_reading(served: Served, agent_id: str) -> Raw:
    """A stream of events whose reader takes nothing."""
    parts = urlsplit(served.url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (parts.hostname, parts.port))
    one = Raw(*await asyncio.open_connection(sock=made, limit=1024))
    one.writer.write(
        f"GET /agents/{agent_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\n\r\n".encode()
    )
    await until(lambda: _feed(served, agent_id)._listeners)
    one.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return one


def _feed(served: Served, agent_id: str) -> EventFeed:
    agent = served.pool.get(agent_id)
    assert agent is not None
    return agent.dispatcher.feed


@pytest.mark.matrix
async def test_a_reader_that_takes_nothing_holds_up_no_agent_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "WRITE_SECONDS", 1.0)
    monkeypatch.setattr(event_feed, "MAX_BYTES", 300_000)
    monkeypatch.setattr(event_feed, "MAX_UNREAD", 600_000)
    async with serving(tmp_path, Answering(flood)) as served:
        await served.client.create_agent("a")
        one = await listen_without_reading(served, "a")
        (listener,) = _feed(served, "a")._listeners
        for _ in range(8):
            assert (await served.client.send("a", "go"))["ok"]
            assert listener._queue.size <= event_feed.MAX_UNREAD
            assert _feed(served, "a")._recent.size <= 2 * event_feed.MAX_BYTES
        await until(lambda: not _feed(served, "a")._listeners)
        one.writer.close()
        assert (await served.client.send("a", "go"))["ok"]


@pytest.mark.matrix
async def test_a_slow_reader_is_cut_off_with_a_last_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "MAX_UNREAD", 600_000)
    async with serving(tmp_path, Answering(flood)) as served:
        await served.client.create_agent("a")
        one = await listen_without_reading(served, "a")
        (listener,) = _feed(served, "a")._listeners
        while not listener.is_cut_off:
            await served.client.send("a", "go")
        one.writer.transport.resume_reading()  # type: ignore[attr-defined]
        text = b""
        while not text.endswith(b"\r\n0\r\n\r\n"):
            text += await one.reader.read(1 << 16)
        lines = [line for line in text.splitlines() if line.startswith(b"data: ")]
        last = json.loads(lines[-1][6:])
        assert last["type"] == "cut" and "Last-Event-ID" in last["why"]


async def test_a_silent_stream_carries_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "KEEP_ALIVE_SECONDS", 0.05)
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        one = await connect(served)
        one.writer.write(f"GET /agents/a/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\n\r\n".encode())
        assert "text/event-stream" in await one.head()
        for _ in range(2):
            await one.reader.readuntil(b": keep-alive\n\n")
        one.writer.close()


async def test_shutdown_is_answered_and_takes_no_new_work(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        await served.client.shutdown()
        assert served.ended.is_set()
        assert await served.error(json.dumps(json.loads(CALL) | {"method": "create_agent"})) == (-32002, 1)


async def test_at_the_end_the_running_turn_finishes_its_step_and_nothing_else_begins(tmp_path: Path) -> None:
    gates = {"go": asyncio.Event()}

    def script(request: Request) -> Any:
        return "done" if request.messages[-1]["role"] == "tool" else [("read_file", {"path": "a.txt"})]

    (tmp_path / "a.txt").write_text("content\n")
    provider = Answering(script, gates=gates)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turn = asyncio.create_task(served.post(_send("go")))
        await until(lambda: provider.asked)
        waiting = asyncio.create_task(served.post(_send("next")))
        agent = served.pool.get("a")
        assert agent is not None
        await until(lambda: len(agent.dispatcher._works) == 2)
        ending = asyncio.create_task(served.pool.finish_steps(300.0))
        await asyncio.sleep(0.02)
        assert (await served.post(_send("more")))[1]["error"]["code"] == -32002
        gates["go"].set()
        await ending
        assert provider.asked == ["go"], "the step is finished, and no other request was sent"
        answers = [(await one)[1]["error"]["data"]["kind"] for one in (turn, waiting)]
        assert answers == ["aborted", "aborted"]
        found = (await served.client.get_messages("a"))["messages"]
        assert found[2]["role"] == "tool" and "content" in found[2]["content"]
        assert agent.session.is_open()


async def test_a_call_that_never_comes_whole_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "WRITE_SECONDS", 3600.0)
    async with serving(tmp_path) as served:
        one = await connect(served)
        head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {RIGHT}\r\nContent-Length: 9\r\n\r\n{{"
        one.writer.write(head.encode())
        await served.client.list_agents()
    one.writer.close()


async def test_a_step_that_does_not_end_is_stopped_and_its_caller_told(tmp_path: Path) -> None:
    provider = Answering(gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turn = asyncio.create_task(served.post(_send("go")))
        await until(lambda: provider.asked)
        await served.pool.finish_steps(0.1)
        assert (await turn)[1]["error"]["data"]["kind"] == "aborted"


async def test_a_bug_in_a_turn_ends_its_stream_and_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        with monkeypatch.context() as broken:
            broken.setattr("nexus_cli.session.session.Session.result", lambda self, outcome: 1 // 0)
            events: list[Any] = []
            with pytest.raises(ConnectionError, match="without a result"):
                async for event in served.client.stream("a", "hi"):
                    events.append(event)
            assert events[-1]["type"] == "turn.end"
            assert (await served.error(_send("hi")))[0] == -32603
        assert (await served.client.send("a", "hi"))["text"] == "echo hi"


def _send(content: str) -> str:
    params = {"agent_id": "a", "content": content}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "send", "params": params})


def _file(path: Path) -> None:
    path.write_text("mine")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("there", [_file, _folder])
def test_a_socket_never_takes_the_place_of_another_file(tmp_path: Path, there: Callable[[Path], None]) -> None:
    there(tmp_path / "s")
    before = os.lstat(tmp_path / "s")
    with pytest.raises(NexusError, match="the path exists and is not a socket"):
        bind_file(tmp_path / "s")
    assert os.lstat(tmp_path / "s").st_ino == before.st_ino


def test_a_socket_that_is_in_use_is_left_alone_and_a_dead_one_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with closing(bind_file(path)), pytest.raises(NexusError, match="another process listens"):
        bind_file(path)
    with closing(bind_file(path)):
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(NexusError, match="too long"):
        bind_file(tmp_path / ("x" * 120))
    with pytest.raises(NexusError, match="cannot listen"):
        bind_file(tmp_path / "nowhere" / "s")


def test_a_port_in_use_or_an_address_of_others_is_one_clear_line() -> None:
    with closing(bind_address("127.0.0.1", 0)) as taken, pytest.raises(NexusError, match="cannot listen on 127"):
        bind_address("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(NexusError, match="cannot listen"):
        bind_address("203.0.113.1", 0)


def test_of_two_servers_that_find_a_dead_socket_one_gets_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begun, change_mode = tmp_path / "s", threading.Event(), os.chmod
    bind_file(path).close()

    def change_mode_slowly(path: Path, mode: int) -> None:
        begun.set()
        time.sleep(0.3)
        change_mode(path, mode)

    monkeypatch.setattr("nexus_cli.rpc.listening.os.chmod", change_mode_slowly)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(bind_file, path)
        assert begun.wait(120)
        with pytest.raises(NexusError, match="another process listens"):
            bind_file(path)
        with closing(first.result()):
            assert path.exists()


def test_a_socket_file_that_another_one_made_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with closing(bind_file(path)):
        made = os.lstat(path)
        path.rename(tmp_path / "moved")
        with closing(bind_file(path)):
            remove_file(path, made)
            assert path.exists()
            remove_file(path, os.lstat(path))
            assert not path.exists()
        remove_file(path, made)


async def test_a_server_that_cannot_be_reached_is_told_in_our_words() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail\r\n" if says_hello else b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
        writer.close()

    async with Client("nonsense", TOKEN) as client:
        with pytest.raises(ConnectionError, match="not a server URL: nonsense"):
            await client.list_agents()
    says_hello = False
    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with Client(url, TOKEN) as client:
        with pytest.raises(ConnectionError, match="the connection was lost"):
            await client.list_agents()
        says_hello = True
        with pytest.raises(ConnectionError, match="the response is not from a nexus server"):
            await client.list_agents()
        listening.close()
        await listening.wait_closed()
        with pytest.raises(ConnectionError, match="the server cannot be reached: Connection refused"):
            await client.list_agents()
