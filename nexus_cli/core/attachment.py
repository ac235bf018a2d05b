"""The inputs of a turn: its trigger, images, and records of attached files.

Separate from `message`, so that commands without messages need not import that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nexus_cli.core.json_value import JsonDict, JsonObject


@dataclass(frozen=True, slots=True)
class Part:
    """An image that is attached, or part of a result."""

    media_type: str
    data: bytes
    name: str = ""
    origin: str = ""
    """What it is part of, `result of read_file a.png`; "" if it is attached."""


IMAGE_TOKENS = 1500
"""Tokens of one attached image, whatever its size."""
RESUME = "resume"
"""Source and type of a trigger that resumes a run after a wait, and the cause of the epoch that it begins; its message
gets no trigger mark."""
FOLDER, TEXT = "folder", "text"
"""Values of `AttachedFile.type`; that of an image is its media type."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """The record of a file or folder attached to a message of the person."""

    path: str
    """As typed, without the range of lines."""
    type: str
    """`TEXT`, `FOLDER`, or the media type of an image."""
    size: int
    """Bytes attached."""
    first: int = 1
    """First line attached, from 1."""
    last: int = 0
    """Last line attached; for a folder the number of its names."""
    total: int = 0
    """Number of lines of the file if only some were attached, else 0."""

    def to_json(self) -> JsonDict:
        """Return the recorded form: `path`, `type`, `bytes`, and `names` or `lines` (`of` the file's total)."""
        fields: JsonDict = {"path": self.path, "type": self.type, "bytes": self.size}
        if self.type == FOLDER:
            return fields | {"names": self.last}
        if self.type != TEXT or not self.last:
            return fields
        return fields | {"lines": [self.first, self.last]} | ({"of": self.total} if self.total else {})


@dataclass(frozen=True, slots=True)
class ReadFile:
    """An attached file as it was read: a block of the message or an image."""

    record: AttachedFile
    block: str = ""
    part: Part | None = None
    notice: str = ""
    """Note for the person about the reading."""
    uncounted: int = 0
    """Bytes beyond the hard limit: counted, not kept."""


@dataclass(slots=True)
class Attachments:
    """The blocks and parts that attached files add to a message."""

    blocks: list[str] = field(default_factory=list)
    """Text blocks to append after the text, separated by a blank line."""
    parts: list[Part] = field(default_factory=list)
    """Images."""
    notices: list[str] = field(default_factory=list)
    """Notes for the person about the reading of files, and failures."""
    uncounted: int = 0
    """Bytes beyond the hard limit: counted, not kept."""
    files: list[AttachedFile] = field(default_factory=list)
    """Records of the attached files, in order."""

    def add(self, read: ReadFile) -> None:
        """Add a file."""
        self.files.append(read.record)
        self.parts += filter(None, [read.part])
        self.blocks += filter(None, [read.block])
        self.notices += filter(None, [read.notice])
        self.uncounted += read.uncounted


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
IMAGE_NAMES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
"""Names of image types, by media type."""


def image_type(data: bytes) -> str:
    """Return the media type of an image by its first 12 bytes, "" if it is none."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")


@dataclass(frozen=True, slots=True)
class Trigger:
    """The start of a turn, or a message to the running one. Without text a turn continues from the end of the window
    (resume)."""

    text: str = ""
    source: str = "person"
    """Who wrote it: `person` (only if a person typed it), `stdin`, `client`, `agent`, `space`, `plan`, `service`,
    `resume`."""
    parts: tuple[Part, ...] = ()
    files: tuple[AttachedFile, ...] = ()
    """Records of the files in text and parts."""
    uncounted: int = 0
    """Bytes of input beyond the hard limit, counted but not stored."""
    pasted: tuple[str, ...] = ()
    """Pasted parts of the text, in which a quote does not prove a fact."""
    display_text: str = ""
    """The command that the person typed, shown instead of the text that it expands to."""
    facts: JsonObject = field(default_factory=dict)
    """Fields of the TRIGGER block of a structured run: `type`, `triggerSource`, `sender`, `messageId`, ..."""
    notes: Mapping[str, JsonObject] = field(default_factory=dict)
    """Memos by kind, recorded in one commit with the entry of the text."""
    expands: bool = False
    """The person typed the text: guides that it calls (`/NAME`, `$NAME`) are added."""
    actor: str = "person"
    """Author of the text, see `Entry.actor`."""
    fresh: bool = False
    """Begin a new epoch first, whose head is a recap of the run so far: a run resumes after a wait."""
    until: str = ""
    """The command that the turn works for until it exits 0 (`--until`)."""
    schema: str = ""
    """The JSON Schema that the answer has to match, as JSON (`--schema`)."""
    came: tuple[str, ...] = ()
    """With `fresh`: lines about the events during the wait, at the end of the recap."""

    @property
    def has_message(self) -> bool:
        """True if there is something to record."""
        return bool(self.text or self.parts)

    @property
    def may_expand(self) -> bool:
        """True if the typed words may name something to attach: of a client guides only if it says typed."""
        return self.expands or (self.source == "client" and "@" in self.text)
