"""Text forms of reports: what matters is there, and lines stay in the width."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample
from wcwidth import wcswidth

from nexus_cli.cli.run.explain_context import brief
from nexus_cli.cli.sessions.consolidate import ConsolidationReport
from nexus_cli.commands import discover
from nexus_cli.commands.forms import MODULES, find_form, forms_of
from nexus_cli.core.json_schema import is_object, json_keys, json_type
from nexus_cli.core.limits import level_fields
from nexus_cli.reports.text.blocks import OneLine, Paragraph, Table, Verbatim, Wrapped
from nexus_cli.reports.text.lines import cut_line, dollars
from nexus_cli.text.cells import cells
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.drawn_report import draw_in_theme
from nexus_cli.ui.render.theme import Theme

NAMES = [name for module in MODULES for name in forms_of(module)]
TYPES = {
    "agent_goals": "GoalsReport",
    "fact": "FactsReport",
    "mcp_servers": "ServersReport",
    "memory": "FactsReport",
    "miss": "MissReport",
    "miss_details": "MissReport",
    "rule_test": "RulesTestReport",
    "settings": "ConfigReport",
    "space_messages": "SpaceReport",
    "why": "LimitsReport",
}
"""The types of values by form, where the name of the form is not that of the type."""
CONTEXT: dict[str, Any] = {
    "version": 1,
    "session": "01J",
    "model": "m",
    "recipe": "chat",
    "epoch": 0,
    "cursor": 14,
    "basis": "reported+estimate",
    "budget": {
        "window": 200000,
        "reserve_reply": 8000,
        "reserve_tools": 8000,
        "available": 184000,
        "used": {"system": 700, "tools": 1300, "history": 81000, "event": 160, "total": 83160},
        "remaining": 100840,
        "pressure": "normal",
    },
    "sections": [
        {
            "id": "instructions.project",
            "layer": "system",
            "tokens": 410,
            "full_tokens": 900,
            "form": "shortened",
            "sticky": True,
            "source": "NEXUS.md",
        }
    ],
    "history": {"entries": 14, "groups": 9, "tokens": 8100, "hidden_entries": 3, "by_kind": {}},
    "tools": [{"name": "read_file", "tokens": 180}],
    "drops": [{"id": "d3", "what": "tool result of c7 (bash)", "tokens": 18000, "cause": "output_cap", "recall": "d3"}],
    "limits": [{"name": "max_steps", "value": 200, "bound_by": "settings"}],
    "largest": [{"what": "result of bash pytest", "tokens": 40_000, "entry": 7}],
    "cached": {"tokens": 80_000},
    "pending": True,
    "notices": ["the window is a guess"],
}


REWRITE: dict[str, Any] = {
    "cause": "pruned",
    "cold": 14_233,
    "saved": 61_000,
    "cost": 0.03,
    "summary_usd": 0.01,
    "break_even": 4,
    "requests": 3,
    "net_usd": -0.5,
    "pays": False,
}


@pytest.mark.parametrize("width", [40, 50, 80, 200])
def test_context_names_the_budget_sections_tools_drops_and_limits(width: int) -> None:
    text = find_form("context")(CONTEXT, width)
    whole = " ".join(text.split())
    for part in ("83,160 of 184,000", "45.2%", "instructions.project", "410 of 900", "shortened", "read_file", "d3"):
        assert part in whole
    assert "max_steps" in text and "settings" in text and "note: the window is a guess" in text
    assert "tool result" in whole and ", next request" in whole and "epoch" not in whole
    rows = text.splitlines()
    assert max(map(len, rows)) <= width
    named = [line.split()[1] for line in rows if line[:4] in ("  # ", "  + ", "  - ", "  . ")]
    assert named == ["system", "tools", "history", "event", "free"]
    bar = next(line.strip() for line in rows if line.startswith("  #"))
    assert bar == "".join(sorted(bar, key="#+-.".index)) and set(bar) == set("#+-.")
    assert abs(bar.count("-") / len(bar) - 82_000 / 184_000) < 0.1
    assert "80,000 of 83,160 tokens (96.2%)" in whole and "result of bash pytest" in whole


@pytest.mark.parametrize("width", [20, 24, 28])
def test_a_narrow_screen_cuts_no_figure_and_leaves_room_for_words(width: int) -> None:
    words = find_form("context")(CONTEXT, width).split()
    used = CONTEXT["budget"]["used"]
    assert {f"{used[name]:,}" for name in ("system", "tools", "history", "event")} <= {*words}
    assert sum(word.endswith("%") for word in words) >= 5 and not [word for word in words if word in ("%", "0%")]
    check = {"name": "path", "status": "ok", "detail": "commands use your own programs", "hint": "a hint"}
    text = find_form("doctor")({"checks": [check], "ok": True, "model": "m"}, width)
    assert all(len(line) - len(line.lstrip()) <= 2 for line in text.splitlines())


def test_sessions_are_a_table_or_a_hint() -> None:
    session = {
        "id": "01J",
        "updated": "2026-01-02T03:04:05Z",
        "turns": 1200,
        "first_text": "fix\nthe test " * 20,
        "name": "",
    }
    text = find_form("sessions")({"sessions": [session]}, 60)
    assert "2026-01-02 03:04" in text and "1,200" in text and "fix the test" in text
    assert max(map(len, text.splitlines())) <= 60
    assert "No sessions" in find_form("sessions")({"sessions": []}, 60)


def test_every_table_can_be_read_in_40_columns() -> None:
    session = {"id": "01M7W0VNRRJTAQJQEP26FZPVAR", "updated": "2026-01-02T03:04:05Z", "turns": 12, "name": "login page"}
    drop = {"id": "d3", "what": "tool result of c7 (bash)", "tokens": 18000, "cause": "output_cap", "uncounted": 9}
    model = {
        "name": "anthropic/claude-sonnet-4-5",
        "window": 200_000,
        "known": True,
        "window_told": False,
        "input_price": 3.0,
        "output_price": 15.0,
        "cache": True,
        "because": ["ANTHROPIC_API_KEY"],
    }
    texts = [
        find_form("sessions")({"sessions": [session] * 2}, 40),
        find_form("sessions")({"sessions": []}, 40),
        find_form("drops")({"drops": [drop]}, 40),
        find_form("models")({"models": [model], "chosen": model["name"]}, 40),
        find_form("doctor")({"checks": [], "ok": True, "model": None}, 40),
    ]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 40 and "…" not in text, text
    assert texts[0].splitlines()[0] == session["id"] and "login page" in texts[0]
    assert "* anthropic/claude-sonnet-4-5" in texts[3] and "source ANTHROPIC_API_KEY" in " ".join(texts[3].split())


def test_a_transcript_is_its_head_and_its_events() -> None:
    said = {"at": "2026-01-02T03:04:05Z", "entry": 1, "actor": "person", "images": []}
    calls: list[dict[str, Any]] = [
        {"id": "c2a", "name": "bash", "arguments": {"command": "ls"}, "raw": ""},
        {"id": "c2b", "name": "glob", "arguments": {}, "raw": "{cut off"},
    ]
    events: list[dict[str, Any]] = [{"type": "turn.start", "text": "  indented words " * 10, **said}]
    for entry, call in enumerate(calls, 3):
        events.append({"type": "tool.call", "call": call, "subject": call["arguments"].get("command", ""), **said})
        result = {"type": "tool.result", "call": call, "result": {"output": "a.txt"}, "tokens": 3, "seconds": 0.1}
        events.append({**result, **said, "entry": entry})
    text = find_form("transcript")({"id": "01J", "model": "m", "turns": 1, "events": events}, 40)
    assert "2026-01-02 03:04 [1]" in text and "* bash ls\n    a.txt" in text and "* glob {cut off\n" in text
    assert max(map(len, text.splitlines())) <= 40


def test_drops_and_replay_say_what_to_do() -> None:
    drop = {"id": "d3", "what": "x", "tokens": 5, "cause": "output_cap", "recalls": 2, "uncounted_bytes": 9}
    text = find_form("drops")({"drops": [drop], "shell": ""}, 80)
    assert "`nexus drops show d3` prints" in text and "2 x" in text and "9 bytes" in text
    assert draw_in_theme("drops", {"drops": [drop]}, 80, Theme()).endswith("\n`/drops show d3` prints the first drop.")
    counted = {"drops": [drop, {**drop, "id": "d4"}], "left_out": 2, "missed": 1}
    said = "2 of 2 recalled; the status line counts 1 (without tool outputs). Tokens"
    assert said in find_form("drops")(counted, 80) and "status line" not in find_form("drops")(
        {**counted, "shell": ""}, 80
    )
    assert find_form("drops")({"drops": []}, 80) == "Nothing was left out."
    good = {"ok": True, "session": "01", "first_difference": None}
    assert find_form("replay")({**good, "requests": 0}, 200).startswith(
        "Session 01 has not sent a request, so there is nothing"
    )
    one = find_form("replay")({**good, "requests": 1}, 200)
    assert one == "nexus rebuilt 1 request of session 01: identical to what was sent."
    assert find_form("replay")({**good, "requests": 3}, 200).startswith("nexus rebuilt 3 requests of session 01")
    assert "line 4" in find_form("replay")(
        {"ok": False, "requests": 3, "session": "01", "first_difference": "line 4"}, 80
    )


WIDTHS = (20, 80)
ODD = (
    "plain",
    "[/bold] {} %s",
    "漢字" * 40,
    "x" * 500,
    "\x1b[31mred\x9b2J",
    "\u202eabc\u200b",
    "two\nlines\tand a tab\r\n",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "e\u0301" * 30,
    "\ud800",
    "",
    " ",
    "a\x00b",
)


KINDS = (
    "user",
    "assistant",
    "tool",
    "request",
    "drop",
    "worker",
    "lane",
    "pin",
    "model",
    "message",
    "signal",
    "waiting",
)
"""Kinds of rows of a timeline, those that differ in their text."""


def values(form: str, text: str, many: int) -> dict[str, Any]:
    """Return the example of a form."""
    examples = examples_of_forms(text, many)
    if form in examples:
        return examples[form]
    kind = form_types().get(form, Any)
    here = "`examples_of_forms` of tests/reports/text/test_report_forms.py"
    told = (
        f'declare the type of its value, `-> Report[NAME]`, or add an example to {here}: "{form}": {{KEY: text, ...}}'
    )
    assert is_object(kind), f"the new form {form}: {told}"
    value = example_of(kind, text, many)
    assert isinstance(value, dict)
    return value


@cache
def form_types() -> dict[str, Any]:
    """Return the types of the values of verbs, by form: the type that `TYPES` or the name of the form names, else that
    of the form's own file."""
    values = {verb.value_type for command in discover().values() for verb in command.verbs}
    kinds = {kind.__name__: kind for value in values if value is not None for kind in objects_in(value)}
    forms = {module: forms_of(module) for module in MODULES}
    own = {form: kind for kind in kinds.values() for form in forms.get(kind.__module__, ())}
    named = {form: TYPES.get(form, f"{form.title()}Report") for form in NAMES}
    return own | {form: kinds[name] for form, name in named.items() if name in kinds}


