"""The window that a model server states, in the words of each server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from server.fixtures import Start

from nexus_cli.config.paths import places
from nexus_cli.core.request import ModelInfo
from nexus_cli.provider import served_models
from nexus_cli.provider.served_models import list_served, served_model_info

SHOW, LIST, LOADED, PROPS = ("POST", "/api/show"), ("GET", "/v1/models"), ("GET", "/api/v0/models"), ("GET", "/props")
TRAINED = {"general.architecture": "qwen3", "qwen3.context_length": 32768, "qwen3.block_count": 48}
ROWS: Mapping[str, tuple[str, tuple[str, str], Any, int]] = {
    "Ollama": ("ollama_chat/qwen9", SHOW, {"model_info": TRAINED}, 32768),
    "a model file": ("ollama_chat/qwen9", SHOW, {"model_info": TRAINED, "parameters": "top_k 20\nnum_ctx  8192"}, 8192),
    "too much": ("ollama_chat/qwen9", SHOW, {"model_info": TRAINED, "parameters": "num_ctx 99999"}, 32768),
    "a long one": ("ollama_chat/qwen9", SHOW, {"model_info": {"x.context_length": 1_000_000}}, 131_072),
    "the other name": ("ollama/qwen9", SHOW, {"model_info": TRAINED}, 32768),
    "vLLM": ("hosted_vllm/q/coder", LIST, {"data": [{"id": "q"}, {"id": "q/coder", "max_model_len": 40960}]}, 40960),
    "vLLM as openai": ("openai/coder", LIST, {"data": [{"id": "coder", "max_model_len": 40960}]}, 40960),
    "LM Studio": ("lm_studio/coder", LOADED, {"data": [{"id": "coder", "max_context_length": 65536}]}, 65536),
    "as loaded": (
        "lm_studio/coder",
        LOADED,
        {"data": [{"id": "coder", "max_context_length": 65536, "loaded_context_length": 4096}]},
        4096,
    ),
    "llama.cpp": ("llamafile/any", PROPS, {"default_generation_settings": {"n_ctx": 24576}}, 24576),
}
NO_ANSWERS: list[Any] = [
    {"error": "model not found"},
    {"model_info": []},
    {"model_info": {"x.context_length": "32768"}, "parameters": "num_ctx many"},
    {"parameters": "num_ctx abc 5\nnum_ctx " + "9" * 5000},
    {"parameters": "num_ctx 99999999999", "model_info": {"x.context_length": 10**30}},
    {"model_info": {"x.context_length": -4096}, "parameters": "num_ctx -1"},
    ["data"],
    {"data": {"id": "x"}},
]


@pytest.fixture(autouse=True)
def at(monkeypatch: pytest.MonkeyPatch, start_server: Start) -> Any:
    served_models._find_record.cache_clear()

    def start(answers: Mapping[tuple[str, str], Any]) -> Any:
        server = start_server(answers=answers)
        monkeypatch.setenv("OLLAMA_API_BASE", f"{server.url}/")
        for name in ("OPENAI_API_BASE", "HOSTED_VLLM_API_BASE", "LM_STUDIO_API_BASE", "LLAMAFILE_API_BASE"):
            monkeypatch.setenv(name, server.base("chat"))
        return server

    return start


@pytest.mark.parametrize("row", ROWS)
def test_each_server_is_asked_once_in_its_own_way(at: Any, row: str) -> None:
    name, place, answer, window = ROWS[row]
    server = at({place: answer})
    found = [served_model_info(name, {}) for _ in range(2)]
    assert [(info.window, info.known) for info in found] == [(window, True)] * 2
    assert [(one.method, one.path) for one in server.others] == [place]


@pytest.mark.matrix
@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_an_answer_without_a_window_leaves_the_window_assumed(at: Any, answer: Any) -> None:
    server = at({SHOW: answer, LIST: answer, LOADED: answer, PROPS: answer})
    names = ("ollama_chat/qwen9", "hosted_vllm/x", "lm_studio/x", "llamafile/x", "openai/x")
    for name in names * 2:
        info = served_model_info(name, {})
        assert (info.window, info.known) == (128_000, False), name
    # One address has one list, whatever its models are called by.
    assert [one.path for one in server.others] == ["/api/show", "/v1/models", "/api/v0/models", "/props"]


def test_a_window_in_the_settings_and_a_hosted_model_are_not_asked_for(
    at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = at({SHOW: {"model_info": TRAINED}})
    assert served_model_info("ollama_chat/qwen9", {"qwen9": {"window": 9000}}).window == 9000
    assert served_model_info("anthropic/claude-opus-9", {}).window
    monkeypatch.setenv("OPENAI_API_BASE", "https://api.openai.com/v1")
    assert served_model_info("openai/gpt-4o", {}).window == 128_000 and list_served("openai") == []
    monkeypatch.delenv("OPENAI_API_BASE")
    assert served_model_info("openai/gpt-4o", {}).window == 128_000 and list_served("openai") == []
    assert not server.others


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
def test_a_server_that_answers_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(served_models, "SECONDS", 0.2)
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        with connection, suppress(OSError):
            connection.sendall(head)
            while not ended.wait(0.02):
                connection.sendall(b" " if head else b"HTTP")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,), daemon=True)
        server.start()
        assert served_models.ask_json(f"http://127.0.0.1:{listener.getsockname()[1]}/api/show") == {}
        server.join(60)  # its connection is gone
        assert not server.is_alive()
        ended.set()


def test_a_server_that_is_away_is_asked_again(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_BASE", "http://127.0.0.1:9")
    assert not served_model_info("ollama_chat/qwen9", {}).known
    at({SHOW: {"model_info": TRAINED}})
    assert served_model_info("ollama_chat/qwen9", {}).window == 32768


LLAMA_LIST = {
    "object": "list",
    "models": [{"name": "qwen.gguf", "model": "qwen.gguf", "capabilities": ["completion"]}],
    "data": [
        {
            "id": "qwen.gguf",
            "object": "model",
            "created": 1764000000,
            "owned_by": "llamacpp",
            "meta": {
                "vocab_type": 2,
                "n_vocab": 151936,
                "n_ctx_train": 262144,
                "n_embd": 2048,
                "n_params": 30532122624,
            },
        }
    ],
}
LLAMA_PROPS = {
    "default_generation_settings": {"id": 0, "n_ctx": 16384, "speculative": False},
    "total_slots": 4,
    "model_path": "/models/qwen.gguf",
    "modalities": {"vision": True, "audio": False},
}
VLLM_LIST = {
    "object": "list",
    "data": [
        {
            "id": "Qwen/Qwen3-Coder",
            "object": "model",
            "created": 1764000000,
            "owned_by": "vllm",
            "root": "Qwen/Qwen3-Coder",
            "parent": None,
            "max_model_len": 65536,
            "permission": [{"id": "modelperm-1", "object": "model_permission", "allow_view": True}],
        }
    ],
}
LITELLM_LIST = {
    "data": [{"id": "team-fast", "object": "model", "created": 1677610602, "owned_by": "openai"}],
    "object": "list",
}
LITELLM_INFO = {
    "data": [
        {
            "model_name": "team-fast",
            "litellm_params": {"model": "azure/gpt-5-mini", "use_in_pass_through": False},
            "model_info": {
                "id": "9f2c",
                "db_model": False,
                "mode": "chat",
                "max_tokens": 16384,
                "max_input_tokens": 272000,
                "max_output_tokens": 16384,
                "input_cost_per_token": 2.5e-07,
                "output_cost_per_token": 2e-06,
                "supports_vision": True,
                "supports_function_calling": True,
            },
        }
    ]
}
OLLAMA_LIST = {
    "object": "list",
    "data": [{"id": "qwen3:8b", "object": "model", "created": 1764000000, "owned_by": "library"}],
}
OLLAMA_SHOWN = {
    "model_info": TRAINED,
    "parameters": "num_ctx    16384",
    "capabilities": ["completion", "vision", "tools"],
}
STUDIO_LIST = {
    "data": [{"id": "qwen2-vl-7b-instruct", "object": "model", "owned_by": "organization_owner"}],
    "object": "list",
}
STUDIO_LOADED = {
    "object": "list",
    "data": [
        {
            "id": "qwen2-vl-7b-instruct",
            "object": "model",
            "type": "vlm",
            "publisher": "mlx-community",
            "arch": "qwen2_vl",
            "compatibility_type": "mlx",
            "quantization": "4bit",
            "state": "loaded",
            "max_context_length": 32768,
            "loaded_context_length": 8192,
        }
    ],
}
GATEWAY_ROW = {
    "id": "vendor/model-7",
    "name": "Vendor: Model 7",
    "context_length": 200000,
    "architecture": {"modality": "text+image->text", "input_modalities": ["text", "image"], "tokenizer": "Other"},
    "pricing": {"prompt": "0.000003", "completion": "0.000015", "request": "0", "image": "0"},
    "top_provider": {"context_length": 131072, "max_completion_tokens": 32768, "is_moderated": False},
    "supported_parameters": ["max_tokens", "tools", "tool_choice"],
}
GATEWAY_LIST = {"data": [{**GATEWAY_ROW, "id": f"vendor/model-{number}"} for number in range(400)]}
FREE, GATEWAY_PRICE = (0.0, 0.0), (3.0, 15.0)
AS_OPENAI: Mapping[str, tuple[str, Mapping[tuple[str, str], Any], int, bool, tuple[float, float]]] = {
    "llama.cpp": ("qwen.gguf", {LIST: LLAMA_LIST, PROPS: LLAMA_PROPS}, 16384, True, FREE),
    "vLLM": ("Qwen/Qwen3-Coder", {LIST: VLLM_LIST}, 65536, False, FREE),
    "LiteLLM": ("team-fast", {LIST: LITELLM_LIST, ("GET", "/model/info"): LITELLM_INFO}, 272000, True, (0.25, 2.0)),
    "Ollama": ("qwen3:8b", {LIST: OLLAMA_LIST, SHOW: OLLAMA_SHOWN}, 16384, True, FREE),
    "LM Studio": ("qwen2-vl-7b-instruct", {LIST: STUDIO_LIST, LOADED: STUDIO_LOADED}, 8192, True, FREE),
    "a gateway": ("vendor/model-7", {LIST: GATEWAY_LIST}, 131072, True, GATEWAY_PRICE),
}


def figures(info: ModelInfo) -> tuple[int, bool, tuple[float | None, float | None]]:
    return info.window, info.images, (info.input_price, info.output_price)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", AS_OPENAI)
def test_a_server_behind_the_address_of_openai_is_known_by_its_list(at: Any, kind: str) -> None:
    name, answers, window, images, prices = AS_OPENAI[kind]
    server = at(answers)
    for _ in range(2):
        info = served_model_info(f"openai/{name}", {})
        assert figures(info) == (window, images, prices) and info.known
        assert f"openai/{name}" in list_served("openai") and not info.list_price
    assert [(one.method, one.path) for one in server.others] == list(answers)
    mine = served_model_info(f"openai/{name}", {name: {"input_price": 9.0, "images": False}})
    assert (mine.window, mine.images, mine.input_price) == (window, False, 9.0)


def test_the_price_of_a_gateway_on_this_machine_is_unknown_where_it_states_none(at: Any) -> None:
    at({LIST: {"data": [{"id": "some-model", "owned_by": "somebody"}]}})
    assert served_model_info("openai/some-model", {}).input_price is None


def test_a_price_of_the_public_list_is_told_from_one_of_the_server(at: Any) -> None:
    at({LIST: {"data": [{"id": "gpt-4o", "max_model_len": 5000}]}})
    info = served_model_info("openai/gpt-4o", {})
    assert info.window == 5000 and info.input_price == 2.5 and info.list_price


@pytest.mark.matrix
def test_the_answer_of_another_machine_is_kept_for_a_day_by_address_and_key(
    at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = at({LIST: GATEWAY_LIST})
    monkeypatch.setattr(served_models, "is_loopback", lambda _: False)
    now = 1e9
    monkeypatch.setattr("nexus_cli.provider.served_models.time.time", lambda: now)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")

    def ask(name: str = "openai/vendor/model-7") -> int:
        """The questions so far, after one by a new process."""
        served_models._find_record.cache_clear()
        assert served_model_info(name, {}, waits=True).known == ("vendor" in name)
        assert len(list_served("openai")) == 400
        return len(server.others)

    assert (ask(), ask()) == (1, 1)
    (kept,) = (places().cache / "servers").iterdir()
    assert b"sk-first-key" not in kept.read_bytes() and kept.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other-key")
    assert (ask(), ask()) == (2, 2)
    assert ask("openai/added-since") == 2
    now += 601
    assert (ask(), ask("openai/added-since"), ask("openai/added-since")) == (2, 3, 3)
    kept.write_bytes(b"[broken")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")
    assert (ask(), ask()) == (4, 4)
    now += 86_401
    assert ask() == 5
    server.close()
    now += 86_401
    assert ask() == 5


def test_a_server_on_another_machine_is_not_waited_for(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = threading.Event()

    def answer() -> Any:
        may_answer.wait(60)
        return GATEWAY_LIST

    server = at({LIST: answer})
    monkeypatch.setattr(served_models, "is_loopback", lambda _: False)
    monkeypatch.setattr(served_models, "SECONDS", 60.0)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")
    names = ["openai/vendor/model-7", "openai/vendor/model-8", "openai/vendor/model-7"]
    assert [(info.pending, info.window) for info in (served_model_info(one, {}) for one in names)] == [
        (True, 128_000)
    ] * 3
    may_answer.set()
    waited = served_model_info(names[0], {}, waits=True)
    told = [served_model_info(one, {}) for one in names]
    assert [(info.pending, info.window) for info in (waited, *told)] == [(False, 131_072)] * 4
    assert len(server.others) == 1


def test_an_answer_too_old_to_rely_on_stands_in_until_the_next_one(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at({LIST: GATEWAY_LIST})
    monkeypatch.setattr(served_models, "is_loopback", lambda _: False)
    now = 1e9
    monkeypatch.setattr("nexus_cli.provider.served_models.time.time", lambda: now)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")
    served_model_info("openai/vendor/model-7", {}, waits=True)
    now += 86_401
    served_models._find_record.cache_clear()
    info = served_model_info("openai/vendor/model-7", {})
    assert (info.pending, info.window) == (False, 131_072)


def test_nothing_is_kept_of_a_server_where_nothing_is_saved(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at({LIST: GATEWAY_LIST})
    monkeypatch.setattr(served_models, "is_loopback", lambda _: False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")
    assert served_model_info("openai/vendor/model-7", {}, waits=True, saves=False).window == 131_072
    assert not (places().cache / "servers").exists()


@pytest.mark.parametrize(
    ("name", "answers", "takes_tools"),
    [
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED, "capabilities": ["completion"]}}, False),
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED, "capabilities": ["completion", "tools"]}}, True),
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED}}, True),
        ("openai/qwen3:8b", {LIST: OLLAMA_LIST, SHOW: {**OLLAMA_SHOWN, "capabilities": ["completion"]}}, False),
        ("openai/vendor/model-7", {LIST: GATEWAY_LIST}, True),
        ("openai/x", {LIST: {"data": [{**GATEWAY_ROW, "id": "x", "supported_parameters": ["top_p"]}]}}, False),
    ],
)
def test_a_server_states_whether_a_model_takes_tools(
    at: Any, name: str, answers: Mapping[tuple[str, str], Any], takes_tools: bool
) -> None:
    at(answers)
    assert served_model_info(name, {}).tools is takes_tools
    assert served_model_info(name, {name: {"tools": True}}).tools


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "answers", "blind"),
    [
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED, "capabilities": ["completion", "tools"]}}, True),
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED, "capabilities": ["completion", "vision"]}}, False),
        ("ollama_chat/qwen9", {SHOW: {"model_info": TRAINED}}, False),
        ("lm_studio/coder", {LOADED: {"data": [{"id": "coder", "type": "llm", "state": "loaded"}]}}, True),
        ("openai/qwen2-vl-7b-instruct", {LIST: STUDIO_LIST, LOADED: STUDIO_LOADED}, False),
        ("openai/vendor/model-7", {LIST: GATEWAY_LIST}, False),
    ],
)
def test_a_server_states_whether_a_model_sees_nothing(
    at: Any, name: str, answers: Mapping[tuple[str, str], Any], blind: bool
) -> None:
    at(answers)
    assert served_model_info(name, {}).blind is blind
    assert not served_model_info(name, {name: {"images": True}}).blind
    assert served_model_info(name, {name: {"images": False}}).blind
