"""Children of the program, cheaply: one interpreter imports it once, with the model library, then forks every run.

A run is a process of its own, with its own descriptors, folder, environment and arguments, that begins in the program's
entry point. The script, the start of the interpreter and the imports are not in it: tests of these start the
installed script. Run as a program this module is the interpreter that forks, one of each kind for all processes of a
test run; `born` is the other end. The process of MCP servers that a run starts is forked too, from one that has
imported the SDK.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

ENGINES = ("json_page", "tour")
"""Modules of the command line that bring the engine along."""
ELSEWHERE = (
    "nexus_cli.__main__",
    *(f"nexus_cli.mcp.{name}" for name in ("answers", "connection", "host", "login", "stdio_server")),
    "nexus_cli.adapters.harbor_agent",
)
"""Modules that no run imports: they are programs of their own, or belong to the process of MCP servers."""
LATE = ("typer._click.decorators", "typer._click._textwrap", "getpass", "tomlkit", "tree_sitter_bash", "markdown_it")
"""Modules of others that runs import where they need them."""
SCRIPTED = "openai/scripted"
"""The model of most runs: to look it up in the library's table takes 20 ms."""
TESTS = Path(__file__).resolve().parent.parent
RUN = os.getpid()
"""Names the test run: this module is imported before its processes are forked."""
HOST = "nexus_cli.mcp.host"
"""The program that holds MCP servers, and the kind of the process that forks it."""
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
SPENT = [0.0]
"""CPU seconds of the runs that this process has waited for, with their children."""
HELD: list[socket.socket] = []
"""Connections that keep processes that fork alive."""
LIBRARIES: dict[str, Path] = {}
"""By the kind of a process that forks: a library that it and its runs load before libc."""


class Child:
    """A forked run; the part of `subprocess.Popen` that the tests use."""

    def __init__(self, channel: socket.socket, streams: list[IO[bytes] | None]) -> None:
        self._channel = channel
        self._lines = b""
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: Any = None
        self.pid = self._line(300.0)  # the first one waits for all the imports

    def _line(self, timeout: float | None) -> int:
        """The next number that comes from the other end; `subprocess.TimeoutExpired` when none comes in time."""
        self._channel.settimeout(timeout)
        while b"\n" not in self._lines:
            try:
                piece = self._channel.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("nexus", timeout or 0.0) from None
            assert piece, "the process that forks has ended"
            self._lines += piece
        line, _, self._lines = self._lines.partition(b"\n")
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative for a signal."""
        if self.returncode is None:
            self.returncode = self._line(timeout)
            SPENT[0] += self._line(300.0) / 1000
            self._channel.close()
        return int(self.returncode)

    def poll(self) -> int | None:
        """The same if it has ended, else None."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # its parent was faster with the end than with the status
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write `given` to its stdin, read its streams to their ends and wait; the timeout is for each silence."""
        feeder = threading.Thread(target=self._feed, args=(given or b"",), daemon=True)
        feeder.start()
        read = {stream: bytearray() for stream in (self.stdout, self.stderr) if stream}
        with selectors.DefaultSelector() as ready:
            for stream in read:
                ready.register(stream, selectors.EVENT_READ)
            while ready.get_map():
                events = ready.select(timeout)
                if not events:
                    raise subprocess.TimeoutExpired("nexus", timeout or 0.0)
                for key, _ in events:
                    piece = os.read(key.fd, 1 << 20)
                    if piece:
                        read[key.fileobj] += piece  # type: ignore[index]
                    else:
                        ready.unregister(key.fileobj)
        feeder.join(timeout)
        self.wait(timeout)
        stdout, stderr = (bytes(read[stream]) if stream else b"" for stream in (self.stdout, self.stderr))
        return stdout, stderr

    def _feed(self, given: bytes) -> None:
        if self.stdin:
            try:
                self.stdin.write(given)
                self.stdin.close()
            except BrokenPipeError:
                pass


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold off the other processes of the test run that start or end a process that forks."""
    with open(__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _nursery(kind: str) -> str:
    """The address of the process that forks. The first process of the test run to need it starts it, for all."""
    address = Path(tempfile.gettempdir(), f"nexus-{RUN}-{kind}")
    held = socket.socket(socket.AF_UNIX)
    HELD.append(held)
    process = None
    with _one_at_a_time():
        try:
            held.connect(str(address))
        except OSError:
            address.unlink(missing_ok=True)
            env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(address))
                listener.listen(64)
                process = subprocess.Popen(
                    [sys.executable, __file__, kind, str(address), str(listener.fileno())],
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    pass_fds=[listener.fileno()],
                    env=env | ({"LD_PRELOAD": str(LIBRARIES[kind])} if kind in LIBRARIES else {}),
                )
            held.connect(str(address))

    def close() -> None:
        for one in HELD:  # of all kinds: one may wait for another
            one.close()
        if process is not None:
            process.wait(120)

    atexit.register(close)
    return str(address)


