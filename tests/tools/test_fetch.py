"""`fetch` against a server on loopback, which the tests alone may reach: what is bounded, refused and converted."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from programs import need
from search import sample
from server.firm_proxy import FirmProxy, make_ca
from session.played import result_of

from nexus_cli.core import bounded_call, proxy
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools import web_page
from nexus_cli.tools.builtin import fetch
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover

PAGE = b"""<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head>
<body><nav>menu</nav><main><h1>One</h1>
<p>Text with <a href="/x">a link</a> and <code>code</code>.</p><script>evil()</script>
<table><tr><th>a</th></tr><tr><td>1</td></tr></table></main></body></html>"""
Answer = tuple[int, dict[str, str], bytes]


class Line:
    """A person at the terminal who types these lines, then none."""

    width = 80

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[str] = []

    async def question(self, asked: AskedQuestion) -> str | None:
        self.asked.append(asked.prompt)
        return self.lines.pop(0) if self.lines else None


class Site:
    """What is answered by path, and what was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                found = site.pages[self.path.partition("?")[0]]
                if callable(found):
                    return found(self)
                status, headers, body = found
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site()
    monkeypatch.setattr(web_page, "is_public", lambda address: address == "127.0.0.1")
    threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


def fetched(folder: Path, url: str, line: Line | None) -> str:
    """Return the result of a call in a session, with a person who answers `line` or with none."""
    approver = PersonApprover(line, lambda question, number: "") if line else None
    return result_of(folder, "fetch", {"url": url}, approver)


def got(url: str, may: bool | None = None) -> ToolResult:
    here = Path("/")  # no project: the libraries may lie in this checkout
    context = ToolContext(here, here, 8000, "c1", print, may_reach=lambda url: may)
    return asyncio.run(fetch.run(fetch.FetchArguments(url), context))


def test_a_page_is_markdown(site: Site) -> None:
    site.pages["/a"] = (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE)
    result = got(f"{site.url}/a?q=1 ".replace(" ", "") + "#part")
    assert result.output.startswith(f"{site.url}/a?q=1\n\nTitle: A & B\n\n# One\n")
    assert "[a link](/x)" in result.output and "`code`" in result.output and "| a |" in result.output
    assert "evil" not in result.output and "menu" not in result.output
    assert result.counts["lines"] == result.output.count("\n") - 1


def test_a_charset_that_does_not_fit_is_no_crash(site: Site) -> None:
    for number, charset in enumerate(("idna", "undefined")):
        site.pages[f"/{number}"] = (200, {"Content-Type": f"text/plain; charset={charset}"}, b"plain.words" * 30)
        assert "plain.words" in got(f"{site.url}/{number}").output


@pytest.mark.parametrize(
    "address", ["::127.0.0.1", "fec0::1", "64:ff9b:1::7f00:1", "::ffff:0:127.0.0.1", "5f00::1", "::1"]
)
def test_only_global_unicast_of_version_6_is_public(address: str) -> None:
    assert not web_page.is_public(address)


def test_text_is_kept_and_other_content_is_named(site: Site) -> None:
    site.pages["/t"] = (200, {"Content-Type": "text/plain; charset=latin-1"}, "é\n".encode("latin-1"))
    site.pages["/p"] = (200, {"Content-Type": "image/png"}, b"\x89PNG\0")
    site.pages["/n"] = (404, {"Content-Type": "text/plain"}, b"nothing here")
    assert got(f"{site.url}/t").output.endswith("\n\né\n")
    assert "(image/png, 5 bytes)" in got(f"{site.url}/p").error
    missing = got(f"{site.url}/n")
    assert "404" in missing.error and missing.output == "nothing here"


@pytest.mark.parametrize(
    "url", ["ftp://a.org/", "tcp://a.org:1", "file:///etc/passwd", "https://u:p@a.org/", "a.org", "http://a.org:x"]
)
def test_other_addresses_are_refused(url: str) -> None:
    result = got(url)
    assert result.error and not result.ran


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "224.0.0.1"),
        *(
            "255.255.255.255",
            "nonsense",
            "192.0.0.9",
            "192.0.0.10",
            "192.88.99.1",
            "3fff::1",
            "3fff:fff::1",
            "168.63.129.16",
            "::ffff:168.63.129.16",
        ),
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_known(address: str) -> None:
    assert not web_page.is_public(address)


