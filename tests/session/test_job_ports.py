"""The servers of jobs: what the person can open in a browser, what they are asked, and what is not forwarded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from programs import need
from search import sample
from session.played import MODEL, Played
from session.summed import noted, turn
from session.test_session_jobs import Model, Step, act, result, sitting

from nexus_cli.commands import discover
from nexus_cli.config.settings import JobSettings, SandboxSettings, Settings
from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.session.factory import open_session
from nexus_cli.session.job_ports import MAX_PORTS
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.tools.listeners import free_port, is_own_address
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import Theme

PAGE = b"<h1>The shop is open</h1>"


class Person:
    """Answers questions about ports so, and allows everything else."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        if question.call.name != "forward":
            return Allow()
        self.asked.append(question)
        return self.answers.pop(0)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "index.html").write_bytes(PAGE)
    yield tmp_path


@asynccontextmanager
async def opened(
    folder: Path,
    *steps: Step,
    allow: str = "auto",
    backend: str = "bwrap",
    forward: str = "ask",
    person: Person | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Session, Played]]:
    if backend == "bwrap":
        need("bwrap")
    provider = Played(Model(*steps))
    settings = Settings(
        models={MODEL: {"window": 24_000}}, sandbox=SandboxSettings(backend=backend), jobs=JobSettings(forward)
    )
    asked = Options(folder, MODEL, allow=allow, **{"interactive": True, **options})
    session = open_session(asked, settings, approver=person, provider=provider)
    try:
        yield session, provider
    finally:
        await session.aclose()


def serve(port: int, *, bind: str = "127.0.0.1", late: str = "") -> Step:
    line = f"{late}exec python3 -m http.server {port} --bind {bind}"
    waits = {"url": f"tcp://127.0.0.1:{port}", "timeout": "90 s"}
    return [("bash", {"command": line, "background": True}), ("wait_for", waits)]


