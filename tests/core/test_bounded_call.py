"""A function with a time limit, in a fork."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading

import pytest

from nexus_cli.core.bounded_call import call_in_fork


@pytest.mark.matrix
def test_what_a_function_returns_comes_back_whatever_its_size() -> None:
    assert call_in_fork(lambda: ["x" * 1_000_000, None, 1.5], 600) == ["x" * 1_000_000, None, 1.5]


@pytest.mark.matrix
def test_a_search_without_end_is_given_up_and_its_process_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    forked, fork = list[int](), os.fork

    def recorded() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", recorded)
    assert call_in_fork(lambda: re.search(r"^(a+)+$", "a" * 60 + "!") is None, 0.05) is None
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], os.WNOHANG)


def test_a_search_without_end_ends_with_a_process_that_was_killed() -> None:
    script = (
        "import os, re; from nexus_cli.core.bounded_call import call_in_fork\n"
        "os.register_at_fork(after_in_parent=lambda: os.write(1, b'f'))\n"
        "call_in_fork(lambda: re.search('^(a+)+$', 'a' * 60 + '!'), 1)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.read(1) == b"f"
        parent.kill()
        assert select.select([parent.stdout], [], [], 100)[0], "the fork holds the pipe"
        assert parent.stdout.read() == b""


@pytest.mark.matrix
def test_what_raises_or_cannot_be_written_has_no_result() -> None:
    assert call_in_fork(lambda: 1 // 0, 600) is None
    assert call_in_fork(lambda: {1, 2}, 600) is None


def test_it_works_beside_other_threads() -> None:
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    try:
        assert call_in_fork(lambda: 7, 600) == 7
    finally:
        held.set()
        thread.join()
