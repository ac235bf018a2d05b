"""What the program prints has the keys and types that are promised, no more and no fewer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from json_shape import problems, problems_of_line
from plugins.plugin_layouts import make_hookify
from program.stage import PRICED, QUICK, Seen, Stage, calls, play, stage
from ui.print.test_jsonl_renderer import EVENTS
from worktrees.repository import make_project

from nexus_cli.cli import app
from nexus_cli.cli.doc_pages import page_text
from nexus_cli.cli.run.rehearse_turn import PriceReport
from nexus_cli.core.approval import Deny
from nexus_cli.core.errors import ErrorObject
from nexus_cli.core.event import LineEvent, Notice
from nexus_cli.core.event_json import AskResult, EventNumbers, ResultLine
from nexus_cli.core.json_schema import json_keys, json_schema
from nexus_cli.core.message import ToolCall, ToolResult

LINES = {get_args(json_keys(kind)["type"])[0]: kind for kind in (*get_args(LineEvent), ResultLine)}


SCRIPT: list[Any] = [
    calls(("glob", {"pattern": "*"}), ("bash", {"command": "seq 1 60000"})),
    calls(("bash", {"command": "touch made"}), ("recall", {"id": "d1", "range": "0:100"})),
    calls(("agent", {"task": "look around"})),
    "the worker's report",
    "done",
    "again",
]


def conversation(root: Path) -> dict[str, Any]:
    with stage(root, SCRIPT) as place:
        (place.folder / "NEXUS.md").write_text("Be brief.\n")
        skill = place.nexus_home / "config" / "skills" / "release"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: release\ndescription: How to release.\n---\nRun make.\n")
        place.run("rules", "add", "deny", "bash(git push *)")
        told: dict[str, Any] = {"new": reports_of(place, ("context",))}
        streamed = place.ask("--stream-json", "hi")
        told["lines"] = [json.loads(line) for line in streamed.stdout.splitlines()]
        told["result"] = place.ask("--json", "-c", "more").result
        told["failed"] = place.ask("--json", "--modle").result
        (denied,) = told["lines"][-1]["denied"]
        told["reports"] = reports_of(
            place,
            ("context",),
            ("context", "--step", "2"),
            ("context", "--diff"),
            ("drops",),
            ("sessions", "list"),
            ("usage",),
            ("why",),
            ("why", denied["id"]),
            ("rules", "test", "ls && git push"),
            ("model", "list"),
            ("model", "show", "openai/gpt-4o"),
            ("doctor",),
            ("doctor", "--instructions"),
            ("timeline",),
            ("cache",),
            ("cache", "why"),
            ("replay",),
            ("sessions", "show", told["result"]["session"]),
            ("sessions", "search", "done"),
            ("memory", "add", "tests run with make"),
            ("memory", "list"),
            ("memory", "search", "make"),
            ("memory", "forget", "m1"),
            ("skill", "list"),
            ("plugin", "add", str(make_hookify(root / "hookify")), "--all"),
            ("plugin", "list"),
            ("rules", "list"),
            ("config", "show"),
            ("config", "get", "limits.max_steps"),
            ("config", "set", "ui.theme", "dark"),
            ("agents",),
            ("agents", "show", "w1"),
            ("jobs",),
            ("goal",),
            ("pin",),
            ("key",),
            ("diff",),
            ("drops", "show", "d1"),
            ("skill", "use", "release"),
            ("export", "--jsonl"),
            ("sessions", "rename", told["result"]["session"], "tea"),
            ("status",),
            ("ask", "--price", "-c", "hi"),
        )
        return told


def later(root: Path) -> dict[str, Any]:
    script = {"default": calls(("wait_for", {"file": "ci.log", "timeout": "2 hours"}))}
    with stage(root) as place:
        place.settings(QUICK + PRICED + '[spaces]\nname = "Husam"\n')
        place.script(script)
        place.folder.rmdir()
        make_project(place.folder)
        place.ask("wait")
        (place.folder / ".nexus").mkdir()
        (place.folder / ".nexus" / "config.toml").write_text("model = 'x'\n[limits]\nmax_steps = 5\n")
        (place.folder / ".nexus" / "SOUL.md").write_text("Be kind.\n")
        write = calls(("write_file", {"path": "new.txt", "content": "x"}))
        place.script({"rules": [{"when": {"last_role": "tool"}, "then": "done"}], "default": write})
        place.ask("-w", "beside", "--allow", "edit", "change it")
        return reports_of(
            place,
            ("sessions", "--running"),
            ("runs", "list"),
            ("runs", "show", "run-1"),
            ("timeline", "--run", "run-1"),
            ("runs", "cancel", "1"),
            ("schedule", "add", "work", "--in", "2h"),
            ("schedule", "list"),
            ("space", "create", "alpha"),
            ("space", "post", "alpha", "hello"),
            ("space", "list"),
            ("space", "read", "alpha"),
            ("timeline", "--space", "alpha"),
            ("worktree", "list"),
            ("serve", "--once"),
            ("trust", "--revoke"),
            ("trust", "."),
        )


def reports_of(place: Stage, *lines: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for words in lines:
        done = place.run(*words, "--json")
        assert done.stdout, (words, done.stderr)
        found[" ".join(words[:2])] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, conversation, later)


def check(found: Iterable[tuple[Any, Any]]) -> None:
    assert [problem for value, kind in found for problem in problems(value, kind, kind.__name__)] == []


def test_the_results_of_ask_have_their_type(seen: Seen) -> None:
    told = seen["conversation"]
    check((told[name], AskResult) for name in ("result", "failed"))
    assert told["lines"][-1]["drops"] and told["lines"][-1]["denied"] and told["failed"]["error"]


def test_every_line_of_a_stream_has_the_type_that_it_names(seen: Seen) -> None:
    lines = seen["conversation"]["lines"]
    check((line, LINES[line["type"]]) for line in lines)
    assert {line["type"] for line in lines} >= {
        "session.start",
        "turn.start",
        "step.start",
        "context.plan",
        "text.delta",
        "tool.call",
        "tool.result",
        "context.drop",
        "context.recall",
        "cache.expect",
        "cache.result",
        "step.end",
        "turn.end",
        "agent.state",
        "result",
    }
    assert any("agent" in line for line in lines)


@pytest.mark.matrix
def test_a_report_has_the_type_that_its_verb_declares(seen: Seen) -> None:
    reports = {**seen["conversation"]["reports"], **seen["later"]}
    check([(reports.pop("ask --price"), PriceReport)])
    assert [one for line, value in reports.items() for one in problems_of_line(f"nexus {line}", value)] == []
    told = seen["conversation"]["reports"]
    assert told["drops"]["drops"] and told["context"]["drops"] and told["rules list"]["rules"]
    assert told["skill list"]["skills"] and told["memory list"]["facts"] and seen["later"]["worktree list"]["worktrees"]


def test_every_event_has_a_line_with_its_fields() -> None:
    """Also those that no test provokes: a new event needs a sample, a new field its type in JSON."""
    numbers = EventNumbers()
    lines = list(map(numbers.event_line, EVENTS))
    assert {line["type"] for line in lines} == LINES.keys() - {"result"}
    loose = {"context.plan": "plan", "agent.state": "worker"}  # the samples have a part of these objects
    for line in lines:
        found = problems(line, LINES[line["type"]])
        assert [one for one in found if not one.startswith(f".{loose.get(line['type'], '-')}.")] == [], line


def test_a_field_that_only_the_ledger_needs_is_in_no_line() -> None:
    shown = json_keys(ToolResult).keys()
    assert {one.name for one in fields(ToolResult)} - shown == {"edits", "full", "images", "memos", "outline", "parts"}
    assert "is_wrapped" not in json_keys(ToolCall) and "answer" in json_keys(Deny)


def test_what_is_not_promised_is_found() -> None:
    error = {"kind": "usage", "message": "x", "hint": ""}
    assert not [*problems(error, ErrorObject)]
    wrong: list[Any] = [{**error, "more": 1}, {"kind": "usage"}, {**error, "hint": None}, [], None]
    assert all([*problems(value, ErrorObject)] for value in wrong)
    assert [*problems(True, int)] and [*problems("1", float | None)] and not [*problems(1, float)]
    assert [*problems([{"a": "x"}], list[dict[str, int]])] and [*problems({}, list[str])]


def test_every_command_with_json_is_on_the_page() -> None:
    page, found = page_text("json"), [*commands_with_json(app.build(completion=False), "nexus")]
    assert len(found) > 40
    named = {name: name.rpartition(" ") for name in found}
    ways = {name: rf"`{name} [^`]*--json`|`{group} [^\n]*`{last}`" for name, (group, _, last) in named.items()}
    left = [f"`{name} --json`" for name, way in ways.items() if not re.search(way, page)]
    assert not left, f"add to nexus_cli/docs/json.md, with the shape of its object: {', '.join(left)}"


def commands_with_json(command: Any, path: str) -> Iterator[str]:
    if any("--json" in param.opts for param in command.params):
        yield path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from commands_with_json(command.get_command(None, name), f"{path} {name}")


def test_a_schema_has_the_keys_of_its_type() -> None:
    schema = json_schema(AskResult)
    assert [*schema["required"], "until", "not_covered"] == list(get_type_hints(AskResult))
    assert schema["properties"]["session"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema["properties"]["drops"]["items"]["properties"]["cause"]["enum"][0] == "section_budget"
    assert "agent" not in json_schema(Notice)["required"]
