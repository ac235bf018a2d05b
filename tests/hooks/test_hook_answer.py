"""Answers of hooks in forms that published plugins write."""

from __future__ import annotations

import json

import pytest

from nexus_cli.hooks.run_hook import HookAnswer, read_answer


@pytest.mark.parametrize("more", ["", '\n{"metrics": {"ms": 3}}\n', "\nstill at work"])
def test_output_of_a_hook_that_asks_to_run_on_in_the_background_is_not_for_the_model(more: str) -> None:
    assert read_answer("SessionStart", 0, '{"async": true, "asyncTimeout": 1000}' + more, "") == HookAnswer()


@pytest.mark.parametrize("text", ["plain words", '{"a": 1}\n{"b": 2}', '{"async": false}\nwords'])
def test_other_output_of_a_start_is_text_for_the_model(text: str) -> None:
    assert read_answer("SessionStart", 0, text, "").context == text


def test_what_a_hook_asks_for_and_nexus_does_not_read_is_named() -> None:
    answer = read_answer("PostToolUse", 0, '{"hookSpecificOutput": {"updatedToolOutput": "", "x\\u001by": 1}}', "")
    assert answer.unread == "updatedToolOutput, x y"
    read = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no", "x": 1}
    read |= {"additionalContext": "more", "updatedInput": {"a": 1}, "decision": {"behavior": "allow", "message": "yes"}}
    answer = read_answer("PreToolUse", 0, json.dumps({"hookSpecificOutput": read}), "")
    assert answer == HookAnswer("deny", "no", "more", updated={"a": 1}, unread="x")


def test_a_decision_that_is_left_to_another_program_is_asked_about() -> None:
    text = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}'
    assert read_answer("PreToolUse", 0, text, "") == HookAnswer("ask")


@pytest.mark.parametrize("status", [1, 3, 127])
def test_a_guard_that_answers_and_fails_has_answered(status: int) -> None:
    """As in Claude Code; without JSON nothing counts."""
    said = '{"decision": "block", "reason": "not here"}'
    assert read_answer("PreToolUse", status, said, "") == HookAnswer("deny", "not here")
    assert read_answer("UserPromptSubmit", status, "words", "more") == HookAnswer()
