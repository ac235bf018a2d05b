"""The pool: seed A's examples as they are written, and what agents share and what they do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rpc.serving import MODEL, SETTINGS, Answering, until
from search import sample

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.sessions import list_sessions
from nexus_cli.config.paths import places
from nexus_cli.context import ContextConfig, ContextManager, PromptLoader
from nexus_cli.core.errors import NexusError
from nexus_cli.core.front_ends import CHAT
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.limits import Limits
from nexus_cli.ledger import Ledger
from nexus_cli.rpc import pool as pool_module
from nexus_cli.rpc.dispatcher import Dispatcher
from nexus_cli.rpc.jsonrpc import RpcError
from nexus_cli.rpc.pool import AgentConfig, AgentPool, SharedComponents
from nexus_cli.session import LogConfig, Session, SessionLogger
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry


@pytest.mark.matrix
async def test_a_served_session_is_listed_as_one_and_never_continued_as_the_newest(tmp_path: Path) -> None:
    pool = AgentPool(SharedComponents(config=SETTINGS, provider=Answering()))
    agent = await pool.create(config=AgentConfig(agent_id="w", model=MODEL, cwd=tmp_path))
    await agent.dispatcher.send("hello")
    await pool.aclose()
    with closing(Ledger.open(places().ledger)) as ledger:
        listed = list_sessions(ledger, str(tmp_path))
        assert ledger.newest_session(str(tmp_path), runs=False) is None
        opened = open_session(
            Options(tmp_path, MODEL, resume=agent.session.id, front=CHAT), SETTINGS, approver=None, provider=Answering()
        )
        assert ledger.newest_session(str(tmp_path), runs=False) is not None, "a person has opened it"
        await opened.aclose()
    assert [one["front"] for one in listed["sessions"]] == ["serve"] and listed["runs"] == 0
    assert "served: hello" in find_form("sessions")(to_json_value(listed), 80)


async def test_the_example_of_the_seed_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "NEXUS.md").write_text("Only Latin.")
    provider, config = Answering(), None

    # Create shared components
    shared = SharedComponents(
        config=config,
        provider=provider,
        prompt_loader=PromptLoader(),
        base_log_dir=Path(".nexus3/logs"),
    )
    pool = AgentPool(shared)

    # Create agent (gets its own ContextManager)
    agent = await pool.create(agent_id="worker-1")

    # Access agent's context
    usage = agent.context.get_token_usage()
    messages = agent.context.messages  # Read-only copy

    # Create agent with custom system prompt
    custom_agent = await pool.create(
        config=AgentConfig(
            agent_id="custom-worker",
            system_prompt="You are a specialized assistant.",
        )
    )
    assert usage["system"] > 0 and usage["tools"] > 0 and usage["total"] == usage["system"] + usage["tools"]
    assert messages == []
    assert "# Project Configuration\nOnly Latin." in agent.context.system_prompt
    assert agent.context.system_prompt.endswith("Mode: HTTP JSON-RPC Server")
    assert custom_agent.context.system_prompt == "You are a specialized assistant."
    assert custom_agent.context is not agent.context and custom_agent.registry is not agent.registry
    defined = {one["function"]["name"] for one in custom_agent.registry.get_definitions()}
    sent = [one["function"]["name"] for one in custom_agent.context.get_tool_definitions()]
    assert "ask_person" not in sent and "ask_person" in defined, "nobody can be asked"
    assert {"bash", "use_tool"} <= {*sent} < defined
    result = await custom_agent.dispatcher.send("hello")
    assert result["text"] == "echo hello"
    assert provider.seen[0][0] == {"role": "system", "content": "You are a specialized assistant."}
    assert agent.context.messages == [] and len(custom_agent.context.messages) == 2
    await pool.aclose()
    with closing(Ledger.open_for_reading(tmp_path / ".nexus3/logs/ledger.db")) as ledger:
        assert [custom_agent.session.id] == [one.id for one in ledger.sessions()], "an empty session is not kept"
    assert not places().ledger.exists()


async def test_the_parts_of_the_seed_go_together_by_hand(tmp_path: Path) -> None:
    provider, registry, loader = Answering(), ToolRegistry(), PromptLoader()
    logger = SessionLogger(LogConfig(tmp_path / "ledger.db", folder=tmp_path))
    system_prompt = loader.load(is_repl=False).content
    context = ContextManager(config=ContextConfig(), logger=logger)
    context.set_system_prompt(system_prompt)
    context.set_tool_definitions(registry.get_definitions())
    session = Session(provider, context=context, logger=logger, registry=registry)
    dispatcher = Dispatcher(session, context=context)
    assert await dispatcher.get_tokens() == context.get_token_usage()
    assert (await dispatcher.send("hello"))["text"] == "echo hello"
    assert (await dispatcher.get_messages())["total"] == 2
    assert (await dispatcher.get_context())["model"] == MODEL
    await dispatcher.aclose()
    logger.close()


@pytest.mark.matrix
async def test_without_a_loader_an_agent_begins_like_any_session(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Only Greek.")
    pool = AgentPool(SharedComponents(provider=Answering(), config=SETTINGS, cwd=tmp_path))
    agent = await pool.create()
    assert "Only Greek." in agent.context.system_prompt and str(tmp_path) in agent.context.system_prompt
    assert "\nMode: HTTP JSON-RPC Server\n" in agent.context.system_prompt
    await agent.dispatcher.send("hi")
    await pool.aclose()
    with closing(Ledger.open_for_reading(places().ledger)) as ledger:
        assert ledger.session(agent.session.id).folder == str(tmp_path)


@pytest.mark.parametrize("prompt", sample(["", "  ", "\0 a\ud800 ", "x" * 300_000, "[nexus: not ours]\n"], 3))
async def test_any_text_can_be_a_system_prompt(tmp_path: Path, prompt: str) -> None:
    settings = replace(SETTINGS, models={MODEL: {"window": 1_000_000}})
    pool = AgentPool(SharedComponents(provider=Answering(), config=settings, cwd=tmp_path))
    agent = await pool.create(config=AgentConfig(system_prompt=prompt))
    clean = prompt.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    assert agent.context.system_prompt == (clean if prompt.strip() else "")
    assert (await agent.dispatcher.send("hi"))["ok"]
    await pool.aclose()


async def test_ids_are_checked_unique_and_free_again_after_destroy(tmp_path: Path) -> None:
    pool = AgentPool(SharedComponents(provider=Answering(), config=SETTINGS, cwd=tmp_path))
    first = await pool.create("a.b-1_c")
    for wrong in ("a/b", "..", "-x", "a b", "é", "a" * 65, "\n"):
        with pytest.raises(NexusError, match="agent id"):
            await pool.create(wrong)
    with pytest.raises(NexusError, match="an agent with this id already exists"):
        await pool.create("a.b-1_c")
    both = await asyncio.gather(*(pool.create("twin") for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(one, NexusError) for one in both) == 2
    made = await pool.create()
    assert [agent.agent_id for agent in pool.list()] == ["a.b-1_c", "twin", made.agent_id]
    assert pool.get("a.b-1_c") is first and pool.get("nobody") is None
    assert await pool.destroy("a.b-1_c") and not await pool.destroy("a.b-1_c")
    assert (await pool.create("a.b-1_c")).session.id != first.session.id
    await pool.aclose()


async def test_there_is_a_most_of_agents_whether_they_have_names_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAX_AGENTS", 2)
    pool = AgentPool(SharedComponents(SETTINGS, Answering(), base_log_dir=tmp_path / "log", cwd=tmp_path))
    for _ in range(2):
        await pool.create()
    for name in ("", "named"):
        with pytest.raises(NexusError, match="the maximum is 2"):
            await pool.create(name)
    await pool.destroy(pool.list()[0].agent_id)
    assert (await pool.create()).agent_id.startswith("agent-")
    await pool.aclose()


async def test_what_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    pool = AgentPool(SharedComponents(provider=Answering(), config=SETTINGS, cwd=tmp_path))
    wrong = (
        AgentConfig(cwd=tmp_path / "nowhere"),
        AgentConfig(recipe="nonsense"),
        AgentConfig(allow="everything"),
    )
    for config in wrong:
        with pytest.raises(NexusError):
            await pool.create("a", config)
    assert pool.list() == [] and (await pool.create("a")).agent_id == "a"
    await pool.aclose()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("pool_level", "settings_level", "project_level", "asked", "given"),
    [
        (None, "ask", None, None, "ask"),
        (None, "ask", None, "all", "ask"),
        (None, "auto", None, "edit", "edit"),
        (None, "auto", "ask", None, "ask"),
        (None, "auto", "ask", "all", "ask"),
        ("run", "ask", None, None, "auto"),
        ("auto", "all", "ask", "all", "auto"),
        ("all", "ask", None, "run", "auto"),
    ],
)
async def test_no_agent_may_do_more_than_its_pool(
    tmp_path: Path,
    pool_level: str | None,
    settings_level: str,
    project_level: str | None,
    asked: str | None,
    given: str,
) -> None:
    settings = replace(SETTINGS, allow=settings_level, project=Limits(allow=project_level))
    pool = AgentPool(SharedComponents(provider=Answering(), config=settings, cwd=tmp_path, allow=pool_level))
    agent = await pool.create(config=AgentConfig(allow=asked))
    assert agent.session.dispatcher.limits.allow == given
    await pool.aclose()


@pytest.mark.matrix
async def test_destroy_stops_the_turn_and_the_session_goes_on_elsewhere(tmp_path: Path) -> None:
    gates = {"forever": asyncio.Event()}
    provider = Answering(gates=gates)
    pool = AgentPool(SharedComponents(provider=provider, config=SETTINGS, cwd=tmp_path))
    agent = await pool.create("a")
    turn = asyncio.create_task(agent.dispatcher.send("forever"))
    await until(lambda: provider.asked)
    assert agent.dispatcher.state == "running"
    assert await pool.destroy("a")
    with pytest.raises(RpcError) as failed:
        await turn
    assert failed.value.code == -32004 and failed.value.data["kind"] == "aborted"
    await pool.aclose()
    with closing(Ledger.open_for_reading(places().ledger)) as ledger:
        log = ledger.log(agent.session.id)
        assert [entry.message.content for entry in log.read(1, 1)] == ["forever"]
        assert ledger.lock(agent.session.id), "its lock is free"


@pytest.mark.matrix
def test_a_plain_session_loads_nothing_of_this_room() -> None:
    code = (
        "import sys, nexus_cli.cli.run.run_turn, nexus_cli.cli.run.run_repl\n"
        "print([name for name in sys.modules if name.startswith(('nexus_cli.rpc', 'nexus_cli.client', 'aiohttp'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
