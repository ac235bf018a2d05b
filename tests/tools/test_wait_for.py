"""`wait_for`: what it waits for, what holds already, what it refuses; and the looks at files, processes, addresses."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.paths import places
from nexus_cli.core.duration import MAX_SECONDS, format_duration, parse_duration
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Waits
from nexus_cli.core.tool import ToolContext
from nexus_cli.permission.permission import decide
from nexus_cli.tools import wait_conditions
from nexus_cli.tools.builtin.wait_for import LONGEST_WHY
from nexus_cli.tools.registry import discover_tools
from nexus_cli.tools.schema import check_arguments
from nexus_cli.tools.wait_conditions import (
    POLLED,
    check_url,
    describe_process,
    file_state,
    host_headers,
    is_running,
    look,
)

TOOL = discover_tools()["wait_for"]
NOW = 1_800_000_000.0


class Clock:
    """A session that may wait."""

    def now(self) -> float:
        return NOW

    def refusal(self) -> str:
        return ""


def call(folder: Path, **arguments: Any) -> ToolResult:
    targets = {arguments["file"]: folder / arguments["file"]} if "file" in arguments else {}
    context = ToolContext(folder, folder, 1000, "c", print, {Waits: Clock()}, targets=targets)

    async def made() -> ToolResult:
        return await TOOL.run(check_arguments(arguments, TOOL.parameters)[0], context)

    return asyncio.run(made())


def wait_of(result: ToolResult) -> Any:
    assert result.waits is not None, result
    return result.waits["wait"]


def test_a_file_is_waited_for_as_it_was_then(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for before, change, how in (
        (None, lambda: path.write_text("x"), "has appeared"),
        ("x", lambda: path.write_text("longer"), "has changed"),
        ("longer", lambda: os.utime(path, ns=(1, 1)), "has changed"),
        ("longer", path.unlink, "has disappeared"),
    ):
        wait = wait_of(call(tmp_path, file="a"))
        assert {**wait["value"], "machine": ""} == {
            "path": str(path),
            "event": "changes",
            "before": file_state(path),
            "machine": "",
        }, before
        assert look("file", wait["value"]) is None
        change()
        came = look("file", wait["value"])
        assert came is not None and came["how"] == how
    assert look("file", wait_of(call(tmp_path, file="a", event="appears"))["value"]) is None
    assert call(tmp_path, file="a", event="disappears").waits is None, "it is gone already"


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    os.utime(path, ns=(5, 5))
    wait = wait_of(call(tmp_path, file="a"))
    (tmp_path / "b").write_text("2")
    os.utime(tmp_path / "b", ns=(5, 5))
    os.replace(tmp_path / "b", path)
    assert look("file", wait["value"]) is not None


@pytest.mark.parametrize("name", ["id_rsa", "id_*"])
def test_a_folder_that_becomes_a_link_tells_nothing_of_what_it_leads_to(tmp_path: Path, name: str) -> None:
    for folder in ("keys", "sub"):
        (tmp_path / folder).mkdir()
    (tmp_path / "keys/id_rsa").write_text("a secret")
    wait = wait_of(call(tmp_path, file=f"sub/{name}", event="appears"))
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").symlink_to("keys")
    assert look("file", wait["value"]) is None
    (tmp_path / "sub").unlink()
    (tmp_path / "keys").rename(tmp_path / "sub")
    assert look("file", wait["value"]) is not None


def test_a_process_is_told_from_a_later_one_of_its_number(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        wait = wait_of(call(tmp_path, process=child.pid))
        assert look("process", wait["value"]) is None and describe_process(child.pid) == wait["value"]
        child.kill()
        child.wait()
    assert look("process", wait["value"]) == {"process": child.pid}
    assert not is_running({"process": os.getpid(), "started": "another boot 17"}), "after a reboot it has ended"
    gone = call(tmp_path, process=child.pid)
    assert gone.waits is None and not gone.ran and "processes of a command" in gone.error


@pytest.mark.skipif(os.getuid() == 0, reason="root owns process 1")
def test_a_process_of_another_user_is_none_of_ours(tmp_path: Path) -> None:
    assert "another user" in call(tmp_path, process=1).error


@pytest.mark.skipif(not os.path.exists("/proc/1"), reason="no /proc")
def test_a_process_of_the_system_is_none_that_a_command_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.stat("/proc/1").st_uid)
    assert "is a system process (processes of a command end when it ends;" in call(tmp_path, process=1).error
    monkeypatch.undo()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        kernel = b"I 2 0 0 0 -1 69238880".split() + [b"0"] * 43  # containers do not show any
        monkeypatch.setattr(wait_conditions, "read_stat", lambda pid: kernel)
        assert "is a system process" in call(tmp_path, process=child.pid).error
        monkeypatch.undo()
        monkeypatch.setattr(Path, "read_bytes", lambda path: b"")  # as for a program that is just being started
        assert wait_of(call(tmp_path, process=child.pid))["value"] == describe_process(child.pid)
        child.kill()


class Answering(BaseHTTPRequestHandler):
    """Answers with the status in its path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def test_an_address_is_waited_for_until_it_answers_so_and_no_redirect_is_followed(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert call(tmp_path, url=f"{url}/200").text == f"no need to wait: {url}/200 answered 200"
        for path in ("503", "302"):
            assert wait_of(call(tmp_path, url=f"{url}/{path}"))["value"]["status"] == 200
        assert call(tmp_path, url=f"{url}/503", status="503").waits is None
        server.shutdown()
    assert look("url", {"url": f"{url}/200", "status": 200}) is None, "nobody answers"
    assert POLLED["url"][0] >= 15


def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/200"
        assert look("url", {"url": url, "status": 200}) == {"url": url, "status": 200, "match": []}
        server.shutdown()


class Telling(BaseHTTPRequestHandler):
    """Answers 201 with a body, to whoever shows the key."""

    def do_GET(self) -> None:
        self.send_response(201 if self.headers.get(self.path.strip("/")) == "Bearer s3cr3t-of-ana" else 401)
        self.end_headers()
        self.wfile.write(b'{"runs": [{"state": "completed", "attempt": 2}]}')

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def test_a_body_is_looked_into_and_the_key_of_its_host_is_sent_and_recorded_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPServer(("127.0.0.1", 0), Telling) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        url, state = f"http://{host}/Authorization", ["/runs/0/state=completed|failed"]
        waits = call(tmp_path, url=url, status="2xx", match=state)
        assert wait_of(waits)["why"] == f"{url} answers 2xx with {state[0]}"
        value = wait_of(waits)["value"]
        places().settings.parent.mkdir(parents=True, exist_ok=True)
        places().settings.write_text(f'[hosts."{host}"]\nkey = "CI_TOKEN"\n')
        assert "CI_TOKEN" in call(tmp_path, url=url).error and "nexus login" in call(tmp_path, url=url).error
        assert look("url", value) is None
        monkeypatch.setenv("CI_TOKEN", "s3cr3t-of-ana")
        assert look("url", value) == {"url": url, "status": 201, "match": state}
        assert "s3cr3t" not in repr((value, look("url", value)))
        for match, fits in (
            (["runs.0.attempt=2", "/runs/0/state=completed"], True),
            (['"attempt": 2'], True),
            (["/runs/0/state=failed"], False),
            (["runs.1.state!=failed"], True),
            (["no such text"], False),
        ):
            assert (look("url", {**value, "match": match}) is not None) is fits, match
        for status, fits in (("201", True), (201, True), ("2XX", True), ("4xx", False)):
            assert (look("url", {**value, "status": status}) is not None) is fits
        places().settings.write_text(f'[hosts."{host}"]\nkey = "CI_TOKEN"\nheader = "X-Key"\nprefix = "Bearer "\n')
        assert "answered 201" in call(tmp_path, url=f"http://{host}/X-Key", status="2xx").text
        server.shutdown()
    assert call(tmp_path, url="http://a/", status="ok").error and call(tmp_path, url="http://a/", status="6xx").error


def test_a_key_leaves_the_machine_over_tls_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_TOKEN", "s3cr3t-of-ana")
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[hosts."ci.example.org"]\nkey = "CI_TOKEN"\n')
    assert host_headers("https://ci.example.org/x") == {"Authorization": "Bearer s3cr3t-of-ana"}
    assert host_headers("https://CI.example.org/x") and not host_headers("https://ci.example.org:8443/x")
    assert not host_headers("https://ci.example.org@evil.example/") and not host_headers("https://example.org/")
    assert "TLS" in call(tmp_path, url="http://ci.example.org/x").error
    places().settings.write_text('[hosts."CI.Example.org:8443"]\nkey = "CI_TOKEN"\n')
    assert host_headers("https://ci.example.org:8443/x") and not host_headers("https://ci.example.org/x")


def test_a_port_is_waited_for_until_somebody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"tcp://127.0.0.1:{door.getsockname()[1]}"
        assert call(tmp_path, url=url).text == f"no need to wait: {url} accepts connections"
    wait = wait_of(call(tmp_path, url=url))
    assert wait["why"] == f"{url} accepts connections" and look("url", wait["value"]) is None
    assert call(tmp_path, url=url, match=["x"]).error


@pytest.mark.parametrize("scheme", ["tcp", "TCP"])
def test_a_port_gets_no_request_however_its_scheme_is_written(scheme: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"{scheme}://127.0.0.1:{door.getsockname()[1]}"
        assert call(tmp_path, url=url).text == f"no need to wait: {url} accepts connections"
        with door.accept()[0] as connection:
            assert connection.recv(100) == b""
        assert "no body" in call(tmp_path, url=url, match=["x"]).error
    assert wait_of(call(tmp_path, url=url))["value"] == {"url": url}
    assert call(tmp_path, url="http://[::1").error


@pytest.mark.parametrize(
    ("event", "change", "how"),
    [
        ("changes", lambda at: (at / "c.whl").write_text("x"), "c.whl has appeared"),
        ("changes", lambda at: (at / "a.whl").write_text("longer"), "a.whl has changed"),
        ("changes", lambda at: (at / "a.whl").unlink(), "a.whl has disappeared"),
        ("disappears", lambda at: (at / "a.whl").unlink(), "a.whl has disappeared"),
    ],
)
def test_a_pattern_names_files(tmp_path: Path, event: str, change: Any, how: str) -> None:
    (tmp_path / "a.whl").write_text("x")
    (tmp_path / "b.txt").write_text("x")
    wait = wait_of(call(tmp_path, file="*.whl", event=event))
    (tmp_path / "b.txt").unlink()
    value = json.loads(json.dumps(wait["value"]))  # as the ledger has it
    assert look("file", value) is None
    change(tmp_path)
    came = look("file", value)
    assert came is not None and f"{Path(came['path']).name} {came['how']}" == how


def test_a_pattern_that_names_no_file_waits_for_the_first(tmp_path: Path) -> None:
    wait = wait_of(call(tmp_path, file="*.whl", event="appears"))
    assert look("file", wait["value"]) is None
    (tmp_path / "[x].whl").touch()
    came = look("file", wait["value"])
    assert came is not None and came["path"].endswith("[x].whl")
    assert "is there" in call(tmp_path, file="*.whl", event="appears").text
    (tmp_path / "*.y").write_text("a file of that very name")
    assert wait_of(call(tmp_path, file="*.y"))["value"]["before"] == file_state(tmp_path / "*.y")


def test_only_a_service_of_the_settings_is_waited_for(tmp_path: Path) -> None:
    assert "no service" in call(tmp_path, service="ci").error
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[services.ci]\ninstruction = "x"\n')
    assert "the services are ci" in call(tmp_path, service="cd").error
    assert "FIELD=VALUE" in call(tmp_path, service="ci", match=["x"]).error
    wait = wait_of(call(tmp_path, service="ci", match=["action=completed"]))
    places().settings.write_text("[services\n")
    assert "TOML" in call(tmp_path, service="ci").error
    assert wait["value"] == {"service": "ci", "match": ["action=completed"]} and wait["why"].startswith(
        "an event of ci"
    )


@pytest.mark.parametrize(
    "url",
    [
        "tcp://a",
        "tcp://a:1/x",
        "file:///etc/passwd",
        "http://",
        "http://a:b@c/",
        "http://@c/",
        "http://:@c/",
        "http://a b/",
        "http://a:x/",
        "ftp://a",
        "http://a/\n",
    ],
)
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    assert check_url(url) and call(tmp_path, url=url).error and not call(tmp_path, url=url).ran


def test_a_time_is_by_the_clock_of_the_ledger(tmp_path: Path) -> None:
    assert wait_of(call(tmp_path, time="2 hours"))["until"] == NOW + 7200
    assert wait_of(call(tmp_path, time="2100-01-01T00:00:00Z"))["until"] == 4_102_444_800.0
    assert call(tmp_path, time="2001-01-01").waits is None, "it has passed"
    assert wait_of(call(tmp_path, time="2 hours", timeout="1 h"))["until"] == NOW + 3600
    assert wait_of(call(tmp_path, time="2 hours", timeout="3600"))["until"] == NOW + 3600
    for bad in ("soon", "", "2 fortnights", "-1 h", "9" * 12, "2027-02-30T00:00", "0 s", "4000 days"):
        for refused in (call(tmp_path, time=bad), call(tmp_path, file="x", timeout=bad)):
            assert "a duration above 0 and up to 10 years, such as '2 hours', " in str(refused.error)


@pytest.mark.parametrize("given", [{}, {"file": "a", "time": "1 h"}, {"file": "a", "event": "explodes"}])
def test_one_thing_is_named(given: Any, tmp_path: Path) -> None:
    assert call(tmp_path, **given).error and call(tmp_path, **given).waits is None


def test_a_file_outside_and_every_address_ask(tmp_path: Path) -> None:
    def verdict(level: str = "auto", **arguments: Any) -> Any:
        return decide(TOOL, arguments, allow=level, cwd=tmp_path, project=tmp_path)

    assert verdict(file="a").is_granted and verdict(time="1 h").is_granted
    outside, network = verdict(file="/etc/hostname"), verdict(url="http://127.0.0.1:1/")
    assert outside.asks and outside.kind == "outside"
    assert network.asks and network.kind == "network" and "127.0.0.1" in network.why
    assert verdict("all", url="http://127.0.0.1:1/").is_granted


@given(st.integers(1, int(MAX_SECONDS)))
def test_durations_are_read_as_they_are_written(seconds: int) -> None:
    assert parse_duration(f"{seconds} seconds") == parse_duration(f"{seconds}s") == seconds
    shown = parse_duration(format_duration(seconds).replace("d", "days"))
    assert shown is not None and abs(shown - seconds) < max(60, seconds * 0.1)


def test_what_is_waited_for_is_said_shortly(tmp_path: Path) -> None:
    wait = wait_of(call(tmp_path, file="a" * 5000))
    assert len(wait["why"]) == LONGEST_WHY + 3 and wait["value"]["path"].endswith("a" * 5000)
