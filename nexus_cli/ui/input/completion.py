"""Complete commands and paths in the input box, and draw the completion menu.

Completes commands and their arguments, `@files`, programs and paths after `!`. Owns the choice among these, their
order, and the rows of the menu. Names come from `file_index`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import ConditionalContainer, Dimension, FormattedTextControl, Window

from nexus_cli.commands import PEER_COMMANDS
from nexus_cli.commands.command import OWN, Command, CommandContext
from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.sections.find_recipe import find_agents
from nexus_cli.text.cells import cells, cut, cut_start
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.attached_files import quote_mention
from nexus_cli.ui.input.file_index import MAX_NAMES, FileIndex, list_folder

_COMMAND = re.compile(r"/(\S*)")
_ARGUMENT = re.compile(r"/(\S+) +(.*)")
_SHELL = re.compile(r"!!?\s*(?:(?P<before>.*\s))?(?P<word>\S*)", re.DOTALL)
_MENTION = re.compile(r"""(?<![\w.@+/\\-])@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>[^\s"'`<>|]*))\Z""")
COMMONEST = ("help", "plan", "clear", "compact", "context", "model", "resume", "diff", "init", "permissions", "exit")
"""Commands that the menu lists first."""
_OUTSIDE_PREFIXES = ("/", "~", "./", "../")
"""Prefixes of paths that are looked up in their folder, not in the project's list."""


@dataclass(frozen=True, slots=True)
class CompletionTarget:
    """A place in the text that can be completed."""

    kind: str
    """`command`, `argument`, `file`, `program` or `path`."""
    text: str
    """Its text, up to the cursor."""
    length: int
    """Number of characters before the cursor that a completion replaces."""
    name: str = ""
    """For an argument: the command."""


def find_spot(before: str) -> CompletionTarget | None:
    """Return the place at the end of `before`, which is the text up to the cursor; None if nothing can be completed."""
    if before.startswith("/"):
        if match := _COMMAND.fullmatch(before):
            return CompletionTarget("command", match[1], len(before))
        if match := _ARGUMENT.fullmatch(before):
            return CompletionTarget("argument", match[2], len(match[2]), match[1])
    if match := _MENTION.search(before, max(0, len(before) - 4096)):
        written = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        return CompletionTarget("file", written, len(match[0]))
    if before.startswith("!") and (match := _SHELL.fullmatch(before)):
        word = match["word"]
        kind = "program" if match["before"] is None and "/" not in word else "path"
        return CompletionTarget(kind, word, len(word))
    return None


def offers_completion(before: str) -> bool:
    """True if the place at the end of `before` is completed while typing, without a Tab."""
    place = find_spot(before)
    return place is not None and (bool(place.text) or place.kind in ("command", "argument", "file"))


