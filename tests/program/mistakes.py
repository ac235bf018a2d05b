"""The mistakes that a newcomer makes, as data: what is typed, what is wrong around it, and where it is wrong.

`test_mistakes.py` runs them; what nexus answers stands in `mistakes.txt`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from program.rows import KEYLESS, fault
from program.stage import MODEL, PRICED, QUICK, Stage, end, until
from programs import need
from server.firm_proxy import FirmProxy, make_ca
from server.play import closed_port

Env = dict[str, str | None]
Around = Callable[[Stage], Any]
"""A context manager around the run: what is wrong on the machine. It returns changes of the environment."""

CLAUDE = "anthropic/claude-sonnet-4-5"
ONCE = QUICK.replace("retries = 1", "retries = 0") + PRICED
"""Without a second try of the same request."""
PAGE = b"<html><head><title>Welcome</title></head><body><h1>It works!</h1><p>nginx</p></body></html>"
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\3\1\1\0\xc9\xfe\x92\xef"
    b"\0\0\0\0IEND\xaeB`\x82"
)


@dataclass(frozen=True)
class Mistake:
    """One mistake and the command line with which a person meets it."""

    name: str
    line: tuple[str, ...] = ("ask", "hi")
    script: Any = None
    settings: str = ONCE
    env: Env = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes | None = None
    around: Around | None = None
    code: str = ""
    """Python that runs in the program first."""
    interrupted: bool = False
    """With Ctrl+C, once the answer comes."""
    linux: bool = False
    """Needs /proc, or a namespace."""
    dear: bool = False
    """Only in the full matrix: it starts more than the program, waits, or is held by a row of another test."""


@contextmanager
def answering(status: str, body: bytes, kind: str = "text/html") -> Iterator[str]:
    """A server that is no API: it answers every request with `body`. Yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.settimeout(5)
                try:
                    client.recv(1 << 20)
                    client.sendall(head.encode() + body)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def web_page(place: Stage) -> Iterator[Env]:
    with answering("200 OK", PAGE) as url:
        yield {"OPENAI_API_BASE": f"{url}/v1"}


@contextmanager
def bad_gateway(place: Stage) -> Iterator[Env]:
    body = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1>nginx</body></html>"
    with answering("502 Bad Gateway", body) as url:
        yield {"OPENAI_API_BASE": f"{url}/v1"}


@contextmanager
def address_without_path(place: Stage) -> Iterator[Env]:
    with answering("404 Not Found", b'{"detail":"Not Found"}', "application/json") as url:
        yield {"OPENAI_API_BASE": url}


@contextmanager
def proxy_with_password(place: Stage) -> Iterator[Env]:
    with FirmProxy(place.server.port, login="me:secret") as proxy:
        yield {"HTTP_PROXY": proxy.url, "NO_PROXY": None, "OPENAI_API_BASE": "http://models.example/v1"}


@contextmanager
def own_certificate(place: Stage) -> Iterator[Env]:
    need("openssl")
    with FirmProxy(place.server.port, make_ca(place.home), host="127.0.0.1") as server:
        yield {"OPENAI_API_BASE": f"https://127.0.0.1:{server.port}/v1"}


@contextmanager
def name_not_found(place: Stage) -> Iterator[Env]:
    """No resolver is asked: what names end in `.invalid` never exist."""
    yield {"OPENAI_API_BASE": "http://models.invalid/v1"}


@contextmanager
def server_down(place: Stage) -> Iterator[Env]:
    yield {"OPENAI_API_BASE": f"http://127.0.0.1:{closed_port()}/v1"}


@contextmanager
def ollama_down(place: Stage) -> Iterator[Env]:
    yield {"OLLAMA_API_BASE": f"http://127.0.0.1:{closed_port()}"}


@contextmanager
def ollama_up(place: Stage) -> Iterator[Env]:
    yield {"OLLAMA_API_BASE": place.server.base("ollama")}


@contextmanager
def proxy_down(place: Stage) -> Iterator[Env]:
    yield {"HTTPS_PROXY": f"http://127.0.0.1:{closed_port()}", "OPENAI_API_BASE": "https://models.example/v1"}


@contextmanager
def file_for_home(place: Stage) -> Iterator[Env]:
    (place.home / "file").write_text("")
    yield {"NEXUS_HOME": str(place.home / "file")}


@contextmanager
def open_elsewhere(place: Stage) -> Iterator[Env]:
    """A first nexus works in the session."""
    place.script({"default": {"text": "word ", "repeat": 4000, "pace": 0.02}})
    child = place.begin("ask", "hi")
    try:
        assert until(lambda: bool(place.server.requests) and place.server.requests[0].sent > 500)
        yield {}
    finally:
        end(child)


@contextmanager
def without_git(place: Stage) -> Iterator[Env]:
    empty = place.home / "bin"
    empty.mkdir()
    yield {"PATH": str(empty)}


