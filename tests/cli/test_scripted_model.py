"""The model that plays a script: which reply it plays, what it streams, what it reports as cached."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.cli.tour.sandbox import enter_folder
from nexus_cli.cli.tour.scripted_model import MODEL, ScriptedModel
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.paths import defaults_dir
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.request import Delta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.provider.reply import Reply, ReplyFold

SCENE = {
    "words": "look for apples",
    "otherwise": "I stop.",
    "replies": [
        {"text": "I look.", "calls": {"grep": {"pattern": "apples"}}},
        {"after": "12 hits", "text": "There are twelve."},
    ],
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c0", "content": text}


def playing() -> ScriptedModel:
    model = ScriptedModel("1. Goal: apples.")
    model.begin(SCENE)
    return model


def deltas(model: ScriptedModel, messages: Sequence[dict[str, Any]]) -> list[Delta]:
    async def collect() -> list[Delta]:
        request = Request(MODEL, [{"role": "system", "content": "You are a test."}, *messages], [{"a": "b"}], 1000)
        return [delta async for delta in model.stream(request)]

    return asyncio.run(collect())


def reply(model: ScriptedModel, *messages: dict[str, Any]) -> Reply:
    fold = ReplyFold(lambda number: f"id{number}", "", MODEL)
    for delta in deltas(model, messages):
        fold.feed(delta)
    return fold.finish()


def usage(model: ScriptedModel, *messages: dict[str, Any]) -> Usage:
    return next(delta.usage for delta in deltas(model, messages) if isinstance(delta, UsageDelta))


@pytest.mark.parametrize(("output", "text"), [("12 hits", "There are twelve."), ("declined", "I stop.")])
def test_replies_are_played_in_order_and_depend_on_the_newest_result(output: str, text: str) -> None:
    model = playing()
    first = reply(model, user("look for apples"))
    assert first.finish == "tool_calls" and first.message.content == "I look."
    assert first.message.tool_calls[0].arguments == {"pattern": "apples"}
    second = reply(model, user("look for apples"), result(output))
    assert (second.finish, second.message.content) == ("stop", text)


def test_a_summary_takes_no_reply_of_the_scene() -> None:
    model = playing()
    assert reply(model, user("Summarize the conversation.")).message.content == "1. Goal: apples."
    assert reply(model, user("look for apples")).message.content == "I look."


def test_text_comes_in_words() -> None:
    found = deltas(playing(), [user("look for apples")])
    assert [delta.text for delta in found if isinstance(delta, TextDelta)] == ["I ", "look."]


def test_only_what_began_the_request_before_counts_as_cached() -> None:
    model = playing()
    first, second = usage(model, user("look for apples")), usage(model, user("look for apples"), result("12 hits"))
    assert first.cache_read == 0 and second.cache_read == first.input < second.input
    model.begin(SCENE)
    assert 0 < usage(model, user("look for apples!")).cache_read < first.input


def test_texts_and_replies_agree_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEXUS_HOME", "PATH", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "")  # put back at the end
    scenes, files = (
        tomllib.loads((defaults_dir() / "tour" / f"{name}.toml").read_text()) for name in ("scenes", "project")
    )
    log = (enter_folder(tmp_path, files) / "shop.log").read_text()
    settings = own_settings()
    window = int(settings.models[MODEL]["window"])
    _, _, drop, compaction = (scene["text"] for scene in scenes["scenes"])
    assert f"{window:,} tokens" in drop and f"may take {TokenBudget.of(window).output_cap:,}" in drop
    assert f"At {100 * settings.compact.at:g} %" in compaction
    assert re.findall(r"ERROR order (\d+)", log) == ["8206"] and log.splitlines()[-1].split()[4] == "8420"
    calls = [one.get("calls", {}).get("recall", {}) for one in scenes["scenes"][3]["replies"]]
    ranges = [one["range"].split(":") for one in calls if one]
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]] and ranges[0][0] == "0"
    assert int(ranges[-1][0]) < len(log) and ranges[-1][1] == ""
