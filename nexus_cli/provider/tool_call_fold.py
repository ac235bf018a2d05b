"""Fold the fragments of tool calls, in any chunking, into whole calls.

No call is lost: a call whose arguments are not an object keeps its raw text, for the error sent to the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from nexus_cli.core.request import CallDelta

NAMELESS = "unnamed"
NAME_LENGTH = 64


@dataclass(slots=True)
class CallDraft:
    """One call as far as it has arrived."""

    id: str = ""
    """The provider's id."""
    names: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name, limited to characters that every provider accepts."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", "".join(self.names).strip())[:NAME_LENGTH] or NAMELESS

    def add(self, delta: CallDelta) -> None:
        """Add a fragment of this call. A repeated name is not added again."""
        self.id = self.id or delta.id
        if delta.name and not self.pieces and "".join(self.names) != delta.name:
            self.names.append(delta.name)
        if delta.arguments:
            self.pieces.append(delta.arguments)
        self.fields.update(delta.fields or {})

    def arguments(self) -> tuple[dict[str, Any], str]:
        """Return the arguments, or {} and the raw text if they are not an object."""
        return parse_arguments("".join(self.pieces))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _loads(text: str) -> object:
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """Parse `text` as an object; return it and "", or else {} and `text`.

    Empty arguments and `null` are the empty object; an object that was encoded twice is decoded twice. NaN and Infinity
    are not JSON, and a number too large to be sent back (`1e999`) is refused.
    """
    if not text.strip():
        return {}, ""
    try:
        value = _loads(text)
        if isinstance(value, str):
            value = _loads(value) if value.strip() else {}
    except (ValueError, RecursionError):
        return {}, text
    if value is None:
        return {}, ""
    return (value, "") if isinstance(value, dict) else ({}, text)


class ToolCallFold:
    """The calls of one reply, in the order in which they first appeared."""

    def __init__(self) -> None:
        self.drafts: list[CallDraft] = []
        self._by_index: dict[int, CallDraft] = {}

    def feed(self, delta: CallDelta) -> None:
        """Add one fragment.

        An index identifies the call, unless the fragment has another id and a name too: then the provider counts each
        chunk from 0, and a new call begins. Without an index a new id or, lacking ids, a name begins a call; all other
        fragments belong to the newest call.
        """
        draft = self._find(delta)
        if draft is None:
            draft = CallDraft()
            self.drafts.append(draft)
        if delta.index is not None:
            self._by_index[delta.index] = draft
        draft.add(delta)

    def _find(self, delta: CallDelta) -> CallDraft | None:
        if delta.index is not None:
            draft = self._by_index.get(delta.index)
            return None if draft is None or self._begins(draft, delta) else draft
        if delta.id:
            return next((d for d in reversed(self.drafts) if d.id == delta.id), None)
        newest = self.drafts[-1] if self.drafts else None
        return None if newest is None or self._begins(newest, delta) else newest

    @staticmethod
    def _begins(draft: CallDraft, delta: CallDelta) -> bool:
        """True if a fragment for `draft` begins another call."""
        if not delta.name or not draft.names:
            return False
        if delta.id and draft.id:
            return delta.id != draft.id
        return bool(draft.pieces) and not draft.arguments()[1]

    def merge_equal(self) -> None:
        """Keep the first of calls with equal name and arguments, for an adapter that drops the others."""
        seen: list[tuple[str, tuple[dict[str, Any], str]]] = []
        kept = []
        for draft in self.drafts:
            key = (draft.name, draft.arguments())
            if key not in seen:
                seen.append(key)
                kept.append(draft)
        self.drafts = kept

    def fields(self, keep_id: bool) -> list[Mapping[str, Any]]:
        """Return per call the fields to send back with it; with `keep_id` its own id among them."""
        return [{**({"id": d.id} if keep_id and d.id else {}), **d.fields} for d in self.drafts]
