"""The warm start as a whole: what is left behind, what a child is, who ends whom, and that no call sees another."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from program.stage import (
    BY_PYTHON,
    MODEL,
    NEXUS,
    PRICED,
    QUICK,
    Done,
    Stage,
    WarmProcess,
    calls,
    end,
    runs,
    stage,
    together,
    until,
)
from program.test_ends import alive
from search import sample

from nexus_cli.ledger import Ledger

PAIRS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "search" else 6
CALLERS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "search" else 8
LOOK = r"""
p=$PPID; cat /proc/$p/limits; pwd; env | sort; nice; umask; readlink /proc/$p/cwd
grep -E '^(Umask|Sig[BIC]|Groups|Cap|NoNew|Seccomp|Cpus_allowed_list)' /proc/$p/status
for f in /proc/$p/fd/*; do readlink $f | sed 's/[0-9]\{3,\}/N/; s/locks.*/lock/; s/looks.*/look/'; done | sort
"""
"""What the process that runs a command is, as the kernel tells it."""
SLOW = {"default": {"text": "word ", "repeat": 300, "pace": 0.005}}
SEES_INSIDE = not os.getuid()
"""Nobody but root sees the environment and the descriptors of a process that is not dumpable, as nexus is."""
QUIET_SIGNAL = 1 << 31
"""Signal 32 is the C library's own; `posix_spawn` leaves it ignored."""


@pytest.fixture
def place(warm: WarmProcess, tmp_path: Path) -> Iterator[Stage]:
    with runs(warm), stage(tmp_path) as made:
        yield made


@contextmanager
def counted(place: Stage, number: int) -> Iterator[None]:
    """The warm process gets so many runs within the block."""
    assert place.warm
    before = place.warm.known()["calls"]
    yield
    assert place.warm.known()["calls"] - before == number


def cold(place: Stage, *arguments: str) -> Done:
    return replace(place, warm=None).ask(*arguments, env={"NEXUS_WARM": "0"})


def looked(place: Stage, *arguments: str, before: str = "", env: str = "") -> list[str]:
    """What the process is that answers `nexus ask`."""
    place.script([calls(("bash", {"command": LOOK})), "done"])
    place.server.requests.clear()
    done = place.shell(f"{before} {env} nexus ask --allow all hi")
    assert (done.status, done.stdout) == (0, b"done\n"), done
    text = place.server.requests[-1].body["messages"][-1]["content"]
    lines = [line for line in text.splitlines() if not line.startswith(("NEXUS_CHILD_OF=", "NEXUS_WARM="))]
    return [
        f"SigIgn {int(line.split()[1], 16) & ~QUIET_SIGNAL:x}" if line.startswith("SigIgn") else line for line in lines
    ]


@pytest.mark.matrix
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_the_child_is_what_a_cold_process_would_be(place: Stage) -> None:
    """Environment, limits, signals, descriptors. What is open beyond the three streams stays with the caller alone."""
    before = (
        "umask 027; ulimit -S -n 300; ulimit -c 0; export ODD=$'a\\nb'; trap '' HUP QUIT; mkdir -p deep; cd deep; "
        "exec 5</etc/hostname; nice -n 5 taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') env"
    )
    with counted(place, 1):
        warm = looked(place, before=before)
    other = looked(place, before=before, env="NEXUS_WARM=0")
    assert set(warm) <= set(other), set(warm) - set(other)
    assert "ODD=a" in warm and "5" in warm and "/etc/hostname" not in warm
    others_alone = {line for line in set(other) - set(warm) if not line.startswith(("pipe:", "/dev/"))}
    assert others_alone == ({"/etc/hostname"} if SEES_INSIDE else set())


def test_bodies_on_the_wire_are_those_of_a_cold_run_byte_for_byte(place: Stage) -> None:
    (place.folder / "a.txt").write_text("some text, größer\n")
    bodies: dict[str, list[bytes]] = {}
    for _ in range(3):  # the minute may change between two runs
        for name, run in (("warm", place.ask), ("cold", lambda *given: cold(place, *given))):
            place.script([calls(("read_file", {"path": "a.txt"})), "fine"])
            place.server.requests.clear()
            assert run("--no-save", "-f", "a.txt", "hi").status == 0
            bodies[name] = [
                re.sub(rb'call_\w+|"prompt_cache_key":"\w+"', b"N", request.raw) for request in place.server.requests
            ]
        if bodies["warm"] == bodies["cold"]:
            break
    assert bodies["warm"] == bodies["cold"] and len(bodies["warm"]) == 2


