"""A file over the cap of a result comes whole where half of the free room holds it; else its cut names lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from laws.world import exact
from search import sample
from session.played import MODEL, Answer, Played, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

HOLE = re.compile(r'\[\.\.\. [\d,]+ tokens \(lines (\d+)-(\d+), characters \d+:\d+ of \d+\) left out: recall\("d1"')


def results(folder: Path, window: int, *steps: Any) -> list[str]:
    """The results of the calls that a model makes in so large a window; a step may depend on the results so far."""
    seen: list[str] = []

    def script(request: Request) -> Answer:
        sent = [json.loads(json.dumps(message)) for message in request.messages]
        seen[:] = [str(message["content"]) for message in sent if message["role"] == "tool"]
        number = sum(message["role"] == "assistant" for message in sent)
        if number == len(steps):
            return "read"
        answer: Answer = steps[number](seen) if callable(steps[number]) else steps[number]
        return answer

    settings = Settings(models={MODEL: {"window": window}})
    asked = Options(folder, MODEL, allow="all", limits=Limits(max_steps=9))
    _, ended = say(open_session(asked, settings, approver=None, provider=Played(script)), "read it")
    assert ended.ok, ended.error
    return seen


def source(tokens: int) -> str:
    """Lines of so many tokens in all, no two alike."""
    lines: list[str] = []
    while exact("".join(lines)) < tokens:
        lines += [f"    value_{n} = compute({n}, scale={n % 7})\n" for n in range(len(lines), len(lines) + 50)]
    return "".join(lines)


def read(path: str, **more: int) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": path, **more}


@pytest.mark.parametrize(("window", "kilobytes"), sample([(32_768, 14), (128_000, 60)], 2))
def test_a_file_comes_whole_where_half_of_the_free_room_holds_it(window: int, kilobytes: int, tmp_path: Path) -> None:
    text = source(kilobytes * 1000 * 2 // 5)[: kilobytes * 1000].rpartition("\n")[0] + "\n"
    (tmp_path / "a.py").write_text(text)
    assert exact(text) > TokenBudget.of(window).output_cap
    assert results(tmp_path, window, [read("a.py")]) == [text]
    assert results(tmp_path, window, [read("a.py", offset=2)]) == [
        f"[lines 2-{text.count(chr(10))} of {text.count(chr(10))}]\n" + text.partition("\n")[2]
    ]


@pytest.mark.matrix
def test_a_file_that_exceeds_half_of_the_free_room_is_cut_at_the_cap(tmp_path: Path) -> None:
    budget = TokenBudget.of(32_768)
    (tmp_path / "a.py").write_text(source(budget.available // 2 + 1000))
    (cut,) = results(tmp_path, 32_768, [read("a.py")])
    assert HOLE.search(cut) and budget.output_cap * 0.9 < exact(cut) <= budget.output_cap


@pytest.mark.matrix
def test_what_a_command_printed_is_cut_at_the_cap_in_a_large_window_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(source(9300))
    (cut,) = results(tmp_path, 270_000, [("bash", {"command": "base64 a.py"})])
    assert "tokens (characters " in cut and exact(cut) <= 8000


@pytest.mark.matrix
def test_the_reads_of_one_message_share_half_of_the_free_room_and_each_has_at_least_the_cap(tmp_path: Path) -> None:
    budget, text = TokenBudget.of(128_000), source(12_000)
    for number in range(8):
        (tmp_path / f"{number}.py").write_text(text)
    shown = results(tmp_path, 128_000, [read(f"{number}.py") for number in range(8)])
    whole = [one for one in shown if one == text]  # they ran together: the first to end are whole
    cut = [one for one in shown if one != text]
    assert len(whole) == 4 and 4 * exact(text) <= budget.available // 2
    assert all(budget.output_cap * 0.9 < exact(one) <= budget.output_cap for one in cut)
    assert sum(map(exact, shown)) < budget.available


@pytest.mark.matrix
def test_a_later_message_has_half_of_what_is_then_free(tmp_path: Path) -> None:
    text = source(12_000)
    for number in range(4):
        (tmp_path / f"{number}.py").write_text(text)
    shown = results(tmp_path, 64_000, *([read(f"{number}.py")] for number in range(3)))
    assert shown[0] == text and shown[1] == text, "half of 45,000 tokens, then of 33,000"
    assert HOLE.search(shown[2].replace('"d2"', '"d1"')), "not half of 21,000"


@pytest.mark.matrix
@pytest.mark.parametrize("offset", [0, 101])
def test_a_cut_names_the_lines_so_that_read_file_gives_exactly_them(offset: int, tmp_path: Path) -> None:
    text = source(17_000)
    (tmp_path / "a.py").write_text(text)
    more = {"offset": offset} if offset else {}

    def the_rest(seen: list[str]) -> Answer:
        hole = HOLE.search(seen[0])
        assert hole
        first, last = int(hole[1]), int(hole[2])
        return [read("a.py", offset=first, limit=last - first + 1)]

    cut, rest = results(tmp_path, 48_000, [read("a.py", **more)], the_rest)
    hole = HOLE.search(cut)
    assert hole is not None
    head = cut[: hole.start()].removeprefix(f"[lines {offset}-{text.count(chr(10))} of {text.count(chr(10))}]\n")
    body, tail = rest.partition("\n")[2], cut[hole.end() :].partition("\n")[2]
    wanted = "".join(text.splitlines(keepends=True)[max(0, offset - 1) :])
    assert head + body + tail == wanted