def born(
    arguments: list[str], *, cwd: Path, env: dict[str, str], code: str = "", kind: str = "whole", **streams: Any
) -> Child:
    """A run of the program that has just begun; `code` is run in it first. Streams are PIPE, DEVNULL or descriptors.

    With the kind `light` the engine and the model library are not imported yet; with `whole`, `laws.elsewhere` is too.
    """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(_nursery(kind))
    theirs: list[int] = []
    ours: list[IO[bytes] | None] = []
    for name, mode in (("stdin", "wb"), ("stdout", "rb"), ("stderr", "rb")):
        given = streams.get(name, DEVNULL)
        if given == PIPE:
            read, write = os.pipe()
            mine, other = (write, read) if name == "stdin" else (read, write)
            ours.append(os.fdopen(mine, mode, buffering=-1 if name == "stdin" else 0))
        else:
            other = os.open(os.devnull, os.O_RDWR) if given == DEVNULL else os.dup(given)
            ours.append(None)
        theirs.append(other)
    job = {"arguments": arguments, "cwd": str(cwd), "env": env, "code": code, "session": bool(streams.get("session"))}
    socket.send_fds(channel, [b"+"], theirs)
    channel.sendall(json.dumps(job).encode() + b"\n")
    for descriptor in theirs:
        os.close(descriptor)
    return Child(channel, ours)


LAUNCHER = """
import os, signal, sys
sys.path.append({folder!r})
import nursery
for stream in range(3):
    try:
        os.fstat(stream)
    except OSError:
        os.open(os.devnull, os.O_RDWR)
nursery._nursery = lambda kind: {address!r}
sent = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: sent.append(number))
given = dict(cwd=os.getcwd(), env=dict(os.environ), stdin=0, stdout=1, stderr=2)
child = nursery.born(sys.argv[1:], **given, **{more!r})
for stream in range(3):
    os.close(stream)
while child.returncode is None:
    try:
        child.wait(0.5)
    except nursery.subprocess.TimeoutExpired:
        pass
    while sent:
        child.send_signal(sent.pop())
os._exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)
"""


def launching(kind: str, **more: Any) -> str:
    """Return the text of a program whose run is forked: it passes on its streams, folder, environment and signals."""
    return LAUNCHER.format(folder=str(Path(__file__).parent), address=_nursery(kind), more=more)