@pytest.mark.matrix
def test_a_descriptor_that_an_argument_names_is_read_by_a_cold_run(place: Stage) -> None:
    place.script(["fine", '{"a": 1}'])
    with counted(place, 0):
        attached = place.shell("nexus ask -f <(echo substituted) hi")
        schema = place.shell('nexus ask --schema <(echo \'{"type": "object"}\') hi')
    assert attached.status == 0 and "substituted" in str(place.server.requests[0].body["messages"]), attached
    assert (schema.status, schema.text) == (0, '{"a": 1}\n'), schema


@pytest.mark.matrix
def test_an_answer_is_held_to_a_schema(place: Stage) -> None:
    place.script(["none", '{"a": 1}'])
    with counted(place, 1):
        done = place.ask("--schema", '{"type": "object"}', "--no-save", "hi")
    assert (done.status, done.text) == (0, '{"a": 1}\n'), done


@pytest.mark.matrix
def test_two_callers_at_once_never_see_each_others(warm: WarmProcess, tmp_path: Path) -> None:
    """Keys, homes, folders, settings, files and words of random pairs that share one warm process."""
    chance = random.Random(5)

    def one(number: int) -> list[str]:
        name = f"{chance.getrandbits(64):016x}"
        script = {"default": {"text": f"answer-{name}", "delay": chance.choice([0.0, 0.02])}}
        with stage(tmp_path / f"{number}-{name}", script) as place:
            own = f'[models."{MODEL}"]\nwindow = 128000\nmax_output = {4000 + number}\n'
            place.settings(QUICK + own)
            (place.nexus_home / "config" / "NEXUS.md").write_text(f"rules-{name}\n")
            (place.folder / "a.txt").write_text(f"file-{name}\n")
            changes: dict[str, str | None] = {"OPENAI_API_KEY": f"sk-{name}", f"VAR_{name}": name}
            done = place.ask("--json", "-f", "a.txt", f"words-{name}", env=changes)
            assert done.status == 0, done
            (request,) = place.server.requests
            assert request.headers["authorization"] == f"Bearer sk-{name}"
            text = request.raw.decode()
            seen = set(re.findall(r"(?:rules|file|words)-([0-9a-f]{16})", text))
            assert seen == {name} and text.count(name) >= 4 and str(place.folder) in text
            assert request.body.get("max_tokens", request.body.get("max_completion_tokens")) == 4000 + number
            assert done.result["text"] == f"answer-{name}"
            with closing(Ledger.open(place.ledger)) as ledger:
                assert len(ledger.sessions(None, 9)) == 1
            return [name]

    with runs(warm):
        before = warm.known()["calls"]
        names = together(one, range(2 * PAIRS), 2)
        assert warm.known()["calls"] - before == len(names) == 2 * PAIRS


@pytest.mark.matrix
def test_many_callers_at_once_are_all_served(warm: WarmProcess, tmp_path: Path) -> None:
    """By it or cold: two hundred are impatient, as outside of tests."""
    program = NEXUS if CALLERS == 200 else ""
    with runs(warm), stage(tmp_path) as place:
        children = [place.begin("ask", f"hi {number}", program=program) for number in range(CALLERS)]
        ended = [child.communicate(timeout=120)[0] and child.returncode for child in children]
        assert ended == [0] * CALLERS and len(place.server.requests) == CALLERS


@pytest.mark.parametrize("number", sample([signal.SIGQUIT, signal.SIGKILL], 2))
def test_the_caller_ends_by_the_signal_that_ended_its_child(number: signal.Signals, place: Stage) -> None:
    place.script(SLOW)
    child = place.begin("ask", "hi")
    assert place.server.wait_for(lambda server: bool(server.requests), 120)
    (run,) = [pid for pid in descendants(place) if b"serve_warm" in command_of(pid)][-1:]
    os.kill(run if number == signal.SIGKILL else child.pid, number)
    child.communicate(timeout=120)
    assert child.returncode == -number


@pytest.mark.matrix
def test_a_caller_that_is_stopped_stops_its_child_until_it_goes_on(place: Stage, tmp_path: Path) -> None:
    place.script({"default": {**SLOW["default"], "pace": 0.02}})  # not over before it is looked at
    assert place.warm
    warm = place.warm.known()["pid"]  # to ask for it takes a program, which may last as long as the answer
    earlier = set(descendants(place, warm))
    # In a group of its own: the kernel stops no process of a group that nobody in its session watches over.
    child = place.begin("ask", "hi", program=patient(tmp_path), process_group=0)
    try:
        assert place.server.wait_for(lambda server: bool(server.requests), 120)

        def stopped() -> set[bool]:
            # What the run has started may be newer than it, and gone in a moment.
            runs = [pid for pid in descendants(place, warm) if pid not in earlier]
            return {"T" in [state(pid) for pid in runs], state(child.pid) == "T"}

        child.send_signal(signal.SIGTSTP)
        assert until(lambda: stopped() == {True}, 120)
        child.send_signal(signal.SIGCONT)
        assert until(lambda: stopped() == {False}, 120)
        stdout, _ = child.communicate(timeout=120)
        assert (
            child.returncode == 0 and stdout == b"word " * 300 + b"\n"
        ) or stdout.strip() == b"word " * 299 + b"word"
    finally:
        end(child)


