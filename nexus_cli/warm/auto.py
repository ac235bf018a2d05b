"""The automatic warm start, `warm.minutes = "auto"`: the calls that it serves, and those that leave a warm process.

Imports only what Python itself has loaded: a cold `nexus ask` in a terminal loads this module first.
"""

from __future__ import annotations

import os

from nexus_cli.warm import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 600.0
"""Seconds within which the second call has to begin."""
STARTING = 30.0
"""Seconds that a warm process may take to start, in which calls do not find it."""
FREE_MEMORY = 2 << 30
"""Bytes that have to be free for a warm process."""
OF_OTHERS = ("GIT_EXEC_PATH", "GIT_DIR", "GIT_INDEX_FILE", "NEXUS_CHILD_OF")
"""Variables of which a hook of git, or a command that nexus runs, has at least one."""
CGROUP = "/sys/fs/cgroup"
STARTED = (
    f"nexus: left a warm process: the next calls start faster. It ends after {place.AUTO_MINUTES} idle minutes. "
    "Off: nexus config set warm.minutes 0\n"
)


def is_wanted() -> bool:
    """Return True if this call may use a warm process by the settings; `NEXUS_WARM=0` switches it off."""
    if os.environ.get("NEXUS_WARM") == "0":
        return False
    minutes, automatic = place.wanted_minutes(place.own_folders()[0])
    return not find_obstacle() if automatic else minutes > 0


def is_ask(words: Sequence[str]) -> bool:
    """Return True for `nexus ask`, not for plain `nexus`. `words` are those of `program_words.plain_words`."""
    return next((word for word in words if word[:1] != "-"), "") == "ask"


def find_obstacle() -> str:
    """Return the reason why this process neither uses nor leaves a warm process, "" if there is none."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return "CI is set"
    for name in OF_OTHERS:
        if name in os.environ:
            return f"{name} is set, another program calls"
    if "SUDO_UID" in os.environ or os.getuid() != os.geteuid():
        return "this is not the user who logged in"
    if os.isatty(2):
        return "" if os.fstat(2).st_uid == os.getuid() else "the terminal is another user's"
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return "there is no terminal"
    return ""


def may_leave(words: Sequence[str]) -> bool:
    """Return True if a call with these `words` may leave a process: the person can read that it did, and did not ask
    to leave nothing. False where memory is short, and for an interactive session.
    """
    if os.isatty(0) and not is_ask(words):
        return False
    quiet = any(word == "--quiet" or (word[:2] != "--" and word[:1] == "-" and "q" in word) for word in words)
    if quiet or "--no-save" in words or not os.isatty(2):
        return False
    free = free_memory()
    return free is None or free >= FREE_MEMORY


def is_second_call(folder: str, began: float, *, outdated: bool = False) -> bool:
    """Record a call that began at `began` (seconds since 1970); return True if it is the second within `WINDOW`.

    True is returned to one process only, and counting begins again with the calls that could have used what it leaves:
    none that ran beside it. `outdated`: the process that was left ends. Raises `OSError` where nothing can be
    recorded; it is False in a folder that others can enter.
    """
    if not os.path.isabs(folder):  # there is no home
        return False
    asked, left = (f"{place.socket_path(folder)}.{name}" for name in ("asked", "left"))
    starting = 0.0 if outdated else STARTING
    try:
        if abs(began - os.stat(asked).st_mtime) <= WINDOW and not _was_left(left, began, starting):
            _touch(left)  # first, so that whoever misses the other one finds it
            os.unlink(asked)
            return True
    except FileNotFoundError:
        pass
    if _was_left(left, began, starting):
        return False
    before = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)
        if place.folder_problem(folder):  # no warm process would listen there
            return False
        if outdated and os.path.lexists(left):
            os.unlink(left)
        _touch(asked)
    finally:
        os.umask(before)
    return False


def _was_left(stamp: str, began: float, starting: float) -> bool:
    """Return True if a process was left too late for a call that began at `began`."""
    try:
        return -WINDOW <= began - os.stat(stamp).st_mtime <= starting
    except FileNotFoundError:
        return False


def _touch(path: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))
    os.utime(path)


def free_memory() -> int | None:
    """Return the bytes that programs can still get, also within the control group; None if the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = [line for line in file if line.startswith("MemAvailable:")]
        free = int(lines[0].split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    try:
        most, used = (_number(f"{CGROUP}/memory.{name}") for name in ("max", "current"))
    except (OSError, ValueError):  # "max" is no number: there is no limit
        return free
    return min(free, most - used)


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
