"""Slash commands of a client: which may be given, what they print, and that they give it no further right."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import tracemalloc
from contextlib import closing
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
from images import png
from json_shape import problems
from program.nursery import run_born
from rpc.serving import Answering, Reply, Served, serving, until, words
from search import sample

import nexus_cli
from nexus_cli.client import CallError
from nexus_cli.commands import discover, rewind
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.verb import Authority, Verb
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_schema import json_schema, json_type
from nexus_cli.core.limits import FORMER_NAMES, LEVELS
from nexus_cli.core.read_event import read_event
from nexus_cli.core.request import Request
from nexus_cli.core.run import AGENT
from nexus_cli.core.server_results import MAX_ATTACHED, EventLine
from nexus_cli.ledger import Ledger
from nexus_cli.rpc import dispatcher, served_command
from nexus_cli.rpc.methods import openrpc_document
from nexus_cli.rpc.served_command import ServedContext, find_served
from nexus_cli.runs.plan_service import fire_now
from nexus_cli.session.options import Options
from nexus_cli.ui.render.theme import Theme

KEPT = [
    "memory add user I like tea",
    "reflect",
    "runs cancel run-1",
    "sessions rename x y",
    "sessions fork x",
    "space create x",
    "space post everybody hello",
    "space read everybody",
    "space enter everybody",
    "schedule pause plan-1",
    "agents steer w1 go on",
    "worktree apply w",
    "worktree remove w --force",
]
"""Lines that change what outlives the session."""
OPERATED = [
    "mcp test notes",
    "runs resume run-1",
    "runs resume --all",
    "schedule add say hello --in '1 hour'",
    "schedule remove plan-1",
    "schedule resume plan-1",
    "schedule run plan-1",
    "sessions stop run-1",
    "sessions delete x --yes",
]
"""Lines that start, stop or delete something beside the session."""
AT_TERMINAL = {"copy", "editor", "exit", "help"}
SERVED = {
    *("compact", "continue", "effort", "goal", "init", "jobs"),
    *("permissions", "pin", "plan", "rename", "transcript", "uncompact"),
    *("hooks", "rewind", "edit", "fork", "clear", "review"),
}
SERVED_LIVE = {
    *(SERVED - {"hooks", "jobs", "pin", "rename"}),
    *(
        "agents stop",
        "agents review",
        "agents steer",
        "reflect",
        "config",
        "drops recall",
        "goal clear",
        "goal done",
    ),
    *(
        "goal drop",
        "jobs show",
        "jobs open",
        "jobs stop",
        "model",
        "permissions ask",
        "resume",
        "sessions",
        "space enter",
    ),
}
"""The verbs that act on the open session and that a client may give."""
REFUSED = [
    "add-dir ..",
    "config permissions.allow all",
    "login openai",
    "logout openai",
    "plugin remove x",
    "reload",
    "permissions add allow bash(*)",
    "model use openai/other",
    "skill check /etc",
    "space post --as Ana everybody hello",
    "mcp list --cd /etc",
    "schedule add say hello --in '1 hour' --rule bash(*)",
    "schedule add say hello --in '1 hour' --cd /etc",
    "permissions allow bash(*)",
    "permissions ask bash(*)",
    "permissions deny bash(*)",
    "permissions remove bash(rm *)",
    *sorted(AT_TERMINAL),
]
NONSENSE = ("", "--nonsense", "[/bold] {} %s", "a\x00b\x1b[2J", "d1 9:x", "../../..", "x" * 3000, "w1", "stop w1")
PNG = png()


def files_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder, without the ledger."""
    return {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "ledger.db" not in path.name
    }


async def run(served: Served, line: str) -> Any:
    """Run a command of the agent `a`."""
    name, _, arguments = line.partition(" ")
    return await served.client.run_command("a", name, arguments or None)


def test_each_command_was_decided() -> None:
    """A new command is refused until it says otherwise: think of what a client may then do that it could not before.
    Each verb of a noun declares what it may change."""
    commands = discover().values()
    assert {one.name for one in commands if one.at_terminal} == AT_TERMINAL
    assert {one.name for one in commands if one.is_served} >= SERVED
    own = [(f"{one.name} {verb.name}".strip(), verb) for one in commands for verb in one.verbs if verb.is_live]
    served = {name for name, verb in own if verb.authority is not Authority.PERMITS}
    assert served - AT_TERMINAL - {"help all"} == SERVED_LIVE
    assert {line.partition(" ")[0] for line in REFUSED} >= {one.name for one in commands if not one.is_served}


OWN_VIEW = frozenset({"config show", "context", "diff", "doctor", "pin list", "status", "status tools"})
"""Verbs whose value in the open session has what only it knows."""


