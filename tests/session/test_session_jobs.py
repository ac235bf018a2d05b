"""The background commands of a session that goes on: over turns, compactions, levels and its own end."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from programs import need
from search import sample
from session.played import MODEL, Person, Played
from session.summed import Summariser, asks_for_summary, ended, live, turn

from nexus_cli.commands import discover
from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.forms import find_form
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.core.clock import local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice, ToolOutput, ToolResultEvent
from nexus_cli.core.memo_kinds import JOB, NOTICE
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import Request
from nexus_cli.core.services import Jobs
from nexus_cli.engine.calls.call_changes import CallChanges
from nexus_cli.ledger import Ledger
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.session_jobs import SessionJobs, recorded_jobs
from nexus_cli.undo.journal import read_steps

Step = list[tuple[str, dict[str, Any]]] | str


class Model:
    """Answers the turns one after the other with these steps; sums up when it is asked to."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.summariser = Summariser()

    def __call__(self, request: Request) -> Any:
        if asks_for_summary(request):
            return self.summariser(request)
        return self.steps.pop(0) if self.steps else "done"


def job(command: str) -> Step:
    return [("bash", {"command": command, "background": True})]


def act(action: str, **more: str) -> Step:
    return [("jobs", {"action": action, **more})]


@asynccontextmanager
async def opened(
    folder: Path,
    *steps: Step,
    again: str = "",
    allow: str = "all",
    backend: str = "off",
    person: Person | None = None,
) -> AsyncIterator[tuple[Session, Any]]:
    provider = Played(Model(*steps))
    options, began = Options(folder, MODEL, allow=allow, interactive=True, resume=again), local_now()
    settings = Settings(models={MODEL: {"window": 24_000}}, sandbox=SandboxSettings(backend=backend))
    # The clock stands still: no request tells of a minute that ended.
    session = open_session(options, settings, approver=person or Person(), provider=provider, clock=lambda: began)
    try:
        yield session, provider
    finally:
        await session.aclose()


def sitting(session: Session) -> tuple[list[str], CommandContext]:
    """What the commands of a person say, and the context in which they are typed."""
    said: list[str] = []

    def show(form: str, value: Any) -> None:
        said.append(find_form(form)(value, 100))

    def note_act(line: str) -> None:
        """Tell nobody."""

    options = SimpleNamespace(served=False)
    context = SimpleNamespace(
        session=session, say=said.append, show=show, can_choose=False, note_act=note_act, options=options
    )
    return said, cast(CommandContext, context)


def result(events: list[Any]) -> ToolResult:
    """The first result of a turn."""
    return next(event.result for event in events if isinstance(event, ToolResultEvent))


@pytest.mark.matrix
async def test_a_job_outlives_its_turn_and_a_compaction_and_ends_with_the_session(tmp_path: Path) -> None:
    numbers = [[("bash", {"command": f"seq {n}000 {n}900"})] for n in range(1, 5)]
    async with opened(tmp_path, job("sleep 60"), "started", *numbers, "listed") as (session, provider):
        assert "j1" in result(await turn(session, "serve")).text
        assert session.status().jobs == ("j1",)
        await turn(session, "list")
        assert ended(await session.compact()).ok
        await turn(session, "and now?")
        assert "running in the background: j1 (sleep 60)" in str(provider.seen[-1])
        assert session.jobs is not None and session.jobs.running() == ["j1"]
        found = session.jobs.describe_all()[0]
        assert (found["id"], found["command"], found["state"], found["status"]) == (
            "j1",
            "sleep 60",
            "running",
            None,
        )
        name, told = session.id, session.jobs
    assert told.running() == []
    async with opened(tmp_path, act("read", job="j1"), again=name) as (session, provider):
        after = result(await turn(session, "what became of it?"))
        assert "job j1 (sleep 60) ended with the session" in str(provider.seen[0][-1])
        assert "ended with the session; its output is not kept" in after.error
    async with opened(tmp_path, job("true"), again=name) as (session, provider):
        assert "[job j2 ended after 0 s, exit status 0]" in result(await turn(session, "again")).text
        assert str(provider.seen[0]).count("ended with the session") == 2, "it is told once"


