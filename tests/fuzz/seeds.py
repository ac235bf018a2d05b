"""Play random stories one after another, each from a seed of its own: the command line of the programs beside it."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from surroundings import replace_inherited

Play = Callable[[Path, int], list[str]]
"""Plays the story of a seed in an empty folder and returns its faults."""


def run_seeds(play: Play, about: str) -> int:
    """Play the seeds that the command line names; return 1 if one has a fault."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="the first seed (default: random)")
    parser.add_argument("--times", type=int, default=1, help="how many seeds, counted from the first")
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no further seed after so long")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a seed that has a fault")
    given = parser.parse_args()
    replace_inherited()
    limit = time.monotonic() + given.seconds
    played = wrong = 0
    for seed in range(given.seed, given.seed + given.times):
        if time.monotonic() > limit:
            break
        folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{seed}-")).resolve()
        try:
            faults = play(folder, seed)
        except Exception:
            faults = [traceback.format_exc()]
        played += 1
        wrong += bool(faults)
        print("\n  ".join([f"seed {seed}: {'FAULT' if faults else 'ok'}", *faults]), flush=True)
        if faults and given.keep:
            print(f"  kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{played} seeds from {given.seed}, {wrong} with a fault", flush=True)
    return int(wrong > 0)


def is_quiet(folder: Path) -> bool:
    """Return whether no process works in the folder any more."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                return False
        except OSError:
            continue
    return True