@pytest.mark.matrix
async def test_a_verb_answers_the_same_in_the_shell_and_to_a_client(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return [("bash", {"command": "touch made"})] if len(request.messages) < 3 else "done"

    guide = tmp_path / ".claude" / "commands" / "tidy.md"
    guide.parent.mkdir(parents=True)
    guide.write_text("Tidy up.\n")
    async with serving(tmp_path, Answering(script), allow="edit") as served:
        session = (await served.client.create_agent("a"))["session"]
        await served.client.send("a", "begin")
        await served.client.send("a", "and on")
        for command in discover().values():
            for verb in command.verbs:
                name = f"{command.name} {verb.name}".strip()
                required = [one for one in verb.parameters if one.default is Parameter.empty]
                is_report = verb.authority is Authority.READS and verb.has_report and not verb.is_live
                if required or not is_report or verb.only == "slash" or name == "model show":  # the session's model
                    continue
                named = ["--session", session] if verb.of_session else []
                shell = await asyncio.to_thread(run_born, [*name.split(), *named, "--json"], cwd=tmp_path, kind="light")
                assert shell.returncode == 0, (name, shell.stderr)
                value = (await run(served, name))["value"]
                value.pop("in_force", None)
                told = json.loads(shell.stdout)
                assert value == told or name in OWN_VIEW, (name, value, told)


NEEDED = {Authority.READS: "ask", Authority.ACTS: "ask", Authority.KEEPS: "edit", Authority.OPERATES: "auto"}
"""The level of the server that a verb of each authority needs; a client gives no other one."""


@pytest.mark.parametrize("allow", LEVELS)
async def test_each_verb_works_from_the_level_of_the_server_that_it_needs(tmp_path: Path, allow: str) -> None:
    """The server and the editor's door ask `find_served` before they run a command."""
    async with serving(tmp_path, allow=allow) as served:
        agent = await served.pool.create("a")

        async def reopen(options: Options) -> None:
            raise AssertionError("nothing is opened")

        context = ServedContext(lambda: agent.session, lambda event: None, reopen)
        for command in discover().values():
            for verb in command.verbs if command.is_served else ():
                if not verb.name and verb is not command.verbs[0]:
                    continue  # the line decides: `REFUSED` has some
                needed = NEEDED.get(verb.authority)
                line = next((line for line in OPERATED if line.startswith(f"{command.name} {verb.name}")), "")
                rest = line.partition(" ")[2] or verb.name
                if needed is None:
                    with pytest.raises(NexusError, match="--connect"):
                        find_served(command.name, rest, context)
                elif LEVELS.index(allow) < LEVELS.index(needed) and (line or not _required(verb)):
                    with pytest.raises(NexusError, match=f"allows at most {allow}") as refused:
                        find_served(command.name, rest, context)
                    assert refused.value.hint == f"To allow it: nexus serve --allow {needed}"
                elif verb.name:
                    assert find_served(command.name, rest, context) is command
            if not command.is_served:
                with pytest.raises(NexusError, match="--connect"):
                    find_served(command.name, "", context)


def test_every_door_of_a_client_asks_which_command_it_may_give() -> None:
    """The server's and the editor's are one; the model has none, since the rooms below the commands know none."""
    root = Path(nexus_cli.__file__).parent
    texts = {path.name: path.read_text() for room in ("rpc", "acp") for path in (root / room).glob("*.py")}
    doors = {name for name, text in texts.items() if ".invoke(" in text}
    assert doors == {"dispatcher.py"}
    found = {name: text.count("find_served(") for name, text in texts.items() if name in doors}
    assert found == {"dispatcher.py": 1} and not [name for name in doors if " find(" in texts[name]]


@pytest.mark.parametrize("allow", ["ask", "edit"])
async def test_what_outlives_the_session_needs_the_level_edit_of_the_server(tmp_path: Path, allow: str) -> None:
    async with serving(tmp_path, allow=allow) as served:
        await served.client.create_agent("a")
        for line in (*KEPT, *OPERATED):
            error = ""
            try:
                await run(served, line)
            except CallError as failed:  # most name nothing that exists
                error = failed.message
            assert (f"allows at most {allow}" in error) is (allow == "ask" or line in OPERATED), (line, error)
            assert "not available" not in error, (line, error)
        with closing(Ledger.open_for_reading(places().ledger)) as ledger:
            facts = [fact.text for fact in ledger.facts.list_facts()]
            assert facts == (["I like tea"] if allow == "edit" else [])


@pytest.mark.matrix
@pytest.mark.parametrize("line", sample(REFUSED, 4))
async def test_what_is_the_persons_alone_is_refused_and_changes_nothing(tmp_path: Path, line: str) -> None:
    async with serving(tmp_path, allow="edit") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        ledger = Ledger.open_for_reading(places().ledger)
        before, home = files_of(tmp_path), places().data.parent
        settings = files_of(home)
        (session,) = [one.id for one in ledger.sessions()]
        with pytest.raises(CallError, match="--connect") as failed:
            await run(served, line)
        assert failed.value.data["kind"] == "usage" and f"/{line.partition(' ')[0]}" in failed.value.message
        assert files_of(tmp_path) == before and files_of(home) == settings
        assert [one.id for one in ledger.sessions()] == [session] and not ledger.plans.list_plans()
        assert (await served.client.send("a", "and on"))["session"] == session
        ledger.close()


@pytest.mark.parametrize(
    ("allow", "asked", "held"),
    sample([("edit", "all", "edit"), ("edit", "auto", "edit"), (None, "all", "ask"), ("auto", "run", "auto")], 2),
)
async def test_a_client_cannot_set_a_level_above_that_of_the_server(
    tmp_path: Path, allow: str | None, asked: str, held: str
) -> None:
    shell = [("bash", {"command": f"touch {tmp_path.parent}/outside"})]

    def script(request: Request) -> Reply:
        return "done" if request.messages[-1]["role"] == "tool" else shell

    async with serving(tmp_path, Answering(script), allow=allow) as served:
        await served.client.create_agent("a", allow="ask")
        made = await run(served, f"permissions {asked}")
        said = f"more than the server allows ({held})."
        assert (said in str(made["calls"])) is (held != {"run": "auto"}.get(asked, asked))
        for line in ("plan", "plan"):  # into plan mode, and back to the level before
            await run(served, line)
        (row,) = await served.client.list_agents()
        assert (row["allow"], row["level"]) == (FORMER_NAMES.get(held, held), held)
        await served.client.send("a", "do it")
        assert not (tmp_path.parent / "outside").exists(), "the call was refused, as nobody listens"


@pytest.mark.matrix
async def test_the_description_has_the_type_of_what_each_command_shows(tmp_path: Path) -> None:
    rows = openrpc_document()["x-commands"]
    served_commands = {name: command for name, command in discover().items() if command.is_served}
    assert {row["name"] for row in rows} == served_commands.keys()
    assert not [row for row in rows if row["authority"] == "permits" or not row["summary"].endswith(".")]
    taken = {(row["name"], row["arguments"]) for row in rows}
    assert taken >= {("permissions", "ask"), ("config", "[NAME]"), ("resume", "[ID|WORDS] [--all] [--running]")}
    verbs = [verb for command in served_commands.values() for verb in command.verbs if verb.is_served]
    described = [(row["authority"], row.get("value")) for row in rows]
    assert described == [(verb.authority, json_schema(verb.value_type) if verb.has_report else None) for verb in verbs]
    kinds = {
        f"{name} {verb.name}".strip(): verb.value_type
        for name, command in served_commands.items()
        for verb in command.verbs
        if verb.is_served and verb.authority is Authority.READS and not _required(verb)
    }
    shown = set()
    async with serving(tmp_path, allow="ask") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        for line, kind in kinds.items():
            if (value := (await run(served, line))["value"]) is not None:
                assert [*problems(value, json_type(kind))] == [], line
                shown.add(line)
    assert {"context", "memory list", "runs list", "status tools", "usage", "status"} <= shown


MAKES_NOTHING = {
    *("continue", "init", "review"),  # a turn that starts
    *("copy", "editor", "exit", "help", "help all"),  # something at the terminal
    "reload",  # what the files say, read again
}
"""Verbs that act and have no value."""
SESSION = "the open session"
ACTED = {
    "transcript": SESSION,
    "compact --preview": SESSION,
    "pin add keep this": "p1",
    "pin and this": "p2",
    "pin remove p1": "p1",
    "goal ship it": "g1",
    "goal done g1": "g1",
    "goal tidy up --until true": "g2",
    "goal clear": SESSION,
    "goal polish": "g3",
    "goal drop g3": "goals",
    "plan": "plan",
    "permissions edit": "edit",
    "permissions ask": "ask",
    "model openai/o4-mini": "openai/o4-mini",
    "effort low": "low",
    "memory add user I like tea": "m1",
    "memory forget m1": "m1",
    "rename tea": SESSION,
    "sessions rename tea coffee": SESSION,
    "export md talk.md": SESSION,
    "sessions export coffee": "01",
    "sessions fork coffee --name brew": "01",
    "sessions delete brew --yes": "01",
    "space create talk --agent helper": "space-1",
    "space join talk --as anna": "anna",
    "space leave talk --as anna": "anna",
    "space goal helper add be brief": "be brief",
    "space post talk @helper hello": "run-1",
    "space read talk": "@helper hello",
    "space mute talk helper": "helper",
    "runs": "run-1",
    "runs pause run-1": "run-1",
    "runs resume run-1": "run-1",
    "runs cancel run-1": "run-1",
    "schedule add say hello --in '1 hour'": "plan-1",
    "schedule pause plan-1": "plan-1",
    "schedule resume plan-1": "plan-1",
    "schedule run plan-1": "run-2",
    "schedule remove plan-1": "plan-1",
    "sessions stop run-2": "run-2",
    "undo": "new.txt",
    "redo": "new.txt",
    "reflect": "waiting",
    "config models": "models",
    "jobs stop j1": "j1",
    "jobs show j1": "j1",
    "edit": SESSION,
    "resume coffee": SESSION,
    "rewind 1 conversation": SESSION,
    "sessions coffee": SESSION,
    "fork": SESSION,
    "clear": SESSION,
}
"""Lines that act, and what names the thing that each makes or changes."""
ACTED_ELSEWHERE = {
    *("agents review", "agents steer", "agents stop", "compact", "drops recall", "jobs open"),
    *("mcp test", "space enter", "memory accept", "uncompact", "worktree apply", "worktree remove"),
}
"""Verbs whose value has its test where there are workers, long sessions, servers, proposals and worktrees."""


@pytest.mark.matrix
async def test_what_acts_returns_what_it_made_or_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    every = [(f"{name} {verb.name}".strip(), verb) for name, one in discover().items() for verb in one.verbs]
    acts = [(name, verb) for name, verb in every if verb.authority is not Authority.READS]
    assert {name for name, verb in acts if not verb.has_report} == MAKES_NOTHING
    served = {name for name, verb in acts if verb.is_served and verb.has_report}
    verbs = dict(reversed(every))
    lines = {line: max((name for name in verbs if f"{line} ".startswith(f"{name} ")), key=len) for line in ACTED}
    assert {*lines.values(), *ACTED_ELSEWHERE} >= served
    job = [("bash", {"command": "sleep 60", "background": True})]

    def script(request: Request) -> Reply:
        if len(request.messages) in (2, 3):
            return [("write_file", {"path": "new.txt", "content": "one\n"})]
        return job if words(request) == "job" and request.messages[-1]["role"] == "user" else "done"

    async with serving(tmp_path, Answering(script), model="openai/o3", allow="all") as server:
        await server.client.create_agent("a", allow="all")
        await server.client.send("a", "begin")
        await server.client.send("a", "job")
        for line, named in ACTED.items():
            result = await run(server, line)
            assert result["error"] is None, (line, result)
            value = result["value"]
            assert [*problems(value, json_type(verbs[lines[line]].value_type))] == [], (line, value)
            thing = (await server.client.get_status("a"))["session"] if named is SESSION else named
            assert thing in json.dumps(value), (line, value)
        assert [call["method"] for call in (await run(server, "config path"))["calls"]] == ["say"]


def _required(verb: Verb) -> list[str]:
    return [one.name for one in verb.parameters if one.default is Parameter.empty]


async def test_a_client_may_lower_the_level(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="all") as served:
        await served.client.create_agent("a", allow="all")
        made = await run(served, "permissions ask")
        assert made["calls"][0]["method"] == "say" and made["error"] is None
        assert (await served.client.list_agents())[0]["level"] == "ask"


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(sorted(SERVED), 4))
async def test_a_served_command_takes_nonsense_and_leaves_a_session_that_works(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path, allow="ask") as served:
        made = await served.client.create_agent("a")
        await served.client.send("a", "hello")
        for rest in (
            "",
            "--nonsense",
            "[/bold] {} %s",
            "a\x00b\x1b[2J",
            "d1 9:x",
            "../../..",
            "x" * 3000,
            "w1",
            "stop w1",
        ):
            try:
                result = await served.client.run_command("a", name, rest or None)
            except CallError as error:
                assert error.data["kind"] in ("usage", "config"), error
                continue
            for call in result["calls"]:
                if call["method"] == "show" and call["params"]["form"] != "diff":
                    assert find_form(call["params"]["form"])(call["params"]["value"], 80, Theme().look) is not None
        (row,) = await served.client.list_agents()
        assert (row["session"] == made["session"]) is (name not in ("clear", "edit", "fork"))
        assert row["level"] == ("plan" if name == "plan" else "ask")
        assert (await served.client.send("a", "more"))["text"] == "echo more"


