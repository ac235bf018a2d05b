"""The job: "add area, perimeter and a version to the shapes", by a manager with three workers in worktrees.

One worker leaves a red test and is sent back, one changes the line that another one changed too. The manager looks at
each diff, applies what is good, resolves the conflict, and runs the tests. The person does nothing but read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from programs import need
from project_files import commit_all
from server.received import tool_results

PROMPT = "Let three workers add area, perimeter and a version, each with a test; bring it together."
SHAPES = 'NAMES = ["square"]\n'
TEST = "import unittest\n\nimport shapes\n\n\nclass {0}(unittest.TestCase):\n    def test_{1}(self):\n        {2}\n"
SUITE = "python3 -m unittest -q 2>&1 | tail -4"


def worker(name: str, code: str, check: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a worker that adds `name` to the shapes, with a test."""
    return [
        (
            "edit_file",
            {
                "path": "shapes.py",
                "edits": [{"old": '["square"]', "new": f'["square", "{name}"]'}, {"old": "", "new": code}],
            },
        ),
        ("write_file", {"path": f"test_{name}.py", "content": TEST.format(name.title(), name, check)}),
        ("bash", {"command": SUITE}),
    ]


AREA = worker("area", "\n\ndef area(side):\n    return side * side\n", "self.assertEqual(shapes.area(3), 9)")
WRONG = "\n\ndef perimeter(side):\n    return side + side\n"
PERIMETER = worker("perimeter", WRONG, "self.assertEqual(shapes.perimeter(3), 12)")
VERSION: list[tuple[str, dict[str, Any]]] = [
    ("edit_file", {"path": "shapes.py", "edits": [{"old": '["square"]', "new": '["square", "v2"]'}]}),
    ("write_file", {"path": "version.txt", "content": "2\n"}),
]
MENDED: dict[str, Any] = {"old": "side + side", "new": "4 * side"}


def made(body: Any) -> list[dict[str, Any]]:
    return [call["function"] for one in body["messages"] for call in one.get("tool_calls") or ()]


def works(body: Any, steps: list[tuple[str, dict[str, Any]]], report: str) -> dict[str, Any]:
    done = made(body)
    return calls(*steps) if not done else {"text": report}


def repairs(body: Any) -> dict[str, Any]:
    """The worker that leaves a red test, and mends it when it is told."""
    last = str(body["messages"][-1]["content"])
    if "four sides" in last:
        return calls(
            ("edit_file", {"path": "shapes.py", "edits": [MENDED]}),
            ("bash", {"command": SUITE}),
        )
    if len(made(body)) > len(PERIMETER):
        return {"text": f"Mended. {'OK' if 'OK' in tool_results(body)[-1] else 'Still red.'}"}
    return works(body, PERIMETER, "Done, but test_perimeter fails.")


def manages(body: Any) -> dict[str, Any]:
    done, got = made(body), tool_results(body)
    if not done:
        tasks = ("TASK area", "TASK perimeter", "TASK version")
        return calls(*(("agent", {"task": task, "worktree": True}) for task in tasks))
    asked = [(one["name"], json.loads(one["arguments"])) for one in done]
    acts = [arguments.get("action") for name, arguments in asked if name == "agents"]
    if not acts:
        return calls(*(("agents", {"action": "diff", "agent": f"w{number}"}) for number in (1, 2, 3)))
    if "steer" not in acts:
        assert "side + side" in got[4] and "+2" in got[5] and "def area" in got[3], got[3:6]
        return calls(("agents", {"action": "steer", "agent": "w2", "text": "It has four sides. Mend it."}))
    if "apply" not in acts:
        assert "Mended. OK" in got[6], got[6]
        return calls(
            ("agents", {"action": "diff", "agent": "w2", "path": "shapes.py"}),
            ("agents", {"action": "apply", "agent": "w1"}),
            ("agents", {"action": "apply", "agent": "w2"}),
        )
    if asked[-1][0] == "agents":
        assert "4 * side" in got[7] and "test_perimeter" not in got[7], got[7]
        assert "applied shapes.py" in got[8] and "conflict in shapes.py" in got[9], got[8:10]
        assert "1 conflict marked in the file; `yours` marks the project's version" in got[9], got[9]
        assert "applied test_perimeter.py" in got[9], got[9]
        return calls(("read_file", {"path": "shapes.py"}))
    if asked[-1][0] == "read_file":
        text = AREA[0][1]["edits"][1]["new"] + PERIMETER[0][1]["edits"][1]["new"].replace("side + side", "4 * side")
        whole = '"""Shapes."""\n\nNAMES = ["square", "area", "perimeter"]\n' + text
        return calls(("write_file", {"path": "shapes.py", "content": whole}), ("bash", {"command": SUITE}))
    tests = "OK" if "OK" in got[-1] else got[-1]
    return {"text": f"area and perimeter are in. The tests: {tests}. w3 is left: the version clashes."}


def model(body: Any) -> dict[str, Any]:
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    if "TASK area" in first:
        return works(body, AREA, "Done, the tests pass.")
    if "TASK perimeter" in first:
        return repairs(body)
    return works(body, VERSION, "Done.") if "TASK version" in first else manages(body)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path, model) as made_stage:
        folder = made_stage.folder
        (folder / "shapes.py").write_text(SHAPES)
        (folder / ".gitignore").write_text("__pycache__/\n")
        commit_all(folder)
        yield made_stage


def test_a_manager_brings_the_work_of_three_workers_together(place: Stage) -> None:
    done = place.ask("--allow", "auto", "--json", PROMPT)
    assert done.status == 0, done
    result = done.result
    assert result["text"].startswith("area and perimeter are in. The tests: OK."), result["text"]
    names = {"shapes": "4 * side", "test_area": "area(3), 9", "test_perimeter": "perimeter(3), 12"}
    for name, words in names.items():
        assert words in (place.folder / f"{name}.py").read_text()
    assert not (place.folder / "version.txt").exists(), "what was not applied stays in its worktree"
    changed = {Path(one).name for one in result["files_changed"]}
    assert changed == {"shapes.py", "test_area.py", "test_perimeter.py"}, changed
    listed = place.run("worktree", "list", "--json").result["worktrees"]
    assert len(listed) == 3 and sum(one["state"] == "applied" for one in listed) == 2, listed


def test_a_manager_that_may_not_edit_looks_and_applies_nothing(place: Stage) -> None:
    def reviews(body: Any) -> dict[str, Any]:
        first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
        if "TASK" in first:
            return works(body, [("write_file", {"path": "new.py", "content": "x = 1\n"})], "Done.")
        got = tool_results(body)
        if not got:
            return calls(("agent", {"task": "TASK", "worktree": True}))
        if str(body["messages"][-1]["content"]).endswith("apply it"):
            return calls(("agents", {"action": "diff"}), ("agents", {"action": "apply"}))
        return {"text": "\n".join(got)}

    place.script(reviews)
    done = place.ask("--allow", "edit", "--json", "go")
    assert "See its `diff` with `agents`" in done.result["text"]
    assert "nexus: the changes of worker w1 were not applied; to review them: nexus worktree diff" in done.told[-1], (
        done
    )
    said = place.ask("-c", "--allow", "ask", "--json", "apply it").result["text"]
    assert (
        "+x = 1" in said and "not applied: the call changes files. The person can run: nexus worktree apply" in said
    ), said
    assert not (place.folder / "new.py").exists()
    done = place.ask("-c", "--allow", "edit", "--json", "apply it")
    said = done.result["text"]
    assert not any("not applied" in line for line in done.told)
    assert said.endswith("applied new.py") and (place.folder / "new.py").read_text() == "x = 1\n", said
