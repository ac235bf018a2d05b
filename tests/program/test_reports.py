"""The plain commands over real sessions: their shapes, and that they say what was truly on the wire."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, PRICED, Done, Seen, calls, clean, play, stage

KEYS = {
    "version",
    "session",
    "model",
    "recipe",
    "epoch",
    "cursor",
    "basis",
    "budget",
    "sections",
    "history",
    "tools",
    "drops",
    "limits",
    "pending",
    "prefix_sha256",
    "request_sha256",
}
SECTION = {
    "id",
    "layer",
    "phase",
    "order",
    "priority",
    "weight",
    "multiplier",
    "score",
    "sticky",
    "tokens",
    "full_tokens",
    "form",
    "source",
    "cached",
}
KEYLESS: dict[str, str | None] = {"NEXUS_MODEL": None, "OPENAI_API_KEY": None, "OPENAI_API_BASE": None}


def hashed(body: dict[str, Any], messages: Sequence[Any] | None = None) -> str:
    """The SHA-256 of a captured body's canonical lines; `messages` instead of all its own."""
    first, *rest = body["messages"]
    assert first["role"] == "system"
    lines = [body["tools"], first["content"], *(rest if messages is None else messages)]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()


def context(root: Path) -> dict[str, Any]:
    script: list[Any] = [calls(("glob", {"pattern": "*"}), ("bash", {"command": "ls"})), "größer", "more"]
    with stage(root, script) as place:
        (place.folder / "NEXUS.md").write_text("Be brief.\n")
        new = place.run("context", "--json")
        modelless = place.run("context", "--json", env=KEYLESS)
        nothing_written = not place.ledger.exists()
        place.ask("hi")
        steps = [place.run("context", "--json", "--step", str(number)).result for number in (1, 2)]
        pending = place.run("context", "--json").result
        place.ask("-c", "again")
        return {
            "new": new,
            "modelless": modelless,
            "nothing_written": nothing_written,
            "steps": steps,
            "pending": pending,
            "bodies": [request.body for request in place.server.requests],
            "text": place.run("context"),
            "beyond": place.run("context", "--step", "9"),
            "tokens": [r.tokens for r in place.server.requests],
            "replay": place.run("replay", "--step", "2", "--json").result,
            "none": place.run("replay", "--step", "9"),
        }


def nothing_yet(root: Path) -> dict[str, Done]:
    with stage(root) as place:
        lines = {
            "drops": ("drops",),
            "show": ("drops", "show", "d1"),
            "replay": ("replay",),
            "sessions": ("sessions", "list"),
            "step": ("context", "--step", "1"),
            "find": ("sessions", "show", "01X"),
            "atlas": ("atlas",),
        }
        told = {name: place.run(*line) for name, line in lines.items()}
        assert not place.ledger.exists(), "looking created a ledger"
        return told


def settings(root: Path) -> dict[str, Any]:
    with stage(root) as place:
        path = place.settings("# mine\n" + PRICED)
        told = {
            "path": place.run("config", "path"),
            "set": place.run("config", "set", "limits.max_steps", "7"),
            "get": place.run("config", "get", "limits.max_steps"),
            "show": place.run("config", "show", "--origin"),
            "json": place.run("config", "show", "--json"),
            "wrong": place.run("config", "set", "limits.max_stepz", "7"),
            "models": place.run("model", "list"),
            "doctor": place.run("doctor"),
            "keyless": place.run("doctor", "--json", env=KEYLESS),
            "bare": place.run("context", "--json"),
        }
        return {**told, "file": path.read_text(), "where": str(path)}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, context, nothing_yet, settings)


def test_the_context_of_a_new_session_has_its_whole_shape_and_writes_nothing(seen: Seen) -> None:
    value = seen["context"]["new"].result
    assert set(value) >= KEYS and seen["context"]["nothing_written"]
    assert (value["session"], value["pending"], value["request_sha256"]) == (None, True, None)
    assert all(set(section) >= SECTION for section in value["sections"])
    assert {section["layer"] for section in value["sections"]} <= {"system", "history", "event"}
    assert "NEXUS.md" in [section["source"] for section in value["sections"]]
    assert value["recipe"] == "ask" and value["model"] == MODEL
    budget = value["budget"]
    assert set(budget) == {
        "window",
        "reserve_reply",
        "reserve_tools",
        "available",
        "used",
        "remaining",
        "pressure",
    }
    assert budget["available"] == budget["window"] - budget["reserve_reply"] - budget["reserve_tools"]
    used = budget["used"]
    assert used["total"] == sum(used[layer] for layer in ("system", "tools", "history", "event"))
    assert budget["remaining"] == budget["available"] - used["total"]
    assert {limit["name"]: limit["bound_by"] for limit in value["limits"]}["max_steps"] == "settings"


