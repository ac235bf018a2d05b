"""The names of a project's files and folders, listed in the background and searched during typing.

Owns the list, its refreshing, and the fuzzy search. `tools.listing` selects the files; `completion` uses and formats
the names.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.real_files import real_path
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.listing import list_files

MAX_NAMES = 50
"""Most names that one search returns."""
FRESH_SECONDS = 5.0
"""Seconds for which a list counts as fresh; a list that took long counts for longer."""
LIMIT = 20.0
"""Time limit for listing: a folder that takes longer is not a project."""
PATIENCE = 1.5
"""Seconds that a search waits for the first list."""

_UNTYPED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Lister = Callable[[Path, Path, StopFlag], Sequence[str]]


class NameIndex:
    """A list of names to search: shorter ones first, those of the same length sorted."""

    def __init__(self, names: Iterable[str]) -> None:
        # By length first, without one long sort, which would block every other thread.
        lengths = group_pairs((len(name), name) for name in names)
        self.names = [name for length in sorted(lengths) for name in sorted(lengths[length])]
        lower = (name.lower() for name in self.names)
        self._lower = [low if low != name else name for low, name in zip(lower, self.names, strict=True)]
        self._base = [low.rstrip("/").rpartition("/")[2] for low in self._lower]

    def best(self, query: str, most: int = MAX_NAMES) -> list[str]:
        """Return the best of the names that have the letters of `query` in this order, ignoring case: matches at the
        beginning of the last part, then in it, then in the whole name, then scattered letters. Shorter names win ties.
        """
        query = query.lower()
        low, base = self._lower, self._base
        # The letters of `query` in this order, in time linear in the length of a name.
        scattered = re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in query)).match
        matches = [i for i, name in enumerate(low) if scattered(name)]
        ranks = (
            (i for i in matches if base[i].startswith(query)),
            (i for i in matches if query in base[i]),
            (i for i in matches if query in low[i]),
            (i for i in matches if scattered(base[i])),
            iter(matches),
        )
        chosen: dict[int, None] = {}
        for rank in ranks:
            chosen |= dict.fromkeys(islice((i for i in rank if i not in chosen), most - len(chosen)))
            if len(chosen) >= most:
                break
        return [self.names[i] for i in chosen]


class FileIndex:
    """Paths that can be mentioned from `folder`: the files of `project` and their folders (which end in `/`)."""

    def __init__(
        self,
        folder: Path,
        project: Path,
        *,
        lister: Lister = list_files,
        clock: Callable[[], float] = time.monotonic,
        listed: Callable[[], None] = lambda: None,
    ) -> None:
        """`listed` is called in another thread when the first list is ready."""
        self._folder = real_path(folder)
        self._project = real_path(project)
        self._lister = lister
        self._clock = clock
        self._listed = listed
        self._stop = StopFlag()
        self._names: NameIndex | None = None
        self._due = 0.0
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()

    async def search(self, query: str) -> list[str] | None:
        """Return the best names for `query`, None without a list yet; an old one is refreshed in the background."""
        self.refresh()
        if self._names is None and not await asyncio.to_thread(self._ready.wait, PATIENCE):
            return None
        names = self._names
        return None if names is None else await asyncio.to_thread(names.best, query)

    def refresh(self) -> None:
        """Refresh the list in the background, unless it is fresh or a refresh is running."""
        if self._clock() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self._build, name="file index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel a running refresh."""
        self._due = float("inf")
        self._stop.press()

    def _build(self) -> None:
        began = self._clock()
        stop = self._stop
        timer = threading.Timer(LIMIT, stop.press)
        timer.daemon = True
        timer.start()
        try:
            real = real_path(self._project)
            names = self._lister(real, real, stop)
            self._names = NameIndex(_list_relative_to(self._folder, self._project, names))
        except (ThreadStopped, OSError):
            # Too much to list, or unreadable: complete folder by folder for a long while.
            began -= LIMIT
        finally:
            timer.cancel()
            if self._due < float("inf"):
                self._stop = StopFlag()
                self._due = self._clock() + max(FRESH_SECONDS, 10 * (self._clock() - began))
            first = not self._ready.is_set()
            self._ready.set()
            if first:
                self._listed()


def _list_relative_to(folder: Path, project: Path, names: Sequence[str]) -> Iterable[str]:
    """Yield files and their parent folders, relative to `folder`, without names that cannot be typed."""
    inside = folder.is_relative_to(project) and folder != project
    prefix = folder.relative_to(project).as_posix() + "/" if inside else ""
    up = "../" * prefix.count("/")

    def make_relative(path: str) -> str:
        return path[len(prefix) :] if path.startswith(prefix) else up + path

    folders: set[str] = set()
    for name in names:
        if _UNTYPED.search(name):
            continue
        parent = name.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
        yield make_relative(name)
    yield from (make_relative(f"{name}/") for name in folders if not prefix.startswith(f"{name}/"))


def list_folder(written: str, folder: Path) -> list[str]:
    """Return names that continue the path `written`, looked up only in its folder; `~` allowed. Blocking, quick."""
    parent, slash, start = written.rpartition("/")
    place = os.path.join(folder, os.path.expanduser(parent + slash))
    low = start.lower()
    names = []
    try:
        with os.scandir(place) as entries:
            for entry in islice(entries, 20_000):
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if entry.name.lower().startswith(low) and not hidden and not _UNTYPED.search(entry.name):
                    names.append(entry.name + ("/" if entry.is_dir() else ""))
    except (OSError, ValueError):
        return []
    return [parent + slash + name for name in sorted(names)[:MAX_NAMES]]
