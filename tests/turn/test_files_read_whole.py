"""A file that is a little over the cap of a result comes whole where the window is large; else its cut names lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from laws.world import exact
from session.played import MODEL, Answer, Played, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.lane.options import Options
from nexus_cli.session.factory import open_session

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


@pytest.mark.parametrize(
    ("window", "cap", "file_cap"),
    [
        (24_000, 3000, 3000),
        (64_000, 8000, 8000),
        (128_000, 8000, 16_000),
        (1_000_000, 8000, 16_000),
    ],
)
def test_a_file_may_take_an_eighth_of_the_window_and_twice_the_cap(window: int, cap: int, file_cap: int) -> None:
    budget = TokenBudget.of(window)
    assert (budget.output_cap, budget.file_cap) == (cap, file_cap)
    assert budget.available == window - budget.reserve_reply - budget.reserve_tools


def test_a_file_that_is_a_little_over_the_cap_comes_whole_in_a_large_window(tmp_path: Path) -> None:
    text = source(int(8000 * 1.16))
    (tmp_path / "a.py").write_text(text)
    assert exact(text) > TokenBudget.of(270_000).output_cap
    assert results(tmp_path, 270_000, [read("a.py")]) == [text]
    assert results(tmp_path, 270_000, [read("a.py", offset=2)]) == [
        f"[lines 2-{text.count(chr(10))} of {text.count(chr(10))}]\n" + text.partition("\n")[2]
    ]
    (cut,) = results(tmp_path, 64_000, [read("a.py")])
    assert HOLE.search(cut) and exact(cut) <= 8000


def test_what_a_command_printed_is_cut_at_the_cap_in_a_large_window_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(source(9300))
    (cut,) = results(tmp_path, 270_000, [("bash", {"command": "cat a.py"})])
    assert "tokens (characters " in cut and exact(cut) <= 8000


def test_many_files_of_one_step_come_whole_only_while_half_of_the_window_is_free(tmp_path: Path) -> None:
    budget, text = TokenBudget.of(128_000), source(12_000)
    for number in range(8):
        (tmp_path / f"{number}.py").write_text(text)
    shown = results(tmp_path, 128_000, [read(f"{number}.py") for number in range(8)])
    whole = [one for one in shown if one == text]  # they ran together: the first to end are whole
    assert 3 <= len(whole) <= 4
    assert all(exact(one) <= budget.output_cap for one in shown if one not in whole)
    assert sum(map(exact, shown)) < budget.available


@pytest.mark.parametrize("offset", [0, 101])
def test_a_cut_names_the_lines_so_that_read_file_gives_exactly_them(offset: int, tmp_path: Path) -> None:
    text = source(11_000)
    (tmp_path / "a.py").write_text(text)
    more = {"offset": offset} if offset else {}

    def the_rest(seen: list[str]) -> Answer:
        hole = HOLE.search(seen[0])
        assert hole
        first, last = int(hole[1]), int(hole[2])
        return [read("a.py", offset=first, limit=last - first + 1)]

    cut, rest = results(tmp_path, 64_000, [read("a.py", **more)], the_rest)
    hole = HOLE.search(cut)
    assert hole is not None
    head = cut[: hole.start()].removeprefix(f"[lines {offset}-{text.count(chr(10))} of {text.count(chr(10))}]\n")
    body, tail = rest.partition("\n")[2], cut[hole.end() :].partition("\n")[2]
    wanted = "".join(text.splitlines(keepends=True)[max(0, offset - 1) :])
    assert head + body + tail == wanted
