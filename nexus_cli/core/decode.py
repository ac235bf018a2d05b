"""Decode bytes of unknown encoding so that they can be encoded back: by byte order mark, as UTF-8, else by a guess.

All file contents are decoded here. Callers read the bytes, and may treat more as binary than files with a NUL.
"""

from __future__ import annotations

import codecs
from collections import Counter
from dataclasses import dataclass

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
HEAD = 8192
"""First bytes in which a NUL marks data as binary, unless it is UTF-8."""
_SAMPLE = 32 * 1024
"""Bytes before and after the first byte that is not UTF-8, from which the encoding is guessed."""
_MIN_GUESS_BYTES = 8
"""Least bytes outside ASCII for a guess."""
_COMMON = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
"""Candidates for a guess: without this list short texts are taken for exotic encodings. All are stateless."""
_ALPHABETS = (
    ("cp1252", "àâçèéêëîïôùûüÿœ"),  # French
    ("cp1252", "äöüß"),  # German
    ("cp1252", "áéíñóúü¡¿ºª"),  # Spanish
    ("cp1252", "áàâãçéêíóôõúüºª"),  # Portuguese
    ("cp1252", "àèéìíîòóùú"),  # Italian
    ("cp1252", "àçèéíïòóúü"),  # Catalan
    ("cp1252", "áàâäèéêëíîïóôöúûü"),  # Dutch
    ("cp1252", "åäöé"),  # Swedish, Finnish
    ("cp1252", "åæøéóòô"),  # Danish, Norwegian
    ("cp1250", "ąćęłńóśźż"),  # Polish
    ("cp1250", "áčďéěíňóřšťúůýž"),  # Czech
    ("cp1250", "áäčďéíĺľňóôŕšťúýž"),  # Slovak
    ("cp1250", "áéíóöőúüű"),  # Hungarian
    ("cp1250", "âăîşţ"),  # Romanian
    ("cp1250", "ćčđšž"),  # Croatian, Slovene
    ("iso8859_2", "ąćęłńóśźż"),
    ("iso8859_2", "áčďéěíňóřšťúůýž"),
    ("iso8859_2", "áäčďéíĺľňóôŕšťúýž"),
    ("iso8859_2", "ćčđšž"),
    ("cp1254", "âçğıİîöşûü"),  # Turkish
    ("cp1252", "áæðéíóöúýþ"),  # Icelandic
)
"""The usual encoding and the letters outside ASCII of each language; of equally good ones the first counts."""
_SIGNS = "\xa0«»‹›‘’‚“”„–—…•€£§©®™°±×·"
"""Characters in texts of any language."""
_CONTROLS = range(7)
"""Characters that occur in no text: with one of them no encoding is guessed."""
_HIGH = bytes(range(128, 256))


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Decoded text."""

    text: str
    """Without the byte order mark, with the original line ends. Stray bytes in UTF-8 are lone surrogates."""
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"
    """`surrogateescape`: UTF-8 with stray bytes; `replace`: invalid after a byte order mark, cannot be encoded back."""

    def encode(self, text: str) -> bytes:
        """Encode another text like this one; raise `UnicodeEncodeError` if the encoding lacks a character."""
        return self.bom + text.encode(self.encoding, self.errors)

    @property
    def plain(self) -> str:
        """Return the text with U+FFFD for stray bytes."""
        if self.errors != "surrogateescape":
            return self.text
        return self.text.encode("utf-8", self.errors).decode("utf-8", "replace")

    @property
    def model_text(self) -> str:
        """Return the text for the model: `plain` with `\r\n` as `\n`."""
        return self.plain.replace("\r\n", "\n")

    @property
    def is_crlf(self) -> bool:
        """True if all line ends are `\\r\\n`, and there are any."""
        return "\r\n" in self.text and self.text.count("\n") == self.text.count("\r\n")

    @property
    def invalid_bytes(self) -> int:
        """Return the number of bytes that are not UTF-8 in an otherwise valid text."""
        if self.errors != "surrogateescape":
            return 0
        return len(self.text) - len(self.text.encode("utf-8", "ignore").decode())

    @property
    def encoding_note(self) -> str:
        """Return a remark on an unusual encoding, to follow "NAME: "; "" for none."""
        if self.errors == "replace":
            return f"is not valid {self.encoding}; invalid bytes were replaced"
        if self.errors == "surrogateescape":
            are = (
                "1 byte is not UTF-8 and is"
                if self.invalid_bytes == 1
                else f"{self.invalid_bytes:,} bytes are not UTF-8 and are"
            )
            return f"{are} shown as \ufffd"
        return "" if self.bom or self.encoding == "utf-8" else f"is not UTF-8; decoded as {self.encoding}"


def decode(data: bytes, *, cut: bool = False) -> DecodedText | None:
    """Decode `data`; return None if it is binary: no byte order mark, not UTF-8, and a NUL near the beginning.

    Data with at least as many valid non-ASCII characters as invalid bytes is UTF-8 with stray bytes; otherwise the
    encoding is guessed (charset-normalizer). If no guess fits, or there are control characters, it is UTF-8 with stray
    bytes after all. With `cut` an incomplete last character is dropped.
    """
    for bom, encoding in MARKS:
        if data.startswith(bom):
            return _decode_marked(data[len(bom) :], encoding, bom, cut)
    try:
        return DecodedText(_read(data, "utf-8", "strict", cut))
    except UnicodeDecodeError as error:
        start, torn = error.start, error.end == len(data) > error.start + 1
    if b"\0" in data[:HEAD]:
        return None
    broken = DecodedText(_read(data, "utf-8", "surrogateescape", cut), errors="surrogateescape")
    letters = len(broken.text) - len(broken.text.encode("ascii", "ignore"))
    if torn or broken.invalid_bytes * 2 <= letters or any(control in data for control in _CONTROLS):
        return broken
    sample = data[data.rfind(b"\n", max(0, start - _SAMPLE), start) + 1 or max(0, start - _SAMPLE) : start + _SAMPLE]
    for encoding in (_guess_encoding(sample), "cp1252"):
        text = _decode_exactly(data, encoding)
        if text is not None:
            return DecodedText(text, encoding)
    return broken


def _read(data: bytes, encoding: str, errors: str, cut: bool) -> str:
    return codecs.getincrementaldecoder(encoding)(errors).decode(data, not cut)


def _decode_marked(body: bytes, encoding: str, bom: bytes, cut: bool) -> DecodedText:
    try:
        return DecodedText(_read(body, encoding, "strict", cut), encoding, bom)
    except UnicodeDecodeError:
        errors = "surrogateescape" if encoding == "utf-8" else "replace"
        return DecodedText(_read(body, encoding, errors, cut), encoding, bom, errors)


def _decode_exactly(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except (UnicodeError, LookupError):
        return None


def _guess_encoding(sample: bytes) -> str:
    """Return the likeliest encoding; for Latin text the one in which the letters are those of one language."""
    if len(sample) - len(sample.translate(None, _HIGH)) < _MIN_GUESS_BYTES:
        return "cp1252"
    from charset_normalizer import from_bytes  # noqa: PLC0415  (slow to load, and nearly everything is UTF-8)

    best = from_bytes(sample, cp_isolation=_COMMON, enable_fallback=False).best()
    letters = [char for char in str(best or "") if char.isalpha() and not char.isascii()]
    if best is not None and sum(char > "\u02ff" for char in letters) * 2 > len(letters):
        return best.encoding
    count = Counter(byte for byte in sample if byte > 127)
    return min(_ALPHABETS, key=lambda row: _count_foreign_letters(count, *row))[0]


def _count_foreign_letters(count: Counter[int], encoding: str, alphabet: str) -> int:
    """Count the non-ASCII bytes that in `encoding` are neither in the alphabet nor in `_SIGNS`."""
    expected = {*_SIGNS, *alphabet, *alphabet.upper()}
    return sum(times for byte, times in count.items() if bytes([byte]).decode(encoding, "replace") not in expected)