async def test_the_end_of_the_output_outlives_the_session(tmp_path: Path) -> None:
    async with opened(tmp_path, job("seq -s, 9000; echo GET /cart 500; exec sleep 60"), "started") as (session, _):
        await turn(session, "serve")
        assert session.jobs is not None
        while "GET" not in (await session.jobs.show("j1")).output:  # noqa: ASYNC110  (until the shell has written)
            await asyncio.sleep(0.01)
        name = session.id
    steps = [step for action in ("read", "write", "stop") for step in (act(action, job="j1", text="y"), "a 500")]
    async with opened(tmp_path, *steps, again=name) as (session, _):
        after, *others = [result(await turn(session, words)) for words in ("what did it log?", "answer it", "stop it")]
        output, _, end = after.text.partition("\nGET /cart 500\n[job j1 (")
        assert "8999,9000" in output and len(output) < 2_000 and end.endswith(" ended with the session]")
        assert all(other.error.endswith(" ended with the session") and not other.output for other in others), others


async def test_an_end_between_turns_is_told_to_the_person_at_once_and_to_the_model_with_the_next_message(
    tmp_path: Path,
) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    over = tmp_path / "over"
    build = f"until [ -e {over} ]; do sleep 0.05; done; echo out of memory; exit 3"
    async with opened(tmp_path, job(build), "started") as (session, provider):
        session.listen(heard.put_nowait)
        await turn(session, "build")
        over.touch()
        told = await asyncio.wait_for(heard.get(), 300)
        assert isinstance(told, Notice) and told.text.endswith("exit status 3"), told
        last = await asyncio.wait_for(heard.get(), 300)
        assert isinstance(last, Notice) and last.text == "| out of memory"
        assert session.status().jobs == ()
        await turn(session, "and?")
        last = str(provider.seen[-1][-1])
        assert "job j1" in last and "exit status 3" in last and "out of memory" in last


@pytest.mark.matrix
async def test_the_record_of_the_work_says_how_jobs_ended(tmp_path: Path) -> None:
    def recorded(session: Session) -> list[str]:
        for _ in session.engine.work.read(session.engine.conversation):
            pass
        return sorted(one.text for one in session.engine.compactor.make_record().items if one.kind == "command")

    heard: asyncio.Queue[Any] = asyncio.Queue()
    build = "until [ -e over ]; do sleep 0.05; done; exit 3"
    async with opened(tmp_path, job("sleep 60"), job("sleep 70"), job(build), "started") as (session, _):
        session.listen(heard.put_nowait)
        await turn(session, "build")
        begun = ["- sleep 60 -> started as job j1", "- sleep 70 -> started as job j2"]
        assert recorded(session) == [*begun, f"- {build} -> started as job j3"]
        (tmp_path / "over").touch()
        assert "exit status 3" in (await asyncio.wait_for(heard.get(), 300)).text
        await discover()["jobs"].run(sitting(session)[1], "stop j1")
        ends = [f"{begun[0]}: stopped", begun[1], f"- {build} -> started as job j3, exit 3"]
        assert recorded(session) == ends
        name = session.id
    async with opened(tmp_path, again=name) as (session, _):
        assert recorded(session) == [ends[0], f"{begun[1]}: ended with the session", ends[2]]


async def test_an_end_that_the_call_reports_is_not_shown_a_second_time(tmp_path: Path) -> None:
    async with opened(tmp_path, job("exit 3"), "failed") as (session, _):
        events = await turn(session, "serve")
    assert result(events).status == 3
    assert not [event for event in events if isinstance(event, Notice) and "j1" in event.text]


