"""How often a session waits for the server of its ledger: what a distant database costs a step."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from laws.world import outcome, say, world
from program.terminal_run import TerminalRun
from search import sample

from nexus_cli.commands.memory import keep_fact
from nexus_cli.core.memory import MemorySlot
from nexus_cli.ledger import Ledger, server_journal
from nexus_cli.ledger.database import Database

MOST, FIRST, RESUMED = 4, 6, 8
"""Round trips of a step with one call or of a later turn, and to the first request of a new and of a resumed session.

Counted is what a session waits for over an open connection, from the first statement to what is committed before the
request. Connecting is not: the handshakes of TCP, encryption and password, which the server and its address decide.
"""
CHAT = 12
"""The same of `nexus` in a terminal, connecting included, which draws its status line and drafts the request before a
person types."""
SELECTS = 17
"""Queries of a resumed session to its first request over a file."""


class Trips:
    """Counts the round trips of psycopg: a row is waited for only if nothing that was sent after its statement was."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        import psycopg

        self.count = self._sent = self._known = 0
        self._of = dict[int, int]()
        self._is_piped = False
        for name in ("execute", "executemany", "fetchone", "fetchall"):  # a raw cursor inherits them
            whole = self._around(getattr(psycopg.Cursor, name), is_sent=name.startswith("execute"))
            patch.setattr(psycopg.Cursor, name, whole)
        patch.setattr(psycopg.Pipeline, "__exit__", self._around_exit(psycopg.Pipeline.__exit__))

    def _wait(self) -> None:
        self.count += 1
        self._known = self._sent

    def _around(self, real: Any, *, is_sent: bool) -> Any:
        depth = 0

        def call(cursor: Any, *arguments: Any, **more: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                made = real(cursor, *arguments, **more)
            finally:
                depth -= 1
            if is_sent and not depth:
                self._sent += 1
                self._of[id(cursor)] = self._sent
                if cursor.connection.info.pipeline_status == 0:
                    self._wait()
            elif not is_sent and self._of.get(id(cursor), 0) > self._known:
                self._wait()
            return made

        return call

    def _around_exit(self, real: Any) -> Any:
        def call(pipeline: Any, *error: Any) -> None:
            self._wait()
            real(pipeline, *error)

        return call


class CountingProxy:
    """Passes the connections to a server's socket on, and counts how often it answers."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target, self.count, self._asks = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432", 0, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"

    def _accept(self) -> None:
        while True:
            client, server = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            for reader, writer in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(reader, writer, reader is client), daemon=True).start()

    def _pass_on(self, reader: socket.socket, writer: socket.socket, asks: bool) -> None:
        with suppress(OSError), writer:
            while data := reader.recv(1 << 16):
                self.count += self._asks and not asks
                self._asks = asks
                writer.sendall(data)


@pytest.mark.matrix
def test_a_chat_waits_a_few_times_for_the_server_until_its_first_request(place: Path, url: str) -> None:
    """From its start, and a step with a call; then another chat with the session."""
    Ledger.open(url).close()  # makes the tables
    proxy, seen = CountingProxy(url), list[int]()

    def answer(body: Any) -> dict[str, Any]:
        seen.append(proxy.count)
        is_result = body["messages"][-1]["role"] == "tool"
        return {"text": "done"} if is_result else {"calls": [{"name": "bash", "arguments": {"command": "true"}}]}

    with world(place, answer, ledger_url=proxy.url) as around:
        options, env = ["-m", around.model, "--allow", "all"], {**os.environ, "TERM": "xterm"}
        slow = "from nexus_cli.ledger import server_journal\nserver_journal._FRESH_SECONDS = 600.0\n"
        for resumed in ([], ["-c"]):
            before = proxy.count
            with TerminalRun(*options, *resumed, env=env, cwd=around.folder, code=slow) as run:
                run.expect("k of ")  # the tokens of the first request, of a new session drafted in the background
                run.send("go\r")
                run.expect("done")
                run.send("\x04")
                run.finish()
            first, second = (sent - before for sent in seen[-2:])
            assert 5 < first <= CHAT and second - first <= MOST, (resumed, first, second)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(["new", "fork", "with a status line"], 3))
def test_a_step_waits_at_most_four_times_for_the_server(
    kind: str, place: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, seen, is_shown = count(1), list[int](), kind == "with a status line"
    kinds: list[tuple[str, dict[str, Any]]] = [("bash", {"command": "echo done"}), ("read_file", {"path": "a.txt"})]

    def answer(body: Any) -> dict[str, Any]:
        if (number := next(numbers)) == 1:
            assert 5 < trips.count <= FIRST + is_shown, trips.count
        else:
            seen.append(trips.count)
        name, arguments = kinds[number % 2]
        return {"calls": [{"name": name, "arguments": arguments}]} if number % 10 else {"text": "done"}

    with world(place, answer, ledger_url=url, steps=50) as around:
        (around.folder / "a.txt").write_text("hello\n")
        trips = Trips(monkeypatch)

        async def live() -> None:
            session = around.open()
            if is_shown:
                session.status()  # once at the prompt

            def show(*_: object) -> None:
                session.status()

            assert outcome(await say(session, "go", show if is_shown else None)).ok
            await session.aclose()
            if kind == "fork":
                ledger = Ledger.open(url)
                fork = ledger.fork_session(session.id, at="2026-01-13T14:30:00.000Z").id
                ledger.close()
                session = around.open(fork)
                seen.clear()
                assert outcome(await say(session, "go on")).ok
                await session.aclose()

        asyncio.run(live())
    steps = [after - before for before, after in pairwise(seen)][2:]  # the first ones read what stays
    assert len(steps) > 4 and min(steps) > 2 and max(steps) <= MOST, steps


@pytest.mark.matrix
@pytest.mark.parametrize("has_facts", sample([False, True], 2), ids=["without facts", "with facts"])
def test_a_session_waits_a_few_times_for_the_server_until_its_first_request(
    has_facts: bool, place: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session, the same one in a later turn, and opened again just before its turn."""
    monkeypatch.setattr(server_journal, "_FRESH_SECONDS", 600.0)
    seen = list[int]()

    def answer(body: Any) -> dict[str, Any]:
        seen.append(trips.count)
        return {"text": "done"}

    with world(place, answer, ledger_url=url) as around:
        ledger = Ledger.open(url)
        for text in ("the tests run with pytest", "indent with tabs", "answer in one line")[: 3 * has_facts]:
            keep_fact(ledger, MemorySlot.PROJECT, text, ledger.project_of(around.folder), "2026-01-13T08:30:00.000Z")
        ledger.close()
        trips = Trips(monkeypatch)

        async def live() -> None:
            session, before = around.open(), list[int]()
            for number in range(4):
                if number == 2:
                    await session.aclose()
                    before.append(trips.count)
                    session = around.open(session.id)
                elif number:
                    before.append(trips.count)
                assert outcome(await say(session, "run the tests with tabs, in one line")).ok
            await session.aclose()
            new, later, resumed, last = (sent - start for sent, start in zip(seen, [0, *before], strict=True))
            assert new <= FIRST and resumed <= RESUMED and later <= MOST + 1 and last <= MOST + 1, (new, later, resumed)

        asyncio.run(live())


@pytest.mark.matrix
def test_a_session_asks_a_file_a_few_times_until_its_first_request(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed session, and a step of it: its notes are known."""
    asked, seen, real = list[str](), list[int](), Database._ask

    def ask(db: Database, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        asked.append(sql)
        return real(db, sql, values)

    def answer(body: Any) -> dict[str, Any]:
        seen.append(len(asked))
        last = body["messages"][-1]
        return (
            {"text": "done"}
            if last["role"] == "tool"
            else {"calls": [{"name": "bash", "arguments": {"command": "true"}}]}
        )

    with world(place, answer) as around:

        async def live() -> None:
            session = around.open()
            assert outcome(await say(session, "go")).ok
            await session.aclose()
            monkeypatch.setattr(Database, "_ask", ask)
            seen.clear()
            session = around.open(session.id)
            for _ in range(2):
                assert outcome(await say(session, "go on")).ok
            await session.aclose()

        asyncio.run(live())
    resumed, step, later, _ = (after - before for before, after in pairwise([0, *seen]))
    assert 10 < resumed <= SELECTS and step <= 3 and later <= 4, (resumed, step, later, asked)
