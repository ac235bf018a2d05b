"""The server as a program of its own, its log, and its bounds."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server.fixtures import Start
from server.play import ScriptedServer
from server.raw_client import PATHS, hear, post, request_body, request_bytes

PROGRAM = Path(__file__).with_name("__main__.py")


@contextmanager
def child(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The program, running; with its port."""
    with subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.kill()


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        line.sendall(request_bytes(PATHS["chat"], request_body("chat"), {"Authorization": "Bearer sk-seen"}))
        return hear(line).body


@pytest.mark.matrix
def test_the_program_serves_a_script_logs_and_ends_on_a_signal(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(["from a file"]), encoding="utf-8")
    with child("--script", str(script), "--port", "0", "--log", str(log)) as (process, port):
        assert b"from a file" in ask(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_log", timeout=120) as answer:
            (told,) = json.load(answer)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    (line,) = log.read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert record["headers"]["authorization"] == told["headers"]["authorization"] == "Bearer sk-seen"
    assert (record["body"], record["status"], record["closed_early"]) == (request_body("chat"), 200, False)


@pytest.mark.matrix
def test_the_program_refuses_a_wrong_script_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"txt": "x"}]', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--script", str(script)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1) and "txt" in done.stderr


@pytest.mark.matrix
def test_the_program_ends_by_itself_after_its_lifetime() -> None:
    with child("--lifetime", "0.2") as (process, _):
        assert process.wait(120) == 0


def test_after_its_last_request_the_server_stops_by_itself(start_server: Start) -> None:
    server = start_server(max_requests=2)
    assert [post(server, "chat").status for _ in range(3)] == [200, 200, 503]
    assert server.join(120)
    with pytest.raises(ConnectionRefusedError):
        post(server, "chat")


def test_closing_ends_open_answers_and_may_happen_twice() -> None:
    server = ScriptedServer([{"delay": 60}]).start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as line:
        line.sendall(request_bytes(PATHS["chat"], request_body("chat")))
        assert server.wait_for(lambda s: len(s.requests) == 1)
        server.close()
        server.close()
        assert hear(line).end in ("closed", "reset") and server.join(0)


def test_a_taken_port_is_an_error_at_the_start(model_server: ScriptedServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ScriptedServer(port=model_server.port).start()


def test_a_step_that_cannot_be_written_is_raised_at_the_end() -> None:
    with pytest.raises(AttributeError), ScriptedServer([{"text": 5}]) as server:
        assert post(server, "chat").end == "closed"


def test_only_loopback_is_listened_on(model_server: ScriptedServer) -> None:
    assert model_server.url == f"http://127.0.0.1:{model_server.port}"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", model_server.port), timeout=1)


@pytest.mark.matrix
def test_requests_at_the_same_time_are_all_kept_and_answered_apart(model_server: ScriptedServer) -> None:
    model_server.load(lambda body: {"text": body["messages"][0]["content"], "write": 7})
    texts = [f"caller {number} " * 50 for number in range(24)]
    answers: dict[str, str] = {}

    def call(text: str) -> None:
        heard = post(model_server, "chat", request_body("chat", text, stream=False))
        answers[text] = heard.json["choices"][0]["message"]["content"]

    threads = [threading.Thread(target=call, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == {text: text for text in texts}
    assert [request.number for request in model_server.requests] == list(range(1, 25))


def test_what_local_servers_are_asked_for_is_answered_and_the_rest_is_404(model_server: ScriptedServer) -> None:
    for path in ("/v1/models", "/api/tags", "/api/version"):
        with urllib.request.urlopen(model_server.url + path, timeout=120) as answer:
            assert json.load(answer)
    with socket.create_connection(("127.0.0.1", model_server.port), timeout=120) as line:
        for path, body, status in (
            ("/api/show", {}, 200),
            ("/v1/completions", {}, 404),
            (PATHS["chat"], b"no json", 400),
            (PATHS["chat"], {"messages": ["no object"]}, 400),
            (PATHS["gemini"], {"contents": 5}, 400),
        ):
            line.sendall(request_bytes(path, body))
            assert hear(line).status == status
    assert model_server.requests == [] and len(model_server.others) == 8


def test_raw_bytes_are_kept_and_a_chunked_request_is_read(model_server: ScriptedServer) -> None:
    data = json.dumps(request_body("chat"), indent=3).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", model_server.port), timeout=120) as line:
        line.sendall(head + b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n")
        assert hear(line).status == 200
    assert model_server.requests[0].raw == data and model_server.requests[0].body == request_body("chat")


@pytest.mark.parametrize(
    "garbage", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"]
)
def test_garbage_ends_its_connection_and_nothing_else(model_server: ScriptedServer, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", model_server.port), timeout=120) as line:
        line.sendall(garbage)
        line.shutdown(socket.SHUT_WR)
        assert line.recv(1) == b""
    assert post(model_server, "chat").status == 200
