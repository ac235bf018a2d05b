"""`/agents` over a session with workers: what a person reads of them, and says to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext
from search import sample
from session.played import Played
from workers.crew import Crew, calls_made, content, crewed, doing, handing, run
from worktrees.repository import git, make_project

from nexus_cli.cli.shell_command import ShellSource
from nexus_cli.commands import discover, find
from nexus_cli.commands.agents import build_list
from nexus_cli.commands.arguments import SessionSource
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.sessions import show_session
from nexus_cli.commands.worktree import _report_apply, apply_changes
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.conversation.compaction.work_sources import make_record
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import AgentEvent, WorkerState
from nexus_cli.core.memo_kinds import UNDONE_FILES, WORKER
from nexus_cli.core.request import Request
from nexus_cli.engine.compaction.file_states import look_at_files
from nexus_cli.ledger import Ledger
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.export import session_pieces
from nexus_cli.reports.page.session_page import session_page
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.reports.transcript import transcript_of
from nexus_cli.reports.workers import recorded_workers
from nexus_cli.session.session import Session
from nexus_cli.worktrees.apply_worktree import ApplyResult, MergeConflict, apply_worktree
from nexus_cli.worktrees.worktrees import list_worktrees


@pytest.fixture
def context(tmp_path: Path) -> Iterator[FakeContext]:
    made = FakeContext(tmp_path, Played(lambda request: ""))
    first = made.session
    yield made
    asyncio.run(first.aclose())


@asynccontextmanager
async def opened(context: FakeContext, session: Session) -> AsyncIterator[None]:
    """`session` is the open one, and closed afterwards."""
    context.session = session
    try:
        async with asyncio.timeout(300):
            yield
    finally:
        await session.aclose()


async def typed(context: FakeContext, rest: str) -> None:
    await find("agents", context.commands).invoke(context, rest)


def states(context: FakeContext) -> dict[str, str]:
    form, value = context.shown[-1]
    assert form == "workers"
    return {row["id"]: row["state"] for row in value["workers"]}


def test_without_workers_it_says_so(context: FakeContext) -> None:
    context.run("agents")
    assert "No worker" in find_form("workers")(context.shown[-1][1], 80)
    with pytest.raises(NexusError, match="no worker was started"):
        context.run("agents w1")


async def test_running_workers_are_listed_opened_steered_and_stopped(context: FakeContext, tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def listens(request: Request) -> Any:
        if "hear this" in content(request):
            heard.set()
            await asyncio.sleep(60)
        return [("bash", {"command": f"sleep 0.02; echo {calls_made(request)}"})]

    background = {"task": "ONE", "wait": False}
    crew = Crew({"ONE": listens, "root": handing(background)})
    session = crewed(crew, tmp_path, interactive=True, front="chat")

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        await typed(context, "")
        assert states(context) == {"w1": "running"}
        await typed(context, "steer w1 hear this")
        assert context.reported and context.reported["ids"] == ["w1"]
        await heard.wait()
        await typed(context, "w1")
        form, value = context.shown[-1]
        text = find_form(form)(value, 80)
        assert form == "transcript" and "worker w1 (running)" in text and "> ONE" in text and "hear this" in text
        command = find("agents", discover())
        offered = list(command.complete(context)) if command.complete else []
        assert offered == ["list", "w1", "show", "show w1", "steer", "steer w1", "stop", "stop w1", "review"]
        await typed(context, "stop w1")
        assert context.reported == {"version": 1, "ids": ["w1"], "message": context.said[-1]}
        await typed(context, "")
        assert states(context) == {"w1": "stopped"}
        assert any("gets this with its next" in said for said in context.said) and "w1 was stopped" in context.said[-1]
        for rest, why in (("stop w1", "has ended"), ("steer w1", "is missing"), ("steer w7 x", "workers: w1")):
            with pytest.raises(NexusError, match=why):
                await typed(context, rest)


@pytest.mark.matrix
async def test_one_that_has_reported_goes_on_in_the_background_and_its_model_is_told(
    context: FakeContext, tmp_path: Path
) -> None:
    recipes = places().config / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "lasting.toml").write_text('description = "It goes on"\n')
    task = {"task": "ONE", "recipe": "lasting"}
    crew = Crew({"ONE": lambda request: f"heard {content(request)[-8:]}", "root": handing(task)})
    session = crewed(crew, tmp_path, interactive=True, front="chat")
    ended: list[str] = []

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        done = asyncio.Event()

        def listen(event: Any) -> None:
            if isinstance(event, AgentEvent) and isinstance(event.event, WorkerState):
                ended.append(event.event.worker["state"])
                if ended[-1] == "finished":
                    done.set()

        session.listen(listen)
        await typed(context, "steer w1 and more")
        assert "continues in the background" in context.said[-1]
        await done.wait()
        worker = session.workers.find("w1") if session.workers else None
        assert worker and "heard and more" in worker.report
        assert any("w1 finished" in notice for notice in session.engine.notices.waiting)


@pytest.mark.matrix
async def test_a_later_process_reads_the_workers_and_those_below_them_from_the_ledger(
    context: FakeContext, tmp_path: Path
) -> None:
    crew = Crew({"DEEP": doing("deep"), "HIGH": handing("DEEP"), "root": handing("HIGH")})
    session = crewed(crew, tmp_path)
    async with opened(context, session):
        assert [event async for event in session.run("root")]
    again = crewed(Crew({"root": doing("x")}), tmp_path, session.id)

    async with opened(context, again):
        await typed(context, "")
        assert states(context) == {"w1": "finished", "w1.1": "finished"}
        rows = {row["id"]: row for row in context.shown[-1][1]["workers"]}
        assert rows["w1"]["cost_usd"] == pytest.approx(0.75) and rows["w1.1"]["cost_usd"] == pytest.approx(0.25)
        await typed(context, "w1.1")
        assert "deep" in find_form("transcript")(context.shown[-1][1], 80)
        assert again.ledger is not None
        value = show_session(again.ledger, again.id)
        assert [row["id"] for row in value["workers"]] == ["w1", "w1.1"]
        text = told(again.ledger, again.id)
        assert f"worker w1 finished · 2 steps · 6k tokens · $0.7500 · session {rows['w1']['session']}" in text
        own = show_session(again.ledger, rows["w1"]["session"])
        assert own["spawner"] == again.id and f"spawner {again.id}" in told(again.ledger, own["id"])
        assert [row["id"] for row in own["workers"]] == ["w1.1"]


def test_a_worker_whose_process_was_killed_has_the_steps_of_its_session(tmp_path: Path) -> None:
    session = crewed(Crew({"ONE": doing("seen"), "root": handing("ONE")}), tmp_path)
    run(session, "root")
    with closing(Ledger.open(places().ledger)) as ledger:
        log = ledger.log(session.id)
        (done,) = recorded_workers(ledger, session.id)
        memo = log.memos(WORKER)[-1]
        log.record_memo(replace(memo, value={**memo.value, "state": "running", "steps": 0, "tokens": 0}))
        (killed,) = recorded_workers(ledger, session.id)
        assert ledger.lock(session.id), "as by who resumes it"
        assert recorded_workers(ledger, session.id) == [killed]
        ledger.lock(str(done["session"]))
        assert recorded_workers(ledger, session.id)[0]["state"] == "running"
    assert killed == {**done, "state": "unknown"} and killed["steps"]


@pytest.mark.matrix
def test_a_session_that_is_named_lists_the_agents_of_its_folder(
    context: FakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".claude/agents").mkdir(parents=True)
    (tmp_path / ".claude/agents/reader.md").write_text("---\nname: reader\ndescription: Reads.\n---\nRead.\n")
    context.turn("hello")
    monkeypatch.setattr(SessionSource, "folder", lambda source: tmp_path / "other")
    elsewhere = SessionSource(context)
    assert build_list(elsewhere).value["untrusted"] == 0
    elsewhere.session_name = context.session.id
    assert build_list(elsewhere).value["untrusted"] == 1


def told(ledger: Ledger, session: str) -> str:
    """What `nexus sessions show` prints."""
    replay = Replay(ledger.log(session), is_whole=True)
    value = {**show_session(ledger, session), **transcript_of(replay, ledger.session(session))}
    return find_form("transcript")(value, 200)


def told_acts(session: Session) -> list[str]:
    """What the model is told of the person's acts with files."""
    return [memo.value["told"] for memo in session.engine.conversation.memos(UNDONE_FILES)]


