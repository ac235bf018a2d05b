"""`nexus warm`: start, inspect and stop the preloaded process that forks for each `nexus ask`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_report, print_text
from nexus_cli.config.paths import private_dir
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.warm import warm_text
from nexus_cli.warm import auto, caller, place

if TYPE_CHECKING:
    from nexus_cli.core.json_types.setup_reports import WarmReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)

START_SECONDS = 30.0
"""Seconds to wait for the imports on a slow machine."""
END_SECONDS = 5.0


def warm_report() -> WarmReport:
    """Return the state of the warm process as JSON; `running` is False if there is none."""
    minutes, automatic = place.wanted_minutes(place.own_folders()[0])
    report: WarmReport = {"version": 1, "minutes": minutes, "auto": automatic, "unused": "", "running": False}
    if os.environ.get("NEXUS_WARM") == "0":
        report["unused"] = "NEXUS_WARM is 0"
    elif automatic:
        report["unused"] = auto.find_obstacle()
    known = caller.ask_warm_process("status")
    if not known:
        return report
    return cast("WarmReport", report | known | {"running": True, "memory": _memory(known["pid"])})


def _memory(pid: int) -> int | None:
    """Return the resident memory of a process in bytes, None if it is unknown."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


@app.command("status")
def status(json: Json = False) -> int:
    """Show whether a warm process runs, what it takes, and how much time it saved."""
    return print_report(warm_report(), warm_text, json=json)


@app.command("start")
def start() -> int:
    """Start the warm process now instead of after the next `nexus ask`. Needs warm.minutes above 0."""
    settings, folder = place.own_folders()
    minutes, _ = place.wanted_minutes(settings)
    if not minutes:
        raise NexusError(
            "config", "no warm process was started", "warm.minutes is 0", "Set it: nexus config set warm.minutes 10"
        )
    try:
        problem = place.folder_problem(str(private_dir(Path(folder))))
    except OSError as error:
        problem = f"{folder}: {error.strerror}"
    if problem:
        raise NexusError("config", "no warm process was started", problem, f"Look at {folder}")
    report = warm_report()  # an outdated process exits when asked, so that a new one can start
    if not report["running"] and not caller.launch(folder, minutes):
        limits = ", ".join(caller.FINITE_NEVER)
        raise NexusError("config", "no warm process was started", f"one of {limits} is set", "Raise it: ulimit -v")
    end = time.monotonic() + START_SECONDS
    while not report["running"]:
        if time.monotonic() > end:
            raise NexusError("internal", "the warm process", "it does not answer", "See nexus doctor")
        time.sleep(0.05)
        report = warm_report()
    print_text(warm_text(report, 1000))
    return 0


@app.command("stop")
def stop() -> int:
    """End the warm process. Runs that it has started continue."""
    known = caller.ask_warm_process("stop")
    end = time.monotonic() + END_SECONDS
    while known is not None and os.path.exists(place.socket_path(place.own_folders()[1])) and time.monotonic() < end:
        time.sleep(0.01)
    print_text("No warm process is running." if known is None else "The warm process has ended.")
    return 0
