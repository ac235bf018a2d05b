"""What the bytes of a file mean: text in some encoding, an image, or binary; and the way back, byte for byte.

Reading the bytes is in `files`, changing the text in `substitution`.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"GIF87a", "GIF"), (b"GIF89a", "GIF"))
_SNIFFED = 8192
_SAMPLE = 256 * 1024
_FEW = 8
"""Below so many bytes outside ASCII a guess is worth nothing."""
_COMMON = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
"""What people save text in; without this bound a short text is taken for the strangest things. None has a state."""


@dataclass(frozen=True, slots=True)
class Text:
    """Decoded text that encodes back to exactly the bytes it came from."""

    text: str
    """Without the byte order mark, line ends as they are. Undecodable bytes are lone surrogates."""
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    def encoded(self, text: str) -> bytes:
        """Another text in the form of this one. Raises `UnicodeEncodeError` where the encoding has no such letter."""
        return self.bom + text.encode(self.encoding, self.errors)

    @property
    def shown(self) -> str:
        """The text for the model: `\\r\\n` as `\\n`, undecodable bytes as U+FFFD."""
        text = self.text.replace("\r\n", "\n")
        return text if self.errors == "strict" else text.encode("utf-8", self.errors).decode("utf-8", "replace")

    @property
    def crlf(self) -> bool:
        """Every line ends in `\\r\\n`, and there is one."""
        return "\r\n" in self.text and self.text.count("\n") == self.text.count("\r\n")


def image(data: bytes) -> str:
    """The name of the image format that `data` begins like, or ""."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    return next((name for magic, name in _IMAGES if data.startswith(magic)), "")


def decode(data: bytes) -> Text | None:
    """The text of `data`, or None when it is binary.

    A byte order mark decides, then UTF-8, then what the letters look like (charset-normalizer). A few stray bytes in
    UTF-8 are kept aside, so that the rest of the file can be read and edited.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            marked = _exact(data[len(bom) :], encoding)
            if marked is not None:
                return Text(marked, encoding, bom)
    if b"\0" in data[:_SNIFFED]:
        return None
    try:
        return Text(data.decode())
    except UnicodeDecodeError:
        pass
    kept = data.decode("utf-8", "surrogateescape")
    stray = len(kept) - len(kept.encode("utf-8", "ignore").decode())
    letters = len(kept) - len(kept.encode("ascii", "ignore"))
    if stray * 4 <= letters:
        return Text(kept, errors="surrogateescape")
    guess = _guess(data)
    if guess is not None:
        return guess
    return None if stray * 10 > len(kept) else Text(kept, errors="surrogateescape")


def _exact(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except (UnicodeError, LookupError):
        return None


def _guess(data: bytes) -> Text | None:
    from charset_normalizer import from_bytes  # noqa: PLC0415  (slow to load, and only for what is not UTF-8)

    if any(control in data for control in range(7)):
        return None
    candidates = ["cp1252"]
    if sum(byte > 127 for byte in data[:_SAMPLE]) >= _FEW:
        sample = data if len(data) <= _SAMPLE else data[: data.rfind(b"\n", 0, _SAMPLE) + 1] or data[:_SAMPLE]
        found = from_bytes(sample, cp_isolation=_COMMON)
        best = found.best()
        if best is not None and not any("cp1252" in match.could_be_from_charset for match in found):
            candidates.insert(0, best.encoding)
    for encoding in candidates:
        text = _exact(data, encoding)
        if text is not None:
            return Text(text, encoding)
    return None
