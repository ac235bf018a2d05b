"""Servers with a URL, right and wrong, and logins; on the loopback interface alone."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp_play import Play
from programs import need
from search import sample
from server.firm_proxy import FirmProxy, make_ca

from nexus_cli.config.paths import places
from nexus_cli.mcp.server_values import ServerEntry, ServerError

Json = dict[str, Any]


class Raw(BaseHTTPRequestHandler):
    """Answers each POST by `act(self, message)` of the test; has the pages of a login beside it."""

    protocol_version = "HTTP/1.1"
    act: Callable[[Raw, Json], None]
    seen: list[str]
    token = ""
    lives = 1
    """Seconds; after one the next process has to refresh the token."""

    def log_message(self, *_arguments: object) -> None:
        pass

    def give(self, status: int, body: object = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def answer(self, message: Json, result: Json, **headers: str) -> None:
        self.give(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, **headers)

    def handshake(self, message: Json, **headers: str) -> bool:
        """Answer what begins a connection of 2025; return False for anything else."""
        if message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "raw", "version": "1"}
            self.answer(message, {"protocolVersion": version, "capabilities": {}, "serverInfo": info}, **headers)
        elif message["method"] == "server/discover":
            self.give(404)
        elif "id" not in message:
            self.give(202)
        else:
            return False
        return True

    @property
    def base(self) -> str:
        assert isinstance(self.server, ThreadingHTTPServer)
        return f"http://127.0.0.1:{self.server.server_port}"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/register":
            self.give(201, {**json.loads(body), "client_id": "us"})
        elif self.path == "/token":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            self.seen.append(form["grant_type"])
            type(self).token = f"token-{len(self.seen)}"
            more = {"token_type": "Bearer", "expires_in": self.lives, "refresh_token": "r"}
            self.give(200, {"access_token": self.token, **more})
        else:
            message = json.loads(body)
            self.seen.append(message["method"])
            type(self).act(self, message)

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path)
        if path.path.startswith("/.well-known/oauth-protected-resource"):
            self.give(200, {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]})
        elif path.path.startswith("/.well-known/"):
            pages = {f"{one}_endpoint": f"{self.base}/{page}" for one, page in _PAGES.items()}
            more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
            self.give(200, {"issuer": self.base, **pages, **more})
        elif path.path == "/authorize":
            query = dict(urllib.parse.parse_qsl(path.query))
            back = urllib.parse.urlencode({"code": "c", "state": query["state"]})
            self.give(302, Location=f"{query['redirect_uri']}?{back}")
        else:
            self.give(405)

    def do_DELETE(self) -> None:
        self.give(200)


_PAGES = {"authorization": "authorize", "token": "token", "registration": "register"}


@contextmanager
def serving(act: Callable[[Raw, Json], None], name: str = "far") -> Iterator[tuple[ServerEntry, list[str]]]:
    """Serve and yield the entry and the methods that were seen."""
    seen: list[str] = []
    handler = type("Handler", (Raw,), {"act": act, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        yield ServerEntry(name, url=url, start_seconds=20, call_seconds=20), seen
        server.shutdown()


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def fails(play: Play, server: ServerEntry) -> ServerError:
    with pytest.raises(ServerError) as caught:
        play.call(server)
    return caught.value


@pytest.mark.matrix
def test_a_server_of_the_sdk_over_http(play: Play) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("right_server.py")), "http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(port)
            server = ServerEntry("right", url=f"http://127.0.0.1:{port}/mcp")
            assert play.run(play.host.call(server, "add", {"a": 1, "b": 2})).text == "3"
            assert play.run(play.host.list_offer(server)).resources == (("note://one", "one: The note."),)
        finally:
            process.kill()
    assert fails(play, server).fault in ("start", "died")


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)


def test_headers_have_the_keys_of_our_environment(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(raw: Raw, message: Json) -> None:
        if not raw.handshake(message):
            raw.answer(message, text_result(raw.headers["Authorization"]))

    monkeypatch.setenv("FAR_TOKEN", "abc")
    with serving(act) as (server, _):
        entry = ServerEntry("far", url=server.url, headers={"Authorization": "Bearer ${FAR_TOKEN}"})
        assert play.call(entry) == "Bearer abc"


@contextmanager
def fresh_play() -> Iterator[Play]:
    """A process of its own, which takes the environment of now."""
    with asyncio.Runner() as runner:
        play = Play(runner)
        yield play
        play.run(play.host.aclose())


@pytest.mark.matrix
def test_a_proxy_with_a_password_that_inspects_tls_is_the_way_and_its_ca_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def act(raw: Raw, message: Json) -> None:
        if message.get("params", {}).get("arguments"):
            raw.give(500)
        elif not raw.handshake(message):
            raw.answer(message, text_result("through"))

    need("openssl")
    ca = make_ca(tmp_path)
    with serving(act) as (server, _), FirmProxy(urllib.parse.urlsplit(server.url).port or 0, ca, "me:pw") as proxy:
        entry = ServerEntry("far", url="https://tools.firm.example/mcp", start_seconds=20, call_seconds=20)
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pw@127.0.0.1:{proxy.port}")
        with fresh_play() as play:
            error = str(fails(play, entry))
        assert "the certificate of tools.firm.example is not trusted" in error and "SSL_CERT_FILE=" in error
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca))
        with fresh_play() as play:
            assert play.call(entry) == "through"
            with pytest.raises(ServerError, match="answered with HTTP status 500"):
                play.call(entry, text="fail")


def test_a_session_that_the_server_dropped_is_begun_again_and_the_call_repeated(play: Play) -> None:
    def act(raw: Raw, message: Json) -> None:
        if raw.handshake(message, Mcp_Session_Id=f"s{raw.seen.count('initialize')}"):
            return
        if raw.headers["Mcp-Session-Id"] == "s1" and raw.seen.count("tools/call") > 1:
            raw.give(404)
        else:
            raw.answer(message, text_result(raw.headers["Mcp-Session-Id"]))

    with serving(act) as (server, seen):
        assert [play.call(server), play.call(server)] == ["s1", "s2"]
        assert seen.count("tools/call") == 3


def test_a_call_whose_connection_broke_off_is_not_repeated(play: Play) -> None:
    def act(raw: Raw, message: Json) -> None:
        if not raw.handshake(message):
            raw.close_connection = True
            raw.connection.shutdown(socket.SHUT_RDWR)

    with serving(act) as (server, seen):
        error = fails(play, server)
        assert error.fault == "died"
        assert "it is unknown whether the call took effect" in str(error)
        assert seen.count("tools/call") == 1


def test_an_answer_of_60_mb_is_not_read_to_its_end(play: Play) -> None:
    def act(raw: Raw, message: Json) -> None:
        if not raw.handshake(message):
            raw.send_response(200)
            raw.send_header("Content-Type", "application/json")
            raw.send_header("Content-Length", "60000000")
            raw.end_headers()
            try:
                for _ in range(60):
                    raw.wfile.write(b"a" * 1_000_000)
            except OSError:
                raw.close_connection = True

    with serving(act) as (server, _):
        assert fails(play, server).fault == "too_large"


@pytest.mark.parametrize(("status", "said"), [(500, "HTTP status 500"), (403, "HTTP status 403")])
def test_a_refusal_names_the_status(play: Play, status: int, said: str) -> None:
    with serving(lambda raw, _: raw.give(status)) as (server, _):
        error = fails(play, server)
        assert (error.fault, said in str(error)) == ("refused", True)


def test_nobody_who_listens_is_named_with_the_address(play: Play) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    error = fails(play, ServerEntry("nobody", url=url))
    assert (error.fault, url in str(error)) == ("start", True)


def protected(raw: Raw, message: Json) -> None:
    if not raw.token or raw.headers.get("Authorization") != f"Bearer {raw.token}":
        where = f'Bearer resource_metadata="{raw.base}/.well-known/oauth-protected-resource"'
        raw.give(401, WWW_Authenticate=where)
    elif not raw.handshake(message):
        is_list = message["method"] == "tools/list"
        raw.answer(message, {"tools": []} if is_list else text_result("let in"))


def test_a_login_is_shown_stored_privately_and_refreshed(play: Play) -> None:
    shown: list[str] = []
    forged: list[int] = []

    def open_in_browser(url: str) -> None:
        callback = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["redirect_uri"]
        for query in ("code=c&state=other", "error=access_denied"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{callback}?{query}", timeout=20)
            forged.append(refused.value.code)
        urllib.request.urlopen(url, timeout=20).read()

    def show(url: str) -> None:
        shown.append(url)
        threading.Thread(target=open_in_browser, args=(url,), daemon=True).start()

    with serving(protected, "club") as (server, seen):
        error = fails(play, server)
        assert (error.fault, "nexus mcp login club" in str(error)) == ("login", True)
        assert not list((places().data / "mcp").glob("*")), "a call begins no login"
        play.run(play.host.login(server, show))
        assert len(shown) == 1 and forged == [400, 400], "they end no login"
        assert "code_challenge_method=S256" in shown[0]
        (file,) = (places().data / "mcp").iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        time.sleep(1.1)
        play.run(play.host.aclose())
        assert play.call(server) == "let in"
        assert [one for one in seen if "_" in one] == ["authorization_code", "refresh_token"]
        assert len(shown) == 1


@pytest.mark.parametrize("restarts", sample([False, True], 2))
def test_a_token_that_is_refused_before_its_time_is_refreshed_once(play: Play, restarts: bool) -> None:
    revoked = 0

    def act(raw: Raw, message: Json) -> None:
        nonlocal revoked
        type(raw).lives = 3600
        if revoked:
            type(raw).token, revoked = "another", revoked - 1
        protected(raw, message)

    def show(url: str) -> None:
        threading.Thread(target=lambda: urllib.request.urlopen(url, timeout=20).read(), daemon=True).start()

    with serving(act, f"revoked{restarts}") as (server, seen):
        play.run(play.host.login(server, show))
        assert play.call(server) == "let in"
        for often, said in ((1, "let in"), (2, "")):
            if restarts:
                play.run(play.host.aclose())
            seen.clear()
            revoked = often
            if said:
                assert play.call(server) == said
            else:
                assert fails(play, server).fault == "login"
            assert seen.count("refresh_token") == 1, seen


@pytest.mark.matrix
def test_a_login_that_nobody_finishes_can_be_cancelled(play: Play) -> None:
    import asyncio

    async def cancel() -> None:
        shown = asyncio.Event()
        login = asyncio.create_task(play.host.login(server, lambda _: shown.set()))
        await shown.wait()
        login.cancel()
        await asyncio.gather(login, return_exceptions=True)
        assert login.cancelled()

    with serving(protected, "slow") as (server, _):
        play.run(cancel())
        assert fails(play, server).fault == "login"
