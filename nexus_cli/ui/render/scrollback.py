"""Output finished text once, in lines that fit, with one blank line between blocks of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nexus_cli.core.elide import plural
from nexus_cli.core.shared_types import TakeText
from nexus_cli.text.cells import PROSE, cut, wrap
from nexus_cli.text.terminal_sanitizer import sanitize, sanitize_output
from nexus_cli.ui.render.theme import Theme

MAX_ECHO_LINES = 20
"""Most lines of the person's message that are shown again."""
_LOOKED_AT = 65_536


class Scrollback:
    """Outputs one block after the other; the last one determines the gap before the next."""

    def __init__(
        self,
        put: TakeText | None,
        width: Callable[[], int],
        theme: Theme,
        before: Callable[[], None],
        put_text: TakeText | None,
    ) -> None:
        """`before` outputs held lines first, to keep everything in order. `put_text` accepts the assistant's text if it
        goes elsewhere; without `put` all else is dropped."""
        self._before = before
        self._put = put
        self._put_text = put_text or put
        self._width = width
        self._theme = theme
        self._last = ""
        self._new_text = True

    def needs_gap(self, kind: str) -> bool:
        """True if a blank line comes before a block of this kind: `text`, `said`, `thought` or `line`."""
        return bool(self._last) and (self._last != kind or kind == "said" or (kind == "text" and self._new_text))

    def start_text(self) -> None:
        """Begin a new text, separate from the last one."""
        self._new_text = True

    def add_text(self, rendered: str) -> None:
        """Output blocks that `Markdown` has finished; a leading newline marks the beginning of a block."""
        bare = rendered.lstrip("\n")
        if bare:
            self._write_block("text", bare, gap=bare != rendered and self._last == "text")
            self._new_text = False

    def add_thought(self, lines: Sequence[str]) -> None:
        """Output sanitized lines of thinking."""
        width = self._prose_width()
        if any(line.strip() for line in lines) or (lines and self._last == "thought"):
            painted = [self._theme.paint("dim", piece) for line in lines for piece in wrap(line, width)]
            self._write_block("thought", "\n".join(painted) + "\n")

    def add_lines(self, lines: Sequence[str]) -> None:
        """Output finished lines."""
        if lines:
            self._write_block("line", "\n".join(lines) + "\n")

    def add_output(self, text: str) -> None:
        """Output what a running call prints."""
        rows = (piece for line in sanitize_output(text).splitlines() for piece in wrap(line, self._prose_width() - 4))
        self.add_lines([f"    {self._theme.paint('dim', row)}" for row in rows])

    def add_note(self, text: str, role: str, most: int = 0) -> None:
        """Output one or more lines of ours, with the glyph of their role before the first; with `most` the last one of
        so many is cut. Nothing for ""."""
        text = sanitize(text).strip("\n")
        if not text.strip():
            return
        signs = self._theme.signs
        sign = {"error": signs.error, "warn": signs.warn, "ok": signs.ok, "dim": signs.dot}.get(role, "")
        first = sign + " " if sign else ""
        width = self._prose_width() - len(first)
        pieces = list(wrap(text, width))
        if 0 < most < len(pieces):
            pieces[most - 1 :] = [cut(" ".join(pieces[most - 1 :]), width, "...")]
        lines = [(" " * len(first) if number else first) + piece for number, piece in enumerate(pieces)]
        self.add_lines([self._theme.paint(role, line.rstrip()) for line in lines])

    def add_user_message(self, text: str) -> None:
        """Output the person's message after a bar; of a long one only the beginning."""
        text = text.strip("\n")
        beginning = sanitize(text[:_LOOKED_AT]).split("\n")
        bar = self._theme.paint("person", self._theme.signs.person)
        rows: list[str] = []
        shown_lines = 0
        for line in beginning:
            pieces = list(wrap(line, self._prose_width() - 2))
            if shown_lines and len(rows) + len(pieces) > MAX_ECHO_LINES:
                break
            rows += pieces[:MAX_ECHO_LINES]
            shown_lines += 1
        lines = [f"{bar} {self._theme.paint('bold', line)}" for line in rows]
        hidden = len(beginning) - shown_lines + text.count("\n", _LOOKED_AT)
        if hidden or (len(rows) == MAX_ECHO_LINES and len(text) > _LOOKED_AT):
            more = f"... {plural(hidden, 'more line')}" if hidden else "..."
            lines.append(f"{bar} {self._theme.paint('dim', more)}")
        self._write_block("said", "\n".join(line.rstrip() for line in lines) + "\n")

    def add_below(self, text: str) -> None:
        """Output the lines of a command of the person below what they typed."""
        self._before()
        if self._put:
            self._put(f"{text}\n")

    def _prose_width(self) -> int:
        return min(self._width(), PROSE)

    def _write_block(self, kind: str, text: str, *, gap: bool = False) -> None:
        self._before()
        if (put := self._put_text if kind == "text" else self._put) is None:
            return
        put(("\n" if gap or self.needs_gap(kind) else "") + text)
        self._last = kind