def objects_in(kind: Any) -> Iterator[Any]:
    """Return the types of objects that a value of this type may be."""
    kind = json_type(kind)
    if get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from objects_in(part)
    elif is_object(kind):
        yield kind


def example_of(kind: Any, text: str, many: int) -> object:
    """Return a value of a type in which every text is `text` and every list has `many` elements."""
    kind = json_type(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if is_object(kind):
        return {key: example_of(part, text, many) for key, part in json_keys(kind).items()}
    if origin is Literal:
        return parts[many % len(parts)]
    if origin is list:
        return [example_of(parts[0], text, many)] * many
    if origin is dict:
        return {text: example_of(parts[1], text, many)}
    if origin in (Union, UnionType):
        return None if many == 0 and type(None) in parts else example_of(parts[0], text, many)
    return {str: text, int: 10**6, float: 0.5, bool: bool(many % 2), Any: text}[kind]


def examples_of_forms(text: str, many: int) -> dict[str, dict[str, Any]]:
    """Return a value of each form in which every text is `text` and every list has `many` elements."""
    cost = None if many else 0.5
    drop = {"id": "d1", "what": text, "tokens": 10**9, "cause": "output_cap", "recalls": many, "uncounted_bytes": many}
    session = {
        "id": "01M7W0VNRRJTAQJQEP26FZPVAR",
        "updated": "2026-01-02T03:04:05Z",
        "turns": many,
        "name": text,
        "first_text": text,
        "folder": text,
        "model": text,
    }
    command = {"name": "context", "usage": "[ID [A:B]]", "summary": text, "help": text, "aliases": [text], "idle": True}
    place = {"entry": 1, "at": text}
    call = {"id": "c1", "name": "bash", "arguments": {"command": text, "other": text, "n": [many]}, "raw": ""}
    planned = {
        "id": "plan-1",
        "name": text if many % 2 else "",
        "prompt": text,
        "state": "active" if many else "done",
        "cron": text if many % 3 else "",
        "zone": text,
        "next_at": text,
        "in": text,
        **level_fields("ask"),
        "rules": [text] * many,
        "until": text * (many % 2),
        "worktree": bool(many % 2),
        "agent": text,
        "ask": bool(many % 2),
        "by": text,
        "last_run": {"id": "run-1", "state": text, "paused": False, "broken_off": many == 2, "came": None}
        if many
        else None,
    }
    worker = {
        "recipe": text,
        "id": "w1.1",
        "session": "01M7W0VNRRJTAQJQEP26FZPVAR" if many else "",
        "task": text,
        "state": "running",
        "doing": text,
        "steps": many,
        "tokens": 10**7,
        "cost_usd": cost,
    }
    goal = {"id": f"g{10**6}", "text": text, "done": bool(many % 2)}
    part = {
        "messages": 10**6,
        "turns": 9,
        "tokens": 10**7,
        "by_kind": {text or "user": 10**7},
        "newest": [{"entry": 10**6, "text": text}] * many,
    }
    happened = {
        "at": "2026-01-02T03:04:05Z" if many else text,
        "actor": {"name": text},
        "text": text,
        "why": text,
        "seen": (True, False, None)[many % 3],
        "trigger": {"type": text} if many else None,
        "tokens": 10**7,
        "cost_usd": cost,
        "seconds": 1234.5,
        "calls": [{"name": text, "subject": text}] * many,
        "subject": text,
        "outcome": "refused",
        "decision": ("ask", "deny", None)[many % 3],
        "answer": None,
        "recalled": ["d1"] * many,
        "step": 10**6,
        "model": text,
        "input": 10**7 if many else None,
        "output": 10**6,
        "cache_read": many,
        "finish": text,
        "before": 10**7,
        "after": 10**6,
        "drop": "d1",
        "recalls": many,
        "worker": "w1",
        "session": text,
        "state": "failed",
        "steps": many,
        "lane": text,
        "requests": many,
        "message": "msg-1",
        "taken": bool(many),
        "reply_to": "msg-1",
        "waits": True,
        "until": text,
        "runs": [{**dict.fromkeys(("agent", "source", "run", "state", "session"), text), "cost_usd": cost}] * many,
    }
    return {
        "changed_facts": cast("dict[str, Any]", example_of(ConsolidationReport, text, many)),
        "text": {"text": f"> {text}"},
        "capabilities": {"model": text, "environment": text},
        "context": {
            **CONTEXT,
            "model": text,
            "notices": [text] * many,
            "drops": [drop] * many,
            "session": text,
            "sections": [{**CONTEXT["sections"][0], "id": text, "source": text}] * many,
            "counted": {"system": 10**7, "tools": 9, "history": 9, "event": 9, "total": 10**7 + 27},
            "scale": 1.0712,
            "section_budget": {"tokens": 16_384, "used": 20_000, "raised": True},
            "recalled": many,
            "told": [{**CONTEXT["sections"][0], "id": text, "reason": f"dropped: {text}", "drop": "d1"}] * many,
            "tools": [{"name": text, "tokens": 10**7}] * many,
            "limits": [{"name": text, "value": text, "bound_by": text}],
            "largest": [{"what": text, "tokens": 10**9, "entry": 10**6}] * many,
        },
        "context_summary": {
            **CONTEXT,
            "notices": [text] * many,
            "drops": [drop] * many,
            "cached": {"tokens": 9, "expected": 41_000},
            "largest": [{"what": text, "tokens": 10**9}] * many,
            "waiting": {"texts": many, "tokens": 10**6},
            "rewrite": {"by": "epoch" if many % 2 else "summary", "at": 10**6, "why": text},
        },
        "between": {
            "step": 2,
            "before": 1,
            "tokens": {"before": 10**7, "after": many},
            "model": {"before": text, "after": "m"},
            "epoch": {"before": 0, "after": 1, "cause": text},
            "sections": {
                **dict.fromkeys(("added", "removed"), [{"id": text, "tokens": 10**7, "form": text}] * many),
                "changed": [
                    {"id": text, "before": {"tokens": 10**7, "form": text}, "after": {"tokens": 2, "form": "full"}}
                ],
            },
            "told": [{"id": text, "tokens": 4, "form": "full"}] * many,
            "tools": {"added": [text] * many, "removed": [text], "changed": [text]},
            "entries": dict.fromkeys(
                ("added", "removed"), [{"entry": 10**6, "form": "full", "what": text, "tokens": 10**7}] * many
            ),
        },
        "compaction": {
            "possible": bool(many),
            "why": text,
            "before": 10**7,
            "after": 10**6,
            "budget": 184_000,
            "goes": {**part, "first": 1, "last": 10**6, "without": [1] * many, "recall": bool(many)},
            "stays": part,
            "words": [{"entry": 10**6, "kept": "part", "text": text}] * many,
            "record": {"most": many},
            "summary": {"most": 10**6, "source": "originals" if many else text, "why": text, "model": text},
            "pins": [{"id": "p1", "entry": many, "tokens": 10**6, "where": "dropped", "text": text}] * many,
            "cost": {
                "warm_now": bool(many),
                "now": {"warm": cost, "cold": cost},
                "rewrite": {"why": text},
                "next": [
                    {"requests": n, "with": {"warm": cost, "cold": cost}, "without": {"warm": cost, "cold": cost}}
                    for n in (1, 10)
                ],
            },
        },
        "pins": {
            "pins": [{"id": "p1", "entry": many, "tokens": 10**6, "text": text}] * many,
            "tokens": 10**7,
            "room": 9000,
        },
        "goals": {"goals": [{**goal, "steps": [goal] * many}] * many},
        "trust": {
            "project": text,
            "state": "trusted" if many % 2 else "changed",
            "refused": [text] * many,
            "active": [text] * many,
            "unsupported": [text] * many,
            "items": [{"kind": "server", "name": text, "state": "changed", "diff": f"-{text}\n+{text}\n"}] * many,
            "settings": [{"key": text, "value": text, "effect": text}] * many,
            "problems": [text] * many,
            "files": [{"name": text, "bytes": 10**6}] * many,
        },
        "doctor": {
            "ok": not many,
            "model": None,
            "checks": [{"name": text, "status": "broken", "detail": text, "hint": text}] * many,
        },
        "help": {
            "groups": [{"name": text, "commands": [command] * min(many, 4)}] * min(many, 4),
            "keys": [(text, text)],
        },
        "permissions": {
            "level": "ask",
            "bound_by": text,
            "allowed": [text] * many,
            "levels": [{"name": name, "runs": text} for name in ("ask", "edit", "all")],
            "rules": [{"decision": "deny", "rule": text, "from": text}] * many,
            "problems": [text] * many,
            "sandbox": {"backend": "none", "why": text},
        },
        "status": {
            "host": text,
            "model": None,
            "model_why": text,
            "tools": [text] * many,
            "credentials": [text] * many,
            "skills": [{"name": text, "description": text}] * many,
            "recipes": [text] * many,
            "notices": [text] * many,
            "servers": [{"name": text, "state": "not started"}] * many,
            "memory": {"user": many, "proposed": 0},
            "project": {
                "folder": text,
                "trust": "changed",
                "skills_not_trusted": many,
                "unsupported": [{"path": text, "what": text}] * many,
            },
        },
        "transcript": {
            **session,
            "id": text,
            "workers": [worker] * many,
            "imported": {"from": text, "file": text},
            "events": [
                {"type": "turn.start", "text": text, **place, "actor": "person", "images": [text] * many},
                {"type": "text.delta", "text": text, **place},
                {"type": "tool.call", "call": call, "subject": text, **place},
                {"type": "tool.result", "call": call, "result": {"output": text}, "tokens": 1, "seconds": 1.0, **place},
                {"type": "notice", "text": text, **place},
            ][: many + 2],
            "shell": [{"after": 0, "title": text, "text": text}] * many,
        },
        "timeline": {
            "session": "01M7W0VNRRJTAQJQEP26FZPVAR",
            "name": text,
            "model": text,
            "earlier": many,
            "rows": [{**happened, "kind": kind} for kind in KINDS] * many,
            "totals": {
                **dict.fromkeys(("entries", "requests", "tokens", "cache_read", "drops"), 10**7),
                "known_usd": 0.5,
                "cost_usd": cost,
            },
            **({"run": {"id": "run-1", "state": text, "title": text}} if many % 2 else {}),
            **(
                {"space": {"name": text, "members": [{"name": text, "type": text}] * many}, "reader": text}
                if many > 2
                else {}
            ),
        },
        "applied": {
            "name": text,
            "folder": text,
            "nothing_new": not many,
            "written": [text] * many,
            "there": [text] * many,
            "conflicts": [{"path": text, "why": text, "is_marked": bool(many % 2)}] * many,
        },
        "plans": {"plans": [planned] * many},
        "plan": {
            "done": ("added", "removed", "queued", "paused", "resumed")[many % 5],
            "run": text,
            "offer": text * (many % 2),
            "plans": [planned],
        },
        "server_tools": {
            "tools": [{"name": text, "description": text}] * many,
            "tokens": 4_000,
            "seconds": 1.5,
            "left_out": [text] * many,
        },
        "run": {
            **_run_value(text, many),
            "done": text * (many > 1),
            "report": "\n".join([text] * many),
            "questions": [{"what": text, "why": text}] * many,
            "signals": [{"at": "2026-07-01T10:00:00.000Z", "kind": text, "value": {}, "taken": bool(many % 2)}] * many,
        },
    }


def _run_value(text: str, many: int) -> dict[str, Any]:
    at = "2026-07-01T10:00:00.000Z"
    return {
        "id": f"run-{many}",
        "state": "waiting_reply",
        "paused": many > 3,
        "broken_off": many == 2,
        "type": text,
        "title": text,
        "agent": text * (many > 1) or None,
        "space": text * (many > 1) or None,
        "key": text,
        "events": many,
        "plan": f"plan-{many}" if many else None,
        "folder": text,
        **level_fields("auto"),
        "model": text,
        "last_words": f"{text}\n{text}",
        "refused": [text] * many,
        "session": text * (many > 1) or None,
        "waits_for": text * (many % 2) or None,
        "came": text * (many > 3) or None,
        "wake_at": at if many else None,
        "resumes": many,
        "created": at,
        "updated": at,
        "cost_usd": many / 3 or None,
        "error": text * (many > 2) or None,
        "waits_since": at if many else None,
        "steps": many or None,
        "seconds": many * 60.0,
        "usage": {"input": many * 1000, "output": many},
        "files_changed": [text] * many,
        "failed_commands": [{"command": text, "status": many % 2 or None}] * many,
        "branch": text * (many > 1) or None,
        "commits": [text] * many,
        "uncommitted": [text] * many,
        "no_longer_uncommitted": [text] * many,
        "worktree": text * (many > 1) or None,
        "until": {"command": text, "passed": many > 3, "rounds": many, "status": 1, "left": [text]} if many else None,
    }


def too_wide(text: str, width: int) -> list[str]:
    return [line for line in sanitize(text).split("\n") if wcswidth(line) > width or wcswidth(line) < 0]


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(NAMES, 4))
def test_no_form_is_wider_than_asked_whatever_stands_in_it(form: str) -> None:
    for width in WIDTHS:
        for many in (0, 1, 9):
            for odd in ODD if many == 1 else ODD[:4]:
                text = find_form(form)(values(form, odd, many), width)
                assert text.strip() and sanitize(text) == text
                assert not too_wide(text, width), (width, many, odd[:20], too_wide(text, width)[:3])