def test_public_addresses_are_known() -> None:
    assert all(map(web_page.is_public, ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_local_server_is_never_reached(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        result = got(f"http://{host}:{server.getsockname()[1]}/")
        assert "not an address of the public internet" in result.error or "resolved" in result.error
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "host",
    sample(
        [
            "localhost:3000",
            "Docs.LocalHost.",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "[::1]",
            "[fe80::1%25lo]",
            "10.0.0.7",
        ],
        4,
    ),
)
@pytest.mark.parametrize("has_person", [True, False])
def test_an_address_that_can_never_be_fetched_is_refused_before_anybody_is_asked(
    tmp_path: Path, host: str, has_person: bool
) -> None:
    line = Line("y", "y")
    text = fetched(tmp_path, f"http://{host}/", line if has_person else None)
    assert "not an address of the public internet" in text and "curl" in text, text
    assert not line.asked


@pytest.mark.matrix
def test_a_public_host_is_asked_about(tmp_path: Path) -> None:
    for url in ("http://example.invalid/", "http://8.8.8.8/"):
        line = Line()
        fetched(tmp_path, url, line)
        assert len(line.asked) == 1
        assert fetched(tmp_path, url, None).startswith("not permitted")


def test_one_private_address_among_public_ones_refuses_and_a_second_lookup_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, looked = site.server.server_port, list[str]()

    def rebinding(host: str, *rest: object, **more: object) -> list[object]:
        looked.append(host)
        address = "127.0.0.1" if len(looked) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    site.pages["/"] = (200, {"Content-Type": "text/plain"}, b"hello")
    real = socket.getaddrinfo

    def looks_up(host: str, *rest: object, **more: object) -> object:
        return rebinding(host) if host == "x.test" else real(host, *rest, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("socket.getaddrinfo", looks_up)
        assert got(f"http://x.test:{port}/").output.endswith("hello") and looked == ["x.test"]
        assert "127.0.0.2" in got(f"http://x.test:{port}/").error


def test_redirects_end_and_each_target_is_checked(site: Site) -> None:
    site.pages["/a"] = (302, {"Location": "/b?c"}, b"")
    site.pages["/b"] = (200, {"Content-Type": "text/plain"}, b"there")
    site.pages["/loop"] = (302, {"Location": "/loop"}, b"")
    site.pages["/in"] = (302, {"Location": "http://127.0.0.9/"}, b"")
    site.pages["/file"] = (302, {"Location": "file:///etc/passwd"}, b"")
    assert got(f"{site.url}/a").output.endswith("there")
    site.asked.clear()
    assert "more than 5 redirects" in got(f"{site.url}/loop").error and len(site.asked) == 6
    assert "127.0.0.9" in got(f"{site.url}/in", may=True).error
    assert "file:" in got(f"{site.url}/file", may=True).error


@pytest.mark.parametrize(("may", "follows"), [(True, True), (None, False), (False, False)])
def test_another_server_is_followed_only_where_it_is_allowed(site: Site, may: bool | None, follows: bool) -> None:
    other = Site()
    threading.Thread(target=other.server.serve_forever, args=(0.01,), daemon=True).start()
    site.pages["/a"] = (301, {"Location": f"{other.url}/b"}, b"")
    other.pages["/b"] = (200, {"Content-Type": "text/plain"}, b"there")
    result = got(f"{site.url}/a", may)
    other.server.shutdown()
    other.server.server_close()
    assert other.asked == ["/b"] * follows
    refused = f"{site.url}/a redirects to {other.url}/b, which is "
    if may is False:
        assert result.error == f"{refused}denied"
    else:
        needed = f"{refused}not fetched without approval: call fetch with that address."
        assert result.output.endswith("there" if follows else needed)


def test_a_refused_target_on_the_same_server_is_not_followed(site: Site) -> None:
    site.pages["/a"] = (302, {"Location": "/secret"}, b"")
    got(f"{site.url}/a", may=False)
    assert site.asked == ["/a"]


@pytest.mark.matrix
def test_bombs_are_bounded(site: Site) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b"x" * (1 << 20))
        except OSError:
            pass

    bomb = gzip.compress(b"y" * (100 << 20))
    site.pages["/big"] = endless
    site.pages["/bomb"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, bomb)
    site.pages["/bad"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, b"not gzip")
    site.pages["/br"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "br"}, b"?")
    for path in ("/big", "/bomb"):
        text = got(site.url + path).output
        assert len(text) < (5 << 20) + 200 and text.endswith("was not fetched.]")
    assert "damaged" in got(f"{site.url}/bad").error and "'br'" in got(f"{site.url}/br").error


@pytest.mark.matrix
def test_a_deeply_nested_page_is_text(site: Site) -> None:
    site.pages["/deep"] = (200, {"Content-Type": "text/html"}, b"<div>" * 20_000 + b"core" + b"</div>" * 20_000)
    assert "core" in got(f"{site.url}/deep").output


class TimeLimit:
    """The clock and the timer of a request: no time passes until `passed` is set, then the limit is over."""

    def __init__(self, seconds: float = 0.0, end: Callable[[], None] = lambda: None) -> None:
        self.end = end

    passed = threading.Event()
    daemon = True

    @classmethod
    def monotonic(cls) -> float:
        return 1e9 if cls.passed.is_set() else 0.0

    def start(self) -> None:
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        self.passed.wait()
        self.end()

    def cancel(self) -> None:
        self.passed.set()


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TimeLimit]]:
    monkeypatch.setattr(TimeLimit, "passed", threading.Event())
    monkeypatch.setattr(web_page, "time", TimeLimit)
    monkeypatch.setattr(bounded_call, "Timer", TimeLimit)
    yield TimeLimit


