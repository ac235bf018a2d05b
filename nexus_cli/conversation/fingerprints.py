"""Hash a request part by part, and find the first part in which two requests differ.

A provider's cache keeps prefixes of requests, so that the first difference caused the miss. Parts are in the order of a
request: model, tools, system text by sections, parameters such as effort, messages. Pure; the hashes of messages are
those of their lines, which the ledger has with epoch and entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.groups import arrange
from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import Epoch, ItemForm, WindowItem
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import canonical

NamedHashes = tuple[tuple[str, str], ...]
"""Names and hashes, in order."""
SYSTEM = "system text"
"""Last section, for text that no recorded section of an older epoch covers."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The parts of one request."""

    model: str
    effort: str
    tool_choice: str
    tools: NamedHashes
    sections: NamedHashes
    messages: NamedHashes
    """By entry or item, see `name_of`."""

    @classmethod
    def of(cls, epoch: Epoch, messages: Iterable[tuple[str, str]]) -> Fingerprint:
        """Return the parts of a request under `epoch`; `messages` are the names and line hashes of its messages."""
        tools = tuple((str(tool.get("function", tool).get("name", "")), _sha(canonical(tool))) for tool in epoch.tools)
        sections = [(str(load["id"]), _of_section(load)) for load in epoch.section_rows]
        system_part = (SYSTEM, _sha(epoch.system.encode()))
        return cls(epoch.model, epoch.effort, epoch.tool_choice, tools, (*sections, system_part), tuple(messages))

    @classmethod
    def of_hashes(cls, epoch: Epoch, head: Iterable[bytes], entries: Iterable[tuple[int, bytes]]) -> Fingerprint:
        """Return the parts of a request from the hashes of its lines: those of the epoch's `head`, and of later
        `entries`."""
        head_parts = [(name_of(item), line.hex()) for item, line in zip(arrange(epoch.head), head, strict=False)]
        return cls.of(epoch, [*head_parts, *((f"entry {entry}", line.hex()) for entry, line in entries)])

    def first_difference(self, after: Fingerprint) -> Difference | None:
        """Return the first difference; None if `after` only continues this one, or ends earlier."""
        if self.model != after.model:
            return Difference("model", after.model, self.model, after.model)
        difference = _among("tool", self.tools, after.tools) or _among("section", self.sections, after.sections)
        if difference:
            return difference
        for name in ("effort", "tool_choice"):
            was, now = getattr(self, name), getattr(after, name)
            if was != now:
                return Difference("effort", name.replace("_", " "), was, now)
        for (was, old), (now, new) in zip(self.messages, after.messages, strict=False):
            if old != new:
                return Difference("message", was, was, now)
        return None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first part in which a request differs from the one before it."""

    kind: str
    """`model`, `tool`, `section`, `effort` (tool choice too), `message`, or `order` (of tools or sections)."""
    what: str
    """The name of the part."""
    before: str
    """Its former value: a name, or the beginning of its hash; "" if it did not exist."""
    after: str

    def source_in(self, *epochs: Epoch) -> str:
        """Return the source of the section that differs, from the first of `epochs` that has one; "" for other
        parts."""
        if self.kind != "section":
            return ""
        rows = (load for epoch in epochs for load in epoch.section_rows if load.get("id") == self.what)
        return next((str(row["source"]) for row in rows if row.get("source")), "")


def render_fingerprint(epoch: Epoch, items: Iterable[WindowItem]) -> Fingerprint:
    """Return the parts of a request of these items, rendering its messages again."""
    arranged = arrange(items)
    lines = Wire(epoch).extend(arranged)
    return Fingerprint.of(epoch, ((name_of(item), line.hex()) for item, line in zip(arranged, lines, strict=True)))


def name_of(item: WindowItem) -> str:
    """Return `entry 12`, or for another form `a summary up to entry 40`, `a stub of entry 12`."""
    if item.form is ItemForm.FULL:
        return f"entry {item.entry}"
    preposition = "up to" if item.replaces_others else "of"
    return f"{'an' if item.form is ItemForm.ELIDED else 'a'} {item.form} {preposition} entry {item.entry}"


def common_messages(before: Fingerprint, after: Fingerprint) -> int:
    """Count the messages that both begin with; -1 if the parts before the messages differ."""
    if _fixed_parts(before) != _fixed_parts(after):
        return -1
    pairs = list(zip(before.messages, after.messages, strict=False))
    return next((place for place, (old, new) in enumerate(pairs) if old[1] != new[1]), len(pairs))


def _fixed_parts(fingerprint: Fingerprint) -> tuple[str, str, str, NamedHashes, tuple[str, str]]:
    return fingerprint.model, fingerprint.effort, fingerprint.tool_choice, fingerprint.tools, fingerprint.sections[-1]


def _among(kind: str, before: NamedHashes, after: NamedHashes) -> Difference | None:
    """Return the first tool or section that changed, was added or removed; `order` if only their order changed."""
    if before == after:
        return None
    if sorted(before) == sorted(after):
        was, now = next((old[0], new[0]) for old, new in zip(before, after, strict=True) if old != new)
        return Difference("order", f"{kind}s", was, now)
    old, new = dict(before), dict(after)
    names = [*(name for name, _ in after), *(name for name, _ in before if name not in new)]
    for name in sorted(names, key=lambda name: _place(name, before, after)):
        if old.get(name) != new.get(name):
            return Difference(kind, name, old.get(name, "")[:12], new.get(name, "")[:12])
    return Difference(kind, names[0], "", "")  # one name occurs twice


def _place(name: str, *lists: Sequence[tuple[str, str]]) -> int:
    """Return the first index of a name in any of the lists."""
    return min(place for parts in lists for place, (part_name, _) in enumerate(parts) if part_name == name)


def _of_section(section: JsonObject) -> str:
    """Return the hash of its text; for an epoch without a recorded hash, form and tokens, which also show a change."""
    return str(section.get("sha256") or _sha(canonical([section.get("form"), section.get("tokens")])))


def _sha(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