async def read(url: str) -> bytes:
    """The page, over a connection of its own and without a thread."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


def told(provider: Played) -> str:
    """The results that the model has at its last request."""
    return "\n".join(str(one["content"]) for one in provider.seen[-1] if one["role"] == "tool")


@pytest.mark.parametrize("backend", sample(["bwrap", "landlock"], 2, 1))
@pytest.mark.parametrize("bind", sample(["127.0.0.1", "0.0.0.0", "::", "::1"], 4, 1))
async def test_the_person_opens_the_page_of_a_job_until_it_ends(
    folder: Path, port: int, bind: str, backend: str
) -> None:
    async with opened(folder, serve(port, bind=bind), backend=backend) as (session, provider):
        said, desk = sitting(session)
        url = f"http://127.0.0.1:{port}"
        events = await turn(session, "start the server")
        assert f"j1 {url}: the person can open it until j1 ends" in told(provider)
        assert f"j1 is open at {url} until j1 ends (to stop it: /jobs stop j1)" in noted(events)
        pages = await asyncio.gather(*(read(url) for _ in range(20)))
        assert pages == [PAGE] * 20
        await discover()["jobs"].run(desk, "")
        assert f"{url}" in said[0]
        assert f"1 job j1 {url}" in status_line(session.status(), 300, Theme())
        assert "http" not in status_line(session.status(), 60, Theme())
        await discover()["jobs"].run(desk, "stop j1")
        with pytest.raises(ConnectionRefusedError):
            await read(url)
        assert "http" not in status_line(session.status(), 300, Theme())


@pytest.mark.matrix
async def test_a_taken_port_is_left_to_its_owner_and_another_one_is_used(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        async with opened(folder, serve(port)) as (session, provider):
            await turn(session, "start the server")
            line = next(one for one in told(provider).splitlines() if "j1 http" in one)
            assert f"(forwarded: outside the sandbox port {port} is taken, in the sandbox it is unchanged)" in line
            url = line[line.index("http") :].split(" ")[0]
            assert url != f"http://127.0.0.1:{port}" and await read(url) == PAGE


async def test_where_commands_ask_the_person_decides_on_each_server(folder: Path, port: int) -> None:
    person = Person(Deny("not this one"), Allow(always=True))

    steps = serve(port), "one", serve(port + 1), "two", serve(port + 2), "three"
    async with opened(folder, *steps, allow="ask", person=person) as (session, provider):
        said, desk = sitting(session)
        await turn(session, "start one")
        assert f"j1 listens on port {port}, for commands only: the person cannot open it (dec" in told(provider)
        with pytest.raises(ConnectionRefusedError):
            await read(f"http://127.0.0.1:{port}")
        await turn(session, "start two")
        await turn(session, "start three")
        assert await read(f"http://127.0.0.1:{port + 2}") == PAGE
        await discover()["jobs"].run(desk, "open j1")
        assert await read(f"http://127.0.0.1:{port}") == PAGE and f"j1 http://127.0.0.1:{port}" in said[0]
    assert [one.what for one in person.asked] == [
        f"forward port {port + at} of j{at + 1} to 127.0.0.1 for your browser" for at in (0, 1)
    ], "the second answer was for all"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("options", "why"),
    sample(
        [
            ({"forward": "off"}, "jobs.forward is off"),
            ({"interactive": False}, "this session is not interactive"),
            ({"allow": "ask", "person": Person(Deny("", said=False))}, "declined"),
        ],
        3,
    ),
)
async def test_what_is_not_forwarded_is_said_with_the_reason(folder: Path, port: int, options: Any, why: str) -> None:
    async with opened(folder, serve(port), **options) as (session, provider):
        said, desk = sitting(session)
        await turn(session, "start it")
        assert f"j1 listens on port {port}, for commands only: the person cannot open it ({why}" in told(provider)
        assert "answered" not in told(provider)
        await discover()["jobs"].run(desk, "")
        assert f"(port {port}: {why}" in said[0] or "interactive" in options, "without a person it has ended"
        with pytest.raises(ConnectionRefusedError):
            await read(f"http://127.0.0.1:{port}")


async def test_no_job_stands_in_for_a_known_service(folder: Path) -> None:
    async with opened(folder, serve(11434)) as (session, provider):
        said, desk = sitting(session)
        await turn(session, "start it")
        await discover()["jobs"].run(desk, "open j1")
        for text in (told(provider), said[0]):
            assert "for commands only" in text and "the default port of Ollama" in text


@pytest.mark.matrix
async def test_a_job_with_many_ports_takes_few_sockets_of_ours(folder: Path) -> None:
    first = 21_000
    opens = f"[socket.create_server(('127.0.0.1', {first} + at)) for at in range({MAX_PORTS + 5})]"
    line = f'exec python3 -c "import socket, time; made = {opens}; time.sleep(600)"'
    waits = {"url": f"tcp://127.0.0.1:{first + MAX_PORTS - 1}", "timeout": "90 s"}
    step: Step = [("bash", {"command": line, "background": True}), ("wait_for", waits)]

    async with opened(folder, step) as (session, _):
        events = await turn(session, "start the servers")
        assert noted(events).count("until j1 ends (to stop it: /jobs stop j1)") == MAX_PORTS


@pytest.mark.matrix
async def test_a_server_that_comes_after_the_call_is_told_with_the_next_result(folder: Path, port: int) -> None:
    late = f"sleep 1.2; exec python3 -m http.server {port} --bind 127.0.0.1"
    steps = [("bash", {"command": late, "background": True})], [("wait_for", {"time": "6 s"})], "it runs"

    async with opened(folder, *steps) as (session, provider):
        assert "http" not in result(await turn(session, "start it")).text
        assert f"j1 http://127.0.0.1:{port}: the person can open it" in told(provider)


@pytest.mark.matrix
async def test_a_server_on_the_persons_own_network_is_shown_as_it_is(folder: Path, port: int) -> None:
    steps = serve(port), act("list"), "it runs"
    async with opened(folder, *steps, backend="off", allow="all") as (session, provider):
        await turn(session, "start it")
        assert await read(f"http://127.0.0.1:{port}") == PAGE
        assert f"http://127.0.0.1:{port}" in told(provider)


def test_a_port_is_bound_on_loopback_alone_and_never_to_one_that_is_refused() -> None:
    with free_port(0, ()) as first:
        port = first.getsockname()[1]
        with free_port(port, {port + 1, port + 2}) as other:
            assert first.getsockname()[0] == other.getsockname()[0] == "127.0.0.1"
            assert other.getsockname()[1] not in (port, port + 1, port + 2)


def test_which_addresses_are_those_of_the_machine() -> None:
    own = "127.0.0.1", "127.9.9.9", "localhost", "app.localhost", "::1", "0.0.0.0", "::"
    assert all(map(is_own_address, own))
    others = "", "10.0.0.1", "localhost.example.org", "127.0.0.1.example.org", "notlocalhost", "2130706433"
    assert not any(map(is_own_address, others))