@pytest.mark.matrix
async def test_another_model_goes_on_in_the_same_session_and_the_ledger_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with serving(tmp_path) as served:
        made = await served.client.create_agent("a")
        await served.client.create_agent("b")
        await served.client.send("a", "hello")
        result = await run(served, "model openai/other")
        assert result["error"] is None and "openai/other" in result["calls"][-1]["params"]["text"]
        sent = await served.client.send("a", "more")
        assert (sent["model"], sent["session"]) == ("openai/other", made["session"])
        assert (await served.client.get_messages("a"))["total"] == 4
        await served.client.destroy_agent("a")
        assert (await served.client.send("b", "still here"))["text"] == "echo still here"


async def test_a_session_in_which_something_runs_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    provider = Answering()
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        asked, gate = len(provider.asked), asyncio.Event()
        stream = provider.stream

        async def waits(request: Request) -> Any:
            provider.asked.append("held")
            await gate.wait()
            async for delta in stream(request):
                yield delta

        monkeypatch.setattr(provider, "stream", waits)
        setting = asyncio.create_task(run(served, "goal ship it"))
        await until(lambda: len(provider.asked) > asked)
        error = (await run(served, "model openai/other"))["error"]
        assert error["message"] == "this agent: its session cannot be changed now"
        gate.set()
        await setting
        assert (await run(served, "model openai/other"))["error"] is None


