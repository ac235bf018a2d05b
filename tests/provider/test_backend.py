"""The backend over a real socket: every wire form, keys, connections, and silence on stdout."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
from provider.talk import ASKED, MODELS, ask, hear, request
from search import sample
from server.play import ScriptedServer

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.message import ToolCall
from nexus_cli.provider.litellm_backend import LitellmBackend

FORMS = pytest.mark.parametrize("form", list(MODELS))
CALLS = [
    {"name": "look", "arguments": {"at": "a"}},
    {"name": "look", "arguments": {"at": "ü"}},
]


@pytest.mark.matrix
@FORMS
def test_text_thinking_and_several_calls_arrive_in_every_wire_form(form: str, model_server: ScriptedServer) -> None:
    model_server.load([{"text": "hello wörld", "thinking": "let me see", "signature": "c2ln", "calls": CALLS}])
    heard = ask(model_server, form)
    assert heard.error is None
    message = heard.reply.message
    assert message.content == "hello wörld"
    assert message.tool_calls == (ToolCall("call0", "look", {"at": "a"}), ToolCall("call1", "look", {"at": "ü"}))
    assert heard.reply.finish == "tool_calls"
    assert heard.reply.usage is not None and heard.reply.usage.input > 0 and heard.reply.usage.output > 0


@pytest.mark.parametrize("model", ["codestral/codestral-latest", "groq/llama-3.3-70b-versatile"])
def test_providers_of_the_openai_form_answer_and_fetch_no_tokenizer(
    model: str, model_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tokenizers

    fetched: list[str] = []
    monkeypatch.setattr(tokenizers, "Tokenizer", Mock(from_pretrained=fetched.append))
    monkeypatch.setattr("litellm.utils.Tokenizer", Mock(from_pretrained=fetched.append), raising=False)
    model_server.load([{"text": "hello"}])
    heard = ask(model_server, "chat", model=model)
    assert heard.error is None and heard.reply.message.content == "hello"
    assert not fetched and len(model_server.requests) == 1


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize("write", sample([1, "utf8"], 3))
def test_a_stream_split_at_every_byte_is_the_same_answer(
    form: str, write: int | str, model_server: ScriptedServer
) -> None:
    model_server.load([{"text": "größe 漢字 🙂", "chunk": 3, "fragment": 1, "calls": CALLS, "write": write}])
    heard = ask(model_server, form)
    assert heard.error is None
    assert heard.reply.message.content == "größe 漢字 🙂"
    assert [c.arguments for c in heard.reply.message.tool_calls] == [{"at": "a"}, {"at": "ü"}]


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["chat", "anthropic"])
@pytest.mark.parametrize("arguments", ["", '{"at": "cut', "[1, 2]", '"{\\"at\\": \\"x\\"}"', "null", "no json"])
def test_arguments_of_any_kind_become_a_recorded_call(form: str, arguments: str, model_server: ScriptedServer) -> None:
    model_server.load([{"calls": [{"name": "look", "arguments": arguments}]}])
    heard = ask(model_server, form)
    assert heard.error is None
    (call,) = heard.reply.message.tool_calls
    expected: dict[str, tuple[dict[str, Any], str]] = {
        "": ({}, ""),
        "null": ({}, ""),
        '"{\\"at\\": \\"x\\"}"': ({"at": "x"}, ""),
    }
    assert (call.arguments, call.raw) == expected.get(arguments, ({}, arguments))


@pytest.mark.matrix
@pytest.mark.parametrize("ids", sample(["given", "missing", "empty", "same", "echoed"], 4))
@pytest.mark.parametrize("indexes", ["given", "missing"])
@pytest.mark.parametrize("fragment", [0, 1])
def test_calls_with_odd_ids_and_indexes_are_told_apart(
    ids: str, indexes: str, fragment: int, model_server: ScriptedServer
) -> None:
    if ids == "same" and indexes == "missing":
        pytest.skip("nothing on the wire tells these calls apart")
    model_server.load([{"calls": CALLS, "ids": ids, "indexes": indexes, "fragment": fragment}])
    heard = ask(model_server, "chat")
    assert heard.error is None
    assert [c.arguments for c in heard.reply.message.tool_calls] == [{"at": "a"}, {"at": "ü"}]


@pytest.mark.matrix
@FORMS
async def test_requests_one_after_another_share_a_connection_and_each_tells_what_it_used(
    form: str, model_server: ScriptedServer
) -> None:
    model_server.load(["one", "two", "three"])

    backend = LitellmBackend(api_base=model_server.base(form), api_key="k")
    replies = [(await hear(backend, request(MODELS[form]))).reply for _ in range(3)]
    await backend.aclose()
    assert [reply.message.content for reply in replies] == ["one", "two", "three"]
    assert len({r.connection for r in model_server.requests}) == 1
    used = [(u.input, u.output, u.cache_read) for reply in replies if (u := reply.usage)]
    assert used == [(r.tokens.input, r.tokens.output, r.tokens.cache_read) for r in model_server.requests]
    assert (used[2][2] > 0) is (form != "ollama"), "it tells of no cache"


def test_a_local_openai_server_needs_no_key_and_a_hosted_one_does(
    model_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> ProviderError | None:
        return (await hear(LitellmBackend(), request(MODELS["chat"]))).error

    monkeypatch.setenv("OPENAI_API_BASE", model_server.base("chat"))
    assert asyncio.run(run()) is None
    monkeypatch.setenv("OPENAI_API_BASE", "https://models.example.org/v1")
    error = asyncio.run(run())
    assert error is not None and error.kind == "auth" and "OPENAI_API_KEY" in error.hint
    assert len(model_server.requests) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("model", ["hosted_vllm/m", "lm_studio/m", "llamafile/m"])
async def test_servers_of_ones_own_need_no_key(model: str, model_server: ScriptedServer) -> None:
    model_server.load(["here"])
    backend = LitellmBackend(api_base=model_server.base("chat"))
    assert (await hear(backend, request(model))).reply.message.content == "here"
    assert model_server.requests[0].body["messages"] == list(ASKED)


QUIET = """
import asyncio, gc, os, sys
sys.path.insert(0, sys.argv[2])
from nexus_cli.core.request import Request
from nexus_cli.provider.litellm_backend import LitellmBackend
before = dict(os.environ)
async def main():
    for model in ("openai/unheard-of", "gpt-4o", "anthropic/unheard-of"):
        base = sys.argv[1] + ("" if "anthropic" in model else "/v1")
        backend = LitellmBackend(api_base=base, api_key="k")
        for _ in range(2):
            try:
                async for delta in backend.stream(Request(model, [{"role": "user", "content": "x"}], [], 10)): pass
            except Exception as error: assert type(error).__name__ == "ProviderError", error
