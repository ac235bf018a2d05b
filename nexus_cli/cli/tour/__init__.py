"""`nexus tour`: the real engine in its own folder, with a scripted model; no key, no network.

Only the provider differs from a real session. This module has the command, the signals and the end.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tomllib
from contextlib import suppress
from typing import Annotated

from nexus_cli.cli.interrupt import Interrupt, run_in_loop
from nexus_cli.cli.tour.sandbox import enter_folder, make_folder
from nexus_cli.cli.tour.tour_session import TourAborted, TourScreen
from nexus_cli.commands.verb import Noun, Source, Verb
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.paths import defaults_dir
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import Option
from nexus_cli.ui.print.stream import Stream, write_stderr_line


def tour(
    source: Source,
    yes: Annotated[bool, Option(None, "Run without pauses and answer every question with yes.", "--yes -y")] = False,
    keep: Annotated[bool, Option(None, "Keep the tour's folder.")] = False,
) -> int:
    """Run a demo without a key: the real engine with a scripted model, in a temporary folder.

    In a terminal, the demo pauses after each step. It does not touch your sessions and settings.
    """
    stream, theme = Stream(1), "auto"
    with suppress(NexusError):  # a tour needs no settings
        theme = own_settings().ui.theme
    asks = not yes and stream.terminal and os.isatty(0)
    return run_in_loop(_run_tour(TourScreen(stream, theme, asks=asks), keep))


async def _run_tour(screen: TourScreen, keep: bool) -> int:
    """Run one tour, and clean up however it ends; return the exit status."""
    task = asyncio.current_task()
    assert task is not None
    folder = make_folder()

    def clean_up() -> None:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)

    interrupt = Interrupt()
    interrupt.install(task.cancel, before_exit=clean_up)
    script = _read_data("scenes.toml")
    end = "end"
    try:
        screen.begin_scene(script["start"], folder=folder)
        await screen.play(script, enter_folder(folder, _read_data("project.toml")))
        await screen.wait("Enter to continue, q to quit:")
    except TourAborted:
        end = "left"
    except asyncio.CancelledError:
        if not interrupt.signal:
            raise
        name = signal.Signals(interrupt.signal).name
        write_stderr_line("Cancelled." if name == "SIGINT" else f"nexus: stopped: received {name}.")
        return interrupt.status
    finally:
        clean_up()
        interrupt.uninstall()
    fate = f"kept; inspect it with: NEXUS_HOME={folder}/home nexus sessions list --all" if keep else "deleted now."
    screen.begin_scene(script[end], folder=folder, fate=fate)
    return 0


def _read_data(name: str) -> JsonObject:
    return tomllib.loads((defaults_dir() / "tour" / name).read_text(encoding="utf-8"))


NOUN = Noun("tour", "run", (Verb(tour, opens="nothing"),))
