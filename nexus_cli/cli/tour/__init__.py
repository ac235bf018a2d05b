"""`nexus tour`: the real engine in its own folder, with a scripted model; no key, no network.

Only the provider differs from a real session. This module has the command, the signals and the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tomllib
from contextlib import suppress
from typing import Annotated

from nexus_cli.cli import process
from nexus_cli.cli.interrupt import Interrupt
from nexus_cli.cli.tour.chapters import CHAPTERS
from nexus_cli.cli.tour.sandbox import open_sandbox, remove_sandbox
from nexus_cli.cli.tour.scripted_model import MODEL
from nexus_cli.cli.tour.tour_session import LeftTour, TourSession
from nexus_cli.commands.verb import Noun, Option, Source, Verb
from nexus_cli.config.ledger_place import ledger_place, shown_place
from nexus_cli.config.load_settings import build_settings, own_settings
from nexus_cli.config.paths import defaults_dir
from nexus_cli.config.setting_tables import DEFAULTS
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.models import list_models
from nexus_cli.ui.print.stream import ReaderClosed, Stream, write_stderr_line

MAX_MODELS = 6
"""Most usable models listed at the end."""


def tour(
    source: Source,
    yes: Annotated[bool, Option(None, "Run without pauses and answer every question with yes.", "--yes -y")] = False,
    keep: Annotated[bool, Option(None, "Keep the folder of the tour.")] = False,
) -> int:
    """Run a demo without a key: the real engine with a scripted model in its own folder.

    In a terminal it pauses after each step. Your own sessions and settings are not touched.
    """
    texts = tomllib.loads((defaults_dir() / "tour" / "chapters.toml").read_text(encoding="utf-8"))
    stream = Stream(1)
    process.freeze_gc()
    asks = not yes and stream.terminal and os.isatty(0)
    tour = TourSession(stream, texts, theme=_personal_settings().ui.theme, asks=asks)
    return asyncio.run(_run_tour(tour, keep))


async def _run_tour(tour: TourSession, keep: bool) -> int:
    """Run one tour, and clean up however it ends; return the exit status."""
    task = asyncio.current_task()
    assert task is not None
    interrupt = Interrupt()

    def clean_up() -> None:
        if hasattr(tour, "sandbox") and not keep:
            remove_sandbox(tour.sandbox)

    interrupt.install(task.cancel, before_exit=clean_up)
    try:
        with open_sandbox(keep) as tour.sandbox:
            try:
                tour.begin_chapter("start", numbered=False, folder=tour.sandbox.folder, model=MODEL)
                for chapter in CHAPTERS:
                    await tour.wait()
                    await chapter(tour)
                await tour.wait()
            finally:
                await tour.aclose()
        _print_end(tour, keep)
    except LeftTour:
        tour.say("end", "left")
    except asyncio.CancelledError:
        if not interrupt.signal:
            raise
        with suppress(ReaderClosed, NexusError):
            tour.put("")
        name = signal.Signals(interrupt.signal).name
        write_stderr_line("Cancelled." if name == "SIGINT" else f"nexus: stopped: {name} arrived.")
        return interrupt.status
    finally:
        interrupt.uninstall()
    return 0


def _print_end(tour: TourSession, keep: bool) -> None:
    """Print the folders of the tour, and how to start with a real model."""
    sandbox = tour.sandbox
    tour.begin_chapter("end", "kept" if keep else "deleted", folder=sandbox.folder, home=sandbox.home)
    tour.say("end", "own", own=shown_place(ledger_place()))
    settings = _personal_settings()
    models = list_models(settings, os.environ)["models"]
    if models:
        tour.say("end", "usable")
        for model in models[:MAX_MODELS]:
            tour.quote(f"{model['name']} ({', '.join(model['because'])})")
    else:
        tour.say("end", "nothing")
    tour.say("end", "next")


def _personal_settings() -> Settings:
    """Return the person's settings, or the packaged ones if theirs cannot be read."""
    try:
        return own_settings()
    except NexusError:
        return build_settings(DEFAULTS)


NOUN = Noun("tour", "run", (Verb(tour, opens="nothing", has_json=False),))
