"""Inputs of a run besides its text: images, records of attached files, and the trigger that starts it.

Apart from `message`: a command that sends none needs no more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """An attached image."""

    media_type: str
    data: bytes
    name: str = ""


FOLDER, TEXT = "folder", "text"
"""Types of what is attached; an image has its media type."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """The record of a file or folder that a message takes along (seed B's `attachments` of a user message)."""

    path: str
    """As it was named, without the range of lines."""
    type: str
    """`TEXT`, `FOLDER`, or the media type of an image."""
    size: int
    """Bytes of what was attached."""
    first: int = 1
    """Number of the first line that was attached."""
    last: int = 0
    """Number of the last one; of a folder the number of its names."""
    total: int = 0
    """Lines of the file where only some were attached, else 0."""

    def to_json(self) -> dict[str, Any]:
        """Return what is recorded: `path`, `type`, `bytes`, and `names` or `lines` (`of` how many)."""
        found: dict[str, Any] = {"path": self.path, "type": self.type, "bytes": self.size}
        if self.type == FOLDER:
            return found | {"names": self.last}
        if self.type != TEXT or not self.last:
            return found
        return found | {"lines": [self.first, self.last]} | ({"of": self.total} if self.total else {})


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
IMAGE_NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
"""Their usual names."""


def image_type(data: bytes) -> str:
    """Return the media type of the image that `data` begins like (12 bytes are enough), or ""."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")


@dataclass(frozen=True, slots=True)
class Trigger:
    """The start of a turn. Without text the turn continues from the end of the window (resume)."""

    text: str = ""
    source: str = "person"
    """`person`, `stdin`, `client`, `agent`, `space`, `plan`, `service`, `resume`."""
    parts: tuple[Part, ...] = ()
    files: tuple[AttachedFile, ...] = ()
    """Records of the files in text and parts."""
    uncounted: int = 0
    """Bytes of input beyond the hard limit: counted, not kept."""
    pasted: tuple[str, ...] = ()
    """Parts of the text that were pasted, not typed: no fact counts at once by them."""
    shown: str = ""
    """What a person reads in the place of a text of ours: the command that they typed."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What seed C's TRIGGER block says of it, with its keys: `type`, `triggerSource`, `sender`, `messageId`, ..."""
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Memos that are recorded in one commit with the entry of its text, by kind."""
    actor: str = "person"
    """Whose words the text is: an actor of an entry."""
    fresh: bool = False
    """Begin a new epoch before it, whose head is the recap of what was done so far (seed C: a resumed run)."""
    came: tuple[str, ...] = ()
    """Of a fresh one: what came while the run waited, as lines that the recap ends with."""
