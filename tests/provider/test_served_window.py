"""The window that a model server states, in the words of each server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from server.fixtures import Start

from nexus_cli.provider import served_window
from nexus_cli.provider.served_window import served_model_info

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
    monkeypatch.setattr(served_window, "_known", {})

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


@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_an_answer_without_a_window_leaves_the_window_assumed(at: Any, answer: Any) -> None:
    server = at({SHOW: answer, LIST: answer, LOADED: answer, PROPS: answer})
    names = ("ollama_chat/qwen9", "hosted_vllm/x", "lm_studio/x", "llamafile/x", "openai/x")
    for name in names * 2:
        info = served_model_info(name, {})
        assert (info.window, info.known) == (128_000, False), name
    assert len(server.others) == len(names)


def test_a_window_in_the_settings_and_a_hosted_model_are_not_asked_for(at: Any) -> None:
    server = at({SHOW: {"model_info": TRAINED}})
    assert served_model_info("ollama_chat/qwen9", {"qwen9": {"window": 9000}}).window == 9000
    assert served_model_info("openai/gpt-4o", {}).window == 128_000
    assert served_model_info("anthropic/claude-opus-9", {}).window
    assert not server.others


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
def test_a_server_that_answers_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(served_window, "SECONDS", 0.2)
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
        assert served_window.ask_json(f"http://127.0.0.1:{listener.getsockname()[1]}/api/show") == {}
        server.join(60)  # its connection is gone
        assert not server.is_alive()
        ended.set()


def test_a_server_that_is_away_is_asked_again(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_BASE", "http://127.0.0.1:9")
    assert not served_model_info("ollama_chat/qwen9", {}).known
    at({SHOW: {"model_info": TRAINED}})
    assert served_model_info("ollama_chat/qwen9", {}).window == 32768