async def test_the_person_is_told_of_a_job_that_ended_with_a_killed_nexus(tmp_path: Path) -> None:
    async with opened(tmp_path, job("sleep 60"), "started", "ended") as (session, _):
        await turn(session, "serve")
        assert session.jobs is not None
        record = {"session": session.id, "id": "j7", "command": "serve", "state": "running", "status": None}
        session.engine.conversation.memo(JOB, record)  # as a killed process leaves it
        name = session.id
    async with opened(tmp_path, again=name) as (session, _):
        assert session.ledger is not None
        (found,) = recorded_jobs(session.ledger.log(name), [name])[1:]
        assert found["state"] == "closed", "also to others, before the first message"
        events = await turn(session, "and now?")
    async with opened(tmp_path, again=name) as (session, _):
        said, desk = sitting(session)
        await discover()["jobs"].run(desk, "")
        assert "j7  ended with the session  serve" in said[0], "before the first message"
    shown = [event.text for event in events if isinstance(event, Notice)]
    assert shown == ["job j7 (serve) ended with the session and is no longer running"], shown


@pytest.mark.matrix
async def test_the_end_of_a_job_after_the_last_turn_is_told_when_the_session_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(self: SessionJobs) -> None:
        """Does nothing, as in a process that is killed."""

    monkeypatch.setattr(SessionJobs, "end_all", killed)
    async with opened(tmp_path, job("sleep 0.8; echo broken; exit 3"), "started") as (session, _):
        await turn(session, "serve")
        while session.jobs is None or session.jobs.running():  # noqa: ASYNC110  (less than a second)
            await asyncio.sleep(0.01)
        name = session.id
        states = [memo.value["state"] for memo in session.conversation.memos(JOB)]
        assert states == ["running", "ended"] and not session.conversation.memos(NOTICE)
    async with opened(tmp_path, again=name) as (session, _):
        assert session.services.find(Jobs), "the person has asked for them, and left without a message"
    for _ in range(2):
        async with opened(tmp_path, again=name) as (session, provider):
            await turn(session, "go on")
            await turn(session, "go on")
        assert str(provider.seen[-1]).count("exit status 3; last lines: broken") == 1  # then from the history


@pytest.mark.matrix
@pytest.mark.parametrize("is_beside", [False, True])
async def test_the_end_of_a_job_that_an_earlier_version_has_kept_is_told_once(is_beside: bool, tmp_path: Path) -> None:
    line = "job j1 (make) ended; last lines: broken"
    async with opened(tmp_path, "begun") as (session, _):
        await turn(session, "begin")
        value = {"session": session.id, "id": "j1", "command": "make", "state": "ended", "status": 2, "seconds": 3.0}
        if is_beside:
            session.engine.conversation.memo(NOTICE, {"about": "j1", "lines": [line]})
        session.engine.conversation.memo(JOB, value if is_beside else {**value, "untold": line})
        name = session.id
    for _ in range(2):
        async with opened(tmp_path, again=name) as (session, provider):
            await turn(session, "go on")
        assert str(provider.seen[-1]).count(line) == 1


@pytest.mark.matrix
async def test_a_resumed_session_lists_how_each_job_ended(tmp_path: Path) -> None:
    jobs = [
        ("bash", {"command": command, "background": True}) for command in ("sleep 0.6; exit 4", "sleep 61", "sleep 62")
    ]
    stops = [("jobs", {"action": "stop", "job": "j2"}), ("wait_for", {"process": "j1"})]
    async with opened(tmp_path, jobs, stops, "started") as (session, _):
        await turn(session, "serve")
        name = session.id
    for _ in range(2):  # the second time all of them were told
        async with opened(tmp_path, act("list"), act("read", job="j1"), again=name) as (session, _):
            events = await turn(session, "what became of them?")
            said, desk = sitting(session)
            await discover()["jobs"].run(desk, "")
        listed, read = (one.result for one in events if isinstance(one, ToolResultEvent))
        rows = [
            r"j1  ended after \d s, exit status 4 +sleep 0.6; exit 4",
            r"j2  stopped after \d s +sleep 61",
            r"j3  ended with the session +sleep 62",
        ]
        assert re.fullmatch("\n".join(rows), listed.output), listed.output
        assert all(re.search(row, said[0]) for row in rows), said
        assert re.match(r"job j1 \(sleep 0.6; exit 4\) ended after \d s, exit status 4", read.error), read