@cache
def launcher() -> Path:
    """Return a file that is run as `nexus` by a shell or another program: what it runs is forked from the nursery.

    It passes on its streams, its folder, its environment and the signals that end a program, but no other
    descriptors, limits or parents: a test of these starts the installed script.
    """
    folder = Path(tempfile.mkdtemp(prefix="nexus-bin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "nexus"
    # A shell reads the second line as a command, Python as a string.
    made.write_text(f"#!/bin/sh\n'''exec' '{sys.executable}' -I -S \"$0\" \"$@\"\n'''\n{launching('whole')}")
    made.chmod(0o755)
    return made


def run_born(
    arguments: list[str],
    *,
    cwd: Path,
    env: dict[str, str] | None = None,
    stdin: bytes | None = None,
    seconds: float = 300.0,
    **more: Any,
) -> subprocess.CompletedProcess[bytes]:
    """A run of the program to its end, in this process's environment unless `env` is another one."""
    pipes: dict[str, Any] = {"stdin": DEVNULL if stdin is None else PIPE, "stdout": PIPE, "stderr": PIPE}
    child = born(arguments, cwd=cwd, env=dict(os.environ) if env is None else env, **pipes, **more)
    stdout, stderr = child.communicate(stdin, timeout=seconds)
    for stream in filter(None, (child.stdout, child.stderr)):
        stream.close()
    return subprocess.CompletedProcess(arguments, child.wait(), stdout, stderr)


class Nursery:
    """The process that forks: a run for each job that arrives, until every connection has been closed."""

    def __init__(self, address: str, listener: socket.socket, prepare: Callable[[], None]) -> None:
        self.address = address
        self.prepare = cache(prepare)
        """Imports what every run needs, before the first."""
        self.listener = listener
        self.connections: set[socket.socket] = set()
        """Those that may ask for a run: one that only stays open for each process of the test run, others for a run."""
        self.runs: dict[int, socket.socket] = {}
        self.ended, self.signalled = socket.socketpair()
        self.events = selectors.DefaultSelector()
        for one in (listener, self.ended, self.signalled):
            one.setblocking(False)
        for one in (listener, self.ended):
            self.events.register(one, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.signalled.fileno())

    def serve(self) -> None:
        """Fork until nobody is left who could ask for a run."""
        begun = False
        while self.connections or not begun or not self._is_over():
            for key, _ in self.events.select():
                begun = True
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.ended:
                    self._collect()
                elif isinstance(key.fileobj, socket.socket):
                    self._answer(key.fileobj)
        signal.set_wakeup_fd(-1)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(True)
        self.connections.add(connection)
        self.events.register(connection, selectors.EVENT_READ)

    def _is_over(self) -> bool:
        """True if nobody has connected meanwhile, and nobody can from now on."""
        with _one_at_a_time():
            try:
                self._accept()
            except BlockingIOError:
                Path(self.address).unlink()
                return True
        return False

    def _answer(self, connection: socket.socket) -> None:
        """Fork the run that this connection asks for, and say its pid; forget a connection that was closed."""
        try:
            word, streams, _, _ = socket.recv_fds(connection, 1, 3)
        except ConnectionResetError:  # closed before it was told how its run ended
            word, streams = b"", []
        if not word:
            self.connections.discard(connection)
            self.events.unregister(connection)
            connection.close()
            return
        with connection.makefile("rb") as lines:
            line = lines.readline()
        if not line.endswith(b"\n"):  # it ended while it asked; the connection says so when it is next read
            for descriptor in streams:
                os.close(descriptor)
            return
        job = json.loads(line)
        self.prepare()
        pid = os.fork()
        if pid == 0:
            self._leave()
            live(job, streams)
        for descriptor in streams:
            os.close(descriptor)
        self.runs[pid] = connection
        self._tell(pid, pid)

    def _collect(self) -> None:
        """Say the status of every run that has ended, and its CPU time in milliseconds."""
        self.ended.recv(4096)
        while self.runs:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            self._tell(pid, os.waitstatus_to_exitcode(status), round((used.ru_utime + used.ru_stime) * 1000))
            del self.runs[pid]

    def _tell(self, run: int, *numbers: int) -> None:
        try:
            self.runs[run].sendall(b"".join(b"%d\n" % number for number in numbers))
        except OSError:  # whoever asked for the run has gone
            pass

    def _leave(self) -> None:
        """In a fork: let go of everything that is not the run's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.events.close()
        for one in (self.listener, self.ended, self.signalled, *self.connections, *HELD):
            one.close()


def main(kind: str, address: str, listener: socket.socket) -> None:
    """Import everything, or at the first run that starts MCP servers what these need, then fork."""
    if kind == HOST:
        Nursery(address, listener, partial(settle, "nexus_cli.__main__", HOST)).serve()
        return
    global RUN
    RUN = int(Path(address).name.split("-")[1])
    if kind == "light":
        for name in modules_in("nexus_cli.cli"):
            if not name.endswith(ENGINES):
                importlib.import_module(name)
        build_commands()
    else:
        import_product()
        fill_caches()
    hide_local_servers()
    fork_servers()
    if kind != "light":
        warm()
        try_sandbox()
    settle()
    Nursery(address, listener, lambda: None).serve()


def settle(*modules: str) -> None:
    """Import modules, and make forks of this process cheap."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page of this process
    use_huge_pages()


def fork_servers() -> None:
    """Have runs start the process of MCP servers by the launcher: to import the SDK takes 0.6 s of CPU."""
    from nexus_cli.mcp import host_process

    start = vars(host_process)["start_program_async"]
    code = f"import os, {HOST} as host; host.main(); os._exit(0)"
    text = launching(HOST, code=code, session=True)

    def start_host(argv: Sequence[str], **options: Any) -> Any:
        assert argv[-1] == HOST, argv
        return start([sys.executable, "-I", "-S", "-c", text], **options)

    vars(host_process)["start_program_async"] = start_host


def build_commands() -> None:
    """Build the commands whose modules are loaded, as the first run with each would."""
    from nexus_cli.cli import app

    app.build(completion=False)
    for name in app.COMMANDS:
        if app.find_module(name) in sys.modules:
            app.load_command(name)


def import_product() -> None:
    """Import every module of the program, and those of others that runs import where they need them."""
    import nexus_cli

    for module in pkgutil.walk_packages(nexus_cli.__path__, "nexus_cli."):
        if module.name not in ELSEWHERE:
            with suppress(ImportError):  # of a package that is not installed
                importlib.import_module(module.name)
    for name in LATE:
        with suppress(ImportError):  # typer has its own click since 0.26
            importlib.import_module(name)


def fill_caches() -> None:
    """Make what every process would make of the program's own files at its first use, whatever the run."""
    from nexus_cli import commands
    from nexus_cli.cli import app
    from nexus_cli.commands import forms
    from nexus_cli.text.terminal_sanitizer import sanitize
    from nexus_cli.tools import registry

    app.build(completion=False)
    for names in app.list_help_lines().values():
        for name in names:
            app.load_command(name)
    commands.discover()
    registry.past_tools()
    registry.find_foreign_tool("")
    for name in forms.MODULES:
        forms.forms_of(name)
    sanitize("\x1b")


def hide_local_servers() -> None:
    """Look for model servers where none listens, whatever this machine runs on their usual ports."""
    from nexus_cli.provider import local_servers as module

    hidden = (replace(one, url=one.url and "http://127.0.0.1:9") for one in module.SERVERS)
    module.local_servers.__defaults__ = (tuple(hidden),)


def warm() -> None:
    """Import what a run with a request would import, and load what it would keep, so that its forks need not."""
    import asyncio

    sys.path.append(str(TESTS))
    from preload import import_run

    importlib.import_module("laws.elsewhere")
    sys.path.remove(str(TESTS))
    from nexus_cli.conversation.tokens import counter
    from nexus_cli.provider.litellm_env import http_library
    from nexus_cli.provider.model_table import model_info

    os.environ.pop("SSL_CERT_FILE", None)  # runs have an environment of their own, and the library keeps one per file
    import_run()
    with suppress(ImportError):
        importlib.import_module("nexus_cli.acp.agent")
    gc.enable()
    http_library()
    counter._load("o200k_base")
    model_info(SCRIPTED)
    sys.modules["litellm.llms.custom_httpx.http_handler"].get_ssl_configuration()
    sys.modules["litellm.utils"]._rebuild_model_cost_lowercase_map()
    asyncio.run(request_once())
    sys.modules["litellm"].in_memory_llm_clients_cache.flush_cache()


def try_sandbox() -> None:
    """Test the sandbox once for all runs: each has a home of its own, in which no earlier success is kept."""
    from nexus_cli.config.paths import places
    from nexus_cli.sandbox import probe

    vars(probe)["_try_walls"] = cache(probe._try_walls)
    probe.find_backend("auto", own=places(), keep=False)


async def request_once() -> None:
    """Send one request with a tool to a server of this process, and read a call and the usage from its reply."""
    import asyncio

    from nexus_cli.core.request import Request
    from nexus_cli.provider.litellm_backend import LitellmBackend

    parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": "f", "description": "", "parameters": parameters}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [{"role": role, "content": "a"} for role in ("system", "user")]
    messages += [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "a"}]
    server = await asyncio.start_server(answer_once, "127.0.0.1")
    async with server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        backend = LitellmBackend(api_base=base, api_key="k")
        async for _ in backend.stream(Request(SCRIPTED, messages, [tool], 100)):
            pass
        await backend.aclose()


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with text, a call and what it used, as a provider streams them."""
    await reader.readuntil(b"\r\n\r\n")
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    chunk = {"id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    told: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "a", "tool_calls": [call]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": usage},
    ]
    body = "".join(f"data: {json.dumps({**chunk, **part})}\n\n" for part in told) + "data: [DONE]\n\n"
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    writer.write((head + body).encode())
    await writer.drain()
    writer.close()


def use_huge_pages() -> None:
    """Have the kernel keep this process in pages of 2 MB, where it can.

    Each fork copies the table of its pages and takes it down again: with pages of 4 KB half of what a short run costs.
    """
    collapse = 25  # MADV_COLLAPSE, from Linux 6.1 on
    try:
        mappings = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    for fields in map(str.split, mappings):
        if fields[1] == "rw-p" and (len(fields) == 5 or fields[5] == "[heap]"):
            begin, end = (int(address, 16) for address in fields[0].split("-"))
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), collapse)


def modules_in(package: str) -> list[str]:
    """Return the full names of the modules of a package."""
    path = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.iter_modules(path, f"{package}.")]


def live(job: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the program, once."""
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if job["session"]:
            os.setsid()
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        random.seed()
        tempfile.tempdir = None
        sys.argv = ["nexus", *job["arguments"]]
        import nexus_cli.__main__ as program

        exec(job["code"], {"program": program})
        program.main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(97)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], socket.socket(fileno=int(sys.argv[3])))