async def test_commands_that_wait_are_bounded_and_end_with_their_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_WAITING", 3)
    provider = Answering(gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turn = asyncio.create_task(served.client.send("a", "go"))
        await until(lambda: provider.asked)
        waiting = [asyncio.create_task(run(served, f"goal ship {number}")) for number in range(5)]
        await until(lambda: sum(task.done() for task in waiting) == 2)
        assert (await run(served, "cost"))["error"] is None, "it waits for nothing"
        with pytest.raises(CallError, match="3 messages and commands are already queued"):
            await served.client.send("a", "one more")
        await served.client.destroy_agent("a")
        ended = await asyncio.gather(turn, *waiting, return_exceptions=True)
        said = " ".join(map(str, ended[1:]))
        assert (said.count("3 messages and commands are already"), said.count("this agent has ended")) == (2, 3), said
        assert provider.asked == ["go"]


async def test_a_message_after_a_command_that_waits_does_not_overtake_it(tmp_path: Path) -> None:
    provider = Answering(gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        turn = asyncio.create_task(served.client.send("a", "go"))
        await until(lambda: provider.asked)
        command = asyncio.create_task(run(served, "goal ship it"))
        await until(lambda: served.pool.list()[0].dispatcher._commands)
        later = asyncio.create_task(served.client.send("a", "and on"))
        await until(lambda: len(served.pool.list()[0].dispatcher._works) == 2)
        provider.gates["go"].set()
        await asyncio.gather(turn, command, later)
        assert provider.asked[-1] == "and on" and "ship it" in json.dumps(provider.seen[-1])


async def test_a_turn_waits_for_a_command_that_runs_between_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, provider, list_turns = threading.Event(), Answering(), rewind._list_turns

    def wait_first(*given: Any) -> Any:
        gate.wait(60)
        return list_turns(*given)

    monkeypatch.setattr(rewind, "_list_turns", wait_first)
    async with serving(tmp_path, provider, allow="edit") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        running = asyncio.create_task(run(served, "rewind 1 conversation"))
        await until(lambda: served.pool.list()[0].dispatcher._commands)
        turn = asyncio.create_task(served.client.send("a", "and on"))
        await until(lambda: served.pool.list()[0].dispatcher._works)
        await asyncio.sleep(0.05)
        assert provider.asked == ["hello"]
        gate.set()
        assert (await running)["error"] is None
        assert (await turn)["session"] == (await served.client.get_status("a"))["session"], "the one that was opened"
        assert provider.seen[-1][-1]["content"].endswith("and on") and "hello" not in str(provider.seen[-1])


@pytest.mark.matrix
async def test_a_command_that_runs_ends_with_its_agent(tmp_path: Path) -> None:
    provider = Answering(gates={"Goal: ship it": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        running = asyncio.create_task(run(served, "goal ship it"))
        await until(lambda: provider.asked)
        await served.client.destroy_agent("a")
        with pytest.raises(CallError, match="this agent has ended"):
            await running
        assert len(provider.asked) == 1


async def test_a_choice_from_a_list_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with serving(tmp_path, model="openai/o3") as served:
        await served.client.create_agent("a")
        error = (await run(served, "effort"))["error"]
        assert error == {
            "kind": "usage",
            "message": "choosing from a list: not available over --connect or in an editor",
            "hint": "Specify an item after the command",
        }
        assert (await run(served, "effort low"))["error"] is None


@pytest.mark.matrix
async def test_what_a_command_does_to_the_session_is_an_event_before_its_result(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        seen = list[Any]()

        async def listen() -> None:
            async for event in served.client.events("a"):
                seen.append(event)

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0.05)
        await run(served, "compact")
        after = (await served.client.list_agents())[0]["next"]
        await until(lambda: seen and seen[-1]["seq"] + 1 == after)
        assert [event["type"] for event in seen] == ["compaction.start", "compaction.done"]
        listening.cancel()


async def test_a_command_that_fails_says_why_behind_what_it_printed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        result = await run(served, "drops d9")
        assert result["error"]["kind"] == "usage" and "no such drop" in result["error"]["message"]
        with pytest.raises(CallError, match="no such command"):
            await run(served, "nonsense")


async def test_the_conversation_is_its_newest_turns_as_events(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        assert (await served.client.get_conversation("a"))["turns"] == []
        for text in ("one", "two", "three"):
            await served.client.send("a", text)
        value: Any = await served.client.get_conversation("a", 2)
        assert value["end"]["turns"] == 3 and value["end"]["finished"] and value["end"]["assistant"] == "echo three"
        texts = [[event["text"] for event in turn if "text" in event] for turn in value["turns"]]
        assert texts == [["three", "echo three"], ["two", "echo two"]]
        for event in (event for turn in value["turns"] for event in turn):
            assert read_event(event) is not None and not [*problems(event, EventLine)]


async def test_images_go_with_a_message(tmp_path: Path) -> None:
    provider = Answering(lambda request: "seen")
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        image = base64.b64encode(PNG).decode()
        await served.client.send("a", "look", [image])
        assert image in str(provider.seen[0][-1]["content"])
        for wrong in ("no base64", base64.b64encode(b"a text").decode()):
            with pytest.raises(CallError, match="PNG"):
                await served.client.send("a", "look", [wrong])
        for images, why in (([{}], "must be a string"), ([1], "the wrong type")):
            with pytest.raises(CallError, match=why):
                await served.client.call("send", agent_id="a", content="x", images=images)
        assert len(provider.seen) == 1


def writes(request: Request) -> Reply:
    """Writes a file, then says so."""
    is_done = request.messages[-1]["role"] == "tool"
    return "written" if is_done else [("write_file", {"path": "new.txt", "content": "one\n"})]


async def test_a_client_chooses_from_the_lists_of_a_command(tmp_path: Path) -> None:
    async with serving(tmp_path, Answering(writes), allow="edit") as served:
        made = await served.client.create_agent("a")
        await served.client.send("a", "make it")
        first = (await served.client.run_command("a", "rewind", asks=True))["calls"][-1]
        assert first["method"] == "choose" and [one["key"] for one in first["params"]["choices"]] == ["1"]
        with pytest.raises(CallError, match="no choice other is waiting"):
            await served.client.choose("a", "other", "1")
        second = (await served.client.choose("a", first["params"]["id"], "1"))["calls"][-1]
        with pytest.raises(CallError, match="is waiting for an answer"):
            await served.client.choose("a", first["params"]["id"], "1")
        assert (tmp_path / "new.txt").exists()
        done = await served.client.choose("a", second["params"]["id"], "both")
        assert [one["method"] for one in done["calls"]] == ["show", "reopened", "fill", "say"] and not done["error"]
        assert not (tmp_path / "new.txt").exists()
        status = await served.client.get_status("a")
        assert status["session"] != made["session"] and (status["allow"], status["next"] > 0) == ("edit", True)
        assert (await served.client.send("a", "again"))["session"] == status["session"]
        again = (await served.client.run_command("a", "rewind", asks=True))["calls"][-1]
        left = await served.client.choose("a", again["params"]["id"])
        assert "Nothing was changed" in str(left["calls"])


async def test_a_choice_that_nobody_makes_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_command, "CHOICE_SECONDS", 0.01)
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        asked = (await served.client.run_command("a", "rewind", asks=True))["calls"][-1]
        agent = served.pool.get("a")
        assert agent is not None
        await until(lambda: not agent.dispatcher._commands)
        with pytest.raises(CallError, match="is waiting for an answer"):
            await served.client.choose("a", asked["params"]["id"], "1")
        monkeypatch.setattr(served_command, "CHOICE_SECONDS", 600.0)
        asked = (await served.client.run_command("a", "rewind", asks=True))["calls"][-1]
        await served.client.destroy_agent("a")


async def test_a_client_has_the_setup_of_the_servers_machine_checked(tmp_path: Path) -> None:
    skill = tmp_path / ".claude" / "skills" / "release" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: d\nfrobnicate: yes\n---\nDo it.\n")
    (tmp_path / "NEXUS.md").write_text("Be brief.\n")
    async with serving(tmp_path, allow="ask") as served:
        await served.client.create_agent("a")
        checks = (await run(served, "doctor"))["value"]["checks"]
        assert {"model", "ledger", "sandbox", "rules"} <= {check["name"] for check in checks}
        priced = (await run(served, "doctor --instructions"))["value"]
        assert "NEXUS.md" in [file["path"] for file in priced["files"]], "in the folder of the agent"
        assert "frobnicate" in (await run(served, "skill check"))["value"]["text"]


@pytest.mark.matrix
async def test_a_client_gets_an_export_as_text_and_the_server_writes_no_file(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        before = files_of(tmp_path)
        (call,) = (await run(served, "export md /tmp/../stolen.md"))["calls"]
        assert call["method"] == "save" and "echo hello" in call["params"]["text"]
        assert files_of(tmp_path) == before and not Path("/stolen.md").exists()


@pytest.mark.matrix
async def test_a_session_that_another_agent_has_is_not_opened_in_place_of_this_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        (one, two) = [await served.client.create_agent(name) for name in ("a", "b")]
        for name in ("a", "b"):
            await served.client.send(name, "hello")
        error = (await run(served, f"resume {two['session']}"))["error"]
        assert error is not None and "agent b is using this session" in error["message"]
        assert (await served.client.get_status("a"))["session"] == one["session"]
        assert (await run(served, "clear"))["error"] is None
        assert (await served.client.get_status("a"))["session"] != one["session"]
        assert (await run(served, f"resume {one['session']}"))["calls"][0]["params"] == {"shows": True, "copied": False}


async def test_a_command_that_must_pass_runs_by_the_rules_of_the_session(tmp_path: Path) -> None:
    command = f"touch {tmp_path.parent}/outside"
    async with serving(tmp_path, allow="edit") as served:
        await served.client.create_agent("a")
        calls = (await run(served, f"goal ship it --until '{command}'"))["calls"]
        assert [call["method"] for call in calls] == ["show", "start"]
        with pytest.raises(CallError, match="is not allowed to run"):
            await served.client.send("a", "ship it")
        assert not (tmp_path.parent / "outside").exists(), "nobody listens who could allow it"


@pytest.mark.matrix
async def test_a_choice_that_is_made_while_a_turn_runs_waits_for_its_end(tmp_path: Path) -> None:
    provider = Answering(gates={"go": asyncio.Event()})
    async with serving(tmp_path, provider) as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        asked = (await served.client.run_command("a", "rewind", asks=True))["calls"][-1]
        turn = asyncio.create_task(served.client.send("a", "go"))
        await until(lambda: "go" in provider.asked)
        choosing = asyncio.create_task(served.client.choose("a", asked["params"]["id"], "1"))
        await asyncio.sleep(0.1)
        assert not choosing.done()
        provider.gates["go"].set()
        assert (await turn)["text"] == "wait echo go"
        assert [one["method"] for one in (await choosing)["calls"]][:1] == ["reopened"]


@pytest.mark.matrix
async def test_a_long_line_costs_what_it_is_long(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.create_agent("a")
        tracemalloc.start()
        try:
            result = await run(served, "why " + "a " * 20_000)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert result["error"] and most < 60_000_000, f"{most:,} bytes; each word once held the rest of the line"


async def test_a_schedule_of_a_client_has_no_level_above_that_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="auto") as served:
        await served.client.create_agent("a")
        added = (await run(served, "schedule add say hello --in '1 hour' --allow edit"))["value"]
        assert added["plans"][0]["level"] == "edit"
        for line in ("pause", "resume", "run"):
            assert (await run(served, f"schedule {line} plan-1"))["error"] is None
        ledger = served.pool.open_ledger()
        (plan,) = ledger.plans.list_plans()
        for options in ({"allow": "all"}, {"rules": ["bash(git push *)"]}):
            own = ledger.plans.add("its person's", {**plan.options, **options}, "2026-01-01T00:00:00Z", next_at=4e9)
            run_id = f"run-{fire_now(ledger, own)}"
            for line in (f"schedule resume {own.id}", f"schedule run {own.id}", f"runs resume {run_id}"):
                error = (await run(served, line))["error"]
                assert error["kind"] == "denied" and "allows at most auto" in error["message"], (line, error)
                assert error["hint"] == "To allow it: nexus serve --allow all"
        error = (await run(served, "schedule add say hello --in '1 hour' --allow all"))["error"]
        assert error["message"] == "--allow all: this server allows at most auto"
        error = (await run(served, "space create talk --agent helper --allow all"))["error"]
        assert error["message"] == "--allow all: this server allows at most auto"
        for line, what in (("schedule add x --rule bash(*)", "schedule add with these options"), ("reload", "reload")):
            with pytest.raises(CallError, match=f"/{what}: not available over --connect"):
                await run(served, line)


async def test_a_client_deletes_no_session_that_an_agent_has_open(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="auto") as served:
        made = [await served.client.create_agent(name) for name in ("a", "b")]
        for name in ("a", "b"):
            await served.client.send(name, "hello")
        error = (await run(served, f"sessions delete {made[1]['session']} --yes"))["error"]
        assert "open in another process or agent" in error["message"]
        await served.client.destroy_agent("b")
        assert (await run(served, f"sessions delete {made[1]['session']} --yes"))["error"] is None
        sessions = (await served.client.list_sessions())["sessions"]
        assert [session["id"] for session in sessions] == [made[0]["session"]]


async def test_a_shell_line_of_a_client_runs_by_the_level_of_the_session_and_goes_along(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="ask") as served:
        await served.client.create_agent("a")
        refused = await run(served, "! touch made")
        assert refused["calls"] == [] and not (tmp_path / "made").exists(), "nobody listens who could allow it"
        assert refused["error"]["kind"] == "denied" and "! touch made: " in refused["error"]["message"]
        (attached,) = (await run(served, "! echo of-the-line"))["calls"]
        assert attached["method"] == "attach" and "of-the-line\n" in attached["params"]["block"]
        assert attached["params"]["what"] == "output of `echo of-the-line`"
        assert (await run(served, "!! echo of-the-line"))["calls"] == []
        assert (await served.client.send("a", "hello"))["text"] == "echo hello"
        assert "of-the-line" not in str(await served.client.get_messages("a"))


async def test_output_that_a_client_attached_and_did_not_send_waits_for_the_next_one(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="all") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        blocks = [(await run(served, f"! echo {word}"))["calls"][0]["params"] for word in ("one", "two")]
        assert (await served.client.get_conversation("a"))["attached"] == blocks
        await served.client.send("a", f"look\n\n{blocks[0]['block']}")
        assert (await served.client.get_conversation("a"))["attached"] == blocks[1:]
        await served.client.unqueue("a", blocks[1]["block"])
        assert (await served.client.get_conversation("a"))["attached"] == []
        blocks[1] = (await run(served, "! echo three"))["calls"][0]["params"]
        assert (await served.client.get_conversation("a"))["attached"] == blocks[1:]
        last = [(await run(served, f"! echo {number}"))["calls"][0]["params"] for number in range(MAX_ATTACHED)]
        assert (await served.client.get_conversation("a"))["attached"] == last
        served.pool.list()[0].dispatcher.listen()
        assert (await served.client.get_conversation("a"))["attached"] == last, (
            "whoever listens: they are the session's"
        )


async def test_outputs_that_were_sent_do_not_wait_even_if_their_message_was_clipped(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="all") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        lines = [f"! seq {number}000 {number}999" for number in range(1, 10)]
        blocks = [(await run(served, line))["calls"][0]["params"]["block"] for line in lines]
        await served.client.send("a", "\n\n".join(("look", *blocks)))
        drops = served.pool.list()[0].dispatcher.session.drops()
        assert [drop.cause for drop in drops] == ["input_cap"]
        assert (await served.client.get_conversation("a"))["attached"] == []


async def test_other_clients_are_told_of_a_command_that_has_changed_something_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="auto") as served:
        await served.client.create_agent("a")
        await served.client.send("a", "hello")
        listener = served.pool.list()[0].dispatcher.listen()
        said = ["pin add this", "permissions edit", f"memory add user the key sk-{'a' * 40}"]
        for line in ("runs", "pin", "effort", "model", "undo", "sessions delete x", *said):
            await run(served, line)
        for line in ("space create Beta", "space post Beta hello", "space read Beta"):  # which has nothing new
            await run(served, line)
        lines = [json.loads(item.data) for item in await listener.read(0.0) or ()]
        texts = [line["text"] for line in lines if line["type"] == "notice" and "a client ran" in line["text"]]
        assert texts[:2] == ["a client ran /pin add this", "a client ran /permissions edit"], texts
        assert texts[3:] == ["a client ran /space create Beta", "a client ran /space post Beta hello"], texts
        assert "sk-aaa" not in texts[2]


async def test_clients_that_open_one_session_at_once_are_told_of_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = (await served.client.create_agent("a"))["session"]
        await served.client.send("a", "hello")
        await served.client.destroy_agent("a")
        opening = [served.client.create_agent(name, session=session) for name in ("b", "c", "d")]
        errors = [
            error for error in await asyncio.gather(*opening, return_exceptions=True) if isinstance(error, Exception)
        ]
        assert len(errors) == 2
        for error in errors:
            assert "worker" not in str(error) and "is using this session" in str(error)


async def test_a_client_starts_no_agent_of_a_space_above_the_level_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="edit") as served:
        await served.client.create_agent("a")
        ledger = served.pool.open_ledger()
        ledger.spaces.entity("helper", AGENT, {"folder": str(tmp_path), "allow": "all"})
        assert (await run(served, "space create talk --agent helper"))["error"] is None
        error = (await run(served, "space post talk @helper hello"))["error"]
        assert error["message"] == "agent helper: this server allows at most edit"
        assert not ledger.runs.list_runs((), 9)


async def test_a_shell_line_does_not_wait_behind_that_of_another_client(tmp_path: Path) -> None:
    async with serving(tmp_path, allow="all") as served:
        await served.client.create_agent("a")
        first = asyncio.create_task(run(served, "! sleep 60"))
        await until(lambda: served.pool.list()[0].session.busy)
        error = (await run(served, "! touch made"))["error"]
        assert "a command of another client is running" in error["message"]
        await served.client.cancel("a")
        assert (await first)["error"]["kind"] == "aborted" and not (tmp_path / "made").exists()