@pytest.mark.matrix
def test_the_jobs_of_a_stored_session_are_listed_from_their_records(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path, job("sleep 60"), "started") as (session, _):
            await turn(session, "serve")
            assert session.ledger is not None and session.jobs is not None
            log = session.ledger.log(session.id)
            (live,) = session.jobs.describe_all()
            (here,), (elsewhere,) = recorded_jobs(log, [session.id]), recorded_jobs(log)
            assert (here["how"], elsewhere["how"]) == ("running", "ended with the session")
            rows: list[Any] = [live, here, elsewhere]
            assert [row["state"] for row in rows] == ["running", "running", "closed"]
            same = ("id", "name", "command", "status")
            assert [[row[key] for key in same] for row in rows] == [["j1", "sleep 60", "sleep 60", None]] * 3
            name = session.id
        with closing(Ledger.open_for_reading(ledger_place())) as ledger:
            (after,) = recorded_jobs(ledger.log(name), ledger.find_locked([name]))
            assert (after["state"], after["how"]) == ("closed", "ended with the session")

    live(work())


@pytest.mark.parametrize("width", [60, 100, 160])
def test_each_job_has_one_line_of_the_list(width: int) -> None:
    command = "python3 -m http.server 8000 --directory . --bind 127.0.0.1"
    states = {"j1": "running for 5 s", "j2": "ended after 3 min, exit status 3"}
    rows = [{"id": one, "how": how, "name": command} for one, how in states.items()]
    shown = find_form("jobs")({"version": 1, "jobs": rows}, width).splitlines()
    assert len(shown) == 3 and all(len(line) <= width for line in shown), shown
    assert shown[0].split() == ["id", "state", "command"]


@pytest.mark.matrix
async def test_what_the_model_has_read_is_not_told_again(tmp_path: Path) -> None:
    async with opened(tmp_path, job("sleep 0.7; echo built"), [("wait_for", {"process": "j1"})], "built") as made:
        session, provider = made
        events = await turn(session, "build")
        texts = [event.result.text for event in events if isinstance(event, ToolResultEvent)]
        assert "built\n[job j1 ended" in texts[-1]
        await turn(session, "and?")
        assert provider.seen[-1][-1]["content"] == "and?"


async def test_the_person_lists_looks_at_and_stops_jobs(tmp_path: Path) -> None:
    serve = job("echo listening; exec sleep 60")
    async with opened(tmp_path, serve, "started", act("read", job="j1"), "stopped") as (session, provider):
        said, desk = sitting(session)
        await discover()["jobs"].run(desk, "")
        await turn(session, "serve")
        for rest in ("", "j1", "stop j1"):
            await discover()["jobs"].run(desk, rest)
        with pytest.raises(NexusError, match="there is no job 'j9'"):
            await discover()["jobs"].run(desk, "j9")
        assert "No jobs" in said[0] and "j1  running for" in said[1] and "echo listening" in said[1]
        assert said[2].startswith("listening\n[job j1 running") and "job j1 stopped after" in said[3]
        assert "listening" in result(await turn(session, "go on")).text, "what the person saw is new to the model"
        assert "the person stopped job j1" in str(provider.seen[2][-1])


@pytest.mark.matrix
@pytest.mark.parametrize("backend", ["off", "bwrap"])
@pytest.mark.parametrize("level", sample(["plan", "ask", "edit", "auto", "all"], 3))
async def test_what_is_written_to_a_job_is_decided_on_as_a_command(tmp_path: Path, level: str, backend: str) -> None:
    """A job that was allowed once may be a shell: its input is asked about, and refused, as commands are."""
    if backend == "bwrap":
        need("bwrap")
    places().settings.parent.mkdir(parents=True)
    places().settings.write_text('[rules]\ndeny = ["bash(rm *)"]\n')
    (tmp_path / "kept").touch()
    lines = ("rm kept", "touch made", "ls")
    steps = [job("exec bash"), "ok", *(act("write", job="j1", text=one) for one in lines), act("list", text="rm x")]

    person = Person()
    async with opened(tmp_path, *steps, allow="auto", backend=backend, person=person) as (session, _):
        await turn(session, "begin")
        person.asked.clear()
        session.set_level(level)
        events = await turn(session, "go on")
        denied, made, seen, told = [one.result for one in events if isinstance(one, ToolResultEvent)]
        while level != "plan" and not (tmp_path / "made").exists():  # noqa: ASYNC110  (a job makes it)
            await asyncio.sleep(0.01)
    assert denied.denied and not told.error and (tmp_path / "kept").exists()
    asks = level in ("ask", "edit") or (level == "auto" and backend == "off")
    assert [one.detail for one in person.asked] == (["touch made", "ls"] if asks else [])
    assert made.denied == seen.denied == (level == "plan")
    assert (tmp_path / "made").exists() == (level != "plan")


