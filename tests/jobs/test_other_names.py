"""The job: "let total() round, with a test", for models that call the tools of the program they were trained with.

What they call runs as our tools, with our rules; the ledger keeps what they sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from search import sample
from server.received import tool_results

BEFORE = "def total(prices):\n    return sum(prices)\n"
AFTER = "def total(prices):\n    return round(sum(prices), 2)\n"
TEST = "import shop\n\nassert shop.total([0.1, 0.2]) == 0.3\nprint('passed')\n"
ADDED = "".join(f"+{line}\n" for line in TEST.splitlines())
PATCH = (
    "*** Begin Patch\n*** Update File: shop.py\n@@ def total(prices):\n-    return sum(prices)\n"
    f"+    return round(sum(prices), 2)\n*** Add File: test_shop.py\n{ADDED}*** End Patch"
)
EDIT = {"old_string": "return sum(prices)", "new_string": "return round(sum(prices), 2)"}
STYLES: dict[str, list[Any]] = {
    "one": [
        calls(("Read", {"file_path": "shop.py"}), ("LS", {"path": "."})),
        calls(("Edit", {"file_path": "shop.py", **EDIT}), ("Write", {"file_path": "test_shop.py", "content": TEST})),
        calls(("Bash", {"command": "python3 test_shop.py", "description": "Run the test"})),
        calls(("Read", {"file_path": "shop.py"})),
    ],
    "two": [
        calls(("shell", {"command": ["bash", "-lc", "cat shop.py"]})),
        calls(("apply_patch", {"input": PATCH})),
        calls(("shell", {"command": ["python3", "test_shop.py"]})),
    ],
    "three": [
        calls(("str_replace_editor", {"command": "view", "path": "shop.py", "view_range": [1, 2]})),
        calls(
            (
                "str_replace_editor",
                {"command": "str_replace", "path": "shop.py", "old_str": "sum(prices)", "new_str": "sum(prices, 2)"},
            )
        ),
        calls(
            ("write", {"filePath": "shop.py", "content": AFTER}),
            ("write", {"filePath": "test_shop.py", "content": TEST}),
        ),
        calls(("local_shell", {"command": ["python3", "test_shop.py"]})),
    ],
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        (made.folder / "shop.py").write_text(BEFORE)
        yield made


def live(place: Stage, steps: list[Any], level: str = "auto") -> tuple[list[str], dict[str, Any]]:
    """The results that the model got, and the JSON of the run."""
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        step = sum(one["role"] == "assistant" for one in body["messages"])
        return dict(steps[step]) if step < len(steps) else {"text": "Done."}

    place.script(model)
    done = place.ask("--allow", level, "--json", "Let total() round, with a test.")
    sent = [call["function"] for one in seen[-1]["messages"] for call in one.get("tool_calls") or ()]
    given = [call for step in steps for call in step["calls"]]
    assert [(one["name"], json.loads(one["arguments"])) for one in sent] == [
        (one["name"], one["arguments"]) for one in given
    ], "the window keeps what the model sent"
    return tool_results(seen[-1]), done.result


@pytest.mark.parametrize("style", sample(STYLES, 3))
def test_the_job_is_done_in_the_words_of_another_program(place: Stage, style: str) -> None:
    results, run = live(place, STYLES[style])
    assert (place.folder / "shop.py").read_text() == AFTER, results
    assert (place.folder / "test_shop.py").read_text() == TEST
    assert any("passed\n" in one for one in results), results
    text = "\n".join(results)
    names = {call["name"] for step in STYLES[style] for call in step["calls"]}
    assert all(text.count(f"[{name} is ") == 1 for name in names - {"apply_patch"}), "our name is told once"
    assert sorted(run["files_changed"]) == ["shop.py", "test_shop.py"], run


def test_rules_and_levels_decide_on_what_the_call_becomes(place: Stage) -> None:
    place.settings(QUICK + PRICED + '[rules]\ndeny = ["edit_file(shop.py)", "bash(python3 *)"]\n')
    steps = [
        calls(
            ("shell", {"command": ["python3", "test_shop.py"]}),  # behind a refused edit it would not even be decided
            ("Edit", {"file_path": "shop.py", **EDIT}),
            ("apply_patch", {"input": PATCH}),
            ("Read", {"file_path": "/etc/shadow"}),
        )
    ]
    results, run = live(place, steps, "all")
    assert all("deny" in one for one in results[:3]), results
    assert (place.folder / "shop.py").read_text() == BEFORE and not (place.folder / "test_shop.py").exists()
    assert {row["tool"] for row in run["denied"]} >= {"edit_file", "apply_patch", "bash"}, run["denied"]
    place.settings(QUICK + PRICED)
    results, _ = live(place, STYLES["two"], "read")
    assert "not permitted" in results[1] and (place.folder / "shop.py").read_text() == BEFORE, results


def test_what_is_not_the_same_is_refused_with_the_nearest_name(place: Stage) -> None:
    results, _ = live(place, [calls(("Grep", {"pattern": "x", "output_mode": "count"}), ("Edit", {"path": "shop.py"}))])
    assert results[0].startswith("there is no tool 'Grep'. Did you mean grep?"), results
    assert results[1].startswith("there is no tool 'Edit'. Did you mean edit_file?"), results
