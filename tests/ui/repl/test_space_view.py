"""The view of a space: what it says is so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.core.run import AGENT, APPROVAL, HUMAN, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.space_view import SpaceChat

AT = "2026-02-18T15:06:55.000Z"


class AskingView:
    """A view whose person types `/who` at the moment in which a change is reported."""

    width = 80
    echoes = False

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.answered = asyncio.Event()
        self.chat: Any = None

    def put(self, text: str) -> None:
        self.shown.append(text)
        if "muted here" in text:
            self.chat.submit(TypedMessage("/who", "/who"))
            self.answered.set()

    def invalidate(self) -> None:
        """Nothing is drawn."""


def test_a_change_is_reported_when_the_view_knows_it(tmp_path: Path) -> None:
    asyncio.run(_mute(tmp_path))


async def _mute(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    try:
        husam = ledger.spaces.entity("Husam", HUMAN)
        space = ledger.spaces.create("Alpha", AT, members=[husam, ledger.spaces.entity("Ana", AGENT)])
        view: Any = AskingView()
        answer_agents: Any = None
        view.chat = SpaceChat(ledger, Settings(), space, husam, view, Theme(colour=False), answer_agents)
        view.chat.submit(TypedMessage("/mute ana", "/mute ana"))
        await asyncio.wait_for(view.answered.wait(), 60)
    finally:
        ledger.close()
    assert view.shown == ["Ana is muted here\n", "Husam, Ana (agent, muted)\n"]


async def test_the_status_line_says_which_agent_has_an_answer_that_it_has_not_taken(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    try:
        husam = ledger.spaces.entity("Husam", HUMAN)
        space = ledger.spaces.create("Alpha", AT, members=[husam, ledger.spaces.entity("Ana", AGENT)])
        ledger.spaces.post(space, husam, "@Ana clean up", AT)
        run = ledger.runs.claim(ledger.runs.due()[0].key, "elsewhere:1", 600.0, AT)
        assert run is not None
        ledger.runs.wait(
            run, Wait(APPROVAL, "approval: bash rm", {"questions": [{"call": "c1", "what": "bash rm"}]}), AT
        )
        ledger.runs.signal(run.key, APPROVAL, {"answers": {"c1": {"answer": "no", "text": "", "by": "Sarah"}}}, AT)
        view: Any = AskingView()
        answer_agents: Any = None
        chat = SpaceChat(ledger, Settings(), space, husam, view, Theme(colour=False), answer_agents)
        await chat._show_new()
        assert chat.status(80).endswith("Ana has your answer")
    finally:
        ledger.close()