@pytest.mark.parametrize("form", sample(NAMES, 10))
def test_a_terminal_of_no_width_is_no_error(form: str) -> None:
    for width in (0, 1, 5, 12):
        assert find_form(form)(values(form, "a word [/bold]", 2), width)


def test_every_form_has_a_name_of_its_own_and_is_found_by_it() -> None:
    assert len(NAMES) == len(set(NAMES)) > 40
    named = [f"{found} to {name}_text" for name in NAMES if (found := find_form(name).__name__) != f"{name}_text"]
    assert not named, f"rename the functions: {', '.join(named)}"
    with pytest.raises(LookupError):
        find_form("nothing")


@given(st.text(max_size=80), st.integers(20, 60))
def test_lines_are_never_wider_than_asked(text: str, width: int) -> None:
    for block in (Paragraph(text, "  "), Verbatim(text, "> "), Wrapped(text, "> "), OneLine(text, "  ")):
        assert not too_wide("\n".join(block.lines(width)), width)
    assert "".join("".join(Paragraph(text).lines(width)).split()) == "".join(sanitize(text).split())
    text = text.replace("\t", " ")
    assert Verbatim(text).lines(10**6) == [line.rstrip() for line in sanitize(text + "\n").split("\n")[:-1]]


@pytest.mark.matrix
@given(st.lists(st.tuples(*[st.text(max_size=30)] * 3), min_size=1, max_size=4), st.integers(20, 100))
def test_tables_fit_and_lose_no_first_cell(rows: list[tuple[str, str, str]], width: int) -> None:
    rows = [tuple(" ".join(cell.split()) for cell in row) for row in rows]  # type: ignore[misc]
    lines = Table({"one": 0, "two": 1, "three": 2}, rows).lines(width)
    assert not too_wide("\n".join(lines), width)
    for row in rows:
        assert "".join(sanitize(row[0]).split()) in "".join("".join(lines).split())


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_why_a_rewrite_was_made_stands_there_whole(width: int) -> None:
    why = "2 readings are stale: 14,233 tokens sent cold against 61,000 saved over the next 50 steps, and it ends so"
    one = {**REWRITE, "why": why}
    value = {**values("cache", "x", 1), "rewrites": [one] * 2}
    told = " ".join(find_form("cache")(value, width).split("rewrites:")[1].split())
    assert told.count(why) == 2 and told.count("(does not pay for itself)") == 2


