"""Turns over the socket: results, events, queue, steering, stop, questions, reports."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from json_shape import problems
from rpc.serving import MODEL, TOKEN, Answering, Reply, Served, serving, until, words
from search import sample
from worktrees.repository import make_project, make_worktree

from nexus_cli.client import CallError, Client
from nexus_cli.config.paths import places
from nexus_cli.core.approval import PersonQuestion
from nexus_cli.core.event_json import AskResult
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger
from nexus_cli.rpc import client_approver, dispatcher, event_feed
from nexus_cli.rpc.client_approver import NOBODY
from nexus_cli.rpc.methods import METHODS


def shell_then_done(request: Request) -> Reply:
    """Runs a command that asks at the level `read`, then tells its result."""
    newest = request.messages[-1]
    return str(newest["content"]) if newest["role"] == "tool" else [("bash", {"command": "touch made; echo ran"})]


async def collect(events: Any, into: list[dict[str, Any]]) -> None:
    """Read a stream to its end."""
    async for event in events:
        into.append(event)


async def test_send_answers_with_the_result_object(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.client.create_agent("a")
        result: Any = await served.client.send("a", "hello")
        assert (result["type"], result["version"], result["ok"], result["exit"]) == ("result", 1, True, 0)
        assert result["text"] == "echo hello" and result["session"] == made["session"] and result["model"] == MODEL
        (listed,) = await served.client.list_agents()
        assert made["limits"] == {"max_steps": 200}
        assert listed == {"agent_id": "a", "session": made["session"]} | {
            "state": "idle",
            "model": MODEL,
            "used": result["context"]["used"],
            "allow": "read",
            "level": "ask",
        } | {"next": served.pool.list()[0].dispatcher.feed.next}


async def test_the_model_is_told_that_a_program_is_at_the_other_end(tmp_path: Path) -> None:
    seen: list[str] = []

    def reply(request: Request) -> Reply:
        seen.append(str(request.messages[-1]["content"]))
        return "done"

    async with serving(tmp_path, Answering(reply)) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
    assert "Trigger: client (sent by another program over JSON-RPC)" in seen[0]


async def test_the_model_is_told_that_a_person_typed_a_message(tmp_path: Path) -> None:
    async with serving(tmp_path, provider := Answering(lambda request: "done")) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello", typed=True)
    assert "Trigger: ask (typed by the person)" in str(provider.seen[0][-1])


@pytest.mark.matrix
@pytest.mark.parametrize("has_result", [False, True])
async def test_the_model_is_told_of_a_turn_that_was_stopped_before_it_said_a_word(
    tmp_path: Path, has_result: bool
) -> None:
    (tmp_path / "notes.txt").write_text("the session was closed\n")

    def reply(request: Request) -> Reply:
        if words(request) != "first":
            return "done"
        provider.waits["first"] = asyncio.Event()
        return [("read_file", {"path": "notes.txt"})]

    provider = Answering(reply, waits={} if has_result else {"first": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        first = asyncio.create_task(served.client.send("a", "first"))
        await until(lambda: len(provider.asked) > has_result)
        await served.client.cancel("a")
        with pytest.raises(CallError):
            await first
        await served.client.send("a", "second")
        await served.client.send("a", "third")
    said = [str(one.get("content")) for one in provider.seen[-1]]
    told = [text for text in said if "stopped before your answer" in text]
    assert len(told) == 1 and told[0].endswith("]\n\nsecond"), told


@pytest.mark.parametrize("content", ["", " \n"])
async def test_a_failed_turn_is_an_error_with_its_kind(tmp_path: Path, content: str) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        with pytest.raises(CallError) as failed:
            await served.client.send("a", content)
        assert failed.value.code == -32004
        data = failed.value.data
        assert data.keys() == {"kind", "message", "hint", "usage", "session", "text"} and data["kind"] == "usage"
        assert data["session"] == (await served.client.list_agents())[0]["session"]


async def test_a_streamed_turn_is_its_events_numbered_from_0_and_ends_with_the_result(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        for _ in range(2):
            events: list[Any] = [event async for event in served.client.stream("a", "hello")]
            assert [event["seq"] for event in events] == list(range(len(events)))
            kinds = [event["type"] for event in events]
            assert kinds[:2] == ["session.start", "turn.start"] and kinds[-2:] == ["turn.end", "result"]
            assert {"step.start", "text.delta", "step.end"} <= set(kinds) and all(event["v"] == 1 for event in events)
            assert events[-1]["text"] == "echo hello" and events[-1]["ok"]


async def test_the_events_of_an_agent_are_numbered_over_its_turns_and_resumed_by_number(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        live: list[dict[str, Any]] = []
        reading = asyncio.create_task(collect(served.client.events("a"), live))
        await until(lambda: _listeners(served, "a"))
        await served.client.send("a", "one")
        await served.client.send("a", "two")
        await until(lambda: [event["type"] for event in live].count("result") == 2)
        numbers = [event["seq"] for event in live]
        assert numbers == list(range(numbers[0], numbers[0] + len(live)))
        again: list[dict[str, Any]] = []
        resumed = asyncio.create_task(collect(served.client.events("a", numbers[3]), again))
        await until(lambda: len(again) == len(live) - 4)
        assert again == live[4:]
        await served.client.destroy_agent("a")
        await asyncio.gather(reading, resumed)


def _listeners(served: Served, agent_id: str) -> int:
    agent = served.pool.get(agent_id)
    assert agent is not None
    return len(agent.dispatcher.feed._listeners)


async def test_events_that_are_not_kept_any_more_are_told_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "MAX_EVENTS", 10)
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        for number in range(4):
            await served.client.send("a", str(number))
        agent = served.pool.get("a")
        assert agent is not None
        newest = agent.dispatcher.feed.next - 1
        for after, kept in ((0, 10), (newest + 100, 0)):
            found: list[dict[str, Any]] = []
            reading = asyncio.create_task(collect(served.client.events("a", after), found))
            await until(partial(_is_long, found, kept + 1))
            gap = found[0]
            assert (gap["type"], gap["first"], gap["last"]) == ("gap", 1 if kept else 0, newest - kept)
            assert gap["seq"] == gap["last"]
            assert [event["seq"] for event in found[1:]] == list(range(newest - kept + 1, newest + 1))
            reading.cancel()


def _is_long(events: list[dict[str, Any]], most: int) -> bool:
    return len(events) >= most


@pytest.mark.matrix
async def test_a_second_message_waits_its_turn_and_says_so(tmp_path: Path) -> None:
    gates = {"first": asyncio.Event()}
    provider = Answering(gates=gates)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        first = asyncio.create_task(served.client.send("a", "first"))
        await until(lambda: provider.asked)
        events: list[dict[str, Any]] = []
        second = asyncio.create_task(collect(served.client.stream("a", "second"), events))
        await until(lambda: events)
        assert events[0]["type"] == "notice" and "queued behind 1" in events[0]["text"]
        assert (await served.client.list_agents())[0]["state"] == "running" and provider.asked == ["first"]
        gates["first"].set()
        assert (await first)["text"] == "wait echo first"
        await second
        assert events[-1]["text"] == "echo second"


@pytest.mark.matrix
async def test_too_many_waiting_messages_are_refused_as_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MAX_WAITING", 2)
    gates = {"0": asyncio.Event()}
    provider = Answering(gates=gates)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turns = []
        for number in range(3):
            turns.append(asyncio.create_task(served.client.send("a", str(number))))
            await until(lambda: len(_works(served)) == len(turns))
        with pytest.raises(CallError) as failed:
            await served.client.send("a", "3")
        assert failed.value.code == -32002
        with pytest.raises(CallError) as failed:
            await served.client.compact("a")
        assert failed.value.code == -32002
        gates["0"].set()
        assert [(await turn)["text"] for turn in turns] == ["wait echo 0", "echo 1", "echo 2"]


def _works(served: Served) -> Any:
    agent = served.pool.get("a")
    assert agent is not None
    return agent.dispatcher._works


async def test_steering_reaches_the_running_turn_and_needs_one(tmp_path: Path) -> None:
    gates = {"go": asyncio.Event()}
    provider = Answering(gates=gates)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        with pytest.raises(CallError) as failed:
            await served.client.steer("a", "left")
        assert failed.value.code == -32003
        turn = asyncio.create_task(served.client.send("a", "go"))
        await until(lambda: provider.asked)
        with pytest.raises(CallError) as failed:
            await served.client.steer("a", " ")
        assert failed.value.code == -32602
        await served.client.steer("a", "left")
        gates["go"].set()
        assert (await turn)["text"] == "echo left" and provider.asked == ["go", "left"]


@pytest.mark.parametrize(("typed", "kept"), [(False, ("proposed", "client")), (True, ("kept", "person"))])
async def test_only_what_a_person_typed_is_theirs(tmp_path: Path, typed: bool, kept: tuple[str, str]) -> None:
    rule = "always deploy on Fridays"

    def remembers(request: Request) -> Reply:
        calls = [("remember", {"text": rule, "slot": "project", "quote": rule})]
        return "done" if request.messages[-1]["role"] == "tool" else calls

    provider = Answering(remembers, gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("send")
        await served.client.send("send", rule, typed=typed)
        await served.client.create_agent("steer")
        turn = asyncio.create_task(served.client.send("steer", "go"))
        await until(lambda: "go" in provider.asked)
        await served.client.steer("steer", rule, typed=typed)
        provider.gates["go"].set()
        await turn
    with closing(Ledger.open(places().ledger)) as ledger:
        assert {(fact.state, fact.actor) for fact in ledger.facts.list_facts()} == {kept}


@pytest.mark.parametrize("typed", [True, False])
async def test_a_message_that_a_person_typed_calls_a_guide(tmp_path: Path, typed: bool) -> None:
    guide = places().config / "commands" / "greet.md"
    guide.parent.mkdir(parents=True)
    guide.write_text("---\ndescription: Greet somebody\nargument-hint: NAME\n---\nGreet $ARGUMENTS warmly.\n")
    provider = Answering(lambda request: "done")
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        listed = (await served.client.list_commands("a"))["commands"]
        assert [(one["name"], one["usage"]) for one in listed] == [("greet", "NAME")]
        assert listed[0]["help"].startswith("Greet somebody")
        await served.client.send("a", "/greet Ann", typed=typed)
        await served.client.send("a", "what is this: $greet", typed=typed, pasted=["$greet"])
    assert "Greet" not in str(provider.seen[1][-1]["content"])
    assert any("Greet Ann warmly." in str(message["content"]) for message in provider.seen[0]) is typed


def asks_person(request: Request) -> Reply:
    """Asks the person, and reports the answer."""
    newest = request.messages[-1]
    questions = [{"question": "Which color?", "choices": ["red"]}, {"question": "Which size?"}]
    asked = ("use_tool", {"name": "ask_person", "arguments": {"questions": questions}})
    return str(newest["content"]) if newest["role"] == "tool" else [asked]


def send(served: Served) -> asyncio.Task[Any]:
    """Begins the turn in which the model asks."""
    return asyncio.create_task(served.client.send("a", "ask me"))


async def test_a_person_at_a_client_answers_questions_of_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(asks_person)) as served:
        await served.client.create_agent("a")
        turns: list[asyncio.Task[Any]] = []
        async for event in served.client.events("a", opened=lambda: turns.append(send(served)), questions=True):
            if event["type"] == "question.ask":
                assert event["questions"][0] == {"text": "Which color?", "choices": ["red"]}
                for call in (served.client.approve("a", event["id"], "once"), served.client.answer("a", "q", ["x"])):
                    with pytest.raises(CallError):
                        await call
                await served.client.answer("a", event["id"], ["blue"])
            if event["type"] == "question.answer":
                break
        told = (await turns[0])["text"]
        assert "Which color?\n> blue" in told and "questions without an answer: 1" in told


async def test_nobody_is_asked_where_no_person_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_approver, "GRACE_SECONDS", 0.01)
    async with serving(tmp_path, Answering(asks_person)) as served:
        await served.client.create_agent("a")
        assert "nobody can be asked here" in (await served.client.send("a", "ask me"))["text"]
        turns: list[asyncio.Task[Any]] = []
        async for event in served.client.events("a", opened=lambda: turns.append(send(served)), questions=True):
            if event["type"] == "question.ask":
                break
        assert "gave no answer" in (await turns[0])["text"], "the person has left"


async def test_a_question_ends_whose_person_left_though_others_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_approver, "GRACE_SECONDS", 0.01)
    approver = client_approver.ClientApprover()
    approver.attach_client(has_person=True)
    asked = asyncio.create_task(approver.put_questions([PersonQuestion("Which color?")]))
    await asyncio.sleep(0)
    approver.detach_client(has_person=True)
    approver.attach_client()
    assert await asked == []
    assert await approver.put_questions([PersonQuestion("Which size?")]) == [], "as a server asks whose person left"
    approver.end()
    assert await approver.put_questions([PersonQuestion("Which shape?")]) == []


async def test_answers_beyond_the_questions_count_for_nothing() -> None:
    approver, keys = client_approver.ClientApprover(), list[str]()
    approver.publish = lambda event: keys.append(str(getattr(event, "id", "")))
    approver.attach_client(has_person=True)
    asked = asyncio.create_task(approver.put_questions([PersonQuestion("Which color?")]))
    await asyncio.sleep(0)
    approver.answer_questions(keys[0], ["red", "blue"])
    assert await asked == ["red"]


async def test_cancel_stops_the_turn_and_the_next_one_comes(tmp_path: Path) -> None:
    provider = Answering(gates={"long": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        await served.client.cancel("a")
        turn = asyncio.create_task(served.client.send("a", "long"))
        await until(lambda: provider.asked)
        after = asyncio.create_task(served.client.send("a", "short"))
        await until(lambda: len(_works(served)) == 2)
        await served.client.cancel("a")
        with pytest.raises(CallError) as failed:
            await turn
        assert failed.value.code == -32004 and failed.value.data["kind"] == "aborted"
        assert (await after)["text"] == "echo short"


@pytest.mark.parametrize(
    ("answer", "given", "said"),
    sample([("once", None, "ran"), ("session", None, "ran"), ("no", "not now", "not now"), ("no", None, None)], 2),
)
async def test_a_client_that_listens_answers_questions(
    tmp_path: Path, answer: str, given: str | None, said: str | None
) -> None:
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await served.client.create_agent("a")
        result: Any = {}
        async for event in served.client.stream("a", "run it"):
            if event["type"] == "approval.ask":
                assert (await served.client.list_agents())[0]["state"] == "asking"
                with pytest.raises(CallError) as failed:
                    await served.client.approve("a", "c99", answer)
                assert failed.value.code == -32003
                await served.client.approve("a", event["id"], answer, given)
                with pytest.raises(CallError):
                    await served.client.approve("a", event["question"]["call"]["id"], answer, given)
            result = event
        if said is None:
            assert result["error"]["kind"] == "denied" and "you declined bash" in result["error"]["message"]
        else:
            assert said in result["text"]
        assert (tmp_path / "made").exists() is (answer != "no")
        assert (await served.client.list_agents())[0]["state"] == "idle"


def hand_over(request: Request) -> Reply:
    """Hands a task to a worker, which runs a command that asks."""
    newest = request.messages[-1]
    if newest["role"] == "tool":
        return "reported"
    return [("agent", {"task": "make it"})] if "hand over" in str(newest["content"]) else shell_then_done(request)


@pytest.mark.matrix
async def test_a_question_of_a_worker_is_answered_under_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(hand_over)) as served:
        await served.client.create_agent("a")
        events = list[Any]()
        async for event in served.client.stream("a", "hand over"):
            events.append(event)
            if event["type"] == "approval.ask":
                assert event["agent"] == "w1" and event["lane"]
                assert event["id"] == f"w1:{event['question']['call']['id']}"
                await served.client.approve("a", f"w1:{event['question']['call']['id']}", "once")
        assert (tmp_path / "made").exists() and events[-1]["text"] == "reported"
        assert {event.get("agent") for event in events} == {None, "w1"}
        assert (await served.client.list_agents())[0]["state"] == "idle"


@pytest.mark.matrix
async def test_a_worker_that_a_client_releases_reports_in_a_turn_of_its_own(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        newest = request.messages[-1]
        if "hand over" in str(newest["content"]):
            return [("agent", {"task": "make it"})]
        return "went on" if newest["role"] == "tool" else f"echo {words(request)}"

    provider = Answering(script)
    provider.gates["make it"] = asyncio.Event()
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        handing = asyncio.create_task(served.client.send("a", "hand over"))
        await until(lambda: any("make it" in asked for asked in provider.asked))
        assert await served.client.release("a") == {"workers": ["w1"]}
        assert (await handing)["text"] == "went on"
        for gate in provider.gates.values():
            gate.set()
        await until(lambda: any("worker w1 has ended" in str(sent[-1]["content"]) for sent in provider.seen))


def hand_over_and_go_on(request: Request) -> Reply:
    """Hands a task to a worker in the background."""
    newest = request.messages[-1]
    if newest["role"] != "tool" and "hand over" in str(newest["content"]):
        return [("agent", {"task": "make it", "wait": False})]
    return shell_then_done(request) if "make it" in str(newest["content"]) else f"echo {words(request)}"


async def test_a_question_of_a_worker_in_the_background_outlives_the_turns_of_its_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(hand_over_and_go_on)) as served:
        await served.client.create_agent("a")
        live: list[dict[str, Any]] = []
        reading = asyncio.create_task(collect(served.client.events("a"), live))
        await until(lambda: _listeners(served, "a"))
        handing = asyncio.create_task(served.client.send("a", "hand over"))

        def asked() -> list[dict[str, Any]]:
            return [event["question"] for event in live if event["type"] == "approval.ask"]

        await until(asked)
        assert asked()[0]["kind"] == "later" and "make it" in asked()[0]["detail"]
        await served.client.approve("a", asked()[0]["call"]["id"], "once")
        await handing
        await until(lambda: len(asked()) == 2)
        await served.client.send("a", "meanwhile")
        newest = (await served.client.get_conversation("a"))["next"] - 1
        head = {"Authorization": f"Bearer {TOKEN}", "Last-Event-ID": str(newest)}
        address = f"{served.url}/agents/a/events?questions=true"
        async with aiohttp.ClientSession() as http, http.get(address, headers=head) as again:
            lines = [(await again.content.readline()).decode() for _ in range(4)]
        assert "approval.ask" in lines[3]
        assert lines[2] == f"id: {newest}\n", "who reconnects with it reads no event twice"
        await served.client.approve("a", f"w1:{asked()[1]['call']['id']}", "once")
        await until(lambda: (tmp_path / "made").exists())
        reading.cancel()


async def test_who_comes_later_is_told_of_the_questions_that_wait(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await served.client.create_agent("a")
        first: list[dict[str, Any]] = []
        turn = asyncio.create_task(collect(served.client.stream("a", "run it"), first))
        await until(lambda: "approval.ask" in [event["type"] for event in first])
        newest = (await served.client.get_conversation("a"))["next"] - 1
        for after, questions in ((None, False), (newest, True)):
            async for event in served.client.events("a", after, questions=questions):
                assert event["type"] == "approval.ask"
                break
        older: list[dict[str, Any]] = []
        unaware = asyncio.create_task(collect(served.client.events("a", newest), older))
        await until(lambda: _listeners(served, "a"))
        await served.client.approve("a", event["question"]["call"]["id"], "once")
        await turn
        assert "ran" in first[-1]["text"]
        await until(lambda: older)
        assert "approval.ask" not in [event["type"] for event in older], "asked once, as of a client of 0.2.0"
        unaware.cancel()
        later: list[dict[str, Any]] = []
        reading = asyncio.create_task(collect(served.client.events("a"), later))
        await until(lambda: _listeners(served, "a"))
        await served.client.compact("a")
        await until(lambda: later)
        assert "approval.ask" not in [event["type"] for event in later]
        reading.cancel()


async def test_a_message_and_the_end_of_its_agent_in_one_moment(tmp_path: Path) -> None:
    provider = Answering()
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        calls = [("send", {"agent_id": "a", "content": "hi"}), ("destroy_agent", {"agent_id": "a"})]
        batch = [{"jsonrpc": "2.0", "id": name, "method": name, "params": params} for name, params in calls]
        _, answers = await served.post(json.dumps(batch))
        assert answers[0]["error"]["data"]["kind"] == "aborted" and answers[1]["result"] == {"destroyed": True}
        assert provider.asked == []


@pytest.mark.matrix
async def test_a_compaction_that_waits_is_told_of_the_end_of_its_agent(tmp_path: Path) -> None:
    provider = Answering(gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turn = asyncio.create_task(served.client.send("a", "go"))
        await until(lambda: provider.asked)
        waiting = asyncio.create_task(served.client.compact("a"))
        await until(lambda: len(_works(served)) == 2)
        await served.client.destroy_agent("a")
        done = await waiting
        assert done["why"] == "interrupted" and done["before"] == done["after"]
        with pytest.raises(CallError):
            await turn


@pytest.mark.matrix
async def test_the_first_turn_begins_with_what_came_up_before_anybody_could_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    places().ledger.mkdir(parents=True)  # so that it cannot be opened
    async with serving(tmp_path) as served:
        for name in "ab":
            await served.client.create_agent(name)
            events: list[Any] = [event async for event in served.client.stream(name, "hi")]
            assert events[0]["type"] == "notice" and "kept in memory" in events[0]["text"]
            again: list[Any] = [event async for event in served.client.stream(name, "hi")]
            assert again[0]["type"] == "session.start"


async def test_a_stream_for_a_session_that_was_left_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        begun = await served.client.create_agent("a")
        await served.client.run_command("a", "clear")
        params = {"agent_id": "a", "content": "hi", "session": begun["session"]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "send", "params": params}
        head = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
        async with aiohttp.ClientSession() as http, http.post(f"{served.url}/rpc", json=body, headers=head) as answer:
            assert "has opened session" in (await answer.json())["error"]["message"]


async def test_words_belong_to_a_no(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await served.client.create_agent("a")
        async for event in served.client.stream("a", "run it"):
            if event["type"] == "approval.ask":
                key = event["question"]["call"]["id"]
                with pytest.raises(CallError) as failed:
                    await served.client.approve("a", key, "once", "carefully")
                assert failed.value.code == -32602
                await served.client.approve("a", key, "no")


@pytest.mark.matrix
async def test_without_a_listener_a_question_is_refused_at_once_with_the_reason(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await served.client.create_agent("a")
        result = await served.client.send("a", "run it")
        assert NOBODY in result["text"] and not (tmp_path / "made").exists()
        assert [row["tool"] for row in result["denied"]] == ["bash"]


async def test_a_question_whose_last_listener_leaves_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_approver, "GRACE_SECONDS", 0.2)
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await _be_asked_and_leave(served)
        await until(lambda: not _works(served))
        assert NOBODY in (await served.client.get_messages("a"))["messages"][-1]["content"]


async def test_who_comes_back_in_time_can_still_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(shell_then_done)) as served:
        await _be_asked_and_leave(served)
        await until(lambda: not _attached(served))
        async for event in served.client.events("a", 0):
            if event["type"] == "approval.ask":
                await served.client.approve("a", event["question"]["call"]["id"], "once")
            if event["type"] == "result":
                assert "ran" in event["text"]
                break


async def test_a_question_that_comes_while_the_client_reconnects_waits_for_it(tmp_path: Path) -> None:
    provider = Answering(shell_then_done, gates={"run it": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        events = served.client.stream("a", "run it")
        async for event in events:
            if event["type"] == "text.delta":
                break
        await events.aclose()  # type: ignore[attr-defined]
        await until(lambda: not _attached(served))
        provider.gates["run it"].set()
        while (await served.client.get_status("a"))["activity"] == "running":  # noqa: ASYNC110  (the server is asked)
            await asyncio.sleep(0.01)
        async for event in served.client.events("a", 0):
            if event["type"] == "approval.ask":
                await served.client.approve("a", event["question"]["call"]["id"], "once")
            if event["type"] == "result":
                assert "ran" in event["text"]
                break


async def _be_asked_and_leave(served: Served) -> None:
    """Begin a turn of a new agent `a`, and leave as soon as it asks."""
    await served.client.create_agent("a")
    events = served.client.stream("a", "run it")
    async for event in events:
        if event["type"] == "approval.ask":
            break
    await events.aclose()  # type: ignore[attr-defined]


def _attached(served: Served) -> int:
    agent = served.pool.get("a")
    assert agent is not None
    return agent.dispatcher.approver._listeners


async def test_tokens_context_and_messages_are_those_of_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.client.create_agent("a", system_prompt="Be brief.")
        before = await served.client.get_tokens("a")
        assert before["messages"] == 0 and before["system"] > 0
        assert (await served.client.get_context("a"))["pending"] is True
        for number in range(3):
            await served.client.send("a", f"say {number}")
        tokens = await served.client.get_tokens("a")
        assert tokens["total"] == tokens["system"] + tokens["tools"] + tokens["messages"] > before["total"]
        context = await served.client.get_context("a")
        assert context["session"] == made["session"] and [one["id"] for one in context["sections"]] == ["system_prompt"]
        found = await served.client.get_messages("a", 1, 2)
        assert found["total"] == 6
        assert [(one["role"], one["content"]) for one in found["messages"]] == [
            ("assistant", "echo say 0"),
            ("user", "say 1"),
        ]
        assert (await served.client.get_messages("a", 6))["messages"] == []
        assert len((await served.client.get_messages("a"))["messages"]) == 6


async def test_compact_says_how_it_went_and_old_messages_can_still_be_read(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return "## Goal\nx\n## State\ny\n" if "summar" in words(request).lower() else "long " * 400

    async with serving(tmp_path, Answering(script)) as served:
        await served.client.create_agent("a")
        done = await served.client.compact("a")
        assert done["before"] == done["after"] and done["why"]
        for number in range(8):
            await served.client.send("a", f"tell {number} " + "words " * 300)
        done = await served.client.compact("a", "keep the numbers")
        assert set(done) == {"before", "after", "why"} and done["after"] <= done["before"]
        assert (await served.client.get_messages("a"))["total"] == 16


async def test_a_model_folder_and_recipe_can_be_an_agents_own(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    async with serving(tmp_path) as served:
        await served.client.create_agent("a", model="openai/other", cwd="inner", recipe="chat", allow="ask")
        agent = served.pool.get("a")
        assert agent is not None
        assert (agent.session.model, agent.session.folder) == ("openai/other", inner)
        assert agent.session.dispatcher.recipe.name == "chat" and agent.session.dispatcher.limits.allow == "ask"


async def test_everything_works_over_a_socket_file_that_only_the_person_can_open(tmp_path: Path) -> None:
    file = tmp_path / "s"
    async with serving(tmp_path, file=file) as served:
        assert served.url == f"unix:{file}" and file.stat().st_mode & 0o777 == 0o600
        await served.client.create_agent("a")
        assert (await served.client.send("a", "hi"))["text"] == "echo hi"
        assert [event async for event in served.client.stream("a", "hi")][-1]["type"] == "result"
        async with Client(served.url, "wrong") as other:
            with pytest.raises(CallError) as failed:
                await other.list_agents()
            assert failed.value.code == 401


@pytest.mark.matrix
async def test_fifty_turns_at_once_none_is_lost_and_each_session_keeps_its_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for agent in range(25):
            await served.client.create_agent(f"a{agent}", system_prompt="x")
        turns: list[asyncio.Task[AskResult]] = []
        for turn in range(2):
            for agent in range(25):
                turns.append(asyncio.create_task(served.client.send(f"a{agent}", f"{agent}-{turn}")))
            await asyncio.sleep(0.05)
        results = await asyncio.gather(*turns)
        assert [one["text"] for one in results] == [f"echo {agent}-{turn}" for turn in range(2) for agent in range(25)]
        for agent in range(25):
            found = (await served.client.get_messages(f"a{agent}"))["messages"]
            said = [one["content"] for one in found if one["role"] == "user"]
            assert said == [f"{agent}-0", f"{agent}-1"]


@pytest.mark.matrix
async def test_a_client_that_vanishes_stops_nothing(tmp_path: Path) -> None:
    gates = {"go": asyncio.Event()}
    provider = Answering(gates=gates)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        for ask in ("stream", "call"):
            provider.asked.clear()
            gates["go"].clear()
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
                body = {"jsonrpc": "2.0", "id": 1, "method": "send", "params": {"agent_id": "a", "content": "go"}}
                headers = {"Accept": "text/event-stream"} if ask == "stream" else {}
                call = asyncio.create_task(
                    http.post(f"{served.url}/rpc", data=json.dumps(body), headers=headers).__aenter__()
                )
                await until(lambda: provider.asked)
                call.cancel()
            await asyncio.sleep(0.05)
            gates["go"].set()
            await until(lambda: not _works(served))
        found = (await served.client.get_messages("a"))["messages"]
        assert [one["content"] for one in found if one["role"] == "assistant"] == ["wait echo go"] * 2
        assert _listeners(served, "a") == 0 and _attached(served) == 0


@pytest.mark.matrix
async def test_at_the_end_workers_finish_their_step_and_begin_no_other(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        newest = request.messages[-1]
        if newest["role"] != "tool" and "hand over" in str(newest["content"]):
            return [("agent", {"task": f"task {number}"}) for number in range(3)]
        return "done" if newest["role"] == "tool" else [("bash", {"command": f"echo {words(request)} >> ran"})]

    provider = Answering(script, gates={f"task {number}": asyncio.Event() for number in range(3)})
    async with serving(tmp_path, provider, allow="all") as served:
        await served.client.create_agent("a", allow="all")
        turn = asyncio.create_task(served.client.send("a", "hand over"))
        await until(lambda: len(provider.asked) == 4)
        ending = asyncio.create_task(served.pool.finish_steps(300.0))
        await asyncio.sleep(0.02)
        for gate in provider.gates.values():
            gate.set()
        await ending
        with pytest.raises(CallError) as failed:
            await turn
        assert failed.value.data["kind"] == "aborted"
        assert len(provider.asked) == 4, "no request was sent after the end had begun"
        assert sorted((tmp_path / "ran").read_text().splitlines()) == ["task 0", "task 1", "task 2"]
        results = [
            one["content"] for one in (await served.client.get_messages("a"))["messages"] if one["role"] == "tool"
        ]
        assert len(results) == 3 and all("stopped" in one for one in results)


async def test_at_the_end_a_worker_in_the_background_finishes_its_step(tmp_path: Path) -> None:
    provider = Answering(hand_over_and_go_on, gates={"make it": asyncio.Event()})
    async with serving(tmp_path, provider, allow="all") as served:
        await served.client.create_agent("a", allow="all")
        await served.client.send("a", "hand over")
        await until(lambda: "make it" in provider.asked)
        ending = asyncio.create_task(served.pool.finish_steps(300.0))
        await asyncio.sleep(0.02)
        provider.gates["make it"].set()
        await ending
        assert (tmp_path / "made").exists() and provider.asked.count("make it") == 1


async def test_an_agent_that_waits_says_so_and_goes_on_by_itself(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        text = str(request.messages[-1]["content"])
        return "the build has passed" if "RESUME" in text else [("wait_for", {"file": "ci.log", "event": "appears"})]

    async with serving(tmp_path, Answering(script)) as served:
        made = await served.client.create_agent(agent_id="w", allow="ask")
        with pytest.raises(CallError, match="waits"):
            await served.client.send("w", "wait for CI")

        async def state() -> str:
            return str((await served.client.list_agents())[0]["state"])

        assert await state() == "waiting"
        run = Ledger.open_for_reading(places().ledger).runs.of_session(made["session"])
        assert run is not None and run.state == "waiting_reply"
        (tmp_path / "ci.log").write_text("passed")
        while await state() != "idle":  # noqa: ASYNC110  (asked over the socket)
            await asyncio.sleep(0.02)
        messages = (await served.client.get_messages("w"))["messages"]
        assert messages[-1]["content"] == "the build has passed"
        run = Ledger.open_for_reading(places().ledger).runs.of_session(made["session"])
        assert run is not None and (run.state, run.report) == ("done", "the build has passed")


async def test_every_result_has_the_type_that_is_described(tmp_path: Path) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        ("create_agent", {"agent_id": "a"}),
        ("list_agents", {}),
        ("send", {"agent_id": "a", "content": "hello"}),
        ("get_tokens", {"agent_id": "a"}),
        ("get_context", {"agent_id": "a"}),
        ("get_messages", {"agent_id": "a"}),
        ("get_conversation", {"agent_id": "a"}),
        ("run_command", {"agent_id": "a", "name": "cost"}),
        ("get_status", {"agent_id": "a"}),
        ("list_commands", {"agent_id": "a"}),
        ("compact", {"agent_id": "a"}),
        ("cancel", {"agent_id": "a"}),
        ("unqueue", {"agent_id": "a"}),
        ("list_sessions", {"limit": 5}),
        ("list_workers", {"agent_id": "a"}),
        ("release", {"agent_id": "a"}),
        ("worktree_list", {}),
        ("worktree_diff", {"name": "beside", "stat": True}),
        ("worktree_apply", {"name": "beside"}),
        ("worktree_remove", {"name": "beside", "force": True}),
        ("destroy_agent", {"agent_id": "a"}),
        ("shutdown", {}),
    ]
    assert {name for name, _ in steps} == METHODS.keys() - {"steer", "approve", "answer", "choose"}, (
        "which return the same as others"
    )
    make_project(tmp_path / "project")
    record, _ = make_worktree(tmp_path / "project", "beside")
    (record.folder / "new.txt").write_text("x\n")
    async with serving(tmp_path / "project", allow="edit") as served:
        for name, params in steps:
            result = await served.client.call(name, **params)
            assert [*problems(result, METHODS[name].result)] == [], name