def test_the_child_ends_when_its_caller_has_died(place: Stage) -> None:
    place.script({"default": {"text": "late", "delay": 60}})
    child = place.begin("ask", "hi")
    assert place.server.wait_for(lambda server: bool(server.requests), 120)
    run = descendants(place)[-1]
    child.kill()
    child.wait(120)
    assert until(lambda: not alive(run), 120), "it did not wait for the answer"
    child.communicate(timeout=120)


@pytest.mark.matrix
def test_an_odd_caller_is_served_or_runs_cold(place: Stage) -> None:
    large = {f"LARGE_{number}": "x" * 65_000 for number in range(16)}
    assert place.ask("hi", env={**large}).text == "answer (1)\n"
    assert place.shell("nexus ask hi <&- >out").status == 0 and (place.folder / "out").read_text() == "answer (2)\n"
    gone = place.shell('mkdir gone; cd gone; rmdir "$PWD"; nexus ask hi')
    assert gone.status == 2 and b"working folder" in gone.stderr
    with counted(place, 0):
        assert place.shell("ulimit -v 4000000; nexus ask hi").status == 0


def test_a_life_from_the_first_call_to_the_last(tmp_path: Path) -> None:
    """One process of its own: left behind, used, killed in mid-call."""
    with stage(tmp_path) as place:

        def status() -> dict[str, Any]:
            return place.run("warm", "status", "--json").result

        def listens() -> bool:
            return bool(list((place.nexus_home / "cache" / "warm").glob("*.sock")))

        place.settings(QUICK + PRICED + "[warm]\nminutes = 0\n")
        assert place.run("warm", "start").status == 2 and not status()["running"]
        place.settings(QUICK + PRICED + "[warm]\nminutes = 7\n")
        place.environment["PYTHONPATH"] = str(place.folder)
        for name in ("h2", "json", "litellm", "tomllib"):
            (place.folder / f"{name}.py").write_text("open('imported', 'w'); raise SystemExit(9)\n")
        assert not (place.nexus_home / "cache" / "warm").exists()
        assert place.ask("hi", installed=True).status == 0
        if os.getpriority(os.PRIO_PROCESS, 0) > 0:  # under `nice`, where a call leaves nothing behind
            assert not listens() and place.run("warm", "start", installed=True).status == 0
        assert until(listens, 120)
        first = status()
        assert first["minutes"] == 7 and first["calls"] == 0 and 50e6 < (first["memory"] or 100e6) < 330e6
        assert len(os.listdir(f"/proc/{first['pid']}/task")) == 1
        if SEES_INSIDE:
            assert set(environment_of(first["pid"])) <= {"HOME", "LANG", "LC_ALL", "LC_CTYPE"}
            assert os.readlink(f"/proc/{first['pid']}/cwd") == "/"
            kinds = {os.readlink(f"/proc/{first['pid']}/fd/{name}").partition(":")[0] for name in range(3)}
            assert kinds == {"/dev/null"}
        place.script(SLOW)
        place.server.requests.clear()
        child = place.begin("ask", "hi", program=patient(tmp_path))
        assert place.server.wait_for(lambda server: bool(server.requests), 120) and status()["calls"] == 1
        os.kill(first["pid"], signal.SIGKILL)
        stdout, stderr = child.communicate(timeout=120)
        assert (child.returncode, stdout.count(b"word"), stderr) == (0, 300, b"")
        assert not status()["running"]


def patient(root: Path) -> str:
    """A program that waits long for the warm process."""
    path = root / "nexus-patient"
    path.write_text(
        f"{BY_PYTHON}from nexus_cli.warm import caller\ncaller.PATIENCE = caller.FORK_PATIENCE = 300.0\n"
        "from nexus_cli.__main__ import main\nmain()\n"
    )
    path.chmod(0o755)
    return str(path)


def environment_of(pid: int) -> list[str]:
    data = Path(f"/proc/{pid}/environ").read_bytes()
    names = [os.fsdecode(pair.partition(b"=")[0]) for pair in data.split(b"\0") if pair]
    return [name for name in names if not name.startswith("PYTHON")]


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def state(pid: int) -> str:
    """The letter that the kernel has for what a process does; "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def descendants(place: Stage, warm: int = 0) -> list[int]:
    """The processes below the warm process, the newest last; `warm` is its id, where that is known."""
    assert place.warm
    known = {}
    for entry in os.listdir("/proc"):
        try:
            known[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError, IndexError):
            continue
    found = [warm or place.warm.known()["pid"]]
    for pid in found:
        found += sorted(child for child, parent in known.items() if parent == pid)
    return found[1:]
