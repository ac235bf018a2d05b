"""Fold the deltas of one stream into a message, its usage and its outcome.

The session interprets the outcome. Pieces are collected in lists and joined once.
Thinking without a signature is only shown to people, now and in a replay: Anthropic refuses it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from nexus_cli.core.json_value import MOST_DEPTH, JsonDict, JsonObject, is_nested_within
from nexus_cli.core.message import Message, Opaque, Role, ToolCall, unwrap_call
from nexus_cli.core.request import (
    CallDelta,
    Delta,
    FinishDelta,
    OpaqueDelta,
    RetryDelta,
    SentDelta,
    TextDelta,
    ThinkingDelta,
    UsageDelta,
)
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import canonical

NAMELESS = "unnamed"
NAME_LENGTH = 64


@dataclass(slots=True)
class CallDraft:
    """One call as far as it has arrived."""

    index: int | None
    id: str = ""
    """The provider's id."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    fields: JsonDict = field(default_factory=dict)
    """To be sent back with it."""

    def is_ended_by(self, delta: CallDelta) -> bool:
        """True if a fragment that seems to belong to this call begins another one."""
        if not delta.name or not self.name:
            return False
        if delta.id and self.id:
            return delta.id != self.id
        return bool(self.pieces) and not self.read()[2]

    def read(self) -> tuple[str, JsonObject, str]:
        """Return the name, limited to characters that every provider accepts, and the arguments, or {} and the raw text
        if they are not an object."""
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", self.name.strip())[:NAME_LENGTH] or NAMELESS
        return name, *parse_arguments("".join(self.pieces))


def parse_arguments(text: str) -> tuple[JsonObject, str]:
    """Parse `text` as an object; return it and "", or else {} and `text`.

    Empty arguments and `null` are the empty object; an object that was encoded twice is decoded twice. NaN and Infinity
    are not JSON, and a number too large to be sent back (`1e999`) is refused, as are more than `MOST_DEPTH` levels.
    """
    try:
        value = json.loads(text) if text.strip() else None
        if isinstance(value, str):
            value = json.loads(value) if value.strip() else None
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return {}, text
    value = {} if value is None else value
    return (value, "") if isinstance(value, dict) and is_nested_within(value, MOST_DEPTH) else ({}, text)


def add_fragment(drafts: list[CallDraft], delta: CallDelta) -> None:
    """Add one fragment to the calls of a reply, which are in the order in which they first appeared.

    An index identifies the call, unless the fragment has another id and a name too: then the provider counts each chunk
    from 0, and a new call begins. Without an index a new id or, lacking ids, a name begins a call; all other fragments
    belong to the newest call. A repeated name is not added again.
    """
    has_index = delta.index is not None
    alike = (d for d in reversed(drafts) if (d.index == delta.index if has_index else delta.id in ("", d.id)))
    draft = next(alike, None)
    if draft is None or draft.is_ended_by(delta):
        draft = CallDraft(delta.index)
        drafts.append(draft)
    draft.id = draft.id or delta.id
    if not draft.pieces and draft.name != delta.name:
        draft.name += delta.name
    if delta.arguments:
        draft.pieces.append(delta.arguments)
    draft.fields.update(delta.fields or {})


def merge_equal(drafts: list[CallDraft]) -> list[CallDraft]:
    """Return the first of calls with equal name and arguments, for an adapter that drops the others."""
    calls = [draft.read() for draft in drafts]
    return [draft for number, draft in enumerate(drafts) if calls[number] not in calls[:number]]


WANTS_REASONING = frozenset({"deepseek", "moonshot"})
"""Providers that require `reasoning_content` in every assistant message."""
NO_BLOCKS = frozenset({"mistral", "codestral", "gemini"})
"""Providers whose thinking blocks litellm invents (Mistral) or carries elsewhere (Gemini, in the call's id)."""


LONGEST_THINKING = 200_000
"""Most characters of the thinking of one reply that are kept for showing it again."""


class ShownThinking:
    """The thinking of one reply as people are shown it."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._began = self._ended = 0.0

    def feed(self, text: str) -> None:
        """Add a fragment."""
        self._began = self._began if self._texts else time.monotonic()
        self._texts.append(f"\n\n{text}" if self._ended else text)
        self._ended = 0.0

    def end(self) -> None:
        """Note that the reply goes on with its answer, or has ended."""
        if self._texts and not self._ended:
            self._ended = time.monotonic()

    def note(self, opaque: Opaque | None) -> JsonObject:
        """Return the memo `THINKING` of a reply, of whose entry `opaque` may have the text; empty if it has nothing to
        add."""
        self.end()
        text, seconds = "".join(self._texts), round(self._ended - self._began, 1)
        is_sent = opaque is not None and opaque.thinking.replace("\n", "") == text.replace("\n", "")
        if not text.strip() or (is_sent and seconds < 1):
            return {}
        cut = "\n[thinking truncated: too long to keep]" if len(text) > LONGEST_THINKING else ""
        return {**({} if is_sent else {"text": text[:LONGEST_THINKING] + cut}), "seconds": seconds}


class ThinkingFold:
    """The thinking of one reply that is sent back."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: list[JsonObject] = []
        self._unsigned: list[str] = []
        self._reasoning: list[str] = []

    def feed(self, delta: OpaqueDelta) -> None:
        """Add a fragment."""
        if delta.field == "reasoning_content":
            self._reasoning.append(delta.value)
            return
        for block in delta.value:
            self._feed_block(block)

    def _feed_block(self, block: JsonObject) -> None:
        text, signature = block.get("thinking") or "", block.get("signature")
        is_redacted = block.get("type") == "redacted_thinking"
        if not signature and not is_redacted:
            self._unsigned.append(text)
            return
        # The signature comes alone, or with the whole text of its block repeated.
        before = "".join(self._unsigned)
        full_text = text if text.startswith(before) else before + text
        signed = {} if is_redacted else {"type": "thinking", "thinking": full_text, "signature": signature}
        self._blocks.append({**block, **signed})
        self._unsigned.clear()

    def fields(self) -> JsonObject:
        """Return the fields to merge into the message when it is sent back to the same provider and model."""
        if self._provider in WANTS_REASONING:
            text = "".join(self._reasoning)
            return {"reasoning_content": text} if text else {}
        if self._provider in NO_BLOCKS or not self._blocks:
            return {}
        return {"thinking_blocks": self._blocks}


