"""No way around what the person forbade: a tool of a server is refused under each of its names and through `mcp`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, calls, stage
from search import sample

SERVER = Path(__file__).with_name("notes_server.py")
ADD = "mcp__notes__add_note"
TEXT = {"text": "buy milk"}
pytest.importorskip("mcp")

WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    (ADD, TEXT),
    ("use_tool", {"name": ADD, "arguments": TEXT}),
    ("use_tool", {"name": ADD, "arguments": json.dumps(TEXT)}),
    ("use_tool", {"name": "mcp__NOTES__add_note", "arguments": TEXT}),
    ("use_tool", {"name": "use_tool", "arguments": {"name": ADD, "arguments": TEXT}}),
    ("use_tool", {"name": "add_note", "arguments": TEXT}),
    ("MCP__NOTES__ADD_NOTE", TEXT),
    ("mcp__notes__add-note", TEXT),
    ("mcp.notes.add_note", TEXT),
)


def model(body: Any) -> dict[str, Any]:
    """Tries each way in turn."""
    tried = sum(one["role"] == "tool" for one in body["messages"])
    return calls(WAYS[tried]) if tried < len(WAYS) else {"text": "Done."}


@pytest.mark.parametrize(
    ("rules", "arguments"),
    sample(
        [
            ("", ("--allow", "run")),
            ("allow mcp__notes__*", ("--no-tools",)),
            ("allow mcp__notes__*\ndeny mcp__notes__add_note", ("--allow", "all")),
            ("deny mcp__notes__*", ("--allow", "all")),
            ("deny mcp__Notes__*", ("--allow", "all")),
            ("allow mcp__notes__*", ("--recipe", "narrow", "--allow", "all")),
        ],
        6,
    ),
)
def test_a_refused_tool_of_a_server_runs_in_no_way(tmp_path: Path, rules: str, arguments: tuple[str, ...]) -> None:
    with stage(tmp_path, model) as place:
        notes = place.folder / "notes.txt"
        place.settings(QUICK + PRICED)
        recipe = place.nexus_home / "config" / "recipes" / "narrow.toml"
        recipe.parent.mkdir(parents=True, exist_ok=True)
        recipe.write_text('[limits]\ntools = ["read_file"]\n')
        assert place.run("mcp", "add", "notes", sys.executable, str(SERVER), str(notes)).status == 0
        for rule in rules.splitlines():
            assert place.run("rules", "add", rule).status == 0
        asked = place.ask(*arguments, "--json", "go")
        assert asked.status == 0, asked
        assert len(place.results) == len(WAYS) and not notes.exists(), place.server.requests[-1].results
