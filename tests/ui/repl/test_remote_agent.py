"""The REPL in front of an agent of a server in this process, with a view that keeps what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from rpc.serving import Answering, Reply, serving, until
from ui.repl.test_repl import Kept

from nexus_cli.client import Client
from nexus_cli.core.request import Request
from nexus_cli.rpc import dispatcher
from nexus_cli.rpc.http_server import MOST_BODY
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl import remote_agent
from nexus_cli.ui.repl.remote_agent import RemoteAgent, RemoteDesk
from nexus_cli.ui.repl.repl import Repl

Scene = Callable[[Repl, Kept], Coroutine[Any, Any, None]]


def play(folder: Path, scene: Scene, provider: Answering | None = None, meanwhile: str = "", **shared: Any) -> Kept:
    """Play a scene with a REPL that is connected to an agent; return its view. Between the look at the agent and the
    connection to it, another client says `meanwhile`."""
    view = Kept()

    async def connected() -> None:
        async with serving(folder, provider, **shared) as served:
            await served.client.create_agent("a")
            (row,) = await served.client.list_agents()
            if meanwhile:
                row["state"] = "running"
                await served.client.send("a", meanwhile)
            theme = choose_theme("dark", {}, False)
            approver = PersonApprover(view, lambda question, number: "")
            agent = RemoteAgent(served.client, row, served.url, folder, approver)
            repl = Repl(agent, view, RichRenderer(view.put, lambda: 80, theme), theme)
            repl.draft = lambda: view.box
            agent.connect(repl)
            agent.desk = RemoteDesk(repl, {}, lambda raw: None)
            reading, running = asyncio.create_task(agent.read_events()), asyncio.create_task(repl.run())
            try:
                await scene(repl, view)
            finally:
                repl.request_exit()
                await running
                reading.cancel()

    asyncio.run(connected())
    return view


def say(repl: Repl, text: str) -> None:
    repl.submit(TypedMessage(text, text))


async def idle(repl: Repl) -> None:
    await until(lambda: repl.jobs.current is None)


def test_turns_and_commands_follow_one_another_in_the_order_of_typing(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "first")
        await until(lambda: provider.asked)
        say(repl, "/pin keep this")
        repl.enqueue(TypedMessage("second", "second"))
        assert repl.queued() == ["queued: /pin keep this", "queued: second"]
        provider.gates["first"].set()
        await until(lambda: "echo second" in view.text)
        await idle(repl)

    text = play(tmp_path, scene, provider).text
    assert text.index("echo first") < text.index("pinned this text as p1") < text.index("echo second")


def test_what_happens_while_it_connects_holds_nothing_up(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        await until(lambda: repl.jobs.current is None)
        say(repl, "/rename found")
        await until(lambda: 'Renamed to "found".' in view.text)
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text)

    play(tmp_path, scene, meanwhile="from another client")


def test_a_message_that_the_server_refuses_returns_to_the_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MOST_WAITING", -1)

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "hello")
        await idle(repl)
        assert view.box == "hello" and "wait for this agent already" in view.text

    play(tmp_path, scene)


@pytest.mark.matrix
def test_a_message_that_is_too_large_for_the_server_returns_to_the_box(tmp_path: Path) -> None:
    long = "x" * (MOST_BODY + 1)

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, long)
        await idle(repl)
        assert view.box == long and "nexus: the server: " in view.text

    play(tmp_path, scene)


@pytest.mark.matrix
def test_leaving_says_of_no_turn_that_it_was_stopped(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "first")
        await until(lambda: provider.asked and "writing" in repl.spinner())

    assert "stopped" not in play(tmp_path, scene, provider).text


def test_while_the_connection_is_lost_no_turn_is_shown_as_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    may_return = asyncio.Event()
    provider, real, calls = Answering(gates={"first": asyncio.Event()}), Client.events, list[Any]()

    async def breaks_once(client: Client, *given: Any) -> AsyncIterator[Any]:
        calls.append(given)
        if len(calls) > 1:
            await may_return.wait()
        async for event in real(client, *given):
            yield event
            if len(calls) == 1 and event["type"] == "text.delta":
                await asyncio.sleep(0.05)
                raise ConnectionError("the connection broke off")

    monkeypatch.setattr(Client, "events", breaks_once)

    async def scene(repl: Repl, view: Kept) -> None:
        await until(lambda: calls)
        say(repl, "first")
        await until(lambda: "connection lost (http://" in view.text)
        assert "reconnecting" in repl.spinner() and "writing" not in repl.spinner()
        may_return.set()
        await until(lambda: "waiting for the model" in repl.spinner())
        provider.gates["first"].set()
        await until(lambda: "echo first" in view.text)
        await idle(repl)

    play(tmp_path, scene, provider)


@pytest.mark.parametrize("last", ["turn.end", "result"])
def test_an_agent_that_was_seen_at_work_after_its_last_event_is_idle(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    real, look, calls = Client.events, Client.list_agents, list[Any]()

    async def breaks_once(client: Client, *given: Any) -> AsyncIterator[Any]:
        calls.append(given)
        async for event in real(client, *given):
            yield event
            if len(calls) == 1 and event["type"] == last:
                raise ConnectionError("the connection broke off")

    async def looks_early(client: Client) -> Any:
        rows = await look(client)
        return [{**row, "state": "running"} if len(calls) > 1 else row for row in rows]

    monkeypatch.setattr(Client, "events", breaks_once)
    monkeypatch.setattr(Client, "list_agents", looks_early)

    async def scene(repl: Repl, view: Kept) -> None:
        await until(lambda: calls)
        say(repl, "first")
        await until(lambda: "echo first" in view.text and len(calls) > 1)
        await idle(repl)

    play(tmp_path, scene)


@pytest.mark.matrix
def test_while_the_connection_is_lost_no_tool_is_shown_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    may_return = asyncio.Event()
    waits = "until [ -e go ]; do sleep 0.05; done"
    real, calls = Client.events, list[Any]()

    def works(request: Request) -> Reply:
        return "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": waits})]

    async def breaks_once(client: Client, *given: Any) -> AsyncIterator[Any]:
        calls.append(given)
        if len(calls) > 1:
            await may_return.wait()
        async for event in real(client, *given):
            yield event
            if len(calls) == 1 and event["type"] == "tool.call":
                await asyncio.sleep(0.05)
                raise ConnectionError("the connection broke off")

    monkeypatch.setattr(Client, "events", breaks_once)

    async def scene(repl: Repl, view: Kept) -> None:
        await until(lambda: calls)
        say(repl, "first")
        await until(lambda: "connection lost (http://" in view.text)
        assert "reconnecting" in repl.spinner() and waits not in "".join(repl.live(10))
        may_return.set()
        await until(lambda: waits in "".join(repl.live(10)))
        (tmp_path / "go").touch()
        await until(lambda: "done" in view.text)
        await idle(repl)

    play(tmp_path, scene, Answering(works), allow="all")


def test_a_message_to_the_running_turn_is_taken_back_from_the_server(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "first")
        await until(lambda: provider.asked)
        for text in ("one", "two"):
            say(repl, text)
            await until(lambda: any(text in line for line in repl.queued()))  # noqa: B023
        assert repl.take_back() == "two" and len(repl.queued()) == 1
        assert repl.take_back() == "one" and repl.queued() == [] and repl.take_back() == ""
        say(repl, "three")
        await until(lambda: repl.queued())
        assert isinstance(repl.backend, RemoteAgent)
        async with repl.backend._steering:  # the calls before are answered
            pass
        provider.gates["first"].set()
        await until(lambda: "echo three" in view.text)
        await idle(repl)

    assert "already sent" not in play(tmp_path, scene, provider).text
    said = [str(one["content"]) for one in provider.seen[-1] if one["role"] == "user"]
    assert "three" in said[-1] and not any("two" in text or "one" in text.split() for text in said)


def test_a_message_that_was_used_meanwhile_is_said_to_be_sent(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        await until(lambda: repl.jobs.current is None)
        assert isinstance(repl.backend, RemoteAgent)
        repl.backend._steered.append("gone")
        assert repl.take_back() == "gone"
        await until(lambda: "already sent: gone" in view.text)

    play(tmp_path, scene)


def test_help_lists_what_works_over_a_connection(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        for line in ("/help", "/help all"):
            say(repl, line)
            await idle(repl)
        assert "choose from a list" not in view.text
        say(repl, "/help model")
        await idle(repl)
        for absent in ("!COMMAND", "! lines", "a message of yours", "/model [NAME]", "/effort [LEVEL]"):
            assert absent not in view.text
        for present in ("@FILE", "Esc", "/model NAME", "/effort LEVEL", "there is no list to choose from"):
            assert present in view.text

    play(tmp_path, scene)


def test_a_plan_is_followed_by_the_way_to_go_on_with_it(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "/plan how would you do it")
        await until(lambda: remote_agent.PLAN_IS_OPEN in " ".join(view.text.split()))
        say(repl, "/plan")
        await idle(repl)
        say(repl, "proceed")
        await until(lambda: "echo proceed" in view.text)
        await idle(repl)
        assert " ".join(view.text.split()).count(remote_agent.PLAN_IS_OPEN) == 1

    play(tmp_path, scene, allow="edit")


def test_the_level_goes_round_below_that_of_the_server(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        for level in ("edit", "plan", "ask", "edit"):
            await until(lambda level=level: f" {level} " in repl.status(80))  # type: ignore[misc]
            repl.cycle_level()

    play(tmp_path, scene, allow="edit")


def test_stopping_a_command_of_this_terminal_leaves_the_agent_alone(tmp_path: Path) -> None:
    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "hello")
        await idle(repl)
        assert not repl.backend.cancel(), "nothing runs in the server"
        say(repl, "/copy 1")
        await idle(repl)
        assert "no code block" in view.text

    play(tmp_path, scene)


@pytest.mark.matrix
def test_the_transcript_is_that_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paged: list[str] = []

    async def keep(view: Kept, text: str, *, at_end: bool = False) -> None:
        paged.append(text)

    monkeypatch.setattr("nexus_cli.ui.repl.repl.show_in_pager", keep)

    async def scene(repl: Repl, view: Kept) -> None:
        say(repl, "hello")
        await idle(repl)
        repl.show_last_output()
        await until(lambda: paged)
        say(repl, "/transcript")
        await until(lambda: len(paged) == 2)
        assert paged[0] == paged[1] and "echo hello" in paged[0]

    play(tmp_path, scene)