KEEPS_CALL_IDS = frozenset({"gemini", "vertex_ai"})
"""Providers whose own call ids are sent back: litellm carries Gemini's thought signature inside them."""
PROBLEMS = {
    "length": "the answer was cut off at the output limit",
    "refused": "the provider stopped the answer: content filter",
    "none": "the stream ended without a finish reason",
    "empty": "the answer had neither text nor a tool call",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One model reply."""

    message: Message
    usage: Usage | None
    """None: the provider reported none."""
    finish: str
    """`stop`, `tool_calls`, `length`, `refused`, `none` (no finish reason) or `empty`."""
    problem: str
    """The problem with the answer in one line, or ""."""
    is_cut: bool
    """True if the stream ended without a finish reason: before the answer, or in the middle of a text or of the
    arguments of a call."""
    sent_body: str
    """The body that was sent, see `SentDelta`; "" if unknown."""


class ReplyFold:
    """The fold of one stream's deltas."""

    def __init__(self, name_call: Callable[[int], str], provider: str, model: str) -> None:
        """Initialize; `name_call(n)` gives our id of the reply's n-th call, counted from 0."""
        self._name_call = name_call
        self._provider = provider
        self._model = model
        self._text: list[str] = []
        self._drafts: list[CallDraft] = []
        self._thoughts = ThinkingFold(provider)
        self.shown_thinking = ShownThinking()
        self._usage: Usage | None = None
        self._reason: str | None = None
        self._sent = ""

    def feed(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._text.append(text)
                if text.strip():
                    self.shown_thinking.end()
            case CallDelta():
                add_fragment(self._drafts, delta)
            case OpaqueDelta():
                self._thoughts.feed(delta)
            case UsageDelta(usage):
                self._usage = usage
            case FinishDelta(reason):
                self._reason = reason
            case SentDelta(body):
                self._sent = body
            case ThinkingDelta(text):
                self.shown_thinking.feed(text)
            case RetryDelta():
                pass
            case _:
                assert_never(delta)

    def finish(self) -> Reply:
        """Return the whole reply. It has tool calls if any arrived, whatever finish reason the provider gave."""
        text = "".join(self._text)
        text = text if text.strip() else ""
        outcome = "none" if self._reason is None else "stop"
        if self._reason == "content_filter":
            outcome = "refused"
        elif self._drafts:
            outcome = "tool_calls"
        elif self._reason == "length":
            outcome = "length"
        elif not text:
            outcome = "empty"
        if self._provider in KEEPS_CALL_IDS:
            # litellm's Gemini adapter sends only the first of two equal calls, but the results of both.
            self._drafts = merge_equal(self._drafts)
        calls = () if outcome == "refused" else self._name_calls()
        message = Message(Role.ASSISTANT, text, calls, opaque=self._opaque([call.id for call in calls], outcome))
        is_cut = self._reason is None and (outcome in ("none", "empty") or any(call.raw for call in calls))
        problem = PROBLEMS.get("length" if self._reason == "length" else outcome if self._reason else "none", "")
        return Reply(message, self._usage, outcome, problem, is_cut, self._sent)

    def partial(self) -> Message:
        """Return the message so far, for an interrupted stream: its text, without incomplete calls and thinking."""
        return Message(Role.ASSISTANT, "".join(self._text))

    def _name_calls(self) -> tuple[ToolCall, ...]:
        numbered = enumerate(self._drafts)
        return tuple(unwrap_call(ToolCall(self._name_call(number), *draft.read())) for number, draft in numbered)

    def _opaque(self, calls: Sequence[str], outcome: str) -> Opaque | None:
        by_call: JsonDict = {}
        for call_id, draft in zip(calls, self._drafts, strict=False):
            id_field = {"id": draft.id} if draft.id and self._provider in KEEPS_CALL_IDS else {}
            if call_fields := {**id_field, **draft.fields}:
                by_call[call_id] = call_fields
        message = {} if outcome in ("none", "refused") else self._thoughts.fields()
        if not message and not by_call:
            return None
        return Opaque(self._provider, self._model, canonical({"message": message, "calls": by_call}))
