"""What the README promises a newcomer: its five lines are run, its figures are those that were measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from parity.first_request import count
from parity.peers import PACKAGES
from program.stage import Done, calls, stage
from programs import need

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "README.md").read_text()
FIVE = PAGE.partition("## Five lines to try")[2].partition("\n## ")[0]
LINES = [line.replace("\\|", "|") for line in re.findall(r"^\| .* \| `(.+)` \|$", FIVE, re.MULTILINE)]
BESIDE = PAGE.partition("## Comparison")[2].partition("\n## ")[0]


def model(body: Any) -> dict[str, Any]:
    """Remove what nobody has a copy of, once."""
    asked = body["messages"][-1]["role"] == "user" and "clean up" in str(body["messages"][-1]["content"])
    return calls(("bash", {"command": "rm -rf src .env"})) if asked else {"text": "Done."}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """How each line ended, after a session whose commands removed a folder and an ignored file."""
    need("git")
    with stage(tmp_path_factory.mktemp("readme"), model) as place:
        (place.folder / ".gitignore").write_text(".env\n")
        (place.folder / ".env").write_text("the only copy\n")
        (place.folder / "src").mkdir()
        (place.folder / "src/a.py").write_text("x = 1\n" * 40_000)
        commit = "git -c user.name=a -c user.email=a@b.c commit -qm one"
        assert place.shell(f"git init -q && git add . && {commit}").status == 0
        assert place.ask("--allow", "all", "clean up").status == 0
        assert not (place.folder / ".env").exists() and not (place.folder / "src").exists()
        done = {line: place.shell(line) for line in LINES}
        assert (place.folder / ".env").read_text() == "the only copy\n" and (place.folder / "src/a.py").exists()
        return done


def test_each_of_the_five_lines_does_what_it_promises(tried: dict[str, Done]) -> None:
    assert len(LINES) == 5 and re.search(r"last tried \d{4}-\d\d-\d\d", FIVE)
    undo, context, replay, cache, pipeline = (tried[line] for line in LINES)
    assert undo.status == 0 and ".env" in undo.text and "src/a.py" in undo.text
    assert context.status == 0 and "tokens" in context.text and "contract" in context.text
    assert replay.status == 0 and "2" in replay.text
    assert cache.status == 0 and cache.text.strip()
    assert pipeline.status == 4 and "Nothing was sent" in pipeline.told[-1]


def test_the_figures_beside_others_are_the_measured_ones(tmp_path: Path) -> None:
    header, tools, tokens = re.findall(r"^\| (.+) \|$", BESIDE, re.MULTILINE)
    pins = json.loads((ROOT / "tests/parity/package.json").read_text())["dependencies"]
    versions = [name.split()[-1] for name in header.split(" | ")[1:]]
    assert versions[1:] == [pins[package] for package in PACKAGES.values()]
    measured = (ROOT / "tests/parity/README.md").read_text().replace("\n", " ")
    figures = zip(*(row.split(" | ")[1:] for row in (tools, tokens)), strict=True)
    for version, (number, size) in zip(versions, figures, strict=True):
        assert re.search(rf"{version} {number}(?: tools)? and {size}\b", measured), (
            "python tests/parity/first_request.py"
        )
    with stage(tmp_path) as place:
        place.ask("go")
        number_now, tokens_now = count(place.server.requests[0].raw.decode())
    said = int(tokens.split(" | ")[1].replace(",", ""))
    assert number_now == int(tools.split(" | ")[1]) and abs(tokens_now - said) < 0.1 * said
