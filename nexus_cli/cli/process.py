"""The process around the program: signals during start-up, import path, closed descriptors, exit.

Imports only modules that Python itself has loaded, so that it can run before anything else. `interrupt` handles signals
while a turn runs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum
import gc
import os
import sys

from nexus_cli.cli import signal_result

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs as much as Python's own start
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import NoReturn

SIGINT = _signal.SIGINT
SIGNALS = (SIGINT, _signal.SIGTERM, _signal.SIGHUP)
"""The signals that end a run."""


def find_stopper(number: int) -> str:
    """Return who stops a turn with the signal `number`, as `Session.cancel` names them: `person` for Ctrl+C, `end` (of
    the session) for any other signal."""
    return "person" if number == SIGINT else "end"


def set_up_process() -> None:
    """Set up this process for its command line: signals, garbage collection, import path, descriptors."""
    global _writes_result
    _writes_result = True
    handle_signals(_exit_on_signal)
    gc.disable()  # it takes a tenth of the start-up, and there is no garbage yet
    block_imports_from_cwd()
    reopen_descriptors()


def freeze_gc() -> None:
    """Exempt all present objects from garbage collection and turn it on."""
    gc.freeze()
    gc.enable()


_writes_result = False
"""True while a signal has to write the result object that the command line asks for; false once another module does."""


def exit_on_signals() -> None:
    """From now on, end the process at SIGINT, SIGTERM or SIGHUP with one line on stderr and status 130, 143 or 129."""
    drop_signal_result()
    handle_signals(_exit_on_signal)


def handle_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    """Install `handler` for the three signals. An ignored SIGHUP stays ignored (nohup), an ignored SIGINT does not."""
    for number in SIGNALS:
        if number != _signal.SIGHUP or _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler)


def drop_signal_result() -> None:
    """Write no result object at a signal any more, because another module writes it."""
    global _writes_result
    _writes_result = False


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    name = {_signal.SIGINT: "SIGINT", _signal.SIGTERM: "SIGTERM", _signal.SIGHUP: "SIGHUP"}[number]
    typed = number == _signal.SIGINT and os.isatty(0)  # Ctrl+C
    line = b"\nCancelled.\n" if typed else f"nexus: stopped: received {name}.\n".encode()
    form = signal_result.json_form(sys.argv[1:]) if _writes_result else ""
    drop_signal_result()  # a second signal writes no second object
    for descriptor, text in ((1, signal_result.signal_result(form, 128 + number, name)), (2, line)):
        try:
            os.write(descriptor, text)
        except OSError:
            pass
    os._exit(128 + number)


_blocked: set[str] = set()


class _ImportGuard:
    """A finder that keeps blocked folders off the import path (litellm appends the working folder again)."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Remove blocked folders from the path before each import of a top-level module; find nothing."""
        if path is None and not _blocked.isdisjoint(sys.path):
            sys.path[:] = [entry for entry in sys.path if entry not in _blocked]
        return None


def block_imports_from(folder: str) -> None:
    """Remove `folder`, unless it is the interpreter's own, and every relative entry from the import path for good."""
    real = os.path.realpath(folder)
    library = os.path.realpath(os.path.dirname(os.__file__))
    packages = f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if real in (library, f"{library}/lib-dynload", os.path.realpath(packages)):
        return
    if not _blocked:
        sys.meta_path.insert(0, _ImportGuard())
    _blocked.update(("", ".", folder, real))
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry) and os.path.realpath(entry) != real]


def block_imports_from_cwd() -> None:
    """Remove the working folder from the import path; if it was deleted, only the relative entries."""
    try:
        folder = os.getcwd()
    except OSError:
        sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
        return
    block_imports_from(folder)


def reopen_descriptors() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr, so that no other file gets its number. Writing to
    stdout still fails: nobody gets that output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def exit_process(status: int, text: str = "") -> NoReturn:
    """Write `text` to stdout, flush both streams and end the process without the interpreter's teardown.

    A closed pipe is no error. Output that cannot be written is reported on stderr and turns status 0 into 1.
    """
    try:
        if text:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except (OSError, ValueError, RuntimeError) as error:
        from nexus_cli.core.errors import reason_of  # noqa: PLC0415  (imports `typing`)

        why = reason_of(error)
        status = status or 1
        try:
            os.write(2, f"nexus: stdout cannot be written: {why}. Check the redirection of stdout.\n".encode())
        except OSError:
            pass
    try:
        sys.stderr.flush()
    except (OSError, ValueError, RuntimeError):
        pass
    os._exit(status)
