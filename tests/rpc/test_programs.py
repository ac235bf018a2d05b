"""What programs do besides turns: go on with a session, set limits, take messages back, look at workers and worktrees,
and read events of any size.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from json_shape import problems
from rpc.serving import Answering, Reply, serving, until, words
from search import sample
from worktrees.repository import make_project, make_worktree

from nexus_cli.client import CallError, Client
from nexus_cli.config.paths import places
from nexus_cli.core import server_results
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger
from nexus_cli.reports.workers import WorkerList
from nexus_cli.rpc import event_feed
from nexus_cli.rpc.jsonrpc import RpcError
from nexus_cli.rpc.methods import EVENTS, openrpc_document


async def refused(call: Any, code: int) -> str:
    """The message of the error that a call is answered with."""
    with pytest.raises(CallError) as failed:
        await call
    assert failed.value.code == code, failed.value
    return failed.value.message


async def test_a_session_goes_on_in_a_new_server_in_its_folder_with_its_model(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    provider = Answering()
    async with serving(tmp_path, provider) as served:
        made = await served.client.create_agent("a", model="openai/other", cwd="inner")
        await served.client.send("a", "one")
    async with serving(tmp_path, provider) as served:
        listed = (await served.client.list_sessions())["sessions"]
        assert [one["id"] for one in listed] == [made["session"]]
        assert (await served.client.list_sessions("inner"))["total"] == 1
        assert (await served.client.list_sessions("."))["sessions"] == []
        again = await served.client.create_agent("b", session=made["session"][-6:])
        assert again["session"] == made["session"]
        assert (await served.client.send("b", "two"))["model"] == "openai/other"
        assert served.pool.list()[0].session.folder == inner
        assert [str(one["content"]).rpartition("\n")[2] for one in provider.seen[-1][-3:]] == ["one", "echo one", "two"]
        assert "no such session" in (await refused(served.client.create_agent(session="nonsense"), -32602)).casefold()


async def test_a_session_or_an_id_that_is_in_use_is_an_error_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.client.create_agent("a")
        await served.client.send("a", "one")
        assert "agent a is using this session" in await refused(
            served.client.create_agent(session=made["session"]), -32005
        )
        assert "an agent with this id already exists" in await refused(served.client.create_agent("a"), -32005)
        await served.client.destroy_agent("a")
        with closing(Ledger.open(places().ledger)) as other:
            assert other.lock(made["session"])
            told = await refused(served.client.create_agent("b", session=made["session"]), -32005)
            assert "another process is using the session" in told
        assert (await served.client.create_agent("b", session=made["session"]))["agent_id"] == "b"


async def test_a_level_above_that_of_the_server_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="edit") as served:
        told = await refused(served.client.create_agent("a", allow="all"), -32003)
        assert "at most edit" in told and await served.client.list_agents() == []
        assert (await served.client.create_agent("a", allow="read"))["level"] == "ask"
        assert (await served.client.create_agent("b"))["level"] == "edit"


def on_and_on(request: Request) -> Reply:
    """Calls a tool in every step."""
    return [("glob", {"pattern": f"*{len(request.messages)}"})]


async def test_limits_bind_every_turn_of_an_agent_and_wrong_ones_are_named(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(on_and_on)) as served:
        made = await served.client.create_agent("a", limits={"max_steps": 2, "timeout": 60.5}, effort="low")
        assert made["limits"] == {"max_steps": 2, "timeout": 60.5}
        for _ in range(2):
            with pytest.raises(CallError) as failed:
                await served.client.send("a", "go")
            data = failed.value.data
            assert failed.value.code == -32004 and data["kind"] == "limit"
            assert data["usage"]["input"] > 0 and data["session"] == made["session"]
        wrong: list[tuple[Any, str]] = [
            ({"max_steps": 0}, "`limits.max_steps` must be at least 1"),
            ({"max_steps": True}, "`limits.max_steps` must be an integer"),
            ({"max_cost": -1}, "limits.max_cost and limits.timeout must be above 0 and finite"),
            ({"timeout": "x"}, "`limits.timeout` must be a number"),
            ({"tools": []}, "`limits.tools` is unknown"),
            ([], "`limits` must be an object"),
        ]
        for limits, why in wrong:
            assert why in await refused(served.client.create_agent("w", limits=limits), -32602)
        assert "`effort` must be one of" in await refused(served.client.create_agent("w", effort="most"), -32602)


@pytest.mark.matrix
async def test_an_agent_with_limits_is_told_its_budget_and_reports_with_the_last_request(tmp_path: Path) -> None:
    def busy(request: Request) -> Reply:
        last = str(request.messages[-1]["content"])
        return "half of it" if "last request of your budget" in last else on_and_on(request)

    provider = Answering(busy)
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a", limits={"max_steps": 7})
        events: list[Any] = [event async for event in served.client.stream("a", "go")]
        with pytest.raises(CallError) as failed:
            await served.client.send("a", "on")
    result, messages = events[-1], provider.seen[-1]
    assert (result["ok"], result["exit"], result["finish"]) == (False, 3, "limit")
    assert (result["steps"], result["text"]) == (7, "half of it")
    assert "max_steps reached: its budget was used up; the work may be unfinished" in result["error"]["message"]
    assert failed.value.data["kind"] == "limit" and failed.value.data["text"] == "half of it"
    said = [str(one["content"]) for one in messages if one["role"] == "user"]
    assert ["Your budget: 7 requests. The last request is for the report" in one for one in said] == [True, True], said
    assert sum("5 requests are left for this task" in str(one.get("content")) for one in messages) == 2


@pytest.mark.matrix
async def test_an_agent_without_limits_is_told_no_budget(tmp_path: Path) -> None:
    provider = Answering()
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        assert (await served.client.send("a", "go"))["finish"] == "stop"
    assert "budget" not in str(provider.seen)


async def test_what_waits_can_be_taken_back(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        first = asyncio.create_task(served.client.send("a", "first"))
        await until(lambda: provider.asked)
        await served.client.steer("a", "steer")
        later = [asyncio.create_task(served.client.send("a", words)) for words in ("two", "three", "two")]
        await until(lambda: len(served.pool.list()[0].dispatcher._queued) == 3)
        assert await served.client.unqueue("a", "two") == {"texts": ["two"]}
        assert "removed by `unqueue`" in await refused(later[2], -32003)
        assert await served.client.unqueue("a", "nothing") == {"texts": []}
        assert await served.client.unqueue("a") == {"texts": ["steer", "two", "three"]}
        for turn in later[:2]:
            await refused(turn, -32003)
        provider.gates["first"].set()
        assert (await first)["ok"] and (await served.client.send("a", "last"))["text"] == "echo last"
        assert provider.asked == ["first", "last"]


@pytest.mark.parametrize("ticks", sample(range(8), 3))
async def test_what_was_taken_back_is_never_sent_and_the_rest_is(tmp_path: Path, ticks: int) -> None:
    """At each moment of a beginning turn: either the words come back and no turn has them, or the turn runs."""
    provider = Answering()
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        dispatcher = served.pool.list()[0].dispatcher
        sent = asyncio.create_task(dispatcher.send("delete"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        back = (await dispatcher.unqueue())["texts"]
        if back:
            with pytest.raises(RpcError, match="removed by `unqueue`"):
                await sent
        else:
            assert (await sent)["text"] == "echo delete"
        assert (await served.client.send("a", "next"))["text"] == "echo next"
        assert provider.asked == (["next"] if back else ["delete", "next"])
        messages = await served.client.call("get_messages", agent_id="a", limit=100)
        recorded = [one["content"] for one in messages["messages"] if one["role"] == "user"]
        assert any("delete" in text for text in recorded) == (not back)
        batch = [
            {"jsonrpc": "2.0", "id": 1, "method": "send", "params": {"agent_id": "a", "content": "x"}},
            {"jsonrpc": "2.0", "id": 2, "method": "unqueue", "params": {"agent_id": "a"}},
        ]
        status, answers = await served.post(json.dumps(batch))
        assert status == 200 and {one["id"] for one in answers} == {1, 2}


@pytest.mark.matrix
async def test_a_stream_whose_message_is_taken_back_ends_with_an_error(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        first = asyncio.create_task(served.client.send("a", "first"))
        await until(lambda: provider.asked)
        with pytest.raises(ConnectionError, match="left the queue"):
            async for event in served.client.stream("a", "two"):
                assert event["type"] == "notice"
                assert await served.client.unqueue("a") == {"texts": ["two"]}
        provider.gates["first"].set()
        assert (await first)["ok"]


@pytest.mark.matrix
async def test_a_send_without_an_id_is_answered_at_once(tmp_path: Path) -> None:
    provider = Answering(gates={"first": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        call = {"jsonrpc": "2.0", "method": "send", "params": {"agent_id": "a", "content": "first"}}
        assert await served.post(json.dumps(call)) == (204, None)
        later = asyncio.create_task(served.client.send("a", "second"))
        await until(lambda: provider.asked)
        provider.gates["first"].set()
        assert (await later)["ok"] and provider.asked == ["first", "second"]


def hand_over(request: Request) -> Reply:
    """Hands a task to a worker."""
    return (
        "done" if request.messages[-1]["role"] == "tool" or "task" in words(request) else [("agent", {"task": "task"})]
    )


async def test_workers_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(hand_over)) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "go")
        result = await served.client.list_workers("a")
        assert [*problems(result, WorkerList)] == []
        (worker,) = result["workers"]
        assert (worker["id"], worker["state"], worker["task"], worker["steps"]) == ("w1", "finished", "task", 1)


async def test_worktrees_are_listed_compared_applied_and_removed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    for name in ("one", "two"):
        record, _ = make_worktree(project, name)
        (record.folder / "old.txt").write_text(f"{name}\n")
    async with serving(project, allow="edit") as served:
        client = served.client
        listed = (await client.worktree_list())["worktrees"]
        assert [(one["name"], one["state"]) for one in listed] == [("one", "changed"), ("two", "changed")]
        assert "+one\n" in (await client.worktree_diff("one"))["diff"]
        assert "old.txt |" in (await client.worktree_diff("one", stat=True))["diff"]
        done = await client.worktree_apply("one")
        assert done["written"] == ["old.txt"] and (project / "old.txt").read_text() == "one\n"
        (conflict,) = (await client.worktree_apply("two", cwd="sub"))["conflicts"]
        assert conflict["path"] == "old.txt" and conflict["is_marked"]
        (record.folder / "more.txt").write_text("x\n")
        await refused(client.worktree_remove("two"), -32602)
        assert (await client.worktree_remove("two", force=True))["removed"]
        await refused(client.worktree_diff("two"), -32602)
        assert [one["name"] for one in (await client.worktree_list())["worktrees"]] == ["one"]


@pytest.mark.matrix
@pytest.mark.parametrize("allow", [None, "ask"])
async def test_a_server_that_forbids_edits_applies_and_removes_no_worktree(tmp_path: Path, allow: str | None) -> None:
    project = make_project(tmp_path / "project")
    record, _ = make_worktree(project, "one")
    (record.folder / "old.txt").write_text("one\n")
    before = (project / "old.txt").read_text()
    async with serving(project, allow=allow) as served:
        for call in (served.client.worktree_apply("one"), served.client.worktree_remove("one", force=True)):
            with pytest.raises(CallError, match="level edit: this server allows at most ask") as failed:
                await call
            assert failed.value.code == -32003 and failed.value.data["hint"] == "To allow it: nexus serve --allow edit"
        assert "+one\n" in (await served.client.worktree_diff("one"))["diff"]
    assert (project / "old.txt").read_text() == before and record.folder.is_dir()


@pytest.mark.matrix
async def test_a_worktree_in_which_an_agent_works_cannot_be_removed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    record, _ = make_worktree(project, "one")
    async with serving(project, allow="edit") as served:
        await served.client.create_agent("a", cwd=str(record.folder))
        await refused(served.client.create_agent("b", cwd=str(record.folder), recipe="nonsense"), -32602)
        assert "working in this worktree" in await refused(served.client.worktree_remove("one"), -32602)
        await served.client.destroy_agent("a")
        assert (await served.client.worktree_remove("one"))["removed"]


BIG = "x" * 3_000_000


@pytest.mark.matrix
async def test_an_event_of_any_size_arrives_whole_and_cuts_nobody_who_reads(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(lambda request: BIG)) as served:
        await served.client.create_agent("a")
        followed = list[Any]()

        async def follow() -> None:
            async for event in served.client.events("a"):
                followed.append(event)

        following = asyncio.create_task(follow())
        await until(lambda: served.pool.list()[0].dispatcher.feed._listeners)
        events: list[Any] = [event async for event in served.client.stream("a", BIG)]
        assert events[-1]["text"] == BIG and [event["seq"] for event in events] == [*range(len(events))]
        assert next(event for event in events if event["type"] == "turn.start")["text"] == BIG
        await until(lambda: followed and followed[-1]["type"] == "result")
        assert followed[-1]["text"] == BIG and "cut" not in {event["type"] for event in followed}
        following.cancel()


async def test_large_events_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "MAX_UNREAD", 10_000_000)
    feed = event_feed.EventFeed()
    listener = feed.listen()
    for _ in range(3):
        feed.add("notice", {"text": BIG})
    assert not listener.is_cut_off
    feed.add("notice", {"text": BIG})
    assert listener.is_cut_off and not listener._queue.items and feed._recent.size < 4_000_000


@pytest.mark.matrix
async def test_a_stream_that_is_read_too_slowly_has_a_gap_and_ends_with_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "MAX_EVENTS", 8)
    reads = event_feed.Listener.read

    async def reads_late(listener: event_feed.Listener, seconds: float) -> Any:
        for _ in range(20):  # as if its connection took so long
            await asyncio.sleep(0.02 if listener._gap is None else 0)
        return await reads(listener, seconds)

    provider = Answering(
        lambda request: (
            [("glob", {"pattern": str(len(request.messages))})] * 3 if len(request.messages) < 12 else "done"
        )
    )
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        monkeypatch.setattr(event_feed.Listener, "read", reads_late)
        events: list[Any] = [event async for event in served.client.stream("a", "go")]
        gaps = [event for event in events if event["type"] == "gap"]
        assert gaps and events[-1]["type"] == "result" and events[-1]["text"] == "done"
        missing = {number for gap in gaps for number in range(gap["first"], gap["last"] + 1)}
        read = [event["seq"] for event in events if event["type"] != "gap"]
        assert sorted([*read, *missing]) == [*range(read[-1] + 1)], "every number once, read or in a gap"
        assert events == sorted(events, key=lambda event: event["seq"])


@pytest.mark.matrix
async def test_the_description_has_a_schema_of_every_event(tmp_path: Path) -> None:
    schemas = openrpc_document()["components"]["schemas"]
    assert schemas.keys() == EVENTS.keys() >= {"approval.ask", "gap", "cut", "result", "agent.state"}
    assert schemas["approval.ask"]["properties"]["id"] == {"type": "string"}
    assert "kind" in schemas["approval.ask"]["properties"]["question"]["required"]
    (made,) = (one for one in openrpc_document()["methods"] if one["name"] == "create_agent")
    limits = made["result"]["schema"]["properties"]["limits"]
    assert limits["properties"]["max_cost"] == {"type": "number"} and limits["required"] == []


async def test_every_event_of_a_turn_with_a_worker_and_a_question_has_its_type(tmp_path: Path) -> None:
    def works(request: Request) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return "done"
        return [("bash", {"command": "touch made"})] if "task" in words(request) else [("agent", {"task": "task"})]

    async def say_once(question: server_results.ServerEvent) -> str:
        await asyncio.sleep(0)
        return "once"

    async with serving(tmp_path, Answering(works)) as served:
        await served.client.create_agent("a")
        events = list[Any]()
        done = await served.client.run("go", answer=say_once, each=events.append)
        assert done["ok"] and {event["agent"] for event in events if event["type"].startswith("approval")} == {"w1"}
        assert [
            *(problem for event in events for problem in problems(event, EVENTS[event["type"]], event["type"]))
        ] == []


async def test_an_answer_that_is_no_text_is_named(tmp_path: Path) -> None:
    calls: Reply = [("bash", {"command": "touch made"})]
    async with serving(tmp_path, Answering(lambda request: calls)) as served:
        await served.client.create_agent("a")
        with pytest.raises(TypeError, match="answer must be once, session, no or a reason for the refusal"):
            await served.client.run("go", answer=lambda ask: True)  # type: ignore[arg-type, return-value]
    assert not (tmp_path / "made").exists()


@pytest.mark.matrix
async def test_a_server_that_cannot_start_is_an_error_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectionError, match="exit status 2"):
        async with Client.start("--allow", "nonsense", cwd=str(tmp_path)):
            raise AssertionError
    assert "nonsense" in capfd.readouterr().err


@pytest.mark.matrix
async def test_a_server_that_is_started_imports_nothing_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n")
    async with Client.start(cwd=str(tmp_path)) as client:
        assert await client.list_agents() == []