def test_a_server_that_drips_is_left_in_time(site: Site, limit: type[TimeLimit]) -> None:
    def drips(handler: BaseHTTPRequestHandler) -> None:
        try:
            for sent in count():
                handler.wfile.write(b"H")
                if sent == 5:
                    limit.passed.set()
                time.sleep(0.01)
        except OSError:
            pass

    site.pages["/drip"] = drips
    assert "no answer within" in got(f"{site.url}/drip").error


@pytest.mark.matrix
def test_html_that_takes_too_long_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "CONVERSION_SECONDS", 0.1)
    site.pages["/slow"] = (200, {"Content-Type": "text/html"}, b"<a " * 500_000)
    assert "was not converted within" in got(f"{site.url}/slow").error


@pytest.mark.matrix
def test_the_libraries_are_not_imported_by_this_process() -> None:
    program = "import sys, nexus_cli.tools.builtin.fetch; print({'bs4', 'markdownify'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "set()"


@pytest.mark.parametrize("path", ["/short", "/gzip"])
def test_a_page_that_was_cut_off_is_not_passed_as_whole(path: str, site: Site) -> None:
    """The server leaves before the promised length, or in a gzip stream."""
    plain, packed = {"Content-Type": "text/plain"}, gzip.compress(b"beginning" + bytes(range(48, 120)) * 9)
    site.pages["/short"] = (200, {**plain, "Content-Length": "5000"}, b"beginning")
    site.pages["/gzip"] = (200, {**plain, "Content-Encoding": "gzip"}, packed[:-20])
    site.pages["/whole"] = (200, {**plain, "Content-Encoding": "gzip"}, packed)
    text = got(site.url + path).output
    assert "beginning" in text and text.endswith("was not fetched.]")
    assert "not fetched" not in got(f"{site.url}/whole").output


