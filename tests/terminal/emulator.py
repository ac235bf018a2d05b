"""What a person would see: bytes of a program become a screen of cells and the lines that scrolled off its top.

pyte does the work; this mends what it lacks: faint text, joined characters, sequences that it would print or take for
others, and lines that a smaller window pushes off. It does not reflow: a line stays as long as it was when it was
drawn, as in xterm (`terminal.tmux` reflows). What a narrower window hides of a line is kept with it.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyte
from pyte import graphics
from wcwidth import wcwidth

KEPT_LINES = 200_000
HELD = 200_000
"""Characters of an unfinished sequence, after which it is text."""


class Cell(NamedTuple):
    """One place of the screen; the fields of pyte's own cell, and whether it is faint."""

    data: str
    """The character with what joins it; "" in the second place of a wide one."""
    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    italics: bool = False
    underscore: bool = False
    strikethrough: bool = False
    reverse: bool = False
    blink: bool = False
    dim: bool = False


BLANK = Cell(" ")
FOREGROUND: Mapping[int, str] = {**graphics.FG_ANSI, **graphics.FG_AIXTERM}
BACKGROUND: Mapping[int, str] = {code + 10: name for code, name in FOREGROUND.items()}
"""Codes to names: `red`, `brightred`; pyte's yellow is `brown`."""
Line = Mapping[int, Cell]

_SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<mark>[<=>?]?)(?P<numbers>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b]*\x1b\\"
    r"|[ #%()*+](?P<charset>[ -~]))"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[<=>?]?[0-9;:]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ #%()*+])?\Z")


