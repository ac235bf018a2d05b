"""A list to pick from on the screen: arrows move, typing searches, Enter takes, Esc cancels.

The person has opened it by a command, so that it has the focus at once. `layout` places it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from prompt_toolkit.filters import has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import BeforeInput

from nexus_cli.commands.command import Choice, Search
from nexus_cli.text.cells import cells, cut, wrap
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.rows import strip_ambiguous
from nexus_cli.ui.screen.question import FieldPanel, UnmarkedPaste

SEARCH = "Search: "
HINT = "↑↓ Enter, Esc cancels"
ROOM = 32
"""Columns that a label needs beside its details; with fewer, the details are below it."""
MARKED, PLAIN = "> ", "  "


class PickerPanel(FieldPanel):
    """The panel of the open list, if there is one."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(self._find, [BeforeInput(SEARCH)])
        self._theme = theme
        self._title = ""
        self._choices: Sequence[Choice] = ()
        self._search: Search | None = None
        """Finds choices beyond the given ones."""
        self._matches: Sequence[Choice] = ()
        """The choices that contain every word of the search."""
        self._total = 0
        """The total number of matches, including those not loaded."""
        self._selected = 0
        self._visible = 1
        """Number of choices that fit the screen."""

    field = 1
    """Rows of the search field."""

    def begin(
        self,
        title: str,
        choices: Sequence[Choice],
        answer: asyncio.Future[str | None],
        search: Search | None = None,
    ) -> None:
        """Show `choices`; `answer` becomes the chosen key, or None. If there are more, `search` gets what is typed."""
        self._title, self._choices = title, choices
        self._search = search if search and search("")[1] > len(choices) else None
        self.clear(answer)
        self._find()

    def end(self) -> None:
        """Close the list."""
        self._search, self._choices, self._matches = None, (), ()
        self.clear(None)

    def take(self) -> None:
        """Answer with the selected choice; do nothing if the search finds none."""
        if self._matches:
            self.submit(self._matches[self._selected].key)

    def move(self, by: int, *, pages: bool = False) -> None:
        """Select another choice; a single step wraps around at the ends."""
        if count := len(self._matches):
            place = self._selected + by * (self._visible if pages else 1)
            self._selected = max(0, min(place, count - 1)) if pages else place % count

    def height(self, columns: int, most: int) -> int:
        """Return the rows of title, choices and search field, with at most `most` above the field."""
        titles = len(self._title_lines(columns))
        return min(titles + len(self._choices) * self._lines_each(columns), max(1, most)) + 1

    def prompt(self, columns: int, rows: int) -> list[str]:
        """Return title and choices in `rows` rows."""
        choices, lines_each = self._matches, self._lines_each(columns)
        title = self._title_lines(columns)
        titles = title[: max(0, min(rows - lines_each, rows // 2))]
        if titles and titles != title:
            titles[-1] = self._theme.cut(" ".join(title[len(titles) - 1 :]), columns)
        self._visible = max(1, (rows - len(titles)) // lines_each)
        first = max(0, min(self._selected - self._visible // 2, len(choices) - self._visible))
        lines = self._head(titles, columns) if titles else []
        for place, choice in enumerate(choices[first : first + self._visible], first):
            lines += self._lines(choice, columns, lines_each, marked=place == self._selected)
        if not choices:
            lines.append(self._theme.paint("dim", cut(PLAIN + "nothing matches", columns)))
        return [*lines, *[""] * (rows - len(lines))][:rows]

    def _find(self) -> None:
        """Select the first choice that contains every word of the search, best in its key."""
        self._selected = 0
        if self._search is not None:
            self._matches, self._total = self._search(self.buffer.text)
            return
        words = self.buffer.text.casefold().split()

        def lacks(text: str) -> bool:
            return any(word not in text.casefold() for word in words)

        choices = [choice for choice in self._choices if not lacks(f"{choice.label} {choice.detail} {choice.key}")]
        self._matches = sorted(choices, key=lambda choice: lacks(choice.key))  # a model's name before its figures
        self._total = len(self._matches)

    def _lines_each(self, columns: int) -> int:
        widest = max((cells(choice.detail) for choice in self._choices), default=0)
        return 2 if widest and columns - widest < ROOM else 1

    def _title_lines(self, columns: int) -> list[str]:
        return list(wrap(strip_ambiguous(sanitize(self._title)), columns))

    def _head(self, titles: Sequence[str], columns: int) -> list[str]:
        count, more = len(self._matches), self._total - len(self._matches)
        facts = [f"{self._selected + 1} of {count:,}"] if count > self._visible else []
        if more:
            facts.append(f"{more:,} more: type to search")
        place = "  " + ", ".join(facts) if facts else ""
        *above, last = titles
        last = self._theme.cut(last + place, columns)
        hint = f"  {HINT}" if cells(last) + cells(HINT) + 2 <= columns else ""
        bold = partial(self._theme.paint, "bold")
        return [*map(bold, above), bold(last) + self._theme.paint("dim", hint)]

    def _lines(self, choice: Choice, columns: int, lines_each: int, *, marked: bool) -> list[str]:
        label, detail = (
            " ".join(strip_ambiguous(sanitize(text)).splitlines()) for text in (choice.label, choice.detail)
        )
        sign, role = (MARKED, "bold") if marked else (PLAIN, "")
        below = [self._theme.cut(PLAIN * 2 + detail.strip(), columns)] if lines_each == 2 else []
        beside = f"  {detail}" if detail and not below else ""
        label = self._theme.cut(label, columns - cells(sign + beside))
        gap = " " * (columns - cells(sign + label + beside)) if beside else ""
        painted = self._theme.paint(role, sign + label) + gap + self._theme.paint("dim", beside)
        return [painted, *(self._theme.paint("dim", line) for line in below)]


def picker_bindings(picker: PickerPanel) -> KeyBindings:
    """Return the keys of the list while it is open."""
    bindings, focused, paste = KeyBindings(), has_focus(picker.buffer), UnmarkedPaste()

    def bind(*keys: Keys | str, by: int, pages: bool = False) -> None:
        for key in keys:
            bindings.add(key, filter=focused)(lambda event: picker.move(by, pages=pages))

    bind("up", "c-p", "s-tab", by=-1)
    bind("down", "c-n", "tab", by=1)
    bind("pageup", by=-1, pages=True)
    bind("pagedown", by=1, pages=True)

    @bindings.add("enter", filter=focused)
    @bindings.add("c-j", filter=focused)
    def _take(event: KeyPressEvent) -> None:
        if paste.goes_on(event):
            picker.buffer.insert_text(" ")
        elif not paste.ends:
            picker.take()

    @bindings.add("escape", filter=focused)
    @bindings.add("c-c", filter=focused)
    @bindings.add("c-d", filter=focused)
    @bindings.add("<sigint>", filter=focused)
    def _cancel(event: KeyPressEvent) -> None:
        picker.submit(None)

    @bindings.add(Keys.BracketedPaste, filter=focused)
    def _paste(event: KeyPressEvent) -> None:
        picker.buffer.insert_text(" ".join(event.data.split()))

    return bindings
