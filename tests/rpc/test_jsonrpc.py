"""JSON-RPC 2.0 over the socket: the errors of the standard, ids, batches, notifications; the table of methods."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from rpc.serving import serving
from search import sample

from nexus_cli.client import CallError, Client
from nexus_cli.rpc.dispatcher import AgentDispatcher
from nexus_cli.rpc.jsonrpc import MAX_CALLS, MEANINGS
from nexus_cli.rpc.methods import METHODS, PoolMethods, openrpc_document

CALL = {"jsonrpc": "2.0", "id": 1, "method": "list_agents"}
PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", PARSE),
        (b"{", PARSE),
        (b"\xff\xfe", PARSE),
        (b"[1,]", PARSE),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "list_agents"}', PARSE),
        (b"[" * 100_000, PARSE),
        (b'{"a":' * 100_000, PARSE),
        (b"[" * 100_000 + b"]" * 100_000, PARSE),
        (b'{"jsonrpc": "2.0", "id": ' + b"1" * 5000 + b', "method": "list_agents"}', PARSE),
        (b"[]", REQUEST),
        (b"1", REQUEST),
        (b"null", REQUEST),
        (b'"list_agents"', REQUEST),
        (b"{}", REQUEST),
        (json.dumps([CALL] * (MAX_CALLS + 1)).encode(), REQUEST),
    ],
)
async def test_what_is_no_call_at_all_is_answered_by_the_codes_of_the_standard(
    tmp_path: Path, body: bytes, code: int
) -> None:
    async with serving(tmp_path) as served:
        assert await served.error(body) == (code, None)
        assert (await served.post(json.dumps(CALL)))[1]["result"] == {"agents": []}


@pytest.mark.parametrize(
    ("change", "code", "key"),
    sample(
        [
            ({"id": True}, REQUEST, None),
            ({"id": 1.0}, REQUEST, None),
            ({"id": 1.5}, REQUEST, None),
            ({"id": [1]}, REQUEST, None),
            ({"id": {}}, REQUEST, None),
            ({"id": "x" * 300}, REQUEST, None),
            ({"jsonrpc": "1.0"}, REQUEST, 1),
            ({"jsonrpc": 2.0}, REQUEST, 1),
            ({"jsonrpc": None}, REQUEST, 1),
            ({"method": 1}, REQUEST, 1),
            ({"method": None}, REQUEST, 1),
            ({"params": 1}, REQUEST, 1),
            ({"params": None}, REQUEST, 1),
            ({"params": ["a"]}, PARAMS, 1),
            ({"method": "nonsense"}, METHOD, 1),
            ({"method": "__init__"}, METHOD, 1),
            ({"method": "call"}, METHOD, 1),
            ({"params": {"x": 1}}, PARAMS, 1),
            ({"params": {"": 1}}, PARAMS, 1),
            ({"method": "send"}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": "a"}}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": 1, "content": "x"}}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": "a", "content": None}}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": "a", "content": ["x"]}}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": "a", "content": "x", "self": 1}}, PARAMS, 1),
            ({"method": "send", "params": {"agent_id": "a", "content": "x"}}, -32001, 1),
            ({"method": "get_messages", "params": {"agent_id": "a", "limit": True}}, PARAMS, 1),
            ({"method": "get_messages", "params": {"agent_id": "a", "limit": 1.0}}, -32001, 1),
            ({"method": "get_messages", "params": {"agent_id": "a", "limit": 0}}, PARAMS, 1),
            ({"method": "get_messages", "params": {"agent_id": "a", "offset": -1}}, PARAMS, 1),
            ({"method": "get_messages", "params": {"agent_id": "a", "offset": 10**30}}, PARAMS, 1),
            ({"method": "approve", "params": {"agent_id": "a", "id": "c1", "answer": "always"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"allow": "plan"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"agent_id": "../x"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"cwd": "nowhere"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"cwd": "\0"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"cwd": "~nobody-of-this-name/x"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"cwd": "\ud800"}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"cwd": "x" * 5000}}, PARAMS, 1),
            ({"method": "create_agent", "params": {"recipe": "nonsense"}}, PARAMS, 1),
            ({"method": "destroy_agent", "params": {"agent_id": "a"}}, -32001, 1),
        ],
        5,
    ),
)
async def test_a_call_with_a_fault_is_answered_under_its_id(
    tmp_path: Path, change: dict[str, Any], code: int, key: int | None
) -> None:
    async with serving(tmp_path) as served:
        assert await served.error(json.dumps(CALL | change)) == (code, key)


@pytest.mark.matrix
@pytest.mark.parametrize("key", [0, -1, 2**70, "", "a", "é\u0000", "\ud800", None])
async def test_an_answer_has_the_id_of_its_call(tmp_path: Path, key: Any) -> None:
    async with serving(tmp_path) as served:
        status, answer = await served.post(json.dumps(CALL | {"id": key}))
        assert status == 200 and answer == {"jsonrpc": "2.0", "id": key, "result": {"agents": []}}


async def test_a_notification_is_done_and_gets_no_answer(tmp_path: Path) -> None:
    call = {"jsonrpc": "2.0", "method": "create_agent", "params": {"agent_id": "a"}}
    async with serving(tmp_path) as served:
        assert await served.post(json.dumps(call)) == (204, None)
        assert await served.post(json.dumps([call, call])) == (204, None)
        assert await served.post(json.dumps({"jsonrpc": "2.0", "method": "nonsense"})) == (204, None)
        assert await served.post(json.dumps({"jsonrpc": "2.0", "method": "send", "params": ["a"]})) == (204, None)
        assert [agent["agent_id"] for agent in await served.client.list_agents()] == ["a"]


async def test_a_batch_is_answered_call_by_call_without_its_notifications(tmp_path: Path) -> None:
    batch = [
        CALL,
        1,
        {"jsonrpc": "2.0", "method": "list_agents"},
        CALL | {"id": "b", "method": "x"},
        CALL | {"id": 1.5},
    ]
    async with serving(tmp_path) as served:
        status, answers = await served.post(json.dumps(batch))
        assert status == 200
        assert [(one["id"], one.get("error", {}).get("code")) for one in answers] == [
            (1, None),
            (None, REQUEST),
            ("b", METHOD),
            (None, REQUEST),
        ]


@pytest.mark.matrix
async def test_calls_of_a_batch_run_side_by_side(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for name in "abc":
            await served.client.create_agent(name)
        send = CALL | {"method": "send"}
        batch = [send | {"id": name, "params": {"agent_id": name, "content": f"hi {name}"}} for name in "abc"]
        _, answers = await served.post(json.dumps(batch))
        assert {one["id"]: one["result"]["text"] for one in answers} == {name: f"echo hi {name}" for name in "abc"}


def _parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", METHODS)
def test_the_table_is_the_code(name: str) -> None:
    method = METHODS[name]
    function = getattr(AgentDispatcher if method.of_agent else PoolMethods, name, None)
    assert inspect.iscoroutinefunction(function)
    client = getattr(Client, name)
    assert inspect.iscoroutinefunction(client)
    assert _parameters(client) == [*method.params]


def test_nothing_else_can_be_called() -> None:
    public = {name for name, value in inspect.getmembers(PoolMethods) if inspect.iscoroutinefunction(value)}
    own = {name for name, method in METHODS.items() if not method.of_agent}
    assert public - {"call"} == own


def test_a_method_that_changes_worktrees_needs_the_level_edit() -> None:
    told = {name for name, method in METHODS.items() if method.about.endswith(" Requires level edit.")}
    assert told == {"worktree_apply", "worktree_remove"}


@pytest.mark.matrix
async def test_the_description_names_every_method_with_its_parameters_and_errors(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert served.client._http is None
        await served.client.list_agents()
        http = served.client._connect()
        async with http.get(f"{served.url}/openrpc.json") as answer:
            document = await answer.json()
    assert document == json.loads(json.dumps(openrpc_document()))
    assert document["openrpc"].startswith("1.") and document["info"]["version"]
    described = {method["name"]: method for method in document["methods"]}
    assert described.keys() == METHODS.keys()
    for name, method in METHODS.items():
        one = described[name]
        assert [param["name"] for param in one["params"]] == [*method.params]
        assert {error["code"] for error in one["errors"]} <= MEANINGS.keys()
        assert one["summary"].endswith(".") and one["result"]["schema"]


async def test_the_client_raises_what_went_wrong(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        with pytest.raises(CallError, match="No such agent") as failed:
            await served.client.send("nobody", "hi")
        assert failed.value.code == -32001
        with pytest.raises(CallError) as failed:
            await served.client.create_agent("a b")
        assert failed.value.code == PARAMS and failed.value.data["kind"] == "usage"
        with pytest.raises(CallError) as failed:
            async for _ in served.client.events("nobody"):
                pass
        assert failed.value.code == 404
        with pytest.raises(CallError) as failed:
            async for _ in served.client.stream("nobody", "hi"):
                pass
        assert failed.value.code == -32001
