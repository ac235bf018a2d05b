"""The caller's side: hands a run to the warm process and waits for its end; starts a warm process.

`try_warm` returns only if the run has to be a cold one, and then nothing of it has happened yet.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` would import enum
import _socket  # built in; `socket` would import enum and selectors
import marshal
import os
import resource
import struct
import sys

from nexus_cli.core.private_process import make_process_private
from nexus_cli.warm import auto, place
from nexus_cli.warm import call as form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, NoReturn

PATIENCE = 0.05
"""Seconds from the connection to the first sign of the warm process."""
FORK_PATIENCE = 1.0
"""Seconds from there to each further step of its fork, until GO."""
COMMAND_PATIENCE = 5.0
"""Seconds that `nexus warm` waits for an answer."""
FORWARDED = (
    _signal.SIGINT,
    _signal.SIGTERM,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGTSTP,
    _signal.SIGCONT,
)
KEEP_IGNORED = (_signal.SIGHUP, _signal.SIGQUIT, _signal.SIGTSTP)
"""Signals that a run leaves ignored if they were ignored at its start."""
NOT_RUNNING = "no warm process is running"
CODE = "import sys; from nexus_cli.__main__ import serve_warm; sys.path[:] = sys.argv[3:]; serve_warm()"
"""The program of the warm process: folder, minutes, and the import path of the caller, where the working folder is
blocked. That may be the one of nexus itself: so it is found before."""
FINITE_NEVER = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU")
"""Limits with which no warm process is started: its forks could not get rid of them."""


class ColdRunError(Exception):
    """The run has to be a cold one; the message says why."""


def try_warm(arguments: list[str], words: Sequence[str]) -> str:
    """Run `nexus ask` with these arguments in a child of the warm process and end as it ended.

    Return the reason if there is a warm process that cannot be used, otherwise "". Call it only if `auto.is_wanted`.
    `words` are those of `program_words.plain_words`.
    With a terminal as stdin only `nexus ask` can be handed over, in the foreground: the run leads another session, so
    that the terminal does not stop it when it reads.
    """
    if "_NEXUS_COMPLETE" in os.environ:
        return ""
    if os.isatty(0) and (_in_background() or not auto.is_ask(words)):
        return ""
    why = ""
    try:
        folder = place.own_folders()[1]
        os.stat(place.socket_path(folder))
        if any("/dev/fd/" in word for word in arguments):
            raise ColdRunError("an argument names a descriptor of the caller, which the run would not have")
        connection = connect(folder)
        _negotiate(connection, arguments)
    except FileNotFoundError:
        return ""
    except ColdRunError as error:
        why = str(error)
    except (OSError, EOFError, ValueError) as error:
        why = f"the warm process cannot be reached ({error or 'it hung up'})"
    else:
        _wait(connection)
    if not {"-v", "--verbose"}.isdisjoint(arguments):
        os.write(2, f"nexus: cold start: {why}. See nexus warm status.\n".encode("utf-8", "replace"))
    return why


def _in_background() -> bool:
    """Return True if the terminal that is stdin would stop this process when it reads."""
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:  # not the terminal of our session
        return False


def leave_warm_process(why: str, words: Sequence[str], began: float) -> None:
    """Start a warm process after a cold run that imported the model library, if the settings want one.

    `why` is what `try_warm` returned: one that runs, and did not fit this call, is left alone. A run of lowered
    priority leaves none: its forks could not get the priority of others. `words` as above; the run began at `began`,
    in seconds since 1970.
    """
    if "litellm" not in sys.modules or why not in ("", NOT_RUNNING, form.OUTDATED):
        return
    settings, folder = place.own_folders()
    minutes, automatic = place.wanted_minutes(settings)
    if not minutes or os.getpriority(os.PRIO_PROCESS, 0) > 0:
        return
    try:
        if not automatic:
            launch(folder, minutes)
            return
        is_due = auto.may_leave(words) and auto.is_second_call(folder, began, outdated=why == form.OUTDATED)
        if is_due and launch(folder, minutes):
            os.write(2, auto.STARTED.encode())
    except OSError:  # no process, memory, descriptor or space left: the next run is a cold one too
        pass


def launch(folder: str, minutes: float) -> bool:
    """Start a warm process that listens in `folder`, beside the present one if there is one: then it ends at once.

    Return False under limits that its forks would have too.
    """
    unlimited = resource.RLIM_INFINITY
    for name in FINITE_NEVER:
        if name in form.LIMITS and resource.getrlimit(getattr(resource, name))[0] != unlimited:
            return False
    kept = {name: value for name, value in os.environ.items() if name == "HOME" or form.is_read_at_start(name)}
    if sys.flags.utf8_mode and "PYTHONUTF8" not in kept and kept.get("LC_CTYPE") == "C.UTF-8":
        del kept["LC_CTYPE"]  # Python itself has set it, for lack of a locale
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    closed = [(os.POSIX_SPAWN_CLOSE, int(name)) for name in os.listdir("/dev/fd") if int(name) > 2 and _is_open(name)]
    command = [sys.executable, "-P", "-c", CODE, os.path.abspath(folder), str(minutes), *sys.path]
    actions = [*null, *closed]
    try:  # in a session of its own from the first moment: the terminal's Ctrl+C and its end are not for this process
        os.posix_spawn(sys.executable, command, kept, file_actions=actions, setsid=True)
    except RuntimeError:  # this system cannot: it leaves the session itself, a moment later
        os.posix_spawn(sys.executable, command, kept, file_actions=actions)
    return True


def _is_open(name: str) -> bool:
    try:
        os.fstat(int(name))
    except OSError:  # that of the listing itself
        return False
    return True


def ask_warm_process(kind: str) -> dict[str, Any] | None:
    """Return the status of the warm process, also after `stop`; None if none is running.

    Empty if it is outdated: then it ends.
    """
    folder = place.own_folders()[1]
    try:
        connection = connect(folder)
        answer = request(connection, form.own_call(kind, []), [], COMMAND_PATIENCE)
    except (OSError, ColdRunError):
        return None
    known: dict[str, Any] = marshal.loads(answer[1:]) if answer[:1] == form.KNOWN else {}
    return known


def connect(folder: str) -> Any:
    """Return a connection to the warm process that listens in `folder`, checked to be ours."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    before = open_working_folder()
    try:
        os.chdir(folder)
        if problem := place.folder_problem("."):
            raise ColdRunError(problem)
        connection.connect(place.socket_name())
    except ConnectionRefusedError:
        raise ColdRunError(NOT_RUNNING) from None
    finally:
        os.fchdir(before)
        os.close(before)
    if form.peer_credentials(connection)[1] != os.getuid():
        raise ColdRunError("the socket belongs to another user")
    return connection


