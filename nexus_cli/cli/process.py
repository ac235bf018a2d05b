"""The process around the program: signals while it starts, the import path, closed descriptors, the end.

Imports nothing that is not already there when Python starts, so that it can run before anything else. What a signal
means while a turn runs is the business of `interrupt`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum
import gc
import os
import sys

from nexus_cli.cli import signal_result

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs as much as Python's own start
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import NoReturn

SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def disable_gc() -> None:
    """No garbage collection while the program starts: a tenth of its time, and there is no garbage yet."""
    gc.disable()


def freeze_gc() -> None:
    """The program has started: what is there stays for good and is not looked at again."""
    gc.freeze()
    gc.enable()


_form = ""


def exit_on_signals(arguments: Sequence[str] = ()) -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end the process with one line and 130, 143 or 129.

    Where `arguments` ask for JSON the result object comes before that, until `drop_signal_result`. A SIGHUP that is
    ignored stays so (nohup); SIGINT is taken even where a shell's background job ignores it.
    """
    global _form
    _form = signal_result.json_form(arguments)
    for number in SIGNALS:
        if number != _signal.SIGHUP or _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def drop_signal_result() -> None:
    """Someone else writes the result object, or has written it."""
    global _form
    _form = ""


def _end(number: int, frame: FrameType | None) -> None:
    name = {_signal.SIGINT: "SIGINT", _signal.SIGTERM: "SIGTERM", _signal.SIGHUP: "SIGHUP"}[number]
    told = f"nexus: stopped: {name} arrived.\n".encode()
    form = _form
    drop_signal_result()  # a second signal writes no second object
    for descriptor, text in ((1, signal_result.signal_result(form, 128 + number, name)), (2, told)):
        try:
            os.write(descriptor, text)
        except OSError:
            pass
    os._exit(128 + number)


_forgotten: set[str] = set()


class _Guard:
    """Keeps forgotten folders off the import path, whoever puts them there again (litellm appends the working one)."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Never finds anything; a look at the path before each import of a top-level module."""
        if path is None and not _forgotten.isdisjoint(sys.path):
            sys.path[:] = [entry for entry in sys.path if entry not in _forgotten]
        return None


def block_imports_from(folder: str) -> None:
    """Take `folder` and every relative entry off the import path for good: nothing lying there is ever imported.

    A folder of the interpreter itself (its library, its site-packages) stays, whoever works in it.
    """
    real = os.path.realpath(folder)
    library = os.path.realpath(os.path.dirname(os.__file__))
    packages = f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if real in (library, f"{library}/lib-dynload", os.path.realpath(packages)):
        return
    if not _forgotten:
        sys.meta_path.insert(0, _Guard())
    _forgotten.update(("", ".", folder, real))
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry) and os.path.realpath(entry) != real]


def block_imports_from_cwd() -> None:
    """The same for the working folder; where it has vanished only the relative entries go."""
    try:
        folder = os.getcwd()
    except OSError:
        sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
        return
    block_imports_from(folder)


def reopen_descriptors() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed, so that no file of ours gets one of their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def exit_process(status: int, text: str = "") -> NoReturn:
    """Write `text` to stdout, flush what Python still holds and end at once, without the interpreter's teardown.

    A reader that left is no error; output that cannot be written is told on stderr and makes the status 1.
    """
    try:
        if text:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        status = status or 1
        try:
            os.write(2, f"nexus: stdout cannot be written: {why}. Check where it goes.\n".encode())
        except OSError:
            pass
    try:
        sys.stderr.flush()
    except (OSError, ValueError, RuntimeError):
        pass
    os._exit(status)
