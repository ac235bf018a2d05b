"""The model that plays a script: which step it plays, what it streams, what it reports as cached."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from string import Template
from typing import Any

import pytest

from nexus_cli.cli.tour.scripted_model import Moment, ScriptedModel, ScriptStep, count_tokens, load_script
from nexus_cli.config.paths import defaults_dir
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import CallDelta, Delta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.provider.reply import Reply, ReplyFold

LOOK = {"name": "grep", "arguments": {"pattern": "$word", "more": ["$word", 3]}}
STEPS = (
    ScriptStep("I look.", (LOOK,), asked="for (?P<word>\\w+)"),
    ScriptStep("There is $n.", after="grep", results="(?P<n>\\d+) hits"),
    ScriptStep("Twice.", after="grep grep", done="grep"),
    ScriptStep("It was $fruit.", asked="which fruit", seen="CONTEXT SUMMARY[^$]*(?P<fruit>apples|pears)"),
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asked_for(*names: str, **arguments: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, name in enumerate(names)
    ]
    return {"role": "assistant", "content": "I look.", "tool_calls": calls}


def result(text: str, call: str = "c0") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


SYSTEM = {"role": "system", "content": "You are a test."}


def deltas(model: ScriptedModel, messages: Sequence[dict[str, Any]], name: str = "scripted") -> list[Delta]:
    async def collect() -> list[Delta]:
        request = Request(name, [SYSTEM, *messages], [{"type": "function"}], 1000)
        return [delta async for delta in model.stream(request)]

    return asyncio.run(collect())


def reply(model: ScriptedModel, *messages: dict[str, Any]) -> Reply:
    fold = ReplyFold(lambda number: f"id{number}", "", "scripted")
    for delta in deltas(model, messages):
        fold.feed(delta)
    return fold.finish()


def usage(model: ScriptedModel, *messages: dict[str, Any], name: str = "scripted") -> Usage:
    return next(delta.usage for delta in deltas(model, messages, name) if isinstance(delta, UsageDelta))


def test_the_step_is_found_by_the_words_and_the_results() -> None:
    model = ScriptedModel(STEPS)
    first = reply(model, user("look for apples"))
    assert first.finish == "tool_calls" and first.message.content == "I look."
    assert first.message.tool_calls[0].arguments == {"pattern": "apples", "more": ["apples", 3]}
    second = reply(model, user("look for apples"), asked_for("grep"), result("12 hits"))
    assert (second.finish, second.message.content) == ("stop", "There is 12.")


def test_another_process_goes_on_at_the_same_place() -> None:
    messages = (user("look for apples"), asked_for("grep"), result("12 hits"))
    assert reply(ScriptedModel(STEPS), *messages).message == reply(ScriptedModel(STEPS), *messages).message


def test_results_of_one_message_count_together() -> None:
    messages = (user("for x"), asked_for("grep", "grep"), result("a"), result("b", "c1"))
    assert reply(ScriptedModel(STEPS), *messages).message.content == "Twice."
    moment = Moment.of(messages)
    assert (moment.after, moment.results, moment.done) == ("grep grep", "a\nb", ("grep", "grep"))


def test_what_no_step_foresees_is_an_error_that_says_so() -> None:
    with pytest.raises(ProviderError, match="no answer to 'hello'"):
        reply(ScriptedModel(STEPS), user("hello"))
    with pytest.raises(ProviderError, match="no answer after grep"):
        reply(ScriptedModel(STEPS), user("for x"), asked_for("grep"), result("none"))


def test_what_the_window_has_lost_is_not_known_to_it() -> None:
    asked = user("which fruit was it?")
    summary = user("[CONTEXT SUMMARY, generated 2026-01-13 14:30 (local)]\nWhat follows\n---\n- asked for apples")
    assert reply(ScriptedModel(STEPS), summary, asked).message.content == "It was apples."
    with pytest.raises(ProviderError, match="no answer"):
        reply(ScriptedModel(STEPS), user("look for apples"), asked_for("grep"), result("12 hits"), asked)


def test_text_comes_in_words_and_arguments_in_fragments() -> None:
    found = deltas(ScriptedModel(STEPS), [user("look for apples")])
    assert [delta.text for delta in found if isinstance(delta, TextDelta)] == ["I ", "look."]
    pieces = [delta.arguments for delta in found if isinstance(delta, CallDelta) and delta.arguments]
    assert len(pieces) > 2 and json.loads("".join(pieces))["pattern"] == "apples"


def test_only_what_was_sent_before_counts_as_cached() -> None:
    model = ScriptedModel(STEPS)
    messages = [user("look for apples"), asked_for("grep"), result("12 hits")]
    first, second = usage(model, messages[0]), usage(model, *messages)
    assert first.cache_read == 0 and second.cache_read == first.input < second.input
    assert usage(model, *messages).cache_read == second.input
    other = usage(model, user("now for pears"))
    assert 0 < other.cache_read < other.input, "tools and system were sent before, the words were not"


def test_a_line_that_changes_in_the_middle_ends_the_cached_part() -> None:
    model = ScriptedModel(STEPS)
    usage(model, user("look for apples"), asked_for("grep"), result("12 hits"))
    changed = usage(model, user("look for Apples"), asked_for("grep"), result("12 hits"))
    assert changed.cache_read == usage(ScriptedModel(STEPS), user("for x")).input - count_tokens("for x") - 4


def test_another_model_finds_nothing_in_the_cache() -> None:
    model = ScriptedModel(STEPS)
    first = usage(model, user("look for apples"))
    assert usage(model, user("look for apples"), name="other").cache_read == 0
    assert usage(model, user("look for apples")).cache_read == first.input


def test_every_step_of_the_packaged_script_can_be_filled() -> None:
    steps = load_script(defaults_dir() / "tour" / "script.toml")
    assert len(steps) > 10
    for step in steps:
        groups = {name for one in (step.asked, step.results, step.seen) for name in re.compile(one).groupindex}
        texts = json.dumps([step.text, *step.calls])
        wanted = {found["named"] or found["braced"] for found in Template.pattern.finditer(texts)} - {None}
        assert wanted <= groups, step
        assert step.text or step.calls
