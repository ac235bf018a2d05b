"""Messages to a running turn pass the hooks of a prompt too."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event, Notice
from nexus_cli.engine.calls.session_hooks import SessionHooks
from nexus_cli.engine.requests.control import Control, SteeringWords
from nexus_cli.permission.call_permission import CallPermission


def test_a_message_to_the_running_turn_is_refused_as_a_prompt_is(tmp_path: Path) -> None:
    guard = HookTable("UserPromptSubmit", "grep -q secret && { echo no secrets >&2; exit 2; }; exit 0")
    hooks = SessionHooks((guard,), CallPermission(tmp_path, tmp_path), tmp_path, "s", lambda: "read")
    control = Control()
    control.steering.extend([SteeringWords("the secret"), SteeringWords("go on")])

    async def admit() -> Event | None:
        control.events = asyncio.Queue()
        hooks._control = control
        await hooks.admit_steering(control)
        return control.events.get_nowait()

    told = asyncio.run(admit())
    assert [one.text for one in control.steering] == ["go on"]
    assert isinstance(told, Notice) and "your message was not sent" in told.text and "no secrets" in told.text


def test_a_hook_refuses_a_compaction_and_is_told_who_wanted_it(tmp_path: Path) -> None:
    line = "cat >> given; echo >> given; echo keep it >&2; exit 2"
    guard = HookTable("PreCompact", line, matcher="manual")
    hooks = SessionHooks((guard,), CallPermission(tmp_path, tmp_path), tmp_path, "s", lambda: "read")
    asyncio.run(hooks.before_compaction(False, ""))
    assert not (tmp_path / "given").exists()
    with pytest.raises(NexusError, match="keep it") as refused:
        asyncio.run(hooks.before_compaction(True, "the plan"))
    given = json.loads((tmp_path / "given").read_text())
    assert refused.value.kind == "denied"
    assert (given["trigger"], given["custom_instructions"]) == ("manual", "the plan")
