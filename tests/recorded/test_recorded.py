"""Providers still receive what was recorded. The first session of each class runs always, all of them in a search."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from programs import need
from recorded.forks import Forks
from recorded.person import Person
from recorded.record import EXPECTED, HERE, SHARED, difference, play, recorded
from recorded.session_list import CLASSES, SESSIONS
from recorded.wire import Request, Step, body_bytes, body_lines, read_session, write_session
from search import SEARCHES, some

NAMES = [play.__name__ for plays in CLASSES.values() for play in some(plays, len(plays))]
NEXUS = Path(sys.executable).with_name("nexus")
MOST = 1_500_000
"""Bytes of all records."""
RENEW = """If this is what was meant: python tests/recorded/record.py --only {}, and look at the difference in git.
Where the definition of a tool or the system text changed, most sessions differ: without --only it records all."""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    need("cc")
    if not sys.platform.startswith("linux"):
        pytest.skip("the clock of a recording needs Linux")
    with Forks() as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_a_session_sends_the_recorded_bytes(name: str, forks: Forks) -> None:
    steps, _ = play(name, forks)
    where = difference(name, recorded(name), steps)
    assert not where, f"{where}\n{RENEW.format(name)}"


class Cold(subprocess.Popen[bytes]):
    """A run of the installed script."""

    seconds = 0.0


class ColdStarts:
    """Starts the installed script, with the same clock."""

    def __init__(self, library: Path) -> None:
        self._library = library

    def start(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], clock: Path, streams: Sequence[int], **_: Any
    ) -> Any:
        shown = {"LD_PRELOAD": str(self._library), "RECORDED_CLOCK": str(clock)}
        stdin, stdout, stderr = streams
        return Cold([NEXUS, *arguments], cwd=cwd, env={**env, **shown}, stdin=stdin, stdout=stdout, stderr=stderr)


@pytest.mark.skipif(not SEARCHES, reason="two cold starts")
def test_a_fork_sends_what_the_installed_script_sends(forks: Forks) -> None:
    with Person(ColdStarts(forks.library)) as person:
        SESSIONS["an_answer"](person)
    assert not difference("an_answer", recorded("an_answer"), person.steps)


@pytest.mark.matrix
def test_the_recorder_knows_the_program_from_outside() -> None:
    own = {HERE / "inside.py"}  # the slash commands, for the recorded outputs
    for path in [
        *{*HERE.rglob("*.py")} - own,
        *(HERE.parent / "server").rglob("*.py"),
        HERE.parent / "terminal/terminal.py",
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.partition(".")[0] == "nexus_cli"], path


def test_every_session_has_a_record_and_every_file_is_named() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXPECTED.glob("*.txt")}
    assert set(texts) == set(SESSIONS), "run: python tests/recorded/record.py"
    assert len(SESSIONS) >= 40
    files = [path for path in EXPECTED.rglob("*") if path.is_file()]
    named = "".join(texts.values())
    assert all(f"@{path.stem}\n" in named for path in SHARED.glob("*.txt")), "run: python tests/recorded/record.py"
    assert sum(path.stat().st_size for path in files) < MOST


def test_a_written_session_is_read_as_it_was(tmp_path: Path) -> None:
    long = "x" * 2000 + "\\n" + "y"
    messages = f'[{{"content":"a\\n\\nb"}},{{"content":"{long}"}}]'
    raw = f'{{"model":"m","messages":{messages},"tools":[{{"name":"t"}}]}}'.encode()
    lines, spelling = body_lines(raw)
    assert body_bytes(lines, spelling) == raw and len(lines) == 4
    more = [*lines[:-1], 'messages[2] {"content":"exit 5"}', lines[-1]]
    steps = [
        Step("one", ["model x"], [Request("POST /a", lines), Request("POST /a", more)], ["exit 0", "  |said"]),
        Step("two", [], [Request("POST /a", lines)], []),
    ]
    text = write_session("About.", steps, tmp_path)
    assert read_session(text, tmp_path) == steps
    assert text.count("a\\n\n  |\\n\n  |b") == 1, "what was sent before is not written again"