def edits_in_a_worktree(project: Path, new: str = "by a worker\n") -> Session:
    """A session whose worker has changed `app.py` in a worktree."""
    write = [("write_file", {"path": "app.py", "content": new})]
    read = [("read_file", {"path": "app.py"})]
    crew = Crew({"ONE": doing(read, write, "changed it"), "root": handing({"task": "ONE", "worktree": True})})
    return crewed(crew, project, interactive=True, front="chat")


@pytest.mark.matrix
@pytest.mark.parametrize("pick", sample(["apply", "discard", "later", None], 4))
async def test_what_a_worker_made_is_looked_at_and_then_applied_or_discarded(
    pick: str | None, context: FakeContext, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project")
    before = (project / "app.py").read_text()
    session = edits_in_a_worktree(project)
    context.pick = lambda choices: pick

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        await typed(context, "review w1")
        form, value = context.shown[0]
        assert form == "diff" and "+by a worker" in value["text"]
        assert [choice.key for choice in context.offered] == ["apply", "discard", "later"]
        notices = told_acts(session)
        assert (project / "app.py").read_text() == ("by a worker\n" if pick == "apply" else before)
        kept = [record.name for record in list_worktrees(project)]
        assert context.reported and bool(context.reported["ids"]) is (pick in ("apply", "discard"))
        if pick in ("apply", "discard"):
            assert not kept, context.said
            assert pick[:4] in notices[-1] and "worker w1" in notices[-1]
            outcome = {"apply": "applied", "discard": "discarded"}[pick]
            recorded = session.engine.conversation.memos(WORKER)[-1].value
            assert not recorded["to_review"] and recorded["left"].startswith(outcome), "a resumed session knows it too"
            await typed(context, "review w1")
            assert context.said[-1].startswith(f"{outcome}, worktree removed; `steer` w1 makes a new worktree")
            assert session.workers
            assert f"{outcome}, worktree removed" in (await session.workers.manage("list", "", "")).output
        else:
            assert len(kept) == 1 and not notices


@pytest.mark.matrix
@pytest.mark.parametrize("pick", sample(["remove", "later"], 2))
async def test_what_is_applied_already_is_not_offered_again_and_is_kept_unless_the_person_removes_it(
    pick: str, context: FakeContext, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project")
    session = edits_in_a_worktree(project)
    context.pick = lambda choices: pick

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        (record,) = list_worktrees(project)
        apply_worktree(record)
        await typed(context, "review w1")
        assert [choice.key for choice in context.offered] == ["later", "remove"], "the first one is chosen by Enter"
        assert not list_worktrees(project) if pick == "remove" else list_worktrees(project)
        assert context.said == ([f"Worktree {record.name} was removed."] if pick == "remove" else [])


@pytest.mark.matrix
async def test_conflicts_are_marked_and_told_and_the_worktree_stays(context: FakeContext, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    session = edits_in_a_worktree(project)
    context.pick = lambda choices: "apply"

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        (project / "app.py").write_text("by the person\n")
        await typed(context, "review w1")
        text = (project / "app.py").read_text()
        assert "by the person" in text and "by a worker" in text and "<<<<<<<" in text
        assert "app.py" in find_form("applied")(context.shown[-1][1], 80)
        left = "1 conflict left for you to resolve: app.py. Your own changes are kept"
        assert context.said == [f"{left}; /undo reverts the apply and the last turn's changes."]
        assert "conflicts are left in app.py" in told_acts(session)[-1]
        assert len(list_worktrees(project)) == 1


@pytest.mark.matrix
async def test_worktree_lists_shows_applies_and_removes_it_and_undo_takes_the_apply_back(
    context: FakeContext, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project")
    session = edits_in_a_worktree(project)

    async def give(line: str) -> None:
        name, _, rest = line.partition(" ")
        await find(name, context.commands).invoke(context, rest)

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        (record,), before = list_worktrees(project), (project / "app.py").read_text()
        await give("worktree list")
        assert [one["name"] for one in context.shown[-1][1]["worktrees"]] == [record.name]
        await give(f"worktree diff {record.name}")
        assert context.shown[-1][0] == "diff" and "+by a worker" in context.shown[-1][1]["text"]
        context.can_choose = False
        with pytest.raises(NexusError, match="the worktree has unapplied changes"):
            await give(f"worktree remove {record.name}")
        context.can_choose, context.pick = True, lambda choices: ""
        await give(f"worktree remove {record.name}")
        assert [one.label for one in context.offered] == [
            "no",
            "yes",
        ] and "the worktree has unapplied changes" in context.said[-2]
        assert context.said[-1] == "Nothing was deleted." and list_worktrees(project)
        await give(f"worktree apply {record.name}")
        assert context.reported and context.reported["name"] == record.name
        assert "by a worker" in (project / "app.py").read_text()
        applied = f"applied the changes of worktree {record.name} to the project: app.py"
        assert f"the person {applied}" in told_acts(session)[-1]
        await give(f"worktree remove {record.name}")
        assert context.said[-1] == f"Worktree {record.name} was removed." and not list_worktrees(project)
        assert context.reported["ids"] == [record.name]
        engine = session.engine
        await engine.read_work()
        lines = [one.text for one in (await look_at_files(make_record(engine.conversation, engine.work))).items]
        assert f"- app.py (changed by worktree {record.name})" in lines
        assert f"- app.py in worktree {record.name} (changed by w1, worktree removed since)" in lines
        await give("undo")
        assert (project / "app.py").read_text() == before
        assert session.ledger
        value, info = session_timeline(session.ledger, session.id), session.ledger.session(session.id)
        rows = [row for row in value["rows"] if row["kind"] == "files"]
        acts = [f"you {applied}", "you undid turn 1: app.py"]
        assert [row["text"] for row in rows] == acts and {row["actor"]["name"] for row in rows} == {"You"}
        page = "".join(session_page(session.ledger, info, Settings()))
        written = "".join(session_pieces(session.ledger.log(session.id), info, "md"))
        for act in acts:
            assert f" files: {act}" in find_form("timeline")(value, 200)
            assert (page.count(act), written.count(act), told(session.ledger, session.id).count(act)) == (1, 1, 1)


@pytest.mark.matrix
def test_a_worktree_that_a_shell_applies_is_listed_in_the_session_of_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")
    session = edits_in_a_worktree(project)
    run(session, "root")
    (record,) = list_worktrees(project)
    monkeypatch.chdir(project)
    apply_changes(ShellSource(partial(Ledger.open, None)), record.name)
    with closing(Ledger.open(places().ledger)) as ledger:
        value = session_timeline(ledger, session.id)
        (worker,) = ledger.workers(session.id)
        sent = sum(len(log.requests()) for one in (session.id, worker.id) for log in ledger.logs(one))
    assert value["totals"]["requests"] == sent > len([row for row in value["rows"] if row["kind"] == "request"])
    rows = value["rows"]
    assert [row["text"] for row in rows if row["kind"] == "files"] == [
        f"you applied the changes of worktree {record.name} to the project: app.py"
    ]


@pytest.mark.matrix
async def test_what_has_nothing_to_review_says_so(context: FakeContext, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    looking = {"task": "ONE", "worktree": True}
    session = crewed(Crew({"ONE": doing("seen"), "root": handing("ONE", looking)}), project, front="chat")

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        with pytest.raises(NexusError, match="this worker has no worktree"):
            await typed(context, "review w1")
        await typed(context, "review w2")
        assert "had no new changes and was removed" in context.said[-1]


@pytest.mark.matrix
async def test_a_worker_of_a_worker_is_reviewed_where_its_worktree_was_made(
    context: FakeContext, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project")
    apart, names = {"worktree": True}, ("FIRST", "SECOND", "THIRD")
    roles = {name: doing([("write_file", {"path": name.lower(), "content": name})], "made it") for name in names} | {
        "HERE": handing({"task": "FIRST", **apart}),
        "APART": doing([("agent", {"task": "SECOND"})], [("agent", {"task": "THIRD", **apart})], "merged nothing"),
        "root": doing([("agent", {"task": "HERE"})], [("agent", {"task": "APART", **apart})], "done"),
    }
    session = crewed(Crew(roles), project, interactive=True, front="chat")
    context.pick = lambda choices: "apply"

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        await typed(context, "review w1.1")
        assert (project / "first").read_text() == "FIRST", "w1 works in the project"
        for worker, hint in (
            ("w2.1", "Use /agents review w2"),
            ("w2.2", " merges them there, then use /agents review w2"),
        ):
            with pytest.raises(NexusError, match="its changes belong in the worktree of w2") as refused:
                await typed(context, f"review {worker}")
            assert refused.value.hint.endswith(hint), refused.value.hint
        await find("worktree", context.commands).invoke(context, refused.value.hint.partition(" merges")[0][10:])
        await typed(context, "review w2")
        assert (project / "second").read_text() == "SECOND" and (project / "third").read_text() == "THIRD"


@pytest.mark.matrix
@pytest.mark.parametrize("pick", sample(["apply", "discard"], 2))
async def test_what_was_not_shown_is_neither_applied_nor_discarded(
    context: FakeContext, tmp_path: Path, pick: str
) -> None:
    project = make_project(tmp_path / "project")
    session, before = edits_in_a_worktree(project), (project / "app.py").read_text()

    def answer(choices: Any) -> str:
        (record,) = list_worktrees(project)
        (record.folder / "later").write_text("not shown")
        return pick

    async with opened(context, session):
        async for _ in session.run("root"):
            pass
        context.pick = answer
        with pytest.raises(NexusError, match="since"):
            await typed(context, "review w1")
        (record,) = list_worktrees(project)
        assert (record.folder / "later").exists() and (project / "app.py").read_text() == before
        (record.folder / "later").unlink()
        git(record.folder, "commit", "-qam", "work")
        context.pick = lambda choices: pick
        await typed(context, "review w1")
        assert "its commits:" in context.said[-1] and not list_worktrees(project)


def test_an_apply_that_leaves_conflicts_alone_has_changed_the_session(tmp_path: Path) -> None:
    record = WorktreeRecord("fix", tmp_path, tmp_path, tmp_path, "", "")
    for conflicts, changed in (([MergeConflict("a", "a binary file that changed in both", False)], True), ([], False)):
        report = _report_apply(record, ApplyResult(conflicts=conflicts), "undo")
        assert (report.changed, report.status) == (changed, int(changed))
