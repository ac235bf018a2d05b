"""`/space`: list, read, post, enter, over a real session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands.conftest import FakeContext, answering
from session.played import Played

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings, SpaceSettings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.ledger import Ledger
from nexus_cli.service_list import SPACES
from nexus_cli.session.factory import open_session

AT = "2026-02-18T15:06:55.000Z"


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger.open(places().ledger)
    husam, sarah = (made.spaces.entity(name, HUMAN) for name in ("Husam", "Sarah"))
    nexus, ana = (made.spaces.entity(name, AGENT) for name in ("nexus", "Ana"))
    made.spaces.create("Project Alpha", AT, members=[husam, sarah, ana, nexus])
    made.spaces.create("Project", AT, members=[husam])
    yield made
    made.close()


@pytest.fixture
def husam(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeContext]:
    """The session of Husam, whose agent takes part in a space."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    def opened(*given: Any, **named: Any) -> Any:
        return open_session(*given, **{**named, "services": (SPACES,)})

    monkeypatch.setattr("commands.conftest.open_session", opened)
    made = FakeContext(tmp_path, Played(answering), allow="edit")
    made.settings = Settings(models=made.settings.models, spaces=SpaceSettings("Husam"))
    yield made
    asyncio.run(made.session.aclose())


def test_others_are_told_of_a_new_goal_of_an_agent_but_not_of_a_list_of_goals(
    husam: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(husam, "note_act", told.append)
    husam.run("space goal Ana").run("space goal Ana add Reply fast")
    assert told == ["/space goal Ana add Reply fast"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("loaded", "late"), [("commands.space", "nexus_cli.ledger"), ("reports.text.lines", "nexus_cli.core.run")]
)
def test_neither_the_help_of_spaces_nor_the_words_of_reports_load_what_they_need_not(loaded: str, late: str) -> None:
    code = f"import nexus_cli.{loaded}, sys; sys.exit({late!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_spaces_are_listed_read_and_posted_to(husam: FakeContext, ledger: Ledger) -> None:
    form, value = husam.run("space").shown[-1]
    assert form == "spaces" and [one["name"] for one in value["spaces"]] == ["Project", "Project Alpha"]
    husam.run("space post project alpha @Ana look at it").run('space post "Project" to the shorter one')
    told = "Agent Ana was triggered: run-1; `nexus serve` or `nexus space open` executes runs"
    assert husam.said[-3:] == [told, "msg-1", "msg-2"]
    assert [one.text for one in ledger.spaces.read(ledger.spaces.find("Project"))] == ["to the shorter one"]
    husam.run("space post --as Sarah Project Alpha --as it is")
    assert [(one.sender.name, one.text) for one in ledger.spaces.read(ledger.spaces.find("Project Alpha"))][1:] == [
        ("Sarah", "--as it is")
    ]
    form, value = husam.run("space read space-1 --last 2").shown[-1]
    assert form == "space_messages" and [one["text"] for one in value["messages"]] == ["@Ana look at it", "--as it is"]


def test_a_space_is_made_joined_and_left_behind_a_slash(husam: FakeContext, ledger: Ledger) -> None:
    assert husam.run("space create Beta --member Sarah").said[-1] == "space-3"
    husam.run("space join Beta --as Ana").run("space mute Beta Ana").run("space goal Ana add keep it green")
    assert husam.said[-2:] == ["Member Ana (agent) joined Beta.", "Agent Ana is muted in Beta."]
    assert [one["text"] for one in husam.shown[-1][1]["goals"]] == ["keep it green"]
    husam.run("space leave Beta --as Sarah")
    assert [one.name for one in ledger.spaces.find("Beta").members] == ["Husam", "Ana"]


def test_the_agent_of_the_session_sends_to_the_space_that_was_entered(husam: FakeContext, ledger: Ledger) -> None:
    husam.run("space enter Project Alpha")
    assert husam.said == ['"Project Alpha" is active: Husam (human), Sarah (human), Ana (agent), You.']
    husam.provider.script = lambda request: (
        "sent" if request.messages[-1]["role"] == "tool" else [("send_message", {"text": "hello"})]
    )
    husam.turn("say hello")
    (message,) = ledger.spaces.read(ledger.spaces.find("Project Alpha"))
    assert (message.sender.name, message.text) == ("nexus", "hello")
    with pytest.raises(NexusError, match="not in a space with this name"):
        husam.run("space enter Project")


def test_the_command_that_joins_a_space_quotes_a_name_of_two_words(context: FakeContext) -> None:
    with pytest.raises(NexusError, match="was not a member of a space") as caught:
        context.run("space enter Project Alpha")
    assert "nexus space join 'Project Alpha' --as nexus" in caught.value.hint
