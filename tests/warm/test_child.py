"""When a fork of the warm process would not be what the caller's own process is."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import pytest

from nexus_cli.warm import call, child


@pytest.fixture
def world() -> child.World:
    def run() -> Any:
        raise AssertionError("it was run")

    return child.World(b"who", dict(os.environ), 10.0, lambda: None, run, frozenset({"READ_AT_IMPORT"}))


def problem(world: child.World, **changes: Any) -> str:
    return child.find_problem(call.own_call("run", ["ask"]) | changes, world, os.getpid())


def test_a_caller_that_is_like_us_has_no_problem(world: child.World) -> None:
    assert problem(world) == ""


@pytest.mark.parametrize(
    "name", ["READ_AT_IMPORT", "LITELLM_DROP_PARAMS", "SSL_CERT_FILE", "PYTHONHASHSEED", "LC_ALL", "OPENAI_API_VERSION"]
)
def test_a_variable_that_the_imports_depend_on_must_be_the_same(name: str, world: child.World) -> None:
    environment = dict(os.environb)
    assert name in problem(world, environment=environment | {name.encode(): b"another value"})
    world.environment[name] = "here alone"
    assert name in problem(world, environment={k: v for k, v in environment.items() if k != name.encode()})


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "NEXUS_HOME", "HOME", "PWD", "HTTPS_PROXY", "ODD"])
def test_other_variables_may_differ(name: str, world: child.World) -> None:
    assert problem(world, environment=dict(os.environb) | {name.encode(): b"another value"}) == ""


def test_if_the_whole_environment_was_read_all_of_it_counts(world: child.World) -> None:
    world.names = None
    assert "ODD" in problem(world, environment=dict(os.environb) | {b"ODD": b"value"})


def test_limits_and_niceness_are_never_better_than_the_callers_would_be(world: child.World) -> None:
    limits = call.own_call("run", [])["limits"]
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    soft, hard = limits["RLIMIT_NOFILE"]
    assert "RLIMIT_NOFILE" in problem(world, limits=limits | {"RLIMIT_NOFILE": unlimited})
    assert "RLIMIT_NOFILE" in problem(world, limits=limits | {"RLIMIT_NOFILE": (soft, hard + 1)})
    assert problem(world, limits=limits | {"RLIMIT_NOFILE": (16, 16)}) == ""
    assert "RLIMIT_AS" in problem(world, limits=limits | {"RLIMIT_AS": (2**31, resource.RLIM_INFINITY)})
    assert "priority" in problem(world, nice=os.getpriority(os.PRIO_PROCESS, 0) - 1)
    assert problem(world, nice=19) == ""


def test_an_interpreter_with_other_options_is_another(world: child.World) -> None:
    assert "other options" in problem(world, options="-O")


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell who the caller is")
def test_a_caller_that_our_namespace_has_no_number_for_is_refused(world: child.World) -> None:
    assert "namespaces" in child.find_problem(call.own_call("run", ["ask"]), world, 0)


def test_what_confines_the_caller_confines_its_child(world: child.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_confinement", lambda pid: pid)
    assert child.find_problem(call.own_call("run", []), world, os.getpid()) == ""
    assert "namespaces" in child.find_problem(call.own_call("run", []), world, os.getppid())