def test_prices_below_a_dollar_have_the_same_decimals_in_every_row() -> None:
    assert [dollars(cost) for cost in (None, 0.0, 0.03, 0.0123, 0.99999, 1.5, 1234.5)] == [
        "-",
        "$0.0000",
        "$0.0300",
        "$0.0123",
        "$1.00",
        "$1.50",
        "$1,234.50",
    ]


def test_one_entry_is_one_entry() -> None:
    budget = {"used": dict.fromkeys(("system", "tools", "history", "event", "total"), 1), "available": 9}
    plan = {"budget": budget, "epoch": 0, "basis": "estimate"}
    assert ", 1 entry, estimated" in brief({**plan, "entries": 1}) and ", 0 entries, estimated" in brief(plan)


def test_a_paragraph_begins_with_its_label_and_leaves_out_what_says_nothing() -> None:
    long = "x" * 30
    named = Table({"id": 0, "tokens": 1, "cause": 2, "what": 3}, [("d1", "5", "", long)]).lines(24)
    assert named == ["d1", "    tokens 5, what", "    " + long[:20], "    " + long[20:]]
    summed = Table({"tokens": 0, "cost": 1, "model": 2}, [(1_234_567, None, long)]).lines(30)
    assert summed == [long, "    tokens 1,234,567"], "a number is no label"
    rows = [("+", long[:20], "12", "outline"), ("", "b", "", "")]
    marked = Table({"": 0, "id": 1, "tokens": 2, "form": 3}, rows).lines(24)
    assert marked == ["+ " + long[:20], "    tokens 12, form", "    outline", "b"]
    assert Table({"name": 0, "tokens": 1, "": 2}, [(long, "12", "")]).lines(30) == [long, "    tokens 12"]


