"""A turn while it runs, on the screen: retries, calls that run and wait, a stream that breaks, the transcript."""

from __future__ import annotations

from typing import Any

import pytest
from search import sample
from terminal.repl import SPINS, Opens, Repl
from terminal.terminal import Terminal, ctrl

HOLD = "seq 9; until [ -e go ]; do sleep 0.05; done"
SCRIPT: list[Any] = [
    {"fault": {"kind": "status", "status": 503, "retry_after": "1"}},
    {"calls": [{"name": "bash", "arguments": {"command": command}} for command in (HOLD, "echo two")]},
    "All done.",
    {"text": "part of an answer", "chunk": 3, "fault": {"kind": "cut", "after": 3}},
    {"text": "half of an answer", "chunk": 3, "fault": {"kind": "cut", "after": 3}},
    "and its other half.",
]
LOOKS: list[tuple[int, str, dict[str, str]]] = [
    (60, "", {}),
    (100, "", {"NO_COLOR": "1"}),
    (160, '[ui]\ntheme = "light"\n', {}),
]


def rows(made: Repl, begin: str) -> list[str]:
    return [line for line in made.lines() if line.startswith(begin)]


@pytest.mark.parametrize(("columns", "settings", "env"), sample(LOOKS, 4))
def test_what_runs_stands_once_and_what_broke_is_resumed(
    repl: Opens, columns: int, settings: str, env: dict[str, str]
) -> None:
    pager = {"PAGER": "sed -e 's/^/paged /'", "LC_ALL": "C.UTF-8"}
    made = repl(SCRIPT, columns=columns, rows=40, settings=settings, env={**env, **pager}, arguments=("--allow", "all"))
    made.say("go", ends=False)
    made.wait_for("retry 1 in ")
    made.wait_for("● bash")
    assert len(rows(made, "· 1 retry after ")) == 1 and not rows(made, "· retry")
    made.wait_for(lambda one: rows(made, "    9"))
    assert [line[2:15] for line in rows(made, "● ") + rows(made, "○ ")] == ["bash seq 9; u", "bash echo two"]
    spins: list[str] = []

    def spinning(one: Terminal) -> bool:  # a redraw may have taken it away for a moment
        spins[:] = [line for line in one.lines() if line.startswith(SPINS)]
        return bool(spins)

    made.wait_for(spinning)
    (spin,) = spins
    assert "running" in spin and "bash" not in spin and " s" in rows(made, "● ")[0]
    (made.folder / "go").touch()
    made.wait_for("All done.")
    made.idle()
    assert not rows(made, "○ ") and "    ... 5 lines before: /transcript" in made.lines()

    made.say("again")
    address = made.place.environment["OPENAI_API_BASE"].split("/")[2]
    said = " ".join(" ".join(made.lines()).split())
    assert f"! cut off: the connection to {address} was lost; retrying" in said
    assert f"the connection to {address} was lost." in said
    assert "· This turn was cut short. /continue to resume it." in made.lines()
    made.say("/continue")
    made.wait_for("and its other half.")
    made.idle()

    made.send(ctrl("o"))
    made.wait_for("[exit status 0]")  # of the newest output, which is short
    made.idle()
    made.send(ctrl("o"))
    made.wait_for("paged and its other half.", back=True)
    made.idle()
    paged = [line.removeprefix("paged ").rstrip() for line in made.scrollback() if line.startswith("paged")]
    at = paged.index(next(line for line in paged if line.startswith("* bash seq 9;")))
    assert paged[at + 1 : at + 10] == [f"    {number}" for number in range(1, 10)]
    assert "> go" in paged and "> again" in paged and "[the reply broke off here]" in paged
    assert any("cut off: the connection to" in line and "retrying" in " ".join(paged) for line in paged)
