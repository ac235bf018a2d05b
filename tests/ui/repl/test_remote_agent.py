"""The REPL in front of an agent of a server in this process, with a view that keeps what it is given."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from rpc.serving import Answering, Reply, serving, until
from search import sample
from ui.repl.test_repl import Kept

from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.serve.run_remote import _find_agent
from nexus_cli.client import CallError, Client
from nexus_cli.commands import discover
from nexus_cli.config.paths import places
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import Notice
from nexus_cli.core.plan_question import PROCEED
from nexus_cli.core.request import Request, TextDelta
from nexus_cli.ledger import Ledger
from nexus_cli.rpc import dispatcher
from nexus_cli.rpc.http_server import MAX_BODY
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS
from nexus_cli.rpc.served_command import describe_client_command
from nexus_cli.session.status import Status
from nexus_cli.ui.input.attached_files import Mentions
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.repl import input_queue, remote_agent
from nexus_cli.ui.repl.last_turns import CUT_SHORT
from nexus_cli.ui.repl.remote_agent import RemoteAgent
from nexus_cli.ui.repl.repl import Repl

DOT = " \N{MIDDLE DOT} "


@asynccontextmanager
async def connected(
    folder: Path, provider: Answering | None = None, meanwhile: str = "", left: str = "", **shared: Any
) -> AsyncIterator[tuple[Repl, Kept]]:
    """A REPL that is connected to an agent, and its view. Between the look at the agent and the connection to it,
    another client says `meanwhile`. With `left` the session is resumed: its client gave this `!` line and left."""
    view = Kept()
    async with serving(folder, provider, **shared) as served:
        await served.client.create_agent("a")
        status = await served.client.get_status("a")
        if meanwhile:
            status = {**status, "in_turn": True}
        theme = choose_theme("dark", False)
        approver = PersonApprover(view, lambda question, number: "")
        way = f"nexus --connect {served.url} --token-file t"
        agent = RemoteAgent(served.client, "a", status, served.url, way, folder, approver, lambda raw: None)
        repl = Repl(agent, view, RichRenderer(view.put, lambda: 80, theme), theme)
        repl.draft = lambda: view.box
        agent.connect(repl)
        if left:
            await served.client.send("a", "hello")
            await served.client.run_command("a", "!", left)
            await agent.show_conversation()
        if meanwhile:
            await served.client.send("a", meanwhile)
        reading, running = asyncio.create_task(agent.read_events()), asyncio.create_task(repl.run())
        try:
            yield repl, view
        finally:
            repl.request_exit()
            await running
            reading.cancel()


def say(repl: Repl, text: str) -> None:
    repl.submit(TypedMessage(text, text))


async def idle(repl: Repl) -> None:
    await until(lambda: repl.jobs.current is None)


async def say_and_wait(repl: Repl, text: str) -> None:
    """Submit `text` and wait until the REPL is idle."""
    say(repl, text)
    await idle(repl)


def break_first_stream(monkeypatch: pytest.MonkeyPatch, last: str) -> tuple[asyncio.Event, list[Any]]:
    """Break the first stream of events behind its first event of the type `last`.

    Return the event for which the later streams wait, and the list of all streams."""
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    may_return, real, streams = asyncio.Event(), Client.events, list[Any]()

    async def breaks_once(client: Client, *given: Any, **more: Any) -> AsyncIterator[Any]:
        streams.append(given)
        if len(streams) > 1:
            await may_return.wait()
        async for event in real(client, *given, **more):
            yield event
            if len(streams) == 1 and event["type"] == last:
                raise ConnectionError("the connection was lost")

    monkeypatch.setattr(Client, "events", breaks_once)
    return may_return, streams


def fail_twice(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Lose the connection in the first two calls of a method of the client; return the list of its calls."""
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    real, calls = getattr(Client, name), list[Any]()

    async def fails_twice(client: Client, *given: Any) -> None:
        calls.append(given)
        if len(calls) <= 2:
            raise ConnectionError("the connection was lost")
        await real(client, *given)

    monkeypatch.setattr(Client, name, fails_twice)
    return calls


