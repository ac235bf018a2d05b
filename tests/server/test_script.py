"""Which step answers which request; a script with a misspelt word is refused."""

from __future__ import annotations

from typing import Any

import pytest
from server.play import ScriptedServer
from server.raw_client import post, request_body
from server.script import Script
from server.step import Step


def said(server: ScriptedServer, body: Any = None) -> str:
    """The text of the next answer, over the socket."""
    heard = post(server, "chat", body or request_body("chat", stream=False))
    return str(heard.json["choices"][0]["message"]["content"])


def talk(*messages: tuple[str, str], tools: tuple[str, ...] = ()) -> dict[str, Any]:
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    made = [{"role": role, "content": text, "tool_call_id": "c"} for role, text in messages]
    return {"model": "m", "messages": made} | ({"tools": offered} if tools else {})


def test_rules_go_by_the_last_message_its_role_and_the_tools(model_server: ScriptedServer) -> None:
    model_server.load(
        {
            "rules": [
                {"when": {"last_role": "tool", "contains": "FAILED"}, "then": "it fails"},
                {"when": {"offers": "-", "matches": "summ[ae]r"}, "then": ["first", "second"], "times": 3},
                {"when": {"offers": "grep", "anywhere": "brief"}, "then": "searching"},
                {"when": {"number": 8}, "then": "the eighth"},
            ],
            "default": "nothing fits",
        }
    )
    asked = [
        talk(("user", "go"), ("tool", "2 FAILED")),
        talk(("tool", "2 FAILED"), ("user", "go")),
        *[talk(("user", "a summary"))] * 4,
        talk(("system", "be brief"), ("user", "go"), tools=("grep",)),
        talk(("user", "go")),
    ]
    answers = [said(model_server, body) for body in asked]
    assert answers == [
        "it fails",
        "nothing fits",
        "first",
        "second",
        "first",
        "nothing fits",
        "searching",
        "the eighth",
    ]


@pytest.mark.parametrize("wrong", [{"step": []}, {"rules": [{"if": {}, "then": "x"}]}, {"rules": [{"when": {"x": 1}}]}])
def test_a_misspelt_script_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no key"):
        Script.of(wrong)


def test_what_a_scripted_function_raises_is_a_500_and_is_raised_at_the_end() -> None:
    def wrong(body: Any) -> str:
        raise LookupError("no answer for this")

    with pytest.raises(LookupError, match="no answer for this"), ScriptedServer(wrong) as server:
        assert post(server, "chat").status == 500


@pytest.mark.parametrize(
    "wrong",
    [
        {"txt": "x"},
        {"calls": [{"name": "f", "args": {}}]},
        {"ids": "none"},
        {"fault": "explode"},
        {"write": "u"},
        {"usage": {"in": 1}},
    ],
)
def test_a_misspelt_step_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"txt|args|none|explode|'u'|'in'"):
        Step.of(wrong)