def open_working_folder() -> int:
    """Return a descriptor of the working folder, also of one that was deleted."""
    return os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)


def request(connection: Any, call: dict[str, Any], descriptors: list[int], patience: float) -> bytes:
    """Send a call and return the answer of the fork, which may take longer than that of the warm process itself."""
    data = memoryview(form.encode_call(call, place.identity()))
    packed = struct.pack(f"{len(descriptors)}i", *descriptors)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if descriptors else []
    connection.settimeout(patience)
    answer = b""
    try:
        answer += connection.recv(1)
        connection.settimeout(FORK_PATIENCE)
        data = data[connection.sendmsg([data[:65536]], rights) :]
        if data:
            connection.sendall(data)
        return bytes(connection.recv(65536))
    except TimeoutError:
        waited = FORK_PATIENCE if answer else patience
        raise ColdRunError(f"the warm process did not answer in {waited * 1000:g} ms") from None


def _negotiate(connection: Any, arguments: list[str]) -> None:
    """Hand the run over. Signals are the child's from here on."""
    folder = open_working_folder()
    try:
        answer = request(connection, form.own_call("run", arguments), [0, 1, 2, folder], PATIENCE)
    finally:
        os.close(folder)
    if answer != form.READY:
        raise ColdRunError(answer[1:].decode("utf-8", "replace") or "the warm process hung up")
    connection.settimeout(None)
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, FORWARDED)
    try:
        connection.sendall(form.GO)
        for number in FORWARDED:
            if number not in KEEP_IGNORED or _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, _forwarder(connection))
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _forwarder(connection: Any) -> Callable[[int, FrameType | None], None]:
    terminal = os.isatty(0)

    def forward(number: int, frame: FrameType | None) -> None:
        try:
            if number == _signal.SIGCONT:
                resume()
                return
            connection.send(bytes([number]))
            if number == _signal.SIGTSTP:
                _signal.signal(number, _signal.SIG_DFL)
                os.kill(os.getpid(), number)  # returns when this process is continued
                _signal.signal(number, forward)
                resume()
        except OSError:  # the child has ended; its status is on its way
            pass

    def resume() -> None:
        """Continue the run, or stop the job again: in the background it would take what is typed at the shell."""
        if terminal and _in_background():
            os.kill(0, _signal.SIGTTIN)  # the next SIGCONT comes here again
        else:
            connection.send(bytes([_signal.SIGCONT]))

    return forward


def _wait(connection: Any) -> NoReturn:
    """Wait for the end of the child and end in the same way."""
    make_process_private()  # not before: the child compared its namespaces with ours
    try:
        (status,) = form.STATUS.unpack(form.receive_exactly(connection, form.STATUS.size))
    except (OSError, EOFError):
        os.write(2, b"nexus: the run was lost: the process that watched it was killed. Look at nexus sessions list.\n")
        os._exit(1)
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left one where it should
    _signal.signal(number, _signal.SIG_DFL) if number != _signal.SIGKILL else None
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # a signal whose default is not to end a process
