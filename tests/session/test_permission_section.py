"""The model knows the permission level and what asks under it, and hears of a change with its next request."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from permission.test_call_permission import SETTINGS
from session.played import MODEL, Person, Played, say

from nexus_cli.config.settings import Settings
from nexus_cli.core.limits import LEVELS, PLAN, next_levels
from nexus_cli.core.request import Request
from nexus_cli.sections.contributors.permission import ASKING, ASKING_UNCONFINED, ONLY_READING
from nexus_cli.session.factory import open_session
from nexus_cli.session.limits_record import PLAN_ENDS
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

LINE = "[nexus: permission level "


def told(provider: Played) -> list[list[str]]:
    """The lines on the level that the newest message of each request has."""
    newest = (str(messages[-1]["content"]) for messages in provider.seen)
    return [[line for line in text.splitlines() if line.startswith(LINE)] for text in newest]


def opened(folder: Path, script: Any, person: Person | None = None, **options: Any) -> tuple[Session, Played]:
    provider = Played(script)
    return open_session(Options(folder, MODEL, **options), SETTINGS, approver=person, provider=provider), provider


@pytest.mark.parametrize("level", [*LEVELS, PLAN])
@pytest.mark.parametrize("person", [None, Person()])
def test_the_first_request_says_the_level_and_what_asks(tmp_path: Path, level: str, person: Person | None) -> None:
    session, provider = opened(tmp_path, lambda request: "fine", person, allow=level)
    say(session, "hello")
    [[line]] = told(provider)
    assert line.startswith(f"{LINE}{level}: ") and LINE not in str(provider.seen[0][0]["content"])
    asks = ONLY_READING if level == PLAN else ASKING.get(level, "nothing asks")
    assert asks in line
    assert ("ask the person first" in line) == (person is not None and level in ASKING)
    assert ("nobody can be asked" in line) == (person is None and level in ASKING)


def test_a_session_without_tools_is_told_no_level(tmp_path: Path) -> None:
    session, provider = opened(tmp_path, lambda request: "fine", no_tools=True)
    say(session, "hello")
    assert told(provider) == [[]]


def test_without_a_sandbox_every_command_asks(tmp_path: Path) -> None:
    settings = Settings(models=SETTINGS.models, sandbox=type(SETTINGS.sandbox)(backend="off"))
    provider = Played(lambda request: "fine")
    say(open_session(Options(tmp_path, MODEL, allow="auto"), settings, approver=Person(), provider=provider), "hello")
    assert ASKING_UNCONFINED["auto"] in told(provider)[0][0]


def test_a_change_in_the_middle_of_a_turn_is_told_with_the_next_result_and_once(tmp_path: Path) -> None:
    levels = iter([[], ["edit"], ["auto", "edit"], [PLAN], []])

    def script(request: Request) -> Any:
        for level in next(levels):
            session.set_level(level)
        asked = sum(message["role"] == "tool" for message in request.messages)
        return [("glob", {"pattern": f"*.{asked}"})] if asked < 4 else "done"

    session, provider = opened(tmp_path, script, Person())
    say(session, "go")
    said = [[line.removeprefix(LINE).partition(":")[0] for line in lines] for lines in told(provider)]
    assert said == [["ask"], [], ["edit"], [], [PLAN]]
    for one, following in pairwise(provider.seen):
        assert following[: len(one)] == one, "what was sent stays as it was"


@pytest.mark.matrix
def test_the_next_message_says_the_level_only_where_it_changed(tmp_path: Path) -> None:
    session, provider = opened(tmp_path, lambda request: "fine", Person())

    async def turns() -> None:
        for level in ("ask", "ask", PLAN, "edit"):
            session.set_level(level)
            async for _ in session.run("go"):
                pass
        await session.aclose()

    asyncio.run(turns())
    assert [len(lines) for lines in told(provider)] == [1, 0, 1, 1]
    assert [PLAN_ENDS in str(messages[-1]["content"]) for messages in provider.seen] == [False, False, False, True]
    for allow, count in ((None, 1), ("edit", 1), ("edit", 0), ("auto", 1)):
        again, later = opened(tmp_path, lambda request: "fine", Person(), resume=session.id, allow=allow)
        say(again, "go on")
        assert len(told(later)[0]) == count
        assert "limits have changed" not in str(later.seen[0][-1]["content"])


def test_the_levels_go_round_and_never_to_all(tmp_path: Path) -> None:
    session, _ = opened(tmp_path, lambda request: "fine", allow="all")
    seen = []
    for _ in range(5):
        session.cycle_level()
        seen.append(session.status().allow)
    assert seen == ["ask", "edit", "auto", "plan", "ask"]
    assert next_levels("edit") == ("auto", "plan", "ask", "edit")
