"""The program with workers: real litellm, a scripted server, what goes over the wire and what is printed."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage, until
from search import sample

TASKS = ("TASK ONE: name the file", "TASK TWO: count it")
GO = calls(*(("agent", {"task": task}) for task in TASKS))


def role(place: Stage, request: Any) -> str:
    """Whose request it is: `root`, or the beginning of its task."""
    text = str(request.body["messages"])
    return next((task[:8] for task in TASKS if f"# Task\\n{task}" in text), "root")


def script() -> dict[str, Any]:
    """Two tasks of two steps each."""
    rules: list[dict[str, Any]] = [{"when": {"contains": "hand over", "last_role": "user"}, "then": GO}]
    for task in TASKS:
        rules.append({"when": {"contains": task, "last_role": "user"}, "then": calls(("glob", {"pattern": task[:8]}))})
    rules.append({"when": {"contains": "TASK ONE", "last_role": "tool"}, "then": {"text": "one is done"}})
    return {"rules": rules, "default": {"text": "the second is done"}}


@pytest.mark.parametrize("model", sample(["openai/gpt-4o", "anthropic/claude-sonnet-5"], 2))
def test_workers_send_their_parents_bytes_and_their_events_are_marked(model: str, tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.script(script())
        place.settings(QUICK + PRICED)
        server = {"ANTHROPIC_API_BASE": place.server.url, "ANTHROPIC_API_KEY": "sk-nobody"}
        done = place.ask("--stream-json", "-m", model, "hand over", env=server)
        assert done.status == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        by_role: dict[str, list[Any]] = {}
        for request in place.server.requests:
            by_role.setdefault(role(place, request), []).append(request)
        first = {name: requests[0] for name, requests in by_role.items()}
        fixed = {
            name: [block for block in request.blocks if block.lstrip("0:").startswith(("tools:", "system:"))]
            for name, request in first.items()
        }
        assert set(fixed) == {"root", "TASK ONE", "TASK TWO"} and fixed["root"]
        assert fixed["TASK ONE"] == fixed["TASK TWO"] == fixed["root"]
        marked = [line for line in lines if "agent" in line]
        assert {line["agent"] for line in marked} == {"w1", "w2"}
        assert len({(line["agent"], line["lane"]) for line in marked}) == 2
        own = "".join(line["text"] for line in lines if line["type"] == "text.delta" and "agent" not in line)
        assert own == lines[-1]["text"], "no word of a worker among those of its parent"
        result = lines[-1]
        turns = [line["outcome"]["usage"] for line in marked if line["type"] == "turn.end"]
        steps = [line["usage"] for line in lines if line["type"] == "step.end"]
        assert len(turns) == 2 and len(steps) == 6
        assert result["usage"]["input"] == sum(step["input"] for step in steps)
        assert result["usage"]["cost_usd"] == pytest.approx(sum(step["cost_usd"] for step in steps))
        (listed,) = place.run("sessions", "list", "--all", "--json").result["sessions"]
        assert listed["cost_usd"] == pytest.approx(result["usage"]["cost_usd"])


def test_a_stopped_run_stops_its_workers_and_says_how_to_go_on(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        late = {"text": "x", "delay": 60}
        place.script({"rules": [{"when": {"contains": "hand over"}, "then": GO}], "default": late})
        place.settings(QUICK)
        child = place.begin("ask", "--json", "hand over")
        assert until(lambda: len(place.server.requests) == 3)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=120)
        assert child.returncode == 130 and json.loads(stdout)["error"]["kind"] == "aborted"
        assert b"Resume with: nexus ask -r" in stderr.splitlines()[-1]