@pytest.mark.matrix
async def test_what_is_written_to_a_job_with_network_is_asked_about(tmp_path: Path) -> None:
    need("bwrap")
    steps = ([("bash", {"command": "cat", "background": True, "network": True})], act("write", text="curl host"), "ok")

    person = Person()
    async with opened(tmp_path, *steps, allow="auto", backend="bwrap", person=person) as (session, _):
        await turn(session, "go")
    assert [(one.call.name, one.what, one.profile) for one in person.asked[1:]] == [("jobs", "jobs write", "net")]


@pytest.mark.matrix
async def test_plan_mode_starts_no_job(tmp_path: Path) -> None:
    async with opened(tmp_path, job("cat a.txt"), allow="plan") as (session, _):
        assert result(await turn(session, "look")).denied
        assert session.jobs is None


@pytest.mark.matrix
async def test_a_session_with_running_jobs_is_not_left_for_another_one(tmp_path: Path) -> None:
    async with opened(tmp_path, job("sleep 60")) as (session, provider):
        await turn(session, "serve")
        with pytest.raises(NexusError, match="leaving would stop j1"):
            open_session(Options(tmp_path, MODEL), Settings(), approver=None, provider=provider, earlier=session)
        assert session.jobs is not None
        assert "stopped" in (await session.jobs.stop("j1")).text


@pytest.mark.matrix
async def test_twenty_jobs_are_too_many(tmp_path: Path) -> None:
    many: Step = [("bash", {"command": f"sleep {60 + n}", "background": True}) for n in range(18)]
    async with opened(tmp_path, many) as (session, _):
        events = await turn(session, "go")
        errors = [event.result.error for event in events if isinstance(event, ToolResultEvent)]
        assert errors[:16] == [""] * 16 and all("stop a job" in one for one in errors[16:])
        assert session.jobs is not None and len(session.jobs.running()) == 16


@pytest.mark.matrix
async def test_what_the_person_changes_between_turns_is_never_taken_for_a_jobs(tmp_path: Path) -> None:
    late = "while [ ! -e go ]; do sleep 0.05; done; echo job > job.txt; sleep 60"

    async with opened(tmp_path, job(late), "started", [("bash", {"command": "touch go; sleep 1"})], "ok") as (
        session,
        _,
    ):
        await turn(session, "serve")
        (tmp_path / "own.txt").write_text("the person's\n")
        await turn(session, "go on")
    steps = [step for step in read_steps(places().data, session.id) if step.changes]
    found = {(step.turn, step.what.split()[0], change.path) for step in steps for change in step.changes}
    assert "own.txt" not in {path for _, _, path in found}, found
    assert {path for turn, _, path in found if turn == 2} == {"go", "job.txt"}, found


@pytest.mark.matrix
@pytest.mark.parametrize("ends", [True, False])
async def test_a_running_command_goes_on_in_the_background_when_the_person_wants_it(tmp_path: Path, ends: bool) -> None:
    line = "echo begun; sleep 3.5; echo late > late.txt; " + ("exit 3" if ends else "exec sleep 60")

    calls: list[tuple[str, dict[str, Any]]] = [("bash", {"command": line, "timeout": 3})]
    wait = [("wait_for", {"process": "j1"})] if ends else act("stop")
    async with opened(
        tmp_path, calls, [("bash", {"command": "until [ -e late.txt ]; do sleep 0.05; done"})], wait, "ok"
    ) as (session, _):
        events = []
        async for one in session.run("build it"):
            events.append(one)
            if isinstance(one, ToolOutput) and one.text == "begun\n":
                session.engine.control.release_commands()
    results = [event.result.text for event in events if isinstance(event, ToolResultEvent)]
    assert results[0].startswith("begun\n") and "job j1" in results[0] and "exit status" not in results[0]
    took = re.search(r"after ([\d.]+) s", results[2])
    assert took and float(took[1]) >= 3.5, f"its time in the foreground counts: {results[2]}"
    assert ("ended" if ends else "stopped") in results[2] and ("exit status 3" in results[2]) == ends, results
    assert (tmp_path / "late.txt").read_text() == "late\n", "its time limit is gone"


