"""Run the tests in several processes, forked from one that has collected them: `--processes N`.

To collect is to import every test, most of the product and the model library. That happens once, and the forks share
the memory. The tests of one file run in one process, because they share what they set up. Files are handed out in the
order of collection, each to the process that is free first; those that need a PostgreSQL server go to the first
process, so that one server is started in a run, and to a second one only when that has nothing else to do.

With `--seconds N` no test begins after so many seconds, in which collecting counts; what has not run is named at the
end.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import selectors
import socket
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import pytest

SERVER = "postgres"
"""The fixture that starts a PostgreSQL server, one in each process that needs it."""
BEGAN = time.monotonic()
DEADLINE = pytest.StashKey[float]()
"""When the seconds of `--seconds` are over. A quarter of them is for the tests, however long collecting takes."""
NOT_RUN = pytest.StashKey[list[Path]]()
"""Files of which no test, or not every test, has begun in time."""
COSTS = pytest.StashKey[Counter[Path]]()
"""CPU seconds of the tests of each file."""
DEAREST = 10
"""So many files are named at the end of a run with their CPU seconds, if it took `LONG` of them."""
LONG = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--processes` and `--seconds`."""
    parser.addoption("--processes", type=int, default=1, metavar="N", help="run the tests in N processes")
    parser.addoption("--seconds", type=float, default=None, help="begin no test after so many seconds (in processes)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """Run the collected tests in processes, unless one is enough."""
    options = session.config.option
    if options.processes < 2 or options.collectonly or session.testsfailed or not session.items:
        return None
    if "nexus_cli" in sys.modules:
        _import_model_library()
    if options.seconds is not None:
        session.config.stash[DEADLINE] = max(BEGAN + options.seconds, time.monotonic() + options.seconds / 4)
    Runner(session).run(options.processes)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files for which there was no time."""
    if left := terminalreporter.config.stash.get(NOT_RUN, []):
        names = " ".join(dict.fromkeys(os.path.relpath(path) for path in left))
        terminalreporter.write_line(f"no time for these; they run with: python -m pytest {names}")
    costs = terminalreporter.config.stash.get(COSTS, Counter())
    if costs.total() > LONG:
        told = ", ".join(f"{os.path.relpath(path)} {seconds:.1f}" for path, seconds in costs.most_common(DEAREST))
        terminalreporter.write_line(f"{costs.total():.0f} s of CPU in tests, most of them in: {told}")


def _import_model_library() -> None:
    """Import what most processes would import in their first tests, and have the collector leave it alone.

    The table of the characters that a text may have is made as well: hypothesis keeps it in a file, which a fresh clone
    has not.
    """
    from hypothesis import strategies
    from preload import import_run
    from program.nursery import use_huge_pages

    from nexus_cli.conversation.tokens import counter

    import_run()
    counter._load("o200k_base")
    strategies.text().validate()
    gc.enable()
    gc.freeze()
    use_huge_pages()


class Worker:
    """A forked process, as its parent sees it."""

    def __init__(self, pid: int, channel: socket.socket, number: int) -> None:
        self.pid = pid
        self.number = number
        self.channel = channel
        self.lines = b""
        self.tests: list[int] = []
        """Numbers of the tests that it was given and has not begun."""
        self.current: int | None = None
        self.was_sent_home = False

    def receive(self) -> list[Any]:
        """Return the messages that have arrived; raise EOFError at the end."""
        piece = self.channel.recv(1 << 16)
        if not piece:
            raise EOFError
        *lines, self.lines = (self.lines + piece).split(b"\n")
        return [json.loads(line) for line in lines]

    def give(self, tests: list[int]) -> None:
        """Answer a request for tests; none means that there are no more."""
        self.tests += tests
        self.was_sent_home = not tests
        try:
            self.channel.sendall(json.dumps(tests).encode() + b"\n")
        except OSError:  # it has gone, which the next reading tells
            pass


class Runner:
    """Hands out tests, and reports what happens to them as if they ran in this process."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.hook = session.config.hook
        self.ordinary: deque[list[int]] = deque()
        """Numbers of the tests of each file that no process has taken."""
        self.served: deque[list[int]] = deque()
        """Those of the files that need a PostgreSQL server."""
        for _, rows in groupby(enumerate(session.items), key=lambda row: row[1].path):
            tests = list(rows)
            is_served = any(SERVER in getattr(item, "fixturenames", ()) for _, item in tests)
            (self.served if is_served else self.ordinary).append([number for number, _ in tests])
        self.workers: list[Worker] = []
        self.events = selectors.DefaultSelector()
        self.folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self.begun = 0
        """Processes that were started."""
        self.ran = 0
        """Tests that were begun."""
        self.costs = session.config.stash.setdefault(COSTS, Counter())

    def run(self, count: int) -> None:
        """Run everything in at most so many processes; raise as pytest's own loop does when it is to stop."""
        try:
            for _ in range(min(count, len(self.ordinary) + len(self.served))):
                self._start()
            while self.workers:
                for key, _ in self.events.select():
                    self._listen(key.data)
        finally:
            for worker in self.workers:  # after Ctrl+C, which the workers have got too
                worker.channel.close()
                os.waitpid(worker.pid, 0)
        if is_late(self.session):
            left = [self.session.items[tests[0]].path for tests in (*self.ordinary, *self.served)]
            self.session.config.stash[NOT_RUN] = left
            if not self.ran:
                raise self.session.Failed("no test began in the time of --seconds")
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self.begun += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            for channel in (ours, *(worker.channel for worker in self.workers)):
                channel.close()
            work(self.session, theirs, self.folder / f"process-{self.begun}")
        theirs.close()
        self.workers.append(worker := Worker(pid, ours, self.begun))
        self.events.register(ours, selectors.EVENT_READ, worker)

    def _listen(self, worker: Worker) -> None:
        try:
            for message in worker.receive():
                self._obey(worker, **message)
        except (EOFError, ConnectionResetError):
            self._part_from(worker)

    def _obey(self, worker: Worker, what: str, number: int = 0, **more: Any) -> None:
        """Do what a message of a worker asks for."""
        item = self.session.items[number]
        if what == "take":
            worker.give(self._next_tests(worker))
        elif what == "begin":
            worker.tests.remove(number)
            worker.current = number
            self.ran += 1
            self.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        elif what == "report":
            report = self.hook.pytest_report_from_serializable(config=self.session.config, data=more["report"])
            if isinstance(report.longrepr, list):  # of a skipped test: pytest expects what JSON has no form for
                report.longrepr = tuple(report.longrepr)
            self.hook.pytest_runtest_logreport(report=report)
        elif what == "leave":
            if worker.tests:
                self.ordinary.appendleft(worker.tests)
            worker.tests, worker.was_sent_home = [], True
        else:
            worker.current = None
            self.costs[item.path] += more["seconds"]
            self.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _next_tests(self, worker: Worker) -> list[int]:
        """Take the tests of a file for this worker; none when there are no more, or the run is to stop."""
        if self.session.shouldfail or self.session.shouldstop or is_late(self.session):
            return []
        first, second = (self.served, self.ordinary) if worker.number == 1 else (self.ordinary, self.served)
        if self.workers.index(worker) > 1:  # a server costs a second of CPU: two processes start one, not all
            second = deque()
        if DEADLINE in self.session.config.stash and worker.number == 1:  # the most important ones first
            first, second = sorted((first, second), key=lambda files: files[0] if files else [])
        return (first or second).popleft() if first or second else []

    def _part_from(self, worker: Worker) -> None:
        """Let a process go that has ended. If it crashed, the test fails, and another process takes the rest."""
        self.events.unregister(worker.channel)
        worker.channel.close()
        self.workers.remove(worker)
        _, status = os.waitpid(worker.pid, 0)
        if status == 0 and worker.was_sent_home and worker.current is None and not worker.tests:
            return
        words = f"the process of this test ended with {os.waitstatus_to_exitcode(status)}"
        item = self.session.items[worker.current if worker.current is not None else 0]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
        self.hook.pytest_runtest_logreport(report=report)
        if worker.tests:
            self.ordinary.appendleft(worker.tests)
        if self.ordinary or self.served:
            self._start()


def is_late(session: pytest.Session) -> bool:
    """Return whether the seconds of `--seconds` are over."""
    deadline = session.config.stash.get(DEADLINE, None)
    return deadline is not None and time.monotonic() > deadline


def work(session: pytest.Session, channel: socket.socket, folder: Path) -> NoReturn:
    """Be a worker: run what the parent gives until it has no more."""
    status = 1
    try:
        atexit._clear()  # what the parent registered is its own
        _be_separate(session, channel, folder)
        try:
            _run(session, channel)
        finally:
            session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()
        status = 0
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass  # the parent is leaving as well
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _be_separate(session: pytest.Session, channel: socket.socket, folder: Path) -> None:
    """Replace what this process must not share with its parent: temporary folders, captured output, the reporter."""
    plugins = session.config.pluginmanager
    folder.mkdir(0o700)
    session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    plugins.unregister(name="terminalreporter")
    if (capture := plugins.get_plugin("capturemanager")) is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    plugins.register(_Forwarder(session.config, channel))


def _say(channel: socket.socket, what: str, **more: Any) -> None:
    channel.sendall(json.dumps({"what": what, **more}).encode() + b"\n")


class _Forwarder:
    """Sends every report to the parent, but for what it shows nowhere: that a set-up or its end went well."""

    def __init__(self, config: pytest.Config, channel: socket.socket) -> None:
        self.config = config
        self.channel = channel

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when != "call" and self.config.option.durations is None:
            return
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        _say(self.channel, "report", report=data)


def _run(session: pytest.Session, channel: socket.socket) -> None:
    """Run the tests that the parent gives. What belongs to a file is set down when the next one is known."""
    tests = _given_tests(session, channel)
    number = next(tests, None)
    while number is not None:
        following = next(tests, None)
        item, nextitem = session.items[number], None if following is None else session.items[following]
        _say(channel, "begin", number=number)
        before = count_cpu_seconds()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        _say(channel, "end", number=number, seconds=count_cpu_seconds() - before)
        number = None if session.shouldfail or session.shouldstop else following
    _say(channel, "leave")


def count_cpu_seconds() -> float:
    """Return the CPU seconds of this process, of its children that have ended and of the runs that it had forked."""
    nursery = sys.modules.get("program.nursery")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + (nursery.SPENT[0] if nursery else 0.0)


def _given_tests(session: pytest.Session, channel: socket.socket) -> Iterator[int]:
    """Ask the parent for tests as long as it has any and there is time."""
    with channel.makefile("rb") as lines:
        while True:
            _say(channel, "take")
            if not (given := json.loads(lines.readline() or b"[]")):
                return
            for number in given:
                if is_late(session):
                    return
                yield number
