"""The copy of the environment while a library has its own, and while another thread changes variables."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from nexus_cli.config.host_environment import host_environment
from nexus_cli.core.environ import changed_environ, copy_environ


def test_a_program_that_starts_during_a_change_gets_the_variables_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAS_SET", "before")
    monkeypatch.delenv("WAS_UNSET", raising=False)
    before = dict(os.environ)
    with changed_environ({"WAS_SET": "during", "WAS_UNSET": "x"}, "LEFT_BEHIND"):
        os.environ["LEFT_BEHIND"] = "by the library"
        with changed_environ({"WAS_SET": "during", "WAS_UNSET": "x"}, "LEFT_BEHIND"):
            assert os.environ["WAS_SET"] == "during"
        assert os.environ["WAS_UNSET"] == "x"
        assert copy_environ() == before
        assert host_environment(os.environ).items() <= before.items()
    assert dict(os.environ) == before


def test_a_copy_never_fails_while_another_thread_changes_variables() -> None:
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            with changed_environ({f"CHANGED_{number}": "x" for number in range(50)}):
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert not any(name.startswith("CHANGED_") for _ in range(300) for name in copy_environ())
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