class Completions(Completer):
    """Completes one input box. Never blocks the loop: slow work is done in threads."""

    def __init__(
        self,
        folder: Path,
        index: FileIndex,
        commands: Callable[[], Mapping[str, Command]],
        desk: Callable[[], CommandContext | None],
        names: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """`names` replace files in mentions."""
        self._mentioned = names
        self._folder = folder
        self._index = index
        self._commands = commands
        self._desk = desk
        self._programs: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: the box asks for what may have to be waited for."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield all completions for the cursor's place, best first."""
        place = find_spot(document.text_before_cursor)
        if place is None or (place.kind in ("program", "path") and self._desk() is None):  # only a session runs `!`
            return
        if place.kind == "file" and self._mentioned is not None:
            for name in _fitting(place.text, self._mentioned()):
                yield Completion(f"@{name}", -place.length, display=sanitize(name))
            return
        if place.kind in ("command", "argument"):
            for completion in self._of_commands(place):
                yield completion
            if place.kind == "command" or self._takes_choices(place.name):
                return
            place = find_spot(" " + document.text_before_cursor)
            if place is None:
                return
        for name in await self._names(place):
            if name == place.text and name.endswith("/"):
                continue
            written = _mention(name) if place.kind == "file" else name
            yield Completion(written, -place.length, display=sanitize(name))

    async def _names(self, place: CompletionTarget) -> Sequence[str]:
        if place.kind == "file" and ":" in place.text and may_have_servers(self._folder):
            from nexus_cli.mcp.server_tools import list_resources  # noqa: PLC0415  (few sessions have servers)

            if resources := _fitting(place.text, await asyncio.to_thread(list_resources, self._folder)):
                return resources[:MAX_NAMES]
        if place.kind == "file":
            hits = (
                None
                if place.text.startswith(_OUTSIDE_PREFIXES) or place.text == ".."
                else await self._index.search(place.text)
            )
            files = hits if hits else await asyncio.to_thread(list_folder, place.text, self._folder)
            agents = await asyncio.to_thread(find_agents, self._folder) if place.text.strip("./~") else ()
            return [*_fitting(place.text, agents), *files][:MAX_NAMES]
        if place.kind == "program":
            if self._programs is None:
                self._programs = await asyncio.to_thread(list_programs, os.environ.get("PATH", ""))
            return [name for name in self._programs if name.startswith(place.text)][:MAX_NAMES]
        return await asyncio.to_thread(list_folder, place.text, self._folder)

    def _takes_choices(self, name: str) -> bool:
        command = self._commands().get(name)
        return command is not None and command.complete is not None

    def _of_commands(self, place: CompletionTarget) -> Iterator[Completion]:
        commands = self._commands()
        if place.kind == "argument":
            for choice in self._choices(commands.get(place.name), place.text):
                yield Completion(choice, -place.length, display=sanitize(choice))
            return
        aliases = {name: command for command in commands.values() for name in command.aliases}
        begun = [name for name in aliases if place.text and name.startswith(place.text.lower())]
        listed = sorted(commands, key=lambda name: _rank(name, commands[name], bare=not place.text))
        typed, names = place.text.lower(), _fitting(place.text, [*listed, *begun])
        if typed in PEER_COMMANDS:  # Enter must not run a command that only contains it: `/vi` is no `/review`
            names = [name for name in names if name.startswith(typed)]
        for name in names:
            yield Completion("/" + name, -place.length, display_meta={**aliases, **commands}[name].summary)

    def _choices(self, command: Command | None, text: str) -> list[str]:
        desk = self._desk()
        if command is None or command.complete is None or desk is None:
            return []
        try:
            return _fitting(text, command.complete(desk))[:MAX_NAMES]
        except Exception:  # a seam: a failing command must not break the prompt; running it shows the error
            return []


def _fitting(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with `text`, then those that contain it, ignoring case."""
    low = text.lower()
    all_names = list(names)
    first = [name for name in all_names if name.lower().startswith(low)]
    return first + [name for name in all_names if low in name.lower() and name not in first]


def _rank(name: str, command: Command, *, bare: bool) -> int:
    """Return the place of a command in the menu; in that of a `bare` slash the person's own come first."""
    if bare and command.group == OWN and command.is_first:
        return -1
    return COMMONEST.index(name) if name in COMMONEST else len(COMMONEST)


def _mention(name: str) -> str:
    written = quote_mention(name)
    # An open quote allows further typing after a folder's name.
    return written.removesuffix('"') if written.endswith('/"') else written


def list_programs(path: str) -> list[str]:
    """Return the names of programs in the absolute folders of a `PATH`, sorted; blocking."""
    programs: set[str] = set()
    for folder in path.split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.isprintable()]
        except OSError:
            continue
        programs |= {name for name in names if name not in programs and os.access(os.path.join(folder, name), os.X_OK)}
    return sorted(programs)


ROWS = 8
"""Most rows of the menu; on a low terminal a third of its height."""
_NAME, _MIN_NAME = 0.4, 16
"""Largest share of the columns for a name that has an explanation, and the columns that it gets at least."""


def completion_menu(
    buffer: Buffer, is_enabled: Callable[[], bool], highlighted: Callable[[], int | None]
) -> ConditionalContainer:
    """Return the menu of `buffer` as a container that is shown while enabled and not empty."""

    def entries() -> list[Completion]:
        return buffer.complete_state.completions if buffer.complete_state is not None else []

    def most() -> int:
        return max(1, min(ROWS, get_app().output.get_size().rows // 3, len(entries())))

    def rows() -> StyleAndTextTuples:
        return menu_rows(entries(), highlighted(), get_app().output.get_size().columns, most())

    def height() -> Dimension:
        return Dimension(min=0, preferred=most(), max=most())

    window = Window(FormattedTextControl(rows), height=height, style="class:input.menu", always_hide_cursor=True)
    return ConditionalContainer(window, Condition(lambda: is_enabled() and bool(entries())))


def menu_rows(completions: list[Completion], selected: int | None, columns: int, most: int) -> StyleAndTextTuples:
    """Return at most `most` rows, cut to `columns`, with the selected one, and the number of those left out."""
    room = most - 1 if len(completions) > most > 1 else most
    start = max(0, min((selected or 0) - room + 1, len(completions) - room))
    fragments = _entry_rows(completions, selected, columns, range(start, min(len(completions), start + room)))
    if len(completions) > most > 1:
        below = len(completions) - start - room
        hidden_rows = f"{below:,} more" if below else f"{start:,} above"
        fragments.append(("class:input.menu.meta", "\n" + cut(f"  … {hidden_rows}", max(1, columns - 1))))
    return fragments


def _entry_rows(
    completions: list[Completion], selected: int | None, columns: int, numbers: range
) -> StyleAndTextTuples:
    widest = max((cells(completions[number].display_text) for number in numbers), default=0)
    explained = any(completion.display_meta_text for completion in completions)
    room = max(1, columns - 3)
    name_width = min(widest, max(min(_MIN_NAME, room), int(room * _NAME)) if explained else room)
    fragments: StyleAndTextTuples = []
    for number in numbers:
        shown_completion, current = completions[number], number == selected
        style = "class:input.menu.current bold" if current else "class:input.menu"
        name = cut_start(shown_completion.display_text, name_width, "…")
        space = room - name_width - 2
        explanation = _begin(shown_completion.display_meta_text, space) if explained and space > 8 else ""
        if current:
            fragments.append(("[SetCursorPosition]", ""))
        fragments.append((style, ("> " if current else "  ") + name))
        if explanation:
            fragments.append(("class:input.menu.meta", " " * (name_width - cells(name) + 2) + explanation))
        fragments.append(("", "\n"))
    return fragments[:-1]


def _begin(text: str, columns: int) -> str:
    return text if cells(text) <= columns else cut(text, columns - 1).rstrip() + "…"
