"""Separate what a person typed in a message from what is attached behind it."""

from __future__ import annotations

import re

LONGEST_TYPED = 4_000
"""Characters: a longer text holds a paste (a log, a page), so nothing rests on it."""

_BLOCKS = ("stdin", "file", "folder", "shell", "recalled")
"""Tags of the blocks that hold attachments; they follow the typed text."""
_BLOCK = re.compile(rf"^[^\S\n]*<(?:{'|'.join(_BLOCKS)})\b", re.MULTILINE)
_ATTACHED = re.compile(rf"^<(?:stdin\b|(?:{'|'.join(_BLOCKS)}) \w+=)", re.MULTILINE)
"""The beginning of a block as we write it: all but `stdin` have an attribute."""
_CLOSED = tuple(f"</{name}>" for name in _BLOCKS)
_HOLE = re.compile(r"^\[\.\.\. [\d,]{1,12} tokens ", re.MULTILINE)
"""Marker of an elided middle, which may have held the beginning of a block."""
_TAG = 64
"""Characters beyond the longest typed text in which the block after it may begin."""


def typed_text(message: str) -> str:
    """Return the text before the first attached block, or "" if it is longer than `LONGEST_TYPED`."""
    head = message[: LONGEST_TYPED + _TAG]
    block = _BLOCK.search(head)
    typed = head[: block.start()] if block else head
    return typed if len(typed) <= LONGEST_TYPED else ""


def split_attachments(message: str) -> tuple[str, str]:
    """Return what the person typed, whatever its length, and what is attached to it.

    A message has attachments only if it ends with a closing tag. They begin with the first block as we write one and
    reach to the end of the message, whatever a file in them says.
    """
    if not message.rstrip().endswith(_CLOSED):
        return message, ""
    found = _ATTACHED.search(message) or _HOLE.search(message)
    return (message[: found.start()].rstrip(), message[found.start() :]) if found else (message, "")
