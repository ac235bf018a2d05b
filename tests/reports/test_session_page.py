"""The page of a session whose words are hostile: nothing of them becomes markup, a control character or a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexus_cli.config.settings import Settings
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Entry, Epoch, Kind, Manifest
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.ledger import Ledger
from nexus_cli.reports.page import chart
from nexus_cli.reports.page.chart import draw_chart
from nexus_cli.reports.page.markup import Markup
from nexus_cli.reports.page.session_page import session_page

AT = "2026-01-13T14:30:00.000Z"
BAD = "\"'><img src=x onerror=alert(1)><meta http-equiv=refresh content=0>"
KEY = "zq9vhB7-Lw4rTn2Xk8Pd5Ms1Yc6Fg3Ja0"
BIDI = [*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200B]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path / "ledger.db")
    yield made
    made.close()


def page(
    ledger: Ledger, *, words: str = "", finish: str = "stop", at: str = AT, name: str = "", first: str = "go"
) -> str:
    made = ledger.create_session(folder=f"/f{BAD}", project="/f", model="openai/m", recipe="ask", at=AT)
    log = ledger.log(made.id)
    log.begin_epoch(Epoch(0, None, "start", "openai/m", "Hi.", (), WireRules().dumps(), (), 0, system_tokens=9), ())
    log.append(Entry(1, at, f"person{BAD}", Kind.USER, Message(Role.USER, first), tokens=1))
    log.record_request(Manifest(1, 0, 1, {"model": f"m{BAD}"}, "0" * 64, 100, at), [], [])
    call = ToolCall("c1", f"bash{BAD}", {"command": f"{BAD} {KEY}"})
    answer = Entry(2, at, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, words, (call,)), tokens=1)
    log.record_reply(answer, 1, Usage(100, 5), finish, True)
    if name:
        ledger.rename_session(made.id, name)
    return "".join(session_page(ledger, ledger.session(made.id), Settings()))


def test_no_value_of_a_session_is_markup(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = page(ledger, words=BAD, first=BAD, finish=BAD, at=BAD, name=BAD)
    assert "<img" not in text and "<meta http-equiv=refresh" not in text
    assert text.count("&lt;img") > 8 and KEY not in text


@pytest.mark.parametrize(
    "sign", [f"&#{number};" for number in BIDI] + ["&#x202E;", "&rlm;", "&lrm;", "&ZeroWidthSpace;"]
)
def test_a_character_reference_brings_no_hidden_character(sign: str) -> None:
    made = Markup(raw=False).prose(f"a{sign}b **c{sign}d** [e{sign}](https://x.org) `{sign}`")
    assert not {*map(chr, BIDI)} & {*made} and "&lt;U+2" in made


def test_a_key_behind_a_character_reference_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert KEY not in Markup(raw=False).prose(f"It is &#{ord(KEY[0])};{KEY[1:]}.")
    assert KEY in Markup(raw=True).prose(f"It is {KEY}.")


@pytest.mark.matrix
@pytest.mark.parametrize("length", [170, 184, 190])
def test_a_key_at_the_end_of_a_long_title_is_not_shown_in_part(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    words = f"{'x ' * (length // 2)}{KEY}"
    assert KEY[:4] not in page(ledger, name=words) and KEY[:4] not in page(ledger, first=words)


def test_what_is_nested_deeply_is_not_lost() -> None:
    for mark in ("> ", "- "):
        assert "the deepest words" in Markup(raw=False).prose(f"{mark * 20}the deepest words")


def test_a_compaction_stands_out_among_many_prunings() -> None:
    causes = ["pruned" if step % 10 == 0 else "compaction" if step == 75 else "" for step in range(1, 131)]
    requests: Any = [
        SimpleNamespace(
            row=SimpleNamespace(counted=Usage(cost_usd=None), manifest=SimpleNamespace(step=step)),
            used=UsedTokens(10, 10, 80, 0),
            cached=0,
            drops=(),
            rewrite=cause,
        )
        for step, cause in enumerate(causes, 1)
    ]
    drawn = draw_chart(requests)
    lines = dict(re.findall(r'<path class="(rewrite(?: small)?)" d="([^"]*)"/>', drawn))
    assert (lines["rewrite"].count("M"), lines["rewrite small"].count("M")) == (1, 13)
    assert re.findall(r'<a href="#r(\d+)">', drawn) == [str(step) for step in range(1, 131)], "a click on each request"


def test_a_wide_chart_is_first_seen_from_its_newest_request() -> None:
    style = Path(chart.__file__).with_name("page.css").read_text()
    assert re.search(r"\.scroll \{[^}]*direction: rtl", style) and re.search(r"\.scroll > \* \{ direction: ltr", style)


def test_the_title_of_a_long_beginning_has_no_attachment(ledger: Ledger) -> None:
    text = page(ledger, first=f'look at this\n\n<file path="a.txt">\n{"word " * 500}</file>')
    assert "<title>look at this" in text and "&lt;file" not in text.partition("</h1>")[0]