def lose_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the connection behind each command that the server has run."""
    real = Client.run_command

    async def lost(client: Client, *given: Any, **more: Any) -> Any:
        await real(client, *given, **more)
        raise ConnectionError("the connection was lost")

    monkeypatch.setattr(Client, "run_command", lost)


async def test_turns_and_commands_follow_one_another_in_the_order_of_typing(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        say(repl, "first")
        await until(lambda: provider.asked)
        say(repl, "/pin keep this")
        repl.enqueue(TypedMessage("second", "second"))
        assert repl.queued() == ["queued: /pin keep this", "queued: second"]
        provider.gates["first"].set()
        await until(lambda: "echo second" in view.text)
        await idle(repl)
    text = view.text
    assert text.index("echo first") < text.index("Pinned this text as p1") < text.index("echo second")


@pytest.mark.matrix
@pytest.mark.parametrize("left", ["", "true"])
async def test_what_happens_while_it_connects_holds_nothing_up_and_is_shown(tmp_path: Path, left: str) -> None:
    async with connected(tmp_path, meanwhile="from another client", left=left, allow="all") as (repl, view):
        await until(lambda: "echo from another client" in view.text)
        await until(lambda: repl.jobs.current is None)
        say(repl, "/rename found")
        await until(lambda: 'Renamed to "found".' in view.text)
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text)

    assert view.text.count("echo from another client") == 1


@pytest.mark.matrix
async def test_figures_that_an_event_overtakes_leave_no_turn_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path) as (repl, _view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        await agent._connected.wait()
        value, asked = await agent._client.get_status("a"), list[str]()

        async def get_status(client: Client, agent_id: str) -> Any:
            asked.append(agent_id)
            return {**value, "next": agent._next_event - (len(asked) == 1)}

        monkeypatch.setattr(Client, "get_status", get_status)
        agent._in_turn = True
        await agent._synchronize(is_first=True)
        assert not agent._in_turn and len(asked) == 2


@pytest.mark.parametrize("figures_first", sample([False, True], 2))
async def test_a_session_that_another_client_opens_in_the_agent_is_told_once(
    tmp_path: Path, figures_first: bool
) -> None:
    async with connected(tmp_path) as (repl, view):
        say(repl, "one")
        await until(lambda: "echo one" in view.text)
        await idle(repl)
        before = repl.backend.status.session
        assert isinstance(repl.backend, RemoteAgent)
        await repl.backend._client.run_command("a", "fork")
        if figures_first:
            await repl.backend._read_figures()
        say(repl, "two")
        await until(lambda: view.box == "two" or "echo two" in view.text)
        if view.box == "two":  # it was sent before this client knew
            assert not figures_first and "not sent: a client has opened session" in view.text
            await until(lambda: repl.backend.status.session != before)
            say(repl, "two")
        await until(lambda: "echo two" in view.text)
        await idle(repl)
        assert " ".join(view.text.split()).count(f"; to return: /resume {before}") == 1
        await say_and_wait(repl, "/clear")
        say(repl, "three")
        await until(lambda: "echo three" in view.text)
        assert view.text.count("a client moved a to session") == 1, "its own commands are no news"


@pytest.mark.parametrize("figures_first", sample([False, True], 2))
async def test_queued_messages_do_not_go_to_the_session_that_another_client_opens(
    tmp_path: Path, figures_first: bool
) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        say(repl, "first")
        await until(lambda: provider.asked)
        for text in ("of the first", "behind it"):
            repl.enqueue(TypedMessage(text, text))
        moved = asyncio.create_task(agent._client.run_command("a", "clear"))
        await asyncio.sleep(0.05)
        if not figures_first:
            agent._report_session = lambda session: None  # type: ignore[method-assign]
        provider.gates["first"].set()
        await moved
        if figures_first:
            await until(lambda: "not sent: behind it" in view.text)
        await until(lambda: "not sent: of the first" in view.text or view.box == "of the first")
        await idle(repl)
        assert repl.queued() == [] or not figures_first
    assert provider.asked == ["first"]


@pytest.mark.matrix
@pytest.mark.parametrize("steers", [False, True])
async def test_a_message_whose_files_are_still_read_does_not_go_to_the_session_that_another_client_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steers: bool
) -> None:
    reading, is_read = threading.Event(), threading.Event()

    def read_slowly(text: str, folder: Path) -> Mentions:
        if "@a.py" in text:
            reading.set()
            is_read.wait(60)
        return Mentions()

    monkeypatch.setattr(input_queue, "read_mentions", read_slowly)
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        before = agent.status.session
        if steers:
            say(repl, "first")
            await until(lambda: provider.asked)
        say(repl, "look at @a.py")
        await until(reading.is_set)
        moved = asyncio.create_task(agent._client.run_command("a", "clear"))
        await asyncio.sleep(0.05)
        provider.gates["first"].set()
        await moved
        await until(lambda: agent.status.session != before)
        is_read.set()
        await until(lambda: "not sent: " in view.text)
        await idle(repl)
        assert (view.box == "look at @a.py") is not steers
        assert ("not sent: look at @a.py" in view.text) is steers and not repl.queued()
    assert provider.asked == (["first"] if steers else [])


@pytest.mark.matrix
async def test_a_command_is_not_run_in_the_session_that_another_client_has_opened(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text)
        await idle(repl)
        agent._report_session = lambda session: None  # type: ignore[method-assign]
        await agent._client.run_command("a", "clear")
        say(repl, "/pin of the first")
        await until(lambda: "not sent: a client has opened session" in view.text)
        await idle(repl)
        del agent._report_session
        await agent._read_figures()
        assert "a client moved a to session" in view.text
        say(repl, "/pin of the second")
        await until(lambda: "as p1" in view.text)
    assert "as p2" not in view.text


async def test_a_message_that_the_server_refuses_returns_to_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_WAITING", -1)

    async with connected(tmp_path) as (repl, view):
        await say_and_wait(repl, "hello")
        assert view.box == "hello" and "already queued for this agent" in view.text


@pytest.mark.matrix
async def test_a_message_that_is_too_large_for_the_server_returns_to_the_box(tmp_path: Path) -> None:
    long = "x" * (MAX_BODY + 1)

    async with connected(tmp_path) as (repl, view):
        await say_and_wait(repl, long)
        assert view.box == long and "nexus: the server: " in view.text


@pytest.mark.matrix
async def test_leaving_says_of_no_turn_that_it_was_stopped(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        say(repl, "first")
        await until(lambda: provider.asked and "writing" in repl.spinner())
    assert "stopped" not in view.text


@pytest.mark.parametrize("begun", sample([True, False], 2))
async def test_a_restarted_server_is_named_as_the_cause_of_the_end(tmp_path: Path, begun: bool) -> None:
    async with connected(tmp_path) as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        if begun:
            say(repl, "hello")
            await until(lambda: "echo hello" in view.text)
            await idle(repl)
        async with Client(repl.backend._url, "of-the-server-before") as client:
            present, repl.backend._client = repl.backend._client, client
            await repl.backend.read_events()
            repl.backend._client = present
        said = " ".join(view.text.split())
        resumes = f" -r {repl.backend.status.session}" if begun else ""  # a session without messages is not kept
        assert f"restarted. Reconnect with: nexus --connect {repl.backend._url} --token-file t{resumes}" in said
        assert (" -r " in said) is begun
        assert repl.backend.status_code == 1


@pytest.mark.matrix
async def test_a_message_for_a_turn_that_a_restart_ended_is_named_as_not_sent(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        say(repl, "first")
        await until(lambda: provider.asked)
        say(repl, "and hurry")
        await until(lambda: repl.backend.undelivered)
        assert isinstance(repl.backend, RemoteAgent)
        async with Client(repl.backend._url, "of-the-server-before") as client:
            present, repl.backend._client = repl.backend._client, client
            await repl.backend.read_events()
            repl.backend._client = present
        assert "not sent: and hurry" in view.text
        assert view.text.index("wait") < view.text.index("disconnected"), "what has arrived of the reply stays"
        provider.gates["first"].set()


@pytest.mark.matrix
async def test_a_session_of_the_server_is_resumed_by_its_id(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = (await served.client.create_agent("a"))["session"]
        await served.client.send("a", "hello")
        for key in ("a", session, session[-6:].lower()):
            assert await _find_agent(served.client, SharedOptions(resume=key)) == "a", "an agent has it open"
        with pytest.raises(NexusError, match="there is no such session"):  # as where a session is found otherwise
            await _find_agent(served.client, SharedOptions(resume=session[-5:]))
        for key in ("a", session):
            with pytest.raises(NexusError) as refused:
                await _find_agent(served.client, SharedOptions(resume=key, directory="/"))
            assert "Omit --cd" in refused.value.hint, "the agent keeps its folder"
        await served.client.destroy_agent("a")
        agent = await _find_agent(served.client, SharedOptions(resume=session[-6:]))
        assert (await served.client.get_status(agent))["session"] == session
        with pytest.raises(NexusError, match="there is no such session") as refused:
            await _find_agent(served.client, SharedOptions(resume="gone"))
        assert refused.value.hint.endswith(f"Agents: {agent}")


async def test_words_that_were_typed_for_a_session_are_not_sent_in_the_next_one(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        say(repl, "first")
        await until(lambda: provider.asked)
        repl.enqueue(TypedMessage("of the first", "of the first"))
        repl.interrupt()
        await idle(repl)
        assert repl.queued() == ["queued: of the first"]
        await say_and_wait(repl, "/fork")
        assert repl.queued() == ["queued: of the first"], "a copy takes them along"
        await say_and_wait(repl, "/clear")
        assert repl.queued() == [] and "not sent: of the first" in view.text
        say(repl, "second")
        await until(lambda: "echo second" in view.text)
        await idle(repl)
    assert "echo of the first" not in view.text


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_message_whose_answer_is_lost_is_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    is_lost, events, send = [False], Client.events, Client.send

    async def broken_events(client: Client, *given: Any, **more: Any) -> AsyncIterator[Any]:
        async for event in events(client, *given, **more):
            if is_lost.pop():
                is_lost.append(False)
                raise ConnectionError("the connection was lost")
            is_lost.append(False)
            yield event

    async def broken_send(client: Client, *given: Any, **more: Any) -> Any:
        monkeypatch.setattr(Client, "send", send)
        is_lost[0] = arrives
        if arrives:
            await client.call("send", agent_id="a", content="hello")
        raise ConnectionError("the connection was lost")

    monkeypatch.setattr(Client, "events", broken_events)
    monkeypatch.setattr(Client, "send", broken_send)

    async with connected(tmp_path) as (repl, view):
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text if arrives else view.box == "hello")
        await idle(repl)
        assert ("The message was not sent" in " ".join(view.text.split())) is not arrives
        assert view.box == ("" if arrives else "hello")


async def test_while_the_connection_is_lost_no_turn_is_shown_as_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return, streams = break_first_stream(monkeypatch, "text.delta")
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        await until(lambda: streams)
        say(repl, "first")
        await until(lambda: "the connection was lost; reconnecting to http://" in view.text)
        assert "reconnecting" in repl.spinner() and "writing" not in repl.spinner()
        may_return.set()
        await until(lambda: "waiting for the model" in repl.spinner())
        provider.gates["first"].set()
        await until(lambda: "echo first" in view.text)
        await idle(repl)


@pytest.mark.matrix
@pytest.mark.parametrize("last", ["turn.end", "result"])
async def test_an_agent_whose_connection_breaks_behind_the_end_of_a_turn_is_idle(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return, streams = break_first_stream(monkeypatch, last)
    may_return.set()

    async with connected(tmp_path) as (repl, view):
        await until(lambda: streams)
        say(repl, "first")
        await until(lambda: "echo first" in view.text and len(streams) > 1)
        await idle(repl)


@pytest.mark.matrix
async def test_while_the_connection_is_lost_no_tool_is_shown_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return, streams = break_first_stream(monkeypatch, "tool.call")
    waits = "until [ -e go ]; do sleep 0.05; done"

    def works(request: Request) -> Reply:
        return "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": waits})]

    async with connected(tmp_path, Answering(works), allow="all") as (repl, view):
        await until(lambda: streams)
        say(repl, "first")
        await until(lambda: "the connection was lost; reconnecting to http://" in view.text)
        assert "reconnecting" in repl.spinner() and waits not in "".join(repl.live(10))
        may_return.set()
        await until(lambda: waits in "".join(repl.live(10)))
        (tmp_path / "go").touch()
        await until(lambda: "done" in view.text)
        await idle(repl)


async def test_a_message_to_the_running_turn_is_taken_back_from_the_server(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
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
    assert "already sent" not in view.text
    said = [str(one["content"]) for one in provider.seen[-1] if one["role"] == "user"]
    assert "three" in said[-1] and not any("two" in text or "one" in text.split() for text in said)


@pytest.mark.parametrize(("is_older", "told"), [(False, (True, ("b",))), (True, (None, None))])
async def test_a_server_is_told_who_typed_a_message_to_the_turn_if_it_knows_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_older: bool, told: tuple[Any, Any]
) -> None:
    async with connected(tmp_path) as (repl, _):
        agent, steer = repl.backend, AsyncMock()
        assert isinstance(agent, RemoteAgent)
        monkeypatch.setattr(agent, "_is_older", is_older)
        monkeypatch.setattr(agent._client, "steer", steer)
        assert await agent.steer(Trigger("a b", "person", pasted=("b",)))
        assert steer.await_args is not None and steer.await_args.args[3:] == told


async def test_a_message_that_was_used_meanwhile_is_said_to_be_sent(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        await until(lambda: repl.jobs.current is None)
        assert isinstance(repl.backend, RemoteAgent)
        repl.backend._steered.append("gone")
        assert repl.take_back() == "gone"
        await until(lambda: "already sent: gone" in view.text)


async def test_a_mentioned_file_that_only_the_server_has_is_not_on_this_machine(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        say(repl, "read @src/only_there.py")
        await until(lambda: "No file src/only_there.py on this machine; sent as text" in view.text)
        await idle(repl)


async def test_an_answer_to_a_question_that_a_stop_has_ended_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Client.approve

    async def stops_first(client: Client, agent: str, id: str, *given: Any) -> None:
        await client.cancel(agent)
        while True:  # the stop ends the question soon
            await real(client, agent, id, *given)

    monkeypatch.setattr(Client, "approve", stops_first)

    provider = Answering(lambda request: [("bash", {"command": "touch a"})])
    async with connected(tmp_path, provider, allow="ask") as (repl, view):
        say(repl, "first")
        await until(lambda: view.asked)
        view.answers.append(None)
        await until(lambda: "Interrupted" in view.text)
        await idle(repl)
        await asyncio.sleep(0.1)
    assert "is waiting for an answer" not in view.text


@pytest.mark.matrix
async def test_a_question_of_a_turn_that_another_client_stops_is_asked_no_longer(tmp_path: Path) -> None:
    provider = Answering(lambda request: [("bash", {"command": "touch a"})])
    async with connected(tmp_path, provider, allow="ask") as (repl, view):
        say(repl, "first")
        await until(lambda: view.asked)
        assert isinstance(repl.backend, RemoteAgent)
        await repl.backend._client.cancel("a")
        await until(lambda: "Interrupted" in view.text)
        await idle(repl)
        view.answers.append("y")
        await asyncio.sleep(0.05)
    assert view.answers == ["y"]


async def test_an_answer_that_is_given_while_the_connection_is_lost_arrives_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_twice(monkeypatch, "approve")

    def touches(request: Request) -> Reply:
        return "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "touch a"})]

    async with connected(tmp_path, Answering(touches), allow="ask") as (repl, view):
        say(repl, "first")
        await until(lambda: view.asked)
        view.answers.append("y")
        await until(lambda: "done" in view.text)
        await idle(repl)
    assert "Try again" not in view.text
    assert (tmp_path / "a").exists()


async def test_a_turn_that_is_stopped_while_the_connection_is_lost_ends_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fail_twice(monkeypatch, "cancel")
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, view):
        say(repl, "first")
        await until(lambda: provider.asked)
        repl.interrupt()
        await until(lambda: len(calls) > 2)
        await until(lambda: "Interrupted" in view.text)
        await idle(repl)
    assert "Try again" not in view.text


async def test_a_stop_that_comes_late_leaves_the_turn_of_another_client_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_agent, "WAIT_SECONDS", 0.0)
    provider, is_lost, cancelled = Answering(gates={"first": asyncio.Event()}), True, list[Any]()
    provider.gates["of another client"] = asyncio.Event()
    real, real_events, back, opened = Client.cancel, Client.events, asyncio.Event(), list[Any]()

    async def fails_while_lost(client: Client, *given: Any) -> None:
        if is_lost:
            raise ConnectionError("the connection was lost")
        cancelled.append(given)
        await real(client, *given)

    async def stops_while_lost(client: Client, *given: Any, **more: Any) -> AsyncIterator[Any]:
        is_again = bool(opened)
        opened.append(given)
        if is_again:
            await back.wait()
        async for line in real_events(client, *given, **more):
            yield line
            if line["type"] == "text.delta" and not is_again:
                raise ConnectionError("the connection was lost")

    monkeypatch.setattr(Client, "cancel", fails_while_lost)
    monkeypatch.setattr(Client, "events", stops_while_lost)

    async with connected(tmp_path, provider) as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        say(repl, "first")
        await until(lambda: "reconnecting to http" in view.text)
        repl.interrupt()
        provider.gates["first"].set()
        async with Client(repl.backend._url, repl.backend._client._headers["Authorization"][7:]) as other:
            while (await other.get_status("a"))["in_turn"]:  # noqa: ASYNC110  (a call to the server)
                await asyncio.sleep(0.01)
            sending = asyncio.create_task(other.send("a", "of another client"))
            await until(lambda: "of another client" in provider.asked)
            is_lost = False
            await asyncio.sleep(0.1)  # the stop may go out before the events are back
            assert not cancelled
            back.set()
            await until(lambda: "of another client" in view.text)
            await until(lambda: repl.jobs.current is not None and not repl.jobs.current.stopped)
            provider.gates["of another client"].set()
            assert (await sending)["ok"] and not cancelled
        await idle(repl)


async def test_a_command_whose_connection_is_lost_is_not_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(client: Client, *given: Any, **more: Any) -> Any:
        raise ConnectionError("the connection was lost")

    async with connected(tmp_path) as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        await repl.backend._connected.wait()
        for name in ("run_command", "list_commands"):
            monkeypatch.setattr(Client, name, fails)
        await say_and_wait(repl, "!make release")
        await until(lambda: "may still run in the server." in " ".join(view.text.split()))
    text = " ".join(view.text.split())
    assert text.count("the connection was lost") == 1 and "Try again" not in text


async def test_a_declined_call_does_not_look_as_if_it_ran_while_the_next_one_asks(tmp_path: Path) -> None:
    calls = [("bash", {"command": f"touch {name}"}) for name in "ab"]
    async with connected(
        tmp_path, Answering(lambda request: calls if len(request.messages) < 3 else "done"), allow="ask"
    ) as (repl, view):
        say(repl, "first")
        await until(lambda: view.asked)
        view.answers.append("no, leave it")
        await until(lambda: len(view.asked) == 2 and bool(repl.live(10)))
        live = "\n".join(repl.live(10))
        assert "\u2717 bash touch a" in live and "touch b" not in live, live
        view.answers.append("y")
        await until(lambda: "bash touch b" in view.text)
        await idle(repl)


@pytest.mark.filterwarnings("error")
async def test_a_question_that_was_answered_before_it_is_asked_leaves_no_warning(tmp_path: Path) -> None:
    async def asked_in_vain() -> None:
        raise AssertionError("the task is cancelled before its first step")

    async with connected(tmp_path) as (repl, _view):
        assert isinstance(repl.backend, RemoteAgent)
        work = asked_in_vain()
        repl.backend._begin(work).cancel()
        await until(lambda: inspect.getcoroutinestate(work) == inspect.CORO_CLOSED)


@pytest.mark.matrix
async def test_help_lists_what_works_over_a_connection(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        for line in ("/help", "/help all"):
            await say_and_wait(repl, line)
        for present in ("!COMMAND", "Ctrl+B", "@FILE", "twice: goes back to", "/rewind", "/model [NAME", "/export"):
            assert present in view.text
        assert "/login" not in view.text and "/memory" in view.text


@pytest.mark.matrix
@pytest.mark.parametrize(("allow", "level"), [("all", "edit"), ("read", "ask")])
async def test_a_plan_is_carried_out_at_the_level_that_the_person_and_the_server_allow(
    tmp_path: Path, allow: str, level: str
) -> None:
    async with connected(tmp_path, allow=allow) as (repl, view):
        view.answers = ["y"]
        say(repl, "/plan how would you do it")
        await until(lambda: f"echo {PROCEED}" in view.text)
        await idle(repl)
        assert f"Plan mode is off. Permission level: {level}." in view.text and len(view.asked) == 1


async def test_a_plan_that_another_client_carries_out_is_no_question_any_more(tmp_path: Path) -> None:
    provider = Answering(gates={"go on": asyncio.Event()})

    async with connected(tmp_path, provider, allow="edit") as (repl, view):
        say(repl, "/plan how would you do it")
        await until(lambda: view.asked)
        assert isinstance(repl.backend, RemoteAgent)
        sending = asyncio.create_task(repl.backend._client.send("a", "go on"))
        await until(lambda: repl.jobs.kind == "turn")
        provider.gates["go on"].set()
        await sending
        await until(lambda: "echo go on" in view.text)


async def test_the_level_goes_round_below_that_of_the_server(tmp_path: Path) -> None:
    async with connected(tmp_path, allow="edit") as (repl, _view):
        for level in ("edit", "plan", "ask", "edit"):
            await until(lambda level=level: repl.status(200).split(DOT)[1] == level)  # type: ignore[misc]
            repl.cycle_level()


async def test_stopping_a_command_of_this_terminal_leaves_the_agent_alone(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        await say_and_wait(repl, "hello")
        assert not repl.backend.cancel(), "nothing runs in the server"
        await say_and_wait(repl, "/copy 1")
        assert "no fenced code block" in view.text


@pytest.mark.matrix
async def test_the_transcript_is_that_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paged: list[str] = []

    async def keep(view: Kept, text: str, *, at_end: bool = False) -> None:
        paged.append(text)

    monkeypatch.setattr("nexus_cli.ui.repl.repl.show_in_pager", keep)

    async with connected(tmp_path) as (repl, _view):
        await say_and_wait(repl, "hello")
        repl.show_last_output()
        await until(lambda: paged)
        say(repl, "/transcript")
        await until(lambda: len(paged) == 2)
        assert paged[0] == paged[1] and "echo hello" in paged[0]


def changes(request: Request) -> Reply:
    """Writes a file, then says so."""
    is_done = request.messages[-1]["role"] == "tool"
    return "written" if is_done else [("write_file", {"path": "new.txt", "content": "one\n"})]


async def test_a_message_is_gone_back_to_with_its_files_and_the_session_of_before_is_resumed(tmp_path: Path) -> None:
    async with connected(tmp_path, Answering(changes), allow="all") as (repl, view):
        await say_and_wait(repl, "make it")
        assert (tmp_path / "new.txt").exists() and "1 file (+1 -0)" in view.text and "/undo to revert" in view.text
        before = repl.backend.status.session
        view.answers = ["1", "1"]
        await say_and_wait(repl, "/rewind")
        assert not (tmp_path / "new.txt").exists() and view.box == "make it" and "1 file removed" in view.text
        assert repl.backend.status.session != before
        shown = len(view.text)
        await say_and_wait(repl, f"/resume {before}")
        assert "written" in view.text[shown:] and repl.backend.status.session == before
        await say_and_wait(repl, "/redo")
        assert (tmp_path / "new.txt").exists()
        view.answers = ["", ""]
        await say_and_wait(repl, "/rewind")
        assert "Nothing was changed." in view.text and (tmp_path / "new.txt").exists()


@pytest.mark.matrix
async def test_a_turn_whose_figures_cannot_be_read_has_not_the_changes_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = [("write_file", {"path": "new.txt", "content": "a\nb\n"})]
    provider = Answering(lambda request: writes if request.messages[-1]["content"].endswith("write") else "done")

    async def fail(*given: Any) -> None:
        raise ConnectionError("the server is ending")

    async with connected(tmp_path, provider, allow="all") as (repl, view):
        await say_and_wait(repl, "write")
        assert "1 file (+2 -0)" in view.text
        monkeypatch.setattr(Client, "get_status", fail)
        shown = len(view.text)
        await say_and_wait(repl, "hello")
        assert "done" in view.text[shown:] and "(+2" not in view.text[shown:], view.text[shown:]


async def test_the_status_line_has_the_figures_of_the_session_in_the_server(tmp_path: Path) -> None:
    figures: list[Status] = []

    ends = asyncio.Event()
    provider = Answering(gates={"finish": ends})
    async with connected(tmp_path, provider, allow="all") as (repl, _view):
        first = repl.status(200).split(DOT)
        assert first[0] == "played" and first[-1] == "$0.00" and "- of" not in repl.status(200), "it is estimated"
        await say_and_wait(repl, "hello")
        say(repl, "/goal finish --until 'test -e nothing'")
        await until(lambda: "until test -e nothing" in repl.status(300))
        repl.interrupt()
        await idle(repl)
        await until(lambda: not repl.backend.status.in_turn)
        figures.append(repl.backend.status)
        shown = repl.status(300)
        assert f"at {figures[0].server}" in shown and "next uncached" in shown and "until" in shown
        assert shown == status_line(figures[0], 300, repl.theme, str(Path.home()))
    info = Ledger.open_for_reading(places().ledger).session(figures[0].session)
    assert (figures[0].model, figures[0].folder) == (info.model, str(tmp_path)) and figures[0].used > 0


async def test_an_export_is_written_here_and_no_file_that_the_person_has_not_named(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, _view):
        here = tmp_path / "here"
        here.mkdir()
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        agent._folder = here
        await say_and_wait(repl, "hello")
        for name in ("", " mine.md"):
            await say_and_wait(repl, f"/export md{name}")
        assert [path.suffix for path in here.iterdir()] == [".md", ".md"] and (here / "mine.md").exists()
        assert {path.name for path in tmp_path.iterdir()} == {"here"}, "nothing is written where the server runs"
        with pytest.raises(NexusError, match="a different file"):
            await agent._save_here("../taken.md", "x.md", "text")
        await agent._save_here("", "../../taken.md", "text")
        assert (here / "taken.md").exists() and not (tmp_path / "taken.md").exists()


async def test_every_command_works_or_is_refused_on_one_line(tmp_path: Path) -> None:
    refused = [name for name, one in discover().items() if not (one.is_served or one.at_terminal)]
    permits = [
        "config permissions.allow all",
        "permissions allow bash(*)",
        "trust",
    ]

    async with connected(tmp_path, allow="edit") as (repl, view):
        await say_and_wait(repl, "hello")
        for line in (*refused, *permits):
            before = len(view.text)
            await say_and_wait(repl, f"/{line}")
            said = [row for row in view.text[before:].splitlines() if row.strip()]
            assert sum("not available over" in row for row in said) == 1 and "Traceback" not in str(said), said
        for name in sorted(discover().keys() - {*refused, "exit", "editor", "trust"} | {"trust show"}):
            view.answers = [""] * 3
            before = len(view.text)
            await say_and_wait(repl, f"/{name}")
            assert "not available over" not in view.text[before:], name


async def test_a_shell_line_runs_in_the_server_and_goes_with_the_next_message(tmp_path: Path) -> None:
    provider = Answering()

    async with connected(tmp_path, provider) as (repl, view):
        view.answers = ["y"]
        await say_and_wait(repl, "!touch made && echo of-the-line")
        assert (tmp_path / "made").exists() and len(view.asked) == 1, "the level of the session asks"
        assert repl.queued() == ["attached: output of `touch made && echo of-the-line`"]
        say(repl, "hello")
        await until(lambda: provider.seen)
        await idle(repl)
        assert "(typed by the person)" in str(provider.seen[-1])
        say(repl, "!sleep 60")
        await until(lambda: any("sleep 60" in line for line in repl.live(9)))
        repl.interrupt()
        await idle(repl)
        assert "! sleep 60: stopped." in view.text and repl.queued() == []
        view.answers = ["n"]
        await say_and_wait(repl, "!touch refused")
        assert "nexus: ! touch refused" not in view.text, "its line has said it"
    assert "of-the-line\\n[exit status 0]\\n</shell>" in str(provider.seen[-1])


async def test_output_that_a_client_left_unsent_goes_with_the_next_message_of_another(tmp_path: Path) -> None:
    provider = Answering()

    async with connected(tmp_path, provider, left="echo of-the-line", allow="all") as (repl, _view):
        assert repl.queued() == ["attached: output of `echo of-the-line`"]
        say(repl, "look")
        await until(lambda: len(provider.seen) == 2)
        await idle(repl)
    assert "of-the-line\\n[exit status 0]\\n</shell>" in str(provider.seen[-1])


@pytest.mark.matrix
async def test_attached_output_waits_in_its_session_until_a_message_of_any_client_has_it(tmp_path: Path) -> None:
    what = "output of `echo of-the-line`"

    async with connected(tmp_path, left="echo of-the-line", allow="all") as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        agent = repl.backend
        first, client = agent.status.session, agent._client
        await say_and_wait(repl, "/clear")
        assert repl.queued() == [] and f"kept for when you resume the previous session: {what}" in view.text
        say(repl, f"/resume {first}")
        await until(lambda: repl.queued())
        await idle(repl)
        assert repl.queued() == [f"attached: {what}"], "also while this client listens"
        (waiting,) = (await client.get_conversation("a"))["attached"]
        await client.send("a", f"look\n\n{waiting['block']}")
        await until(lambda: not repl.queued())


@pytest.mark.matrix
@pytest.mark.parametrize("is_cleared", [False, True])
async def test_texts_that_were_read_before_they_left_are_not_attached_again(tmp_path: Path, is_cleared: bool) -> None:
    async with connected(tmp_path, left="echo of-the-line", allow="all") as (repl, _view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        read, is_read = agent._client.get_conversation, False
        (waiting,) = (await read("a"))["attached"]
        await until(lambda: bool(repl.queued()))
        reader = asyncio.current_task()  # the client also reads by itself, as it has just connected

        async def read_late(*arguments: Any) -> Any:
            nonlocal is_read
            conversation = await read(*arguments)
            if not is_read and asyncio.current_task() is reader:
                is_read = True
                if is_cleared:
                    await say_and_wait(repl, "/clear")
                else:
                    await agent._client.send("a", f"look\n\n{waiting['block']}")
                await until(lambda: not repl.queued())
            return conversation

        agent._client.get_conversation = read_late  # type: ignore[assignment, method-assign]
        await agent._load_attached()
        assert is_read and repl.queued() == []


@pytest.mark.matrix
async def test_attached_output_stays_with_its_session_if_another_client_moves_the_agent(tmp_path: Path) -> None:
    what, provider = "output of `echo of-the-line`", Answering()

    async with connected(tmp_path, provider, left="echo of-the-line", allow="all") as (repl, view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent) and repl.queued() == [f"attached: {what}"]
        first = agent.status.session
        await agent._client.run_command("a", "clear")
        await until(lambda: f"kept for when you resume the previous session: {what}" in view.text)
        say(repl, "elsewhere")
        await until(lambda: "echo elsewhere" in view.text)
        await idle(repl)
        await agent._client.run_command("a", "resume", first)
        await until(lambda: repl.queued() == [f"attached: {what}"])
    assert "of-the-line" not in str(provider.seen[-1])


@pytest.mark.matrix
@pytest.mark.parametrize("begun", [False, True])
async def test_leaving_says_which_output_waits_for_the_next_client(tmp_path: Path, begun: bool) -> None:
    how = "kept for when you resume" if begun else "not sent"
    async with connected(tmp_path, allow="all") as (repl, view):
        if begun:
            say(repl, "hello")
            await until(lambda: "echo hello" in view.text)
        say(repl, "!echo of-the-line")
        await until(lambda: repl.queued())
        await idle(repl)
    assert f"{how}: output of `echo of-the-line`" in view.text


@pytest.mark.matrix
async def test_leaving_promises_no_output_that_the_session_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.session.attached_texts.MAX_ATTACHED", 1)
    monkeypatch.setattr(remote_agent, "MAX_ATTACHED", 1)

    async with connected(tmp_path, allow="all") as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)

        async def run(line: str) -> None:
            say(repl, f"!echo {line}")
            await until(lambda: f"attached: output of `echo {line}`" in repl.queued())
            await idle(repl)

        await run("early")
        await repl.backend._client.send("a", "of another client")
        await run("first")
        await run("second")
        waiting = (await repl.backend._client.get_conversation("a"))["attached"]
        assert [text["what"] for text in waiting] == ["output of `echo second`"]
    text = view.text
    assert "not sent: output of `echo early`" in text and "not sent: output of `echo first`" in text
    assert "kept for when you resume: output of `echo second`" in text


@pytest.mark.matrix
async def test_output_that_was_detached_while_the_connection_was_lost_stays_detached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_lost = Client.unqueue, [True]

    async def unqueue(client: Client, *given: Any, **more: Any) -> Any:
        if is_lost[0]:
            raise ConnectionError("the connection was lost")
        return await real(client, *given, **more)

    async with connected(tmp_path, left="echo of-the-line", allow="all") as (repl, _view):
        assert isinstance(repl.backend, RemoteAgent) and repl.queued()
        monkeypatch.setattr(Client, "unqueue", unqueue)
        repl.detach()
        await repl.backend._synchronize(is_first=False)
        assert repl.queued() == []
        is_lost[0] = False
        agent = repl.backend
        await until(lambda: not agent._stored_texts)
        assert (await agent._client.get_conversation("a"))["attached"] == []


@pytest.mark.matrix
async def test_a_clear_whose_answer_was_lost_is_not_said_to_be_another_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path) as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text)
        await idle(repl)
        before = repl.backend.status.session
        lose_answers(monkeypatch)
        say(repl, "/clear")
        await until(lambda: f"to return: /resume {before}" in " ".join(view.text.split()))
        await idle(repl)
        assert "another client" not in view.text and "may still run in the server" in " ".join(view.text.split())
        say(repl, "in the new one")
        await until(lambda: "echo in the new one" in view.text)


@pytest.mark.matrix
async def test_output_whose_answer_was_lost_is_attached_when_the_connection_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path, allow="all") as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        say(repl, "hello")
        await until(lambda: "echo hello" in view.text)
        await idle(repl)
        lose_answers(monkeypatch)
        say(repl, "!echo of-the-line")
        await until(lambda: "may still run in the server" in " ".join(view.text.split()))
        await idle(repl)
        assert repl.queued() == []
        for _ in range(2):
            await repl.backend._synchronize(is_first=False)
            assert repl.queued() == ["attached: output of `echo of-the-line`"]


async def test_the_server_forgets_output_that_is_attached_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answers = Client.unqueue, list[Any]()

    async def recorded(client: Client, *given: Any) -> Any:
        answers.append((given[1], await real(client, *given)))

    monkeypatch.setattr(Client, "unqueue", recorded)

    async with connected(tmp_path, left="echo of-the-line", allow="all") as (repl, _view):
        assert repl.detach() and repl.queued() == []
        await until(lambda: answers)
    assert "of-the-line\n" in answers[0][0]


async def test_a_command_is_released_to_the_background_of_the_server(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        last = request.messages[-1]
        return str(last["content"]) if last["role"] == "tool" else [("bash", {"command": "sleep 60"})]

    async with connected(tmp_path, Answering(script), allow="all") as (repl, view):
        say(repl, "begin")
        await until(lambda: "sleep 60" in view.text or "sleep 60" in str(repl.live(9)))
        while repl.jobs.current is not None:
            repl.release_workers()
            await asyncio.sleep(0.1)
        assert repl.backend.status.jobs == ("j1",)
        await say_and_wait(repl, "/jobs stop j1")


async def test_what_another_client_changes_is_told_and_what_it_reads_is_not(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        await say_and_wait(repl, "hello")
        assert isinstance(repl.backend, RemoteAgent)
        for arguments in ("list", "add keep this"):
            await repl.backend._client.run_command("a", "pin", arguments)
        await until(lambda: "a client ran /pin add keep this" in view.text)
        await say_and_wait(repl, "/pin add and that")
        assert view.text.count("a client ran") == 1, "its own commands are no news"


@pytest.mark.matrix
async def test_a_command_of_another_client_that_begins_as_the_own_one_is_told(tmp_path: Path) -> None:
    async with connected(tmp_path) as (repl, view):
        agent = repl.backend
        assert isinstance(agent, RemoteAgent)
        agent._is_calling, agent._called = True, describe_client_command("/pin add keep this")
        for line in ("/pin add keep", "/pin add keep this"):
            agent._show(Notice(describe_client_command(line), warning=False), {})
        agent._is_calling = False
        assert view.text.count("a client ran") == 1 and "a client ran /pin add keep\n" in view.text


async def test_a_turn_that_breaks_off_names_the_command_that_resumes_it(tmp_path: Path) -> None:
    provider = Answering()
    whole = provider.stream

    async def breaks(request: Request) -> AsyncIterator[Any]:
        if len(provider.asked) == 0:
            provider.asked.append("broken")
            yield TextDelta("half of it")
            raise ProviderError("network", "the connection was lost", "Check the connection", started=True)
        async for delta in whole(request):
            yield delta

    provider.stream = breaks  # type: ignore[method-assign]

    async with connected(tmp_path, provider) as (repl, view):
        await say_and_wait(repl, "begin")
        assert CUT_SHORT in " ".join(view.text.split())
        say(repl, "/continue")
        await until(lambda: "echo" in view.text)
        await idle(repl)


async def test_what_another_client_changes_is_told_during_a_command_of_this_one(tmp_path: Path) -> None:
    async with connected(tmp_path, allow="all") as (repl, view):
        say(repl, "!sleep 60")
        await until(lambda: any("sleep 60" in line for line in repl.live(9)))
        assert isinstance(repl.backend, RemoteAgent)
        await repl.backend._client.run_command("a", "permissions", "edit")
        await until(lambda: "a client ran /permissions edit" in view.text)
        await until(lambda: repl.backend.status.allow == "edit")
        repl.interrupt()
        await idle(repl)


async def test_a_server_that_does_not_say_in_turn_runs_one_while_it_is_at_work(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})

    async with connected(tmp_path, provider) as (repl, _view):
        assert isinstance(repl.backend, RemoteAgent)
        say(repl, "first")
        await until(lambda: provider.asked)
        value = {**await repl.backend._client.get_status("a")}
        provider.gates["first"].set()
        await idle(repl)
        assert value.pop("in_turn") and repl.backend._read_status(value).in_turn
        assert not repl.backend._read_status({**value, "activity": "idle"}).in_turn


@pytest.mark.matrix
async def test_a_server_that_does_not_know_the_session_of_a_message_is_not_told_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sessions = Client.call, list[Any]()

    async def call(client: Client, method: str, **params: Any) -> Any:
        sessions.extend([params["session"]] if method == "send" else [])
        result = await real(client, method, **params)
        if method == "get_status":
            result.pop("in_turn")
        return result

    async def told(client: Client, method: str, **params: Any) -> Any:
        sessions.extend([params["session"]] if method == "send" else [])
        return await real(client, method, **params)

    monkeypatch.setattr(Client, "call", told)
    async with connected(tmp_path) as (repl, view):
        assert isinstance(repl.backend, RemoteAgent)
        say(repl, "one")
        await until(lambda: "echo one" in view.text)
        await idle(repl)
        assert sessions == [repl.backend.status.session]
        monkeypatch.setattr(Client, "call", call)
        await repl.backend._read_figures()
        say(repl, "two")
        await until(lambda: "echo two" in view.text)
        assert sessions[1:] == [None]


def test_a_session_is_continued_on_a_server_that_is_older_than_joins(tmp_path: Path) -> None:
    asked = list[Any]()

    class Older(Client):
        async def create_agent(self, *args: Any, **options: Any) -> Any:
            asked.append(options)
            if options.get("joins"):
                raise CallError(INVALID_PARAMS, "Invalid params: `joins` is unknown", None)
            return {"agent_id": "b"}

        async def list_agents(self) -> Any:
            return []

    client = Older("http://127.0.0.1:1", "t")
    assert asyncio.run(_find_agent(client, SharedOptions(resume="01J"))) == "b"
    assert [("joins" in options, options["session"]) for options in asked] == [(True, "01J"), (False, "01J")]
