"""Text forms of reports: what matters is there, and lines stay in the width."""

from __future__ import annotations

import pytest

from nexus_cli.ui import reports

CONTEXT = {
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
    "pending": True,
    "notices": ["the window is a guess"],
}


@pytest.mark.parametrize("width", [40, 50, 80, 200])
def test_context_names_the_budget_sections_tools_drops_and_limits(width: int) -> None:
    text = reports.context_text(CONTEXT, width)
    whole = " ".join(text.split())
    for part in ("83,160 of 184,000", "45.2%", "instructions.project", "410 of 900", "shortened", "read_file", "d3"):
        assert part in whole
    assert "max_steps" in text and "settings" in text and "note: the window is a guess" in text
    assert "tool result of c7 (bash)" in whole and "recipe chat epoch 0 next request" in whole
    rows = text.splitlines()
    assert max(map(len, rows)) <= width
    bars = {
        line.split()[0]: line.count("#")
        for line in rows
        if line.startswith("  ") and line.rstrip().endswith((".", "#"))
    }
    assert bars["history"] > bars["tools"] >= bars["system"] == bars["event"] == 1


def test_sessions_are_a_table_or_a_hint() -> None:
    session = {
        "id": "01J",
        "updated": "2026-01-02T03:04:05Z",
        "turns": 1200,
        "first_text": "fix\nthe test " * 20,
        "name": "",
    }
    text = reports.sessions_text({"sessions": [session]}, 60)
    assert "2026-01-02 03:04" in text and "1,200" in text and "fix the test" in text
    assert max(map(len, text.splitlines())) <= 60
    assert "No sessions" in reports.sessions_text({"sessions": []}, 60)


def test_every_table_can_be_read_in_40_columns() -> None:
    session = {"id": "01M7W0VNRRJTAQJQEP26FZPVAR", "updated": "2026-01-02T03:04:05Z", "turns": 12, "name": "login page"}
    drop = {"id": "d3", "what": "tool result of c7 (bash)", "tokens": 18000, "cause": "output_cap", "uncounted": 9}
    model = {
        "name": "anthropic/claude-sonnet-4-5", "window": 200_000, "known": True, "input_price": 3.0,
        "output_price": 15.0, "cache": True, "because": ["ANTHROPIC_API_KEY"],
    }  # fmt: skip
    texts = [
        reports.sessions_text({"sessions": [session] * 2}, 40),
        reports.sessions_text({"sessions": []}, 40),
        reports.drops_text({"drops": [drop]}, 40),
        reports.models_text({"models": [model], "chosen": model["name"]}, 40),
        reports.doctor_text({"checks": [], "ok": True, "model": None}, 40),
    ]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 40 and "…" not in text, text
    assert texts[0].splitlines()[0] == session["id"] and "login page" in texts[0]
    assert "* anthropic/claude-sonnet-4-5" in texts[3] and "because ANTHROPIC_API_KEY" in " ".join(texts[3].split())


def test_a_session_is_its_head_and_its_entries() -> None:
    entries = [
        {"id": 1, "at": "2026-01-02T03:04:05Z", "actor": "person", "text": "  indented words " * 10, "calls": []},
        {"id": 2, "at": "", "actor": "agent", "text": "", "calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
    ]
    text = reports.session_text({"id": "01J", "model": "m", "turns": 1, "entries": entries}, 40)
    assert "[1] 2026-01-02 03:04 person" in text and "-> bash {'command': 'ls'}" in text
    assert max(map(len, text.splitlines())) <= 40


def test_drops_and_replay_say_what_to_do() -> None:
    drop = {"id": "d3", "what": "x", "tokens": 5, "cause": "output_cap", "recalls": 2, "uncounted": 9}
    text = reports.drops_text({"drops": [drop]}, 80)
    assert "nexus drops show d3" in text and "2 x" in text and "9 bytes" in text
    assert reports.drops_text({"drops": []}, 80) == "Nothing was left out."
    assert "3 requests" in reports.replay_text({"ok": True, "requests": 3, "session": "01", "first_difference": None})
    assert "line 4" in reports.replay_text({"ok": False, "requests": 3, "session": "01", "first_difference": "line 4"})
