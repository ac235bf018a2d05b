"""The job: a program of 40 lines starts the server, opens an agent with limits, follows it, answers its questions, and
goes on the next day, from a new server, with the session that it finds in the list.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage, until
from server.received import tool_results

from nexus_cli.cli.doc_pages import page_text

PROGRAM = Path(__file__).with_name("two_days.py")
SHORT = """\
import asyncio

from nexus_cli.client import Client


def decide(ask):
    return "once" if ask["question"]["kind"] == "edit" else "Only edit files."


async def main():
    async with Client.start() as client:
        done = await client.run("Fix the greeting", answer=decide, limits={"max_steps": 20})
        print(done["text"])
        print((await client.run("What was it?", session=done["session"]))["text"])


asyncio.run(main())
"""


def model(body: Any) -> dict[str, Any]:
    """Mends the greeting, wants to run a command, and goes by what it is told."""
    said = [str(one["content"]) for one in body["messages"] if one["role"] == "user"]
    results = tool_results(body)
    if "What was it?" in said[-1]:
        return {"text": f"It was helo, and {len(results)} calls are behind us."}
    if not results:
        return calls(("edit_file", {"path": "hello.txt", "edits": [{"old": "helo", "new": "hello"}]}))
    if len(results) == 1:
        return calls(("bash", {"command": "make test"}))
    return {"text": "Mended, not tested." if "Only edit" in results[-1] else f"Odd: {results[-1]}"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        (made.folder / "hello.txt").write_text("helo\n")
        yield made


def run(place: Stage, *arguments: str) -> list[str]:
    """The lines that a program prints, which has nothing but the package."""
    done = subprocess.run(
        [sys.executable, *arguments], env=place.env(), cwd=place.folder, capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert not list((place.nexus_home / "data" / "serve").iterdir()), "the server has gone with its token"
    return done.stdout.splitlines()


def test_a_program_works_today_and_goes_on_tomorrow(place: Stage) -> None:
    lines = run(place, str(PROGRAM), ".", "Fix the greeting")
    assert lines[0] == "level ask limits {'max_steps': 20, 'max_cost': 0.5}"
    assert lines[-2] == "Mended, not tested." and (place.folder / "hello.txt").read_text() == "hello\n"
    assert [line for line in lines if line.startswith("asks")] == [
        "asks edit_file hello.txt -> once",
        "asks bash make test -> no",
    ]
    assert sum(line.startswith("calls") for line in lines) == 2 and "None" not in "".join(lines)
    later = run(place, str(PROGRAM), ".", "What was it?", "yesterday")
    assert later[-2] == "It was helo, and 2 calls are behind us.", later
    assert int(later[-1].split()[1]) == int(lines[-1].split()[1]) + 2
    listed = place.run("sessions", "list", "--all", "--json").result["sessions"]
    assert [one["turns"] for one in listed] == [2]


def test_ten_lines_do_the_same(place: Stage, tmp_path: Path) -> None:
    program = tmp_path / "short.py"
    program.write_text(SHORT)
    assert run(place, str(program)) == [
        "Mended, not tested.",
        "It was helo, and 2 calls are behind us.",
    ]


def test_a_program_that_is_killed_takes_its_server_along_and_its_session_goes_on(place: Stage, tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(SHORT.replace('print(done["text"])', "await asyncio.sleep(600)"))
    child = subprocess.Popen([sys.executable, str(program)], env=place.env(), cwd=place.folder)
    assert until(lambda: bool(place.server.requests))
    tokens = place.nexus_home / "data" / "serve"
    assert list(tokens.iterdir())
    child.kill()
    child.wait()
    assert until(lambda: not list(tokens.iterdir())), "the server has ended"
    later = run(place, str(PROGRAM), str(place.folder), "What was it?", "yesterday")
    assert later[-2].startswith("It was helo"), later


@pytest.mark.matrix
def test_the_page_shows_both_programs_as_they_run() -> None:
    page = page_text("events")
    assert PROGRAM.read_text() in page and SHORT in page
    assert len(PROGRAM.read_text().splitlines()) <= 40 and json.dumps("approval.ask") in PROGRAM.read_text()