def test_without_a_model_a_window_is_assumed_and_said_so(seen: Seen) -> None:
    done: Done = seen["context"]["modelless"]
    assert done.status == 0 and done.result["budget"]["window"] == 128_000
    assert "128000" in "".join(done.result["notices"]).replace(",", "")


@pytest.mark.parametrize("number", [1, 2])
def test_the_hash_of_a_request_is_that_of_the_captured_body(seen: Seen, number: int) -> None:
    shown = seen["context"]
    value = shown["steps"][number - 1]
    body = shown["bodies"][number - 1]
    assert value["request_sha256"] == hashed(body)
    assert (value["pending"], value["basis"]) == (False, "reported")
    assert value["budget"]["used"]["total"] == shown["tokens"][number - 1].input
    assert [tool["name"] for tool in value["tools"]] == [tool["function"]["name"] for tool in body["tools"]]


def test_the_prefix_is_what_the_next_request_begins_with(seen: Seen) -> None:
    shown = seen["context"]
    body = shown["bodies"][2]
    assert shown["pending"]["prefix_sha256"] == hashed(body, body["messages"][1:-1])
    assert shown["pending"]["pending"] is True and shown["pending"]["request_sha256"] is None
    assert shown["pending"]["history"]["by_kind"].keys() == {"user", "assistant", "tool"}
    assert shown["pending"]["history"]["entries"] == len(body["messages"]) - 2


def test_the_text_form_names_what_the_json_has(seen: Seen) -> None:
    done: Done = seen["context"]["text"]
    assert (done.status, done.stderr) == (0, b"") and MODEL in done.text and "instructions" in done.text


def test_a_request_that_was_never_sent_is_wrong_usage(seen: Seen) -> None:
    for done in (seen["context"]["beyond"], seen["context"]["none"]):
        assert (done.status, len(done.told)) == (2, 1) and clean(done)
    assert seen["context"]["replay"]["ok"] is True and seen["context"]["replay"]["requests"] == 1


@pytest.mark.matrix
def test_looking_where_nothing_is_creates_nothing(seen: Seen) -> None:
    for name in ("drops", "show", "replay", "step", "find", "atlas"):
        done = seen["nothing_yet"][name]
        assert (done.status, done.stdout, len(done.told)) == (2, b"", 1) and clean(done), done
    assert seen["nothing_yet"]["sessions"].status == 0
    assert "no such command" in seen["nothing_yet"]["atlas"].told[0]


@pytest.mark.matrix
def test_settings_are_written_read_and_traced(seen: Seen) -> None:
    shown = seen["settings"]
    assert shown["path"].text.strip() == shown["where"]
    assert shown["set"].status == 0 and shown["get"].text == "7\n"
    assert shown["file"].startswith("# mine\n") and PRICED.splitlines()[1] in shown["file"]
    lines = [line for line in shown["show"].text.splitlines() if line.startswith("limits.max_steps = 7")]
    assert lines and shown["where"] in lines[0]
    assert shown["json"].result["settings"]["limits.max_steps"] == {"value": 7, "origin": shown["where"]}
    assert shown["wrong"].status == 2 and "limits.max_steps" in shown["wrong"].told[0]
    limits = {limit["name"]: limit["value"] for limit in shown["bare"].result["limits"]}
    assert limits["max_steps"] == 7


@pytest.mark.matrix
def test_models_and_health_are_told_without_a_key_too(seen: Seen) -> None:
    shown = seen["settings"]
    assert shown["models"].status == 0 and "openai/scripted" in shown["models"].text
    assert shown["doctor"].status == 0 and b"sk-nobody" not in shown["doctor"].stdout
    assert shown["keyless"].status == 0 and isinstance(shown["keyless"].result, dict)