def test_a_page_whose_server_takes_too_long_is_not_passed_as_whole(
    site: Site, limit: type[TimeLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()

    def never_ends(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.wfile.write(b"beginning")
        left.wait()

    class TooLate(HTTPResponse):
        """The limit is over once the beginning has been read."""

        def read(self, amt: int | None = None) -> bytes:
            start = super().read(len(b"beginning"))
            limit.passed.set()
            return start + super().read(amt)

    monkeypatch.setattr(HTTPConnection, "response_class", TooLate)
    site.pages["/slow"] = never_ends
    text = got(f"{site.url}/slow").output
    left.set()
    assert "beginning" in text and text.endswith("was not fetched.]")


def through(monkeypatch: pytest.MonkeyPatch, site: Site, **more: str) -> str:
    """Let `site` be the proxy of the environment; return its host and port."""
    place = site.url.removeprefix("http://")
    for name, value in {"HTTP_PROXY": f"http://me:pass%20word@{place}", "HTTPS_PROXY": site.url, **more}.items():
        monkeypatch.setenv(name, value)

    def looked_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if host == "docs.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [(2, 1, 6, "", ({"intranet.example": "10.0.0.7"}.get(host, host), port))]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return place


def test_a_page_comes_through_the_proxy_of_the_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, site)
    sent: list[Any] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        sent.append(dict(handler.headers))
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.wfile.write(b"by the proxy")

    site.pages["http://docs.example/a"] = answer
    assert got("http://docs.example/a").output.endswith("by the proxy")
    assert site.asked == ["http://docs.example/a"] and sent[0]["Host"] == "docs.example"
    assert sent[0]["Proxy-Authorization"] == "Basic bWU6cGFzcyB3b3Jk"


def test_a_page_through_a_proxy_that_inspects_tls_needs_its_ca(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need("openssl")
    ca = make_ca(tmp_path)
    site.pages["/a"] = (200, {"Content-Type": "text/plain"}, b"by the proxy")
    with FirmProxy(int(site.url.rpartition(":")[2]), ca) as proxy:
        through(monkeypatch, site, HTTPS_PROXY=proxy.url)
        refused = got("https://docs.example/a").error
        assert "the certificate of docs.example is not trusted" in refused and "SSL_CERT_FILE=" in refused
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        assert got("https://docs.example/a").output.endswith("by the proxy")


def test_a_proxy_that_refuses_or_is_away_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    place = through(monkeypatch, site)
    refused = got("https://docs.example/a").error  # the proxy of this test knows no CONNECT
    assert f"the proxy {place} did not connect to docs.example:443: HTTP status 501" in refused
    monkeypatch.setenv("HTTPS_PROXY", "127.0.0.1:9")
    assert "the proxy 127.0.0.1:9 cannot be reached" in got("https://docs.example/a").error
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:9")
    assert "the proxy in HTTPS_PROXY is not of the form" in got("https://docs.example/a").error


def test_a_proxy_opens_no_way_to_private_addresses(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, site)
    assert "10.0.0.7, which is not an address of the public internet" in got("http://intranet.example/").error
    assert "not an address of the public internet" in got("http://192.168.0.1/").error
    assert site.asked == []


@pytest.mark.parametrize("rule", ["*", "docs.example", ".example", "*.example", "other, docs.example:80"])
def test_no_proxy_is_a_direct_connection(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://p:1")
    monkeypatch.setenv("NO_PROXY", rule)
    assert proxy.find_proxy("http", "docs.example", 80) is None
    monkeypatch.setenv("NO_PROXY", "cs.example, other")
    assert proxy.find_proxy("http", "docs.example", 80) is not None


@pytest.mark.matrix
def test_a_table_of_two_megabytes_is_rows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "CONVERSION_SECONDS", 600.0)
    row = b"<tr>" + b"".join(b"<td>cell %d</td>" % number for number in range(16)) + b"</tr>"
    rows = (2 << 20) // len(row) - 1
    page = b"<html><body><h1>Figures</h1><p>See</p><table>" + row * rows + b"</table><p>below</p></body></html>"
    site.pages["/t"] = (200, {"Content-Type": "text/html"}, page)
    text = got(f"{site.url}/t").output
    assert "# Figures" in text and text.rstrip().endswith("below")
    assert text.count("| cell 0 | cell 1 | cell 2 |") == rows


@pytest.mark.matrix
@pytest.mark.parametrize("depth", sample([1, 2, 40], 3))
def test_tables_that_lay_out_a_page_repeat_nothing_that_is_in_them(site: Site, depth: int) -> None:
    rows = b"".join(b"<tr><td>cell %d</td><td>beside</td></tr>" % number for number in range(1_100))
    page = b"<table>" + rows + b"</table>"
    for _ in range(depth):
        page = b"<table><tbody><tr><td>above</td></tr><tr><td>" + page + b"</td></tr></tbody></table>"
    site.pages["/n"] = (200, {"Content-Type": "text/html"}, b"<html><body>" + page + b"</body></html>")
    lines = got(f"{site.url}/n").output.splitlines()
    assert lines.count("above") == depth
    assert [line for line in lines if "cell" in line] == [f"| cell {number} | beside |" for number in range(1_100)]


@pytest.mark.matrix
def test_html_that_becomes_markdown_too_slowly_is_plain_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "MARKDOWN_SHARE", 0.0)
    site.pages["/s"] = (200, {"Content-Type": "text/html"}, PAGE.replace(b"<p>", b"<p>" + b"<b>bold</b> " * 5_000))
    text = got(f"{site.url}/s").output
    assert "Text with" in text and "bold\n" in text and "**bold**" not in text