@pytest.mark.matrix
async def test_commands_in_the_background_take_no_place_in_the_pool_and_no_more_than_sixteen_go_there(
    tmp_path: Path,
) -> None:
    """The last command stays in the turn: leaving the session stops it too."""
    sleeps: list[Step] = [[("bash", {"command": f"echo {n}; exec sleep 60"})] for n in range(17)]

    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(2))
    async with opened(tmp_path, *sleeps) as (session, _):
        told: list[str] = []

        async def go() -> None:
            async for one in session.run("serve"):
                told.extend([one.text] if isinstance(one, Notice) else [])

        running = asyncio.ensure_future(go())
        limit = loop.time() + 300
        while not any("stop a job" in one for one in told) and loop.time() < limit:
            await asyncio.sleep(0.1)
            session.engine.control.release_commands()
        assert session.jobs is not None and len(session.jobs.running()) == 16, told
        assert any("16 jobs are running" in one for one in told) and not running.done()
        await asyncio.wait_for(session.aclose(), 300)
        assert session.jobs.running() == []
        await running


@pytest.mark.matrix
async def test_a_command_that_cannot_go_to_the_background_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(jobs: SessionJobs) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr(SessionJobs, "refuse_more", fail)

    async with opened(tmp_path, [("bash", {"command": "echo begun; sleep 1; touch late"})], "ok") as (session, _):
        events = []
        async for one in session.run("build it"):
            events.append(one)
            if isinstance(one, ToolOutput) and one.text == "begun\n":
                session.engine.control.release_commands()
        assert "broken" in result(events).error
        await asyncio.sleep(1.2)
    assert not (tmp_path / "late").exists()


async def test_a_command_goes_to_the_background_before_its_thread_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        begin(threading.Timer(1, begin, [thread]) if "ThreadPool" in thread.name else thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    async with opened(tmp_path, [("bash", {"command": "sleep 60"})], act("stop"), "ok") as (session, _):

        async def press() -> None:
            while session.jobs is None:
                await asyncio.sleep(0.05)
                session.engine.control.release_commands()

        pressing = asyncio.ensure_future(press())
        events = await turn(session, "go")
        await pressing
    assert "job j1 runs in the background" in result(events).text, result(events)


async def test_a_job_that_could_not_be_started_is_not_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path, job("ls \0x"), "failed", job("sleep 60 #\x1b\u202e"), "begun") as (session, _):
        events = await turn(session, "go")
        assert "could not be started" in result(events).error
        assert not any(isinstance(one, Notice) for one in events)
        assert session.jobs is not None and session.jobs.describe_all() == []
        assert "job j1 runs" in result(await turn(session, "again")).text
        name = session.id
    async with opened(tmp_path, act("list"), again=name) as (session, provider):
        listed = result(await turn(session, "what became of it?")).text
        assert listed == "j1  ended with the session  sleep 60 #\\x1b\\u202e"
        assert str(provider.seen[0]).count("ended with the session") == 1


async def test_a_job_whose_start_is_stopped_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path, job("true"), "begun") as (session, _):
        name = session.id

        def stop(changes: CallChanges, what: str, project: Path) -> Any:
            asyncio.get_running_loop().call_soon(session.cancel, "person")
            return asyncio.get_running_loop().create_future()

        monkeypatch.setattr(CallChanges, "begin_jobs", stop)
        await turn(session, "go")
        assert session.jobs is not None and session.jobs.describe_all() == []
    async with opened(tmp_path, act("list"), again=name) as (session, _):
        assert result(await turn(session, "what became of it?")).text == "no jobs"
