"""A session keeps the tools of its requests, whoever goes on with it, so that the provider's cache is hit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session.played import Played, opened, say

from nexus_cli.core.front_ends import CHAT, RUN
from nexus_cli.core.wire import canonical

ASK: dict[str, Any] = {"front": RUN}
REPL: dict[str, Any] = {"front": CHAT, "interactive": True}


@pytest.mark.matrix
@pytest.mark.parametrize(("first", "then"), [(ASK, REPL), (REPL, ASK)], ids=["in the REPL", "by nexus ask"])
def test_a_session_that_is_resumed_sends_the_tools_that_it_sent(
    first: dict[str, Any], then: dict[str, Any], tmp_path: Path
) -> None:
    sent: list[bytes] = []

    def answer(request: Any) -> str:
        sent.append(canonical(list(request.tools)))
        return "done"

    provider = Played(answer)
    begun = opened(provider, tmp_path, **first)
    say(begun, "begin, and ask me if you have to")
    say(opened(provider, tmp_path, session=begun.id, **then), "make a plan, and ask me")
    alone = opened(provider, tmp_path, **then)
    say(alone, "make a plan, and ask me")
    before, resumed, new = sent
    assert resumed == before != new
    assert provider.seen[1][: len(provider.seen[0])] == provider.seen[0]
