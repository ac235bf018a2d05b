"""The page "ten minutes with nexus": every line of it, typed in its order, and what a newcomer would look at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from program.stage import calls, stage
from programs import need

from nexus_cli.cli.doc_pages import page_text

FIXED = "return sum(prices) * (1 - share)"
EDIT = {"path": "cart.py", "edits": [{"old": "return sum(prices) * share", "new": FIXED}]}
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", page_text("start"), re.M | re.S) for line in block.splitlines()
]


def model(body: Any) -> dict[str, Any]:
    """Fix the bug once it is asked to, and answer in words else."""
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    if "Fix the bug" not in first:
        return {"text": "It multiplies by the share."}
    if body["messages"][-1]["role"] == "tool":
        return {"text": "Fixed."}
    return calls(("read_file", {"path": "cart.py"}), ("edit_file", EDIT))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Exit status and output of each line, and cart.py after it."""
    need("git")
    root: Path = tmp_path_factory.mktemp("start")
    after = 'echo "@@ $?"; cat cart.py 2>/dev/null; echo "@@"'
    with stage(root, model) as place:
        done = place.shell("\n".join(f"{line}\n{after}" for line in LINES))
        (root / "bug.txt").write_text((place.folder / "shop" / "bug.txt").read_text())
    parts = re.findall(r"(.*?)@@ (\d+)\n(.*?)@@\n", done.text, re.DOTALL)
    assert len(parts) == len(LINES), done
    return {line: (int(status), said, cart) for line, (said, status, cart) in zip(LINES, parts, strict=True)} | {
        "bug.txt": (0, (root / "bug.txt").read_text(), "")
    }


def test_every_line_of_the_page_ends_well(typed: dict[str, tuple[int, str, str]]) -> None:
    assert len(LINES) == len(set(LINES)) >= 16
    asked = "nexus rules test 'git push'"
    assert {line: status for line, (status, _, _) in typed.items() if status} == {asked: 1}, "1: it asks"


def test_the_answers_are_what_the_page_says(typed: dict[str, tuple[int, str, str]]) -> None:
    assert typed["bug.txt"][1] == "It multiplies by the share.\n"
    assert f"+    {FIXED}" in typed["nexus diff"][1]
    states = {line: FIXED in cart for line, (_, _, cart) in typed.items()}
    assert states['nexus ask --allow edit "Fix the bug in cart.py."'] and states["nexus diff"]
    assert not states["nexus undo"] and states["nexus redo"]
    assert "tokens" in typed["nexus context"][1] and "openai/scripted" in typed["nexus usage"][1]
    assert (
        "What does total" in typed["nexus sessions list --all"][1]
        or "Fix the bug" in typed["nexus sessions list --all"][1]
    )
    assert typed["nexus docs undo"][1].startswith("commands ")


def test_what_is_typed_in_the_session_of_the_page_exists() -> None:
    from nexus_cli.commands import discover

    session = re.findall(r"^> (.*)$", page_text("start"), re.MULTILINE)
    commands = [line[1:] for line in session if line.startswith("/")]
    assert len(session) >= 5 and commands and set(commands) <= set(discover())
