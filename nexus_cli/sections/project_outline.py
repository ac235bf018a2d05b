"""Outline of a project from the names of its files alone: folders, languages, characteristic files.

Git lists the files of a repository, `walk_files` those of another folder; both are bounded in time.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nexus_cli.config.paths import project_root, repository_root
from nexus_cli.core.real_files import open_folder, real_path, scan_folder

ENTRIES = 5000
"""Most names that `walk_files` returns."""
SECONDS = 0.3
LISTING = 0.7
"""Time limit in seconds for git to list a project."""
HEAVY = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist", "site-packages"})
"""Folders of dependencies or build results, which outside a repository only their names show."""
NOTABLE = (
    *("README", "pyproject", "setup", "requirements", "package", "tsconfig", "cargo", "go.mod", "makefile", "justfile"),
    *("dockerfile", "compose", "docker-compose", "cmakelists", "pom", "build.gradle", "gemfile", "composer", "mix.exs"),
    *("contributing", "tox", "noxfile", "meson", "flake", "changelog"),
)
"""Prefixes of file names, in this order, ignoring case."""
LANGUAGES = {
    **dict.fromkeys((".py", ".pyi"), "Python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "JavaScript"),
    **dict.fromkeys((".ts", ".tsx"), "TypeScript"),
    **dict.fromkeys((".c", ".h"), "C"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh"), "C++"),
    **dict.fromkeys((".sh", ".bash", ".zsh"), "shell"),
    **dict.fromkeys((".md", ".rst"), "prose"),
    **dict.fromkeys((".html", ".htm"), "HTML"),
    **dict.fromkeys((".css", ".scss"), "CSS"),
    **dict.fromkeys((".yml", ".yaml"), "YAML"),
    **dict.fromkeys((".kt", ".kts"), "Kotlin"),
    **dict.fromkeys((".ex", ".exs"), "Elixir"),
    ".rs": "Rust",
    ".go": "Go",
    ".java": "Java",
    ".rb": "Ruby",
    ".php": "PHP",
    ".cs": "C#",
    ".swift": "Swift",
    ".scala": "Scala",
    ".hs": "Haskell",
    ".ml": "OCaml",
    ".lua": "Lua",
    ".sql": "SQL",
    ".toml": "TOML",
    ".json": "JSON",
    ".vue": "Vue",
    ".svelte": "Svelte",
    ".ipynb": "Jupyter",
    ".r": "R",
    ".jl": "Julia",
    ".dart": "Dart",
    ".zig": "Zig",
    ".nix": "Nix",
    ".tf": "Terraform",
    ".proto": "Protobuf",
    ".tex": "TeX",
}
"""Suffix to language."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A project by its names."""

    files: int = 0
    folders: tuple[tuple[str, int], ...] = ()
    """Top-level folders with the number of files below them, largest first."""
    languages: tuple[tuple[str, int], ...] = ()
    """Languages with their number of files, most frequent first."""
    notable: tuple[str, ...] = ()
    """Top-level files that characterize the project and its build."""
    whole: bool = True
    """False if not all files were listed."""


def outline_files(names: Iterable[str], *, whole: bool = True) -> Outline:
    """Return the outline of a project whose files have these names: relative to it, with `/`."""
    files, folders, languages, top = 0, Counter[str](), Counter[str](), []
    for name in names:
        files += 1
        first, slash, _ = name.partition("/")
        if slash:
            folders[first] += 1
        else:
            top.append(name)
        language = LANGUAGES.get(PurePosixPath(name).suffix.lower())
        if language:
            languages[language] += 1
    ranked = sorted((_rank(name), name) for name in top if _rank(name) < len(NOTABLE))
    return Outline(files, _most_first(folders), _most_first(languages), tuple(name for _, name in ranked), whole)


def outline_project(cwd: Path) -> Outline:
    """Return the outline of the project that contains `cwd`. Blocks for at most about a second; raises nothing."""
    root = project_root(cwd)
    listed = _list_project(root) if repository_root(cwd) else ()
    files, is_whole = (listed, True) if listed else walk_files(root)
    return outline_files(files, whole=is_whole)


def _list_project(root: Path) -> Sequence[str]:
    """Return the files listed by git; none on a failure or after `LISTING` seconds."""
    from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped  # noqa: PLC0415  (in a repository only)
    from nexus_cli.tools.listing import list_files  # noqa: PLC0415

    stop = StopFlag()
    timer = threading.Timer(LISTING, stop.press)
    timer.daemon = True
    timer.start()
    try:
        real = real_path(root)
        return list_files(real, real, stop)
    except (ThreadStopped, OSError, ValueError):
        return ()
    finally:
        timer.cancel()


def walk_files(root: Path, entries: int = ENTRIES, seconds: float = SECONDS) -> tuple[list[str], bool]:
    """Return the names of files below `root`, level by level, and True if the list is complete. Hidden and heavy
    folders, and targets of links, are skipped. Blocking, raises nothing."""
    files: list[str] = []
    base = os.path.realpath(root)
    waiting, end = [""], time.monotonic() + seconds
    for prefix in waiting:
        try:
            with open_folder(f"{base}/{prefix}") as folder, scan_folder(folder) as listing:
                for entry in listing:
                    if len(files) + len(waiting) >= entries or time.monotonic() > end:
                        return files, False
                    if not entry.is_dir(follow_symlinks=False):
                        files.append(prefix + entry.name)
                    elif not entry.name.startswith(".") and entry.name not in HEAVY:
                        waiting.append(f"{prefix}{entry.name}/")
        except OSError:
            continue
    return files, True


def _most_first(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _rank(name: str) -> int:
    low = name.lower()
    return next((place for place, start in enumerate(NOTABLE) if low.startswith(start.lower())), len(NOTABLE))