@pytest.mark.matrix
def test_a_text_of_megabytes_on_one_line_takes_no_time_to_speak_of() -> None:
    line = "x" * 5_000_000
    assert len(Verbatim(line).lines(80)) == len(Paragraph(line).lines(80)) == 62_500
    assert cells(cut_line("é" * 5_000_000, 80)) == 80


def test_help_is_read_in_two_columns_or_one_below_the_other() -> None:
    command = {"name": "drops", "usage": "[ID [A:B]]", "summary": "List what was left out.", "help": "", "idle": False}
    value = {"groups": [{"name": "context", "commands": [command]}]}
    assert find_form("help")(value, 80).splitlines() == ["context:", "  /drops [ID [A:B]]  List what was left out."]
    narrow = find_form("help")(value, 28).splitlines()
    assert narrow[1:] == ["  /drops [ID [A:B]]", "      List what was left", "      out."]


def test_sessions_are_listed_with_local_times_and_short_ids_where_a_person_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {"id": "01M7W0VNRRJTAQJQEP26FZPVAR", "short": "01M7W0", "updated": "2026-01-02T03:04:05Z", "turns": 12}
    value = {"sessions": [{**one, "name": "login page", "front": "ask"}], "runs": 2}
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "IST-5:30")
        time.tzset()
        shown, piped = find_form("sessions")(value, 80), find_form("sessions")(value, 1 << 20)
    time.tzset()
    assert "01M7W0  2026-01-02 08:34     12  ask: login page\n" in shown and "UTC" not in shown
    run = {**one, "name": "", "front": "ask", "recipe": "tick_autonomous", "first_text": "count <- TRIGGER"}
    assert "  plan: count\n" in "\n".join([*find_form("sessions")({"sessions": [run]}, 80).split("\n"), ""])
    assert "2 sessions of `nexus ask` and unattended runs hidden" in shown and "--all" in shown
    assert "12 older sessions not shown: --limit 13 lists all" in find_form("sessions")(value | {"total": 13}, 80)
    assert piped.splitlines()[1].split()[0] == one["id"] and len(piped.splitlines()) == 2, "for scripts"
