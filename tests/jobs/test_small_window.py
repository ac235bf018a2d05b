"""The job: "total() forgets the tax, mend it", by a model with 8,192 tokens, as llama.cpp and Ollama serve by default.

It reads a file, edits it and runs its test; every request leaves room for the reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, QUICK, Stage, calls, stage
from server.received import tool_results

from nexus_cli.conversation.tokens.counter import TiktokenCounter

WINDOW, REPLY = 8192, 2048
SMALL = f'[models."{MODEL}"]\nwindow = {WINDOW}\nmax_output = {REPLY}\n'
PART = "def part_{0}(items):\n    total = {0}\n    for item in items:\n        total += item\n    return total\n\n\n"
PARTS = "".join(PART.format(number) for number in range(60))
RULES = "".join(f"- Rule {number}: keep part {number} short.\n" for number in range(150))
BEFORE = f"{PARTS}def total(prices, tax):\n    return sum(prices)\n"
TEST = "import shop\n\nassert shop.total([1, 2], 1) == 4, shop.total([1, 2], 1)\nprint('passed')\n"
COUNT = TiktokenCounter("o200k_base").count


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(QUICK + SMALL)
        (made.folder / "shop.py").write_text(BEFORE)
        (made.folder / "test_shop.py").write_text(TEST)
        (made.folder / "AGENTS.md").write_text(f"# Rules\n\n{RULES}")
        yield made


STEPS = [
    calls(("bash", {"command": "python3 test_shop.py"})),
    calls(("read_file", {"path": "shop.py"})),
    calls(("grep", {"pattern": "def total", "path": "shop.py"})),
    calls(("read_file", {"path": "shop.py", "offset": 421})),
    calls(("edit_file", {"path": "shop.py", "edits": [{"old": "sum(prices)\n", "new": "sum(prices) + tax\n"}]})),
    calls(("bash", {"command": "python3 test_shop.py"})),
    calls(("read_file", {"path": "shop.py", "offset": 1, "limit": 200})),
    calls(("bash", {"command": "python3 test_shop.py && seq 3000"})),
]


def test_a_task_is_done_in_a_window_of_8192_tokens(place: Stage) -> None:
    seen: list[Any] = []
    done = iter(STEPS)

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        return dict(next(done, {"text": "Done."}) if body.get("tools") else {"text": "The tax was added; tests pass."})

    place.script(model)
    run = place.ask("--allow", "auto", "--json", "total() forgets the tax, mend it.")
    assert run.status == 0 and next(done, None) is None, run
    assert (place.folder / "shop.py").read_text() == BEFORE.replace("sum(prices)\n", "sum(prices) + tax\n")
    results = tool_results(seen[-1])
    assert any("passed" in one for one in results), results
    sizes = [COUNT(str(body["messages"])) + COUNT(str(body.get("tools", ""))) for body in seen]
    assert max(sizes) <= (WINDOW - REPLY) * 1.1, sizes
    offered = {tool["function"]["name"] for tool in seen[0]["tools"]}
    assert offered >= {"read_file", "edit_file", "write_file", "bash", "grep", "glob"}
    assert not offered & {"plan", "agent", "agents", "wait_for", "context", "remember"}, offered


def test_the_person_is_told_once_and_in_the_report(place: Stage) -> None:
    place.script(lambda _body: {"text": "Hello."})
    run = place.ask("Say hello.")
    [line] = [line for line in run.told if "small context window" in line]
    assert line.endswith("small context window (8,192 tokens): only the file and command tools are available")
    report = place.run("context", "--json").result
    assert [one for one in report["notices"] if one.startswith("small context")] == [line.removeprefix("nexus: ")]
    place.settings(QUICK + SMALL.replace("8192", "128000"))
    run = place.ask("Say hello.")
    assert not [line for line in run.told if "small context window" in line], run.told
