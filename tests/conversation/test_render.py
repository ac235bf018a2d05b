"""The canonical form of a request, and the bridges that each provider's rules put between neighbours."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from epochs import prefix_sha256
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.groups import flatten, group_tool_calls
from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.message import Message, Opaque, Part, Role, ToolCall
from nexus_cli.core.wire import WireRules, canonical
from nexus_cli.provider.wire_rules import RULES

each = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
IDS = st.sampled_from(["c1a", "c2a", "c12b"])
TALK = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from([Role.USER, Role.ASSISTANT]), st.text('xé🙂\n"', max_size=4)),
        st.builds(
            lambda text, ids: Message(Role.ASSISTANT, text, tuple(ToolCall(i, "f", {"é": text}) for i in ids)),
            st.text("x", max_size=2),
            st.lists(IDS, min_size=1, max_size=2),
        ),
        st.builds(lambda i, text: Message(Role.TOOL, text, tool_call_id=i), IDS, st.text("r", max_size=3)),
    ),
    max_size=15,
)


def epoch(rules: WireRules = RULES["openai"], **fields: Any) -> Epoch:
    plain: dict[str, Any] = {"model": "m", "system": "S é", "tools": ({"name": "look", "é": 1},)}
    return Epoch(id=0, parent=None, cause="start", rules=rules.dumps(), head=(), base=0, **plain | fields)


def items(*messages: Message) -> list[WindowItem]:
    return flatten(
        group_tool_calls([WindowItem(number, ItemForm.FULL, message) for number, message in enumerate(messages, 1)])
    )


def wired(*messages: Message, rules: WireRules = RULES["openai"], **fields: Any) -> list[Any]:
    wire = Wire(epoch(rules, **fields))
    wire.extend(items(*messages))
    return wire.messages


def test_the_canonical_form_is_one_line_each_for_tools_system_and_messages() -> None:
    wire = Wire(epoch())
    wire.extend(items(Message(Role.USER, "hé"), Message(Role.ASSISTANT, "a")))
    lines = [
        '[{"name":"look","é":1}]',
        '"S é"',
        '{"role":"user","content":"hé"}',
        '{"role":"assistant","content":"a"}',
    ]
    assert wire.sha256 == hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert wire.messages[0] == {"role": "system", "content": "S é"}
    assert canonical({"b": 1, "a": [1, "\n"]}) == b'{"b":1,"a":[1,"\\n"]}'


@each
@given(talk=TALK, cut=st.integers(0, 15))
def test_rendering_in_pieces_gives_the_lines_of_rendering_at_once(
    rules: WireRules, talk: list[Message], cut: int
) -> None:
    arranged = items(*talk)
    whole, parts = Wire(epoch(rules)), Wire(epoch(rules))
    hashes = whole.extend(arranged)
    assert parts.extend(arranged[:cut]) + parts.extend(arranged[cut:]) == hashes
    assert parts.messages == whole.messages
    assert parts.sha256 == whole.sha256 == prefix_sha256(epoch(rules), arranged)
    text = canonical([{"name": "look", "é": 1}]) + b"\n" + canonical("S é") + b"\n"
    text += b"".join(canonical(message) + b"\n" for message in whole.messages[1:])
    assert hashlib.sha256(text).hexdigest() == whole.sha256


@each
@given(talk=TALK)
def test_no_pair_that_the_provider_refuses_is_left(rules: WireRules, talk: list[Message]) -> None:
    messages = wired(*talk, rules=rules)[1:]
    refused = {
        ("tool", "user"): rules.user_after_tool,
        ("user", "user"): rules.user_after_user,
        ("assistant", "assistant"): rules.assistant_after_assistant,
    }
    for before, after in pairwise(messages):
        assert not refused.get((before["role"], after["role"])), f"{before} {after}"
    if messages and rules.first_not_user:
        assert messages[0]["role"] == "user"


@each
@given(talk=TALK)
def test_bridges_only_add_and_every_text_stands_as_it_was(rules: WireRules, talk: list[Message]) -> None:
    bridges = {rules.user_after_tool, rules.user_after_user, rules.assistant_after_assistant, rules.first_not_user}
    sent = [m for m in wired(*talk, rules=rules)[1:] if m.get("content") not in bridges - {""}]
    plain = wired(*talk, rules=WireRules())[1:]
    assert [m["role"] for m in sent] == [m["role"] for m in plain]
    assert [m.get("content") for m in sent] == [m.get("content") for m in plain]


@each
@given(talk=TALK)
def test_results_name_their_calls_on_the_wire(rules: WireRules, talk: list[Message]) -> None:
    open_: list[str] = []
    for message in wired(*talk, rules=rules)[1:]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_.pop(0)
        else:
            assert not open_
            open_ = [call["id"] for call in message.get("tool_calls", ())]
        assert all(len(i) == rules.call_id_length for i in open_ if rules.call_id_length)


def test_every_bridge_of_every_provider() -> None:
    user, reply, late = Message(Role.USER, "u"), Message(Role.ASSISTANT, "a"), Message(Role.USER, "u2")
    call = Message(Role.ASSISTANT, "", (ToolCall("c1a", "f"),))
    result = Message(Role.TOOL, "r", tool_call_id="c1a")
    roles = {
        name: [
            "".join(m["role"][0] for m in wired(*talk, rules=rules, system=""))
            for talk in (
                (user, call, result, late),
                (user, late),
                (user, reply, reply),
                (reply, user),
            )
        ]
        for name, rules in RULES.items()
    }
    assert roles == {
        "openai": ["uatu", "uu", "uaa", "au"],
        "anthropic": ["uatu", "uu", "uaa", "uau"],
        "gemini": ["uatu", "uu", "uaua", "uau"],
        "mistral": ["uatau", "uu", "uaa", "uau"],
        "deepseek": ["uatu", "uau", "uaua", "uau"],
        "ollama": ["uatu", "uu", "uaa", "uau"],
    }


def test_no_text_that_is_sent_is_empty() -> None:
    call = Message(Role.ASSISTANT, "", (ToolCall("c1a", "f"),))
    made = wired(Message(Role.USER, ""), call, Message(Role.TOOL, "", tool_call_id="c1a"))
    assert made[1]["content"]
    assert not made[2].get("content", None)
    assert made[3]["content"]
    assert wired(call, rules=WireRules(null_content=True))[1]["content"] is None
    assert "content" not in wired(call, rules=RULES["mistral"], system="")[1]


def test_a_preamble_stands_before_the_persons_words_and_after_a_result() -> None:
    wire = Wire(epoch())
    call = Message(Role.ASSISTANT, "", (ToolCall("c1a", "f"),))
    made = items(Message(Role.USER, "words"), call, Message(Role.TOOL, "seen", tool_call_id="c1a"))
    wire.extend([replace(item, preamble="[now]") for item in made])
    assert wire.messages[1]["content"] == "[now]\n\nwords"
    assert wire.messages[3]["content"] == "seen\n\n[now]"


def test_an_image_is_a_part_beside_the_text() -> None:
    made = wired(Message(Role.USER, "see", parts=(Part("image/png", b"\x89PNG"),)))[1]
    assert made["content"][0] == {"type": "text", "text": "see"}
    assert made["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="


THINKING = {"message": {"thinking_blocks": [{"thinking": "t", "signature": "s"}]}, "calls": {"c1a": {"id": "gem__sig"}}}


@pytest.mark.parametrize(
    ("provider", "model", "returned"),
    [("gemini", "m", True), ("gemini", "other", False), ("anthropic", "m", False), ("", "", False)],
)
def test_opaque_material_goes_back_only_to_its_own_provider_and_model(
    provider: str, model: str, returned: bool
) -> None:
    opaque = Opaque(provider, model, json.dumps(THINKING).encode())
    call = Message(Role.ASSISTANT, "", (ToolCall("c1a", "f"), ToolCall("c1b", "f")), opaque=opaque)
    results = [Message(Role.TOOL, "r", tool_call_id=i) for i in ("c1a", "c1b")]
    made = wired(Message(Role.USER, "u"), call, *results, rules=RULES["gemini"])
    assert ("thinking_blocks" in made[2]) == returned
    own = "gem__sig" if returned else "c1a"
    assert [c["id"] for c in made[2]["tool_calls"]] == [own, "c1b"]
    assert [m["tool_call_id"] for m in made[3:]] == [own, "c1b"], "a result names its call by the provider's id"


def test_a_fork_begins_with_its_parents_lines_and_grows_apart() -> None:
    wire = Wire(epoch())
    wire.extend(items(Message(Role.USER, "u")))
    other = wire.fork()
    assert (other.sha256, other.messages) == (wire.sha256, wire.messages)
    other.extend(items(Message(Role.ASSISTANT, "a")))
    assert wire.messages == other.messages[:-1]
    assert wire.sha256 != other.sha256


def test_the_rules_of_a_newer_version_can_be_read() -> None:
    stored = json.loads(RULES["mistral"].dumps()) | {"of_tomorrow": True}
    assert WireRules.loads(json.dumps(stored)) == RULES["mistral"]
