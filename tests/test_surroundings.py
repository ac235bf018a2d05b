"""Tests do not depend on the shell that started them; a run says what it left out."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import describe_left_out, missing

TELLS = """
import json, os, resource, signal
ignored = [int(number) for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]
blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
print(json.dumps({"names": sorted(os.environ), "umask": os.umask(0), "ignored": ignored, "blocked": blocked,
                  "files": files}))
"""
STARTS = f"""
import os, signal, subprocess, sys
from surroundings import replace_inherited
replace_inherited()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    os.kill(os.getpid(), number)
subprocess.run([sys.executable, "-IS", "-c", {TELLS!r}], check=True)
"""
PERSONS = (
    "NO_COLOR",
    "COLUMNS",
    "TERM",
    "PAGER",
    "EDITOR",
    "OPENAI_API_KEY",
    "DATABASE_URL",
    "NEXUS_MODEL",
    "GIT_DIR",
    "SSH_CONNECTION",
    "TMUX",
    "LC_ALL",
    "LANGUAGE",
    "TZ",
    "XDG_CONFIG_HOME",
    "PYTHONWARNINGS",
    "PYTEST_ADDOPTS",
    "BASH_ENV",
    "SHELL",
    "USER",
    "https_proxy",
    "GOFLAGS",
    "PGHOST",
)


@pytest.mark.matrix
def test_what_a_shell_hands_down_reaches_no_child_of_a_test() -> None:
    def inherit() -> None:
        os.umask(0o077)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGTERM))
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **dict.fromkeys(PERSONS, "x")}
    done = subprocess.run(
        [sys.executable, "-c", STARTS], cwd=Path(__file__).parent, env=environ, preexec_fn=inherit, capture_output=True
    )
    assert done.returncode == 0, "it stays as deaf as it was: " + done.stderr.decode()
    told = json.loads(done.stdout)
    ours = {"CI", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "LANG"}
    assert ours <= set(told["names"]) <= ours | {"PATH", "HOME", "LC_CTYPE"}
    assert (told["umask"], told["blocked"]) == (0o022, []) and told["files"] > 100
    assert set(told["ignored"]) <= {signal.SIGPIPE, signal.SIGXFSZ}, "the interpreter's own"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_program_that_a_test_starts_ends_by_a_signal(number: signal.Signals) -> None:
    child = subprocess.Popen(["sleep", "600"])
    child.send_signal(number)
    assert child.wait(120) == -number


def test_a_run_names_what_was_left_out_and_the_packages_that_bring_it() -> None:
    def report(reason: str) -> SimpleNamespace:
        return SimpleNamespace(longrepr=("tests/test_x.py", 3, f"Skipped: {reason}"))

    reports = [report(missing("bwrap")), *(report("needs root") for _ in range(1200)), report(missing("tmux"))]
    assert describe_left_out(reports) == [
        "1,200  needs root",
        "    1  bubblewrap is not installed",
        "    1  tmux is not installed",
        "To run these too, install: bubblewrap, tmux",
    ]
    assert describe_left_out([report("needs root")]) == ["    1  needs root"] and describe_left_out([]) == []


TRAPS = {
    "a time that a slow machine exceeds": r"\b(?:monotonic|perf_counter|\w+_time)\(\) - \w+ < (?:1?\d\b|\d\.)",
    "an interpreter whose path has blanks or is too long": r"#!\{sys\.executable|f[\"']\{sys\.executable\} ",
}


@pytest.mark.matrix
@pytest.mark.parametrize("what", TRAPS)
def test_no_test_holds_only_on_the_machine_that_it_was_written_on(what: str) -> None:
    here = Path(__file__)
    files = [path for path in here.parent.rglob("*.py") if "benchmarks" not in path.parts and path != here]
    found = [
        f"{path.relative_to(here.parent)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if re.search(TRAPS[what], line)
    ]
    assert len(files) > 100 and not found, what