class Emulator(pyte.Screen):  # type: ignore[misc]
    """A terminal's screen with its scrollback. `feed` takes bytes, cut anywhere."""

    def __init__(self, columns: int, rows: int, answer: Callable[[bytes], Any] = lambda data: None) -> None:
        """`answer` is given what the terminal says by itself: where the cursor is."""
        self.history: deque[Line] = deque(maxlen=KEPT_LINES)
        self.told: list[str] = []
        """Operating system commands in order: titles, links, the clipboard (`52;c;...`)."""
        self._answer = answer
        self.columns: int = columns
        self.lines: int = rows
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__(columns, rows)
        self._stream = pyte.Stream(self)

    @property
    def default_char(self) -> Cell:
        """An empty place."""
        return BLANK

    def reset(self) -> None:
        """As after switching it on; the scrollback stays."""
        super().reset()
        self.cursor.attrs = BLANK

    def feed(self, data: bytes) -> None:
        """What the program wrote."""
        text = self._held + self._decoder.decode(data)
        self._held = ""
        rest = _UNFINISHED.search(text, max(0, text.rfind("\x1b") - HELD))
        if rest and len(text) - rest.start() < HELD:
            text, self._held = text[: rest.start()], text[rest.start() :]
        self._stream.feed(_SEQUENCE.sub(self._known, text))

    def _known(self, found: re.Match[str]) -> str:
        """The sequence if pyte understands it, another one that means the same, or nothing."""
        if found["osc"] is not None:
            self.told.append(found["osc"])
            return ""
        final, mark = found["final"], found["mark"]
        if final is None or found["between"] or mark in ("<", "=", ">"):
            return found[0] if found["charset"] and found[0][1] in "()" else ""
        if mark == "?":
            return found[0] if final in "hl" else ""
        if final in "su" and not found["numbers"]:
            return "\x1b7" if final == "s" else "\x1b8"
        if ":" in found["numbers"]:
            return f"\x1b[{_plain(found['numbers'])}{final}"
        return found[0]

    def write_process_input(self, data: str) -> None:
        """The terminal's answer to a question of the program."""
        self._answer(data.encode())

    def draw(self, data: str) -> None:
        """Text at the cursor. pyte forgets all that follows a joiner in the same piece; here it joins."""
        if data.isascii():
            super().draw(data)
            return
        for char in data:
            if wcwidth(char) > 0:
                super().draw(char)
            else:
                self._join(char)

    def _join(self, char: str) -> None:
        line = self.buffer[self.cursor.y]
        place = self.cursor.x - 1
        while place > 0 and line[place].data == "":
            place -= 1
        if place >= 0:
            line[place] = line[place]._replace(data=line[place].data + char)

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Colours and the like, faint text included."""
        now, rest = self.cursor.attrs, list(reversed(attrs or (0,)))
        while rest:
            code = rest.pop()
            if code == 0:
                now = BLANK._replace(data=now.data)
            elif code in (2, 22):
                now = now._replace(dim=code == 2, bold=now.bold and code == 2)
            elif code in graphics.TEXT:
                name = graphics.TEXT[code]
                now = now._replace(**{name[1:]: name.startswith("+")})
            elif code in (38, 48) and rest:
                now = now._replace(**{"fg" if code == 38 else "bg": _colour(rest)})
            elif code in FOREGROUND:
                now = now._replace(fg=FOREGROUND[code])
            elif code in BACKGROUND:
                now = now._replace(bg=BACKGROUND[code])
        self.cursor.attrs = now

    def index(self) -> None:
        """A line down; what leaves the top is scrolled off, not gone."""
        if self.cursor.y == (self.margins.bottom if self.margins else self.lines - 1) and not (
            self.margins and self.margins.top
        ):
            self.history.append(self.buffer[0])
            self.buffer[0] = type(self.buffer[0])(BLANK)
        super().index()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Clears a part of the line, with what is hidden right of the window."""
        super().erase_in_line(how, private)
        if how in (0, 2):
            line = self.buffer[self.cursor.y]
            for place in [place for place in line if place >= self.columns]:
                del line[place]

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Clears a part of the screen; 3 clears the scrollback alone, as in xterm."""
        if how == 3:
            self.history.clear()
            return
        super().erase_in_display(how, *args, **kwargs)
        first, last = {0: (self.cursor.y + 1, self.lines), 1: (0, self.cursor.y)}.get(how, (0, self.lines))
        for row in range(first, last):
            self.buffer.pop(row, None)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Another size, without reflow: rows go to the scrollback and come back from it, so that none is lost."""
        lines, columns = lines or self.lines, columns or self.columns
        rows = [self.buffer[row] for row in range(self.lines)]
        while len(rows) > lines and len(rows) - 1 > self.cursor.y and not _written(rows[-1]):
            rows.pop()
        while len(rows) > lines:
            self.history.append(rows.pop(0))
            self.cursor.y -= 1
        while len(rows) < lines and self.history:
            rows.insert(0, dict_of(self.history.pop(), self.buffer))
            self.cursor.y += 1
        self.buffer.clear()
        self.buffer.update(enumerate(rows))
        self.lines, self.columns = lines, columns
        self.cursor.y = max(0, self.cursor.y)
        self.cursor.x = min(self.cursor.x, columns)
        self.set_margins()

    def text_of(self, line: Line, columns: int | None = None) -> str:
        """A line as text, without blanks at its end; of the first `columns` places, or of all."""
        if not line:
            return ""
        end = min(columns or 1 << 30, 1 + max(line))
        return "".join([line.get(place, BLANK).data for place in range(end)]).rstrip(" ")

    def lines_of_screen(self) -> list[str]:
        """The rows as they are seen."""
        return [self.text_of(self.buffer[row], self.columns) for row in range(self.lines)]

    def lines_of_all(self) -> list[str]:
        """What scrolled off and what is on the screen, each line whole."""
        shown = [self.text_of(self.buffer[row]) for row in range(self.lines)]
        return [self.text_of(line) for line in self.history] + shown


def dict_of(line: Line, buffer: Any) -> Any:
    """`line` in the form in which pyte keeps its rows."""
    row = buffer.default_factory()
    row.update(line)
    return row


def _written(line: Line) -> bool:
    return any(cell.data.strip() for cell in line.values())


def _plain(numbers: str) -> str:
    """Numbers with sub-parameters as those that came before them: `38:2::1:2:3` is `38;2;1;2;3`, `4:3` is `4`."""
    plain = []
    for one in numbers.split(";"):
        parts = one.split(":")
        if parts[0] in ("38", "48") and len(parts) > 2:
            plain += [parts[0], parts[1], *(parts[-3:] if parts[1] == "2" else parts[2:3])]
        else:
            plain.append("0" if parts[1:2] == ["0"] else parts[0])
    return ";".join(plain)


def _colour(rest: list[int]) -> str:
    """The colour that stands behind a 38 or 48: one of the 16 by name, else six hexadecimal digits."""
    kind = rest.pop()
    if kind == 2 and len(rest) >= 3:
        return "".join(f"{rest.pop():02x}" for _ in range(3))
    if kind == 5 and rest:
        number = rest.pop()
        if number < 8:
            return FOREGROUND[30 + number]
        return FOREGROUND[82 + number] if number < 16 else str(graphics.FG_BG_256[number % 256])
    return "default"