FULL_DISK = """
import ctypes, os
libc, home = ctypes.CDLL(None, use_errno=True), os.environ["NEXUS_HOME"]
user = os.getuid()
assert libc.unshare(0x20000 | (0x10000000 if user else 0)) == 0
if user:
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {os.getgid()} 1")):
        open(f"/proc/self/{name}", "w").write(text)
assert libc.mount(None, b"/", None, 0x44000, None) == 0
assert libc.mount(b"tmpfs", home.encode(), b"tmpfs", 0, b"size=64k") == 0
open(f"{home}/full", "wb", 0).write(bytes(65536))
"""
"""Python that gives the program a home on a full disk, in a mount namespace of its own."""

FOREIGN_KEY = "sk-ant-api03-" + "a" * 40
IMAGE_REFUSED = {"status": 400, "message": "Invalid content type. image_url is only supported by certain models."}
NO_TOOLS = {"status": 400, "message": "registry.ollama.ai/library/gemma:2b does not support tools"}
NOT_PULLED = {"status": 404, "message": "model 'qwen3' not found"}
REGION = {"status": 403, "message": "Country, region, or territory not supported", "code": "unsupported_country"}
QUOTA = {"status": 429, "message": "You exceeded your current quota, please check your plan and billing details."}
SECONDS_LONG = {"default": {"text": "late", "delay": 40}}
SLOW = {"default": {"text": "word ", "repeat": 4000, "pace": 0.02}}
WINDOW = f'[models."{MODEL}"]\nwindow = 1200\n'

