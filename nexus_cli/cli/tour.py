"""`nexus tour`: the real engine in a folder of its own, with a model that plays a script; no key, no network.

It shares every line with a real session but the provider. Its scenes, its folder and what it prints are in `guide`;
here are the command, the signals and the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from nexus_cli.cli import process
from nexus_cli.cli.guide.chapters import Chapters
from nexus_cli.cli.guide.place import Place, place, remove
from nexus_cli.cli.guide.show import Left, Show
from nexus_cli.cli.interrupt import NUMBERS
from nexus_cli.cli.tell import tell
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.config.settings import Settings, build_settings, load_settings, read_values
from nexus_cli.core.errors import NexusError
from nexus_cli.session.reports.models import listing
from nexus_cli.tools.process import kill_all
from nexus_cli.ui.print.stream import Gone, Stream

app = typer.Typer(add_completion=False, rich_markup_mode=None)
COMMAND = "tour"
LISTED = 6
"""So many usable models are named at the end."""

Texts = Mapping[str, Mapping[str, str]]


@app.command("tour")
def tour(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go straight through; every question is allowed.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder in which it happened.")] = False,
    part: Annotated[str, typer.Option(hidden=True)] = "",
    session: Annotated[str, typer.Option(hidden=True)] = "",
    slow: Annotated[bool, typer.Option(hidden=True)] = False,
) -> int:
    """See it work with no key: the real engine, a scripted model, a folder of its own.

    In a terminal step by step, otherwise straight through. Your own sessions and settings are not touched.
    """
    texts = tomllib.loads((defaults_dir() / "guide" / "chapters.toml").read_text(encoding="utf-8"))
    stream = Stream(1)
    process.settle()
    if part:
        made = Place(Path(part))
        if os.environ.get("NEXUS_HOME") != str(made.home):
            raise NexusError("usage", "--part", "it is for the process that is killed, in a folder of its own")
        return asyncio.run(_part(Chapters(made, Show(stream, asks=False, slow=slow), texts, COMMAND), session))
    asks = not yes and stream.terminal and os.isatty(0)
    return asyncio.run(_Tour(Show(stream, asks=asks, slow=asks), texts, keep).run())


async def _part(chapters: Chapters, session: str) -> int:
    try:
        await chapters.part(session)
    finally:
        await chapters.aclose()
    return 0


class _Tour:
    """One tour from its first line to its last, however it ends."""

    def __init__(self, show: Show, texts: Texts, keep: bool) -> None:
        self._show = show
        self._texts = texts
        self._keep = keep
        self._signal = 0
        self._folder: Path | None = None
        self._task: asyncio.Task[int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> int:
        """The exit status."""
        self._take()
        try:
            with place(self._keep) as made:
                self._folder = made.folder
                chapters = Chapters(made, self._show, self._texts, COMMAND)
                try:
                    await chapters.play()
                finally:
                    await chapters.aclose()
            self._end(made)
        except Left:
            self._show.say(self._texts["end"]["left"])
        except asyncio.CancelledError:
            if not self._signal:
                raise
            with suppress(Gone, NexusError):
                self._show.put("")
            tell(f"nexus: stopped: {signal.Signals(self._signal).name} arrived.")
            return 128 + self._signal
        finally:
            process.take_signals()
        return 0

    def _take(self) -> None:
        """From now on a signal ends what runs and then the tour; a second one ends it at once."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        for number in NUMBERS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._arrived)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        assert self._loop is not None and self._task is not None, "signals are taken when both are there"
        if self._signal:
            kill_all()
            if self._folder is not None and not self._keep:
                remove(self._folder)
            process.leave(128 + self._signal)
        self._signal = number
        self._loop.call_soon_threadsafe(self._task.cancel)

    def _end(self, made: Place) -> None:
        """Where it all stood, and how to go on with a real model."""
        texts, say = self._texts["end"], self._show.say
        self._show.chapter(texts["title"], texts["kept" if self._keep else "gone"], folder=made.folder, home=made.home)
        say(texts["own"], own=places().ledger)
        settings = _personal()
        found = listing(settings, os.environ)["models"]
        if found:
            say(texts["usable"])
            for model in found[:LISTED]:
                self._show.quote(f"{model['name']} ({', '.join(model['because'])})")
        else:
            names = list(settings.default_models)
            say(texts["nothing"], key=next(iter(names), "OPENAI_API_KEY"), others=", ".join(names[1:]))
        say(texts["first"])


def _personal() -> Settings:
    """The person's settings; the packaged ones where theirs cannot be read, which is not the tour's business."""
    try:
        return load_settings(places(), defaults_dir(), os.environ).settings
    except NexusError:
        return build_settings(read_values(defaults_dir() / "config.toml"))