asyncio.run(main())
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert gc.isenabled()
import logging, warnings
import litellm
assert "STOLEN" not in os.environ
warnings.warn("Pydantic serializer warnings: as litellm's own bookkeeping causes them", UserWarning)
logging.getLogger("LiteLLM").error("as litellm reports what we report ourselves")
"""


@pytest.mark.matrix
def test_nothing_is_printed_nothing_left_in_the_environment_and_no_env_file_read(
    tmp_path: Any, start_server: Any
) -> None:
    (tmp_path / ".env").write_text("STOLEN=1\nOPENAI_BASE_URL=http://127.0.0.1:1\n")
    server = start_server({"rules": [{"when": {"number": 2}, "then": {"fault": 500}}], "default": "fine"})
    done = subprocess.run(
        [sys.executable, "-c", QUIET, server.url, os.getcwd()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(server.requests) == 6


def test_collection_is_on_again_after_the_import() -> None:
    LitellmBackend().prepare()
    assert gc.isenabled()


@pytest.mark.matrix
def test_a_version_of_the_sdk_that_compares_parameters_elsewhere_is_used_as_it_is() -> None:
    code = (
        "from openai.resources.chat.completions import completions\n"
        "del completions.async_maybe_transform\n"
        "from nexus_cli.provider.litellm_backend import _fill_bodies\n"
        "_fill_bodies(); print(hasattr(completions, 'async_maybe_transform'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