MISTAKES = (
    # the model and its key
    Mistake("no key and no model", env=KEYLESS, settings=""),
    Mistake("unknown provider", ("ask", "-m", "gtp-5", "hi")),
    Mistake(
        "unknown model",
        ("ask", "-m", "openai/gtp-5", "hi"),
        fault({"status": 404, "message": "The model `gtp-5` does not exist or you do not have access to it."}),
    ),
    Mistake("no key for this provider", ("ask", "-m", CLAUDE, "hi")),
    Mistake("wrong key", script=fault({"status": 401, "message": "Incorrect API key provided: sk-nobody."})),
    Mistake(
        "key of another provider",
        script=fault({"status": 401, "message": "Incorrect API key provided: sk-ant-a***aaaa."}),
        env={"OPENAI_API_KEY": FOREIGN_KEY},
    ),
    Mistake("key with a blank", ("login", "openai"), stdin=b"my secret key\n"),
    Mistake("key as an argument", ("login", "openai", "sk-proj-" + "a" * 40)),
    Mistake("login at an unknown provider", ("login", "opnai"), stdin=b"sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa\n"),
    Mistake("no credit", script=fault({"status": 402, "message": "Insufficient Balance"})),
    Mistake("quota used up", script=fault(QUOTA)),
    Mistake("too many requests", script=fault({"status": 429, "message": "Rate limit reached for requests"})),
    Mistake("overloaded", script=fault(529)),
    Mistake("provider broken", script=fault(500)),
    Mistake("region not served", script=fault(REGION)),
    Mistake("model without tools", script=fault(NO_TOOLS)),
    Mistake(
        "model without vision",
        ("ask", "-f", "shot.png", "what is this?"),
        [{"text": "", "fault": IMAGE_REFUSED}, "No image has come."],
        files={"shot.png": PNG},
    ),
    Mistake("empty answer", script={"default": {"text": ""}}),
    # the network
    Mistake("name not found", around=name_not_found),
    Mistake("server down", around=server_down),
    Mistake("address without a scheme", env={"OPENAI_API_BASE": "localhost:8000/v1"}),
    Mistake("address without /v1", around=address_without_path),
    Mistake("address of a web page", around=web_page),
    Mistake("gateway's error page", around=bad_gateway),
    Mistake("proxy down", around=proxy_down),
    Mistake("proxy wants a password", around=proxy_with_password),
    Mistake("certificate not trusted", around=own_certificate, dear=True),
    Mistake("server closes", script=fault("close_before_head")),
    Mistake("server never answers", ("ask", "--timeout", "1", "hi"), SECONDS_LONG),
    Mistake("local server down", ("ask", "-m", "ollama_chat/qwen3", "hi"), around=ollama_down),
    Mistake(
        "local model not pulled",
        ("ask", "-m", "ollama_chat/qwen3", "hi"),
        {"default": {"text": "", "fault": NOT_PULLED}},
        around=ollama_up,
    ),
    # the command line
    Mistake("misspelt option", ("ask", "--modle", "x", "hi")),
    Mistake("option that none is like", ("ask", "--deny", "x", "hi")),
    Mistake("misspelt command", ("sesions",)),
    Mistake("help as a command", ("help",)),
    Mistake("forgotten ask", ("fix the failing test",)),
    Mistake("option of another command", ("--json", "ask", "hi")),
    Mistake("unknown level", ("ask", "--allow", "yes", "hi")),
    Mistake("unknown effort", ("ask", "--effort", "ultra", "hi")),
    Mistake("cost that is no number", ("ask", "--max-cost", "5$", "hi")),
    Mistake("time with a unit", ("ask", "--timeout", "1m", "hi")),
    Mistake("no such folder", ("ask", "-C", "nowhere", "hi")),
    Mistake("no terminal", ("--verbose",), stdin=b""),
    Mistake("missing file", ("ask", "-f", "nope.py", "hi")),
    Mistake("folder for a file", ("ask", "-f", ".", "hi")),
    Mistake("file that cannot be read", ("ask", "-f", "/proc/self/mem", "hi"), linux=True),
    Mistake("schema missing", ("ask", "--schema", "nope.json", "hi")),
    Mistake(
        "schema that is no schema", ("ask", "--schema", "bad.json", "hi"), files={"bad.json": b'{"type": "strng"}'}
    ),
    Mistake("schema that is no JSON", ("ask", "--schema", "bad.json", "hi"), files={"bad.json": b"name: string"}),
    Mistake("empty stdin", ("ask",), stdin=b""),
    Mistake("binary stdin", ("ask", "explain"), stdin=bytes(range(256)) * 8),
    Mistake("huge stdin", ("ask", "--require-full-input", "explain"), stdin=b"word word\n" * 200_000),
    # sessions and settings
    Mistake("unknown session", ("ask", "-r", "ZZZ999", "hi")),
    Mistake("nothing to continue", ("ask", "-c", "hi")),
    Mistake("session open elsewhere", ("ask", "-c", "hi"), around=open_elsewhere, dear=True),
    Mistake("unknown recipe", ("ask", "--recipe", "coder", "hi")),
    Mistake("unknown key name", ("ask", "-m", "work:openai/gpt-5.6", "hi")),
    Mistake("broken settings", settings='model = "openai/gpt-5.6\nallow = "ask"\n'),
    Mistake("unknown setting", settings=ONCE.replace("[provider]", 'modle = "x"\n[provider]')),
    Mistake("setting of a wrong type", settings='[limits]\nmax_steps = "many"\n'),
    Mistake("unknown setting in config set", ("config", "set", "modle", "x")),
    Mistake("unknown setting in config get", ("config", "get", "nope")),
    Mistake("unknown value in config set", ("config", "set", "allow", "yes")),
    Mistake("window too small", settings=ONCE.replace("window = 128000", "window = 1200")),
    Mistake(
        "price unknown",
        ("ask", "--max-cost", "1", "-m", "mistral/unlisted", "hi"),
        env={"MISTRAL_API_KEY": "sk-nobody"},
    ),
    # the machine
    Mistake("home that is not there", env={"HOME": "/proc/nowhere", "NEXUS_HOME": None}, linux=True),
    Mistake("home that is a file", around=file_for_home),
    Mistake("full disk", code=FULL_DISK, linux=True),
    Mistake("no git", ("ask", "-w", "try", "hi"), around=without_git),
    Mistake("no repository", ("ask", "-w", "try", "hi")),
    Mistake(
        "program of a server missing",
        ("mcp", "test", "notes"),
        settings=ONCE + '[mcp.notes]\ncommand = ["notes-server"]\n',
    ),
    Mistake("interrupted", script=SLOW, interrupted=True),
    Mistake("nothing to undo", ("undo",)),
    Mistake("nothing to export", ("export",)),
    Mistake("file named like an option", ("map", "sum up", "a.txt", "-rf.txt"), files={"-rf.txt": b"x"}),
    Mistake("unknown page", ("docs", "seting")),
    Mistake("folder of nobody", ("-C", "~nobody-of-this-name/project", "ask", "hi")),
    Mistake("import without settings", ("import", "codex")),
    Mistake("command missing", ("mcp", "ad", "x")),
    Mistake("server with an option behind its name", ("mcp", "add", "web", "--url", "https://x.y/mcp")),
    Mistake("server with a variable behind its name", ("mcp", "add", "notes", "-e", "K=v", "--", "notes-server")),
    Mistake("server with a scope", ("mcp", "add", "--scope", "user", "notes", "--", "notes-server")),
    Mistake("server with an option behind its URL", ("mcp", "add", "web", "https://x.y/mcp", "--header", "A: b")),
    Mistake(
        "server with an option of another program", ("mcp", "add", "--transport", "http", "web", "https://x.y/mcp")
    ),
    Mistake("unknown session for export", ("export", "page.html")),
    Mistake("cron that is none", ("schedule", "add", "tests", "--cron", "every day")),
    Mistake("no server to connect to", ("--connect", "http://127.0.0.1:9")),
    Mistake("rule that is none", ("rules", "add", "bash(npm test")),
)
