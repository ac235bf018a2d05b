"""Whatever arguments a model sends to whichever tool, each call has one result and the turn goes on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from search import sample
from session.played import MODEL, run_turns
from tools.documents import make_notebook, make_pdf

from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.event import Event, ToolCallEvent, ToolResultEvent, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.memory import FactMerger
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.run import AGENT
from nexus_cli.core.tool import Tool
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session_facts import SessionFacts
from nexus_cli.tools.registry import discover_tools

WORDS = "these calls are made at random"
NAMES = (
    "a.py",
    "a\nb.txt",
    "\x1b[31mred",
    "n" * 255,
    "caf\u00e9",
    "cafe\u0301",
    "fifo",
    "socket",
    "loop",
    "around/around/around",
    "s.pdf",
    "n.ipynb",
    "nul.bin",
    "made/new.txt",
)
"""Paths in the folder of the calls, all but the last one of something that is there."""
ODD = ("", " ", "\0", "\ud800", "..", "/", "~", "~nobody-here/x", "../" * 40, "/dev/zero", "/proc/self/mem", "x" * 5000)
PATTERNS = (
    "(",
    "[",
    "**/*",
    "{a,b",
    "*" * 300,
    r"(a+)+$",
    r"\A",
    "a.py:1-2",
    "a.py:9-1,4-",
    "n.ipynb:1",
    "-1",
    "1e999",
)
URLS = (
    "http://",
    "http://[",
    "http://127.0.0.1:9/",
    "http://localhost:1/\r\nX: y",
    "file:///etc/passwd",
    "ftp://127.0.0.1",
)
COMMANDS = ("true", "exit 3", "(", "echo \x1b]0;x", "printf 'a\\0b'", "cat a.py", "", "\0", "kill -9 $$")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([10**400, -1, 0])
TEXTS = st.sampled_from(NAMES + ODD + PATTERNS) | st.text(max_size=40)
ANYTHING = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=9
)


def values(schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """Values that the schema allows, and some that it does not."""
    fitting: st.SearchStrategy[Any]
    if "enum" in schema:
        fitting = st.sampled_from(list(schema["enum"]))
    elif name in ("command", "url"):  # nothing is run or reached that a test must not
        return st.sampled_from(COMMANDS if name == "command" else URLS)
    else:
        match schema.get("type"):
            case "object":
                return objects(schema)
            case "array":
                fitting = st.lists(values(schema.get("items", {})), max_size=4)
            case "boolean":
                fitting = st.booleans()
            case "integer" | "number":
                fitting = st.integers(-2, 60) | st.sampled_from([2**63, "7", 3.0, -(10**30)])
            case _:
                fitting = TEXTS
    return st.one_of(fitting, fitting, fitting, ANYTHING)


def objects(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Objects with the required properties, and some that lack one or have one too many."""
    named = {name: values(one, name) for name, one in schema["properties"].items()}
    required = {name: one for name, one in named.items() if name in schema.get("required", ())}
    optional = {name: one for name, one in named.items() if name not in required}
    sound = st.fixed_dictionaries(required, optional=optional)
    faulty = st.fixed_dictionaries({}, optional=named | {"nonsense": ANYTHING})
    return st.one_of(sound, sound, sound, faulty)


def argument_texts(tool: Tool) -> st.SearchStrategy[str]:
    """What a model may send as arguments: JSON of an object, of something else, cut off, or no JSON."""
    whole = objects(tool.parameters).map(json.dumps)
    cut = st.builds(lambda text, at: text[: at % (len(text) + 1)], whole, st.integers(0, 200))
    other = ANYTHING.map(json.dumps) | st.just("[" * 3000)
    return st.one_of(whole, whole, whole, whole, cut, other) if tool.name != "bash" else whole | cut


@dataclass
class Sender:
    """A model that sends the calls at once, and then is done; workers of it are done at once."""

    calls: Sequence[tuple[str, str]]
    seen: list[Any] = field(default_factory=list)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        messages = [json.loads(json.dumps(one)) for one in request.messages]
        begins = messages[-1]["role"] == "user" and WORDS in str(messages[-1]["content"])
        if begins:
            for place, (name, text) in enumerate(self.calls):
                yield CallDelta(place, f"call_{place}", name, text)
        else:
            self.seen.append(messages)
            yield TextDelta("done")
        yield UsageDelta(Usage(200, 10))
        yield FinishDelta("tool_calls" if begins else "stop")

    async def aclose(self) -> None:
        """Nothing to release."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what can be in the way of a tool."""
    folder = tmp_path_factory.mktemp("place") / "project"
    (folder / "around").mkdir(parents=True)
    for name in NAMES[:6]:
        (folder / name).write_text(f"one\ntwo {name}\n")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as made:
        before = os.getcwd()
        os.chdir(folder)
        made.bind("socket")
        os.chdir(before)
    (folder / "loop").symlink_to("pool")
    (folder / "pool").symlink_to("loop")
    (folder / "around" / "around").symlink_to("../around")
    (folder / "s.pdf").write_bytes(make_pdf(["One", "Two"]))
    (folder / "n.ipynb").write_text(make_notebook([("code", "1 + 1", [])]))
    (folder / "nul.bin").write_bytes(b"\0\xff" * 500)
    (folder / ".claude" / "skills").mkdir(parents=True)
    return folder


def run_calls(folder: Path, calls: Sequence[tuple[str, str]]) -> tuple[list[Event], set[str]]:
    """One turn in which the model makes these calls; its events, and the tools that there were."""
    sender = Sender(calls)
    options = Options(folder, MODEL, allow="auto", limits=Limits(max_steps=4))
    ours = Settings(models={MODEL: {"window": 200_000}}, sandbox=SandboxSettings(backend="off"))
    merger = ServiceMaker(
        FactMerger,
        lambda one: FactMerger(SessionFacts.of(one.ledger, one.id, one.folder, one.engine.conversation.clock).merge),
    )
    session = open_session(options, ours, approver=None, provider=sender, services=(*SERVICES, merger))

    names = {tool.name for tool in session.tools()}
    return run_turns(session, WORDS), names


@pytest.mark.matrix
@pytest.mark.parametrize("tool", sample(discover_tools().values(), 4), ids=lambda tool: tool.name)
def test_every_call_has_one_result_that_is_no_bug(tool: Tool, place: Path) -> None:
    with closing(Ledger.open(places().ledger)) as ledger:  # the tools of spaces need one
        nexus = ledger.spaces.entity(AGENT_NAME, AGENT, {"folder": str(place)})
        ledger.spaces.create("Here", datetime.now(UTC).isoformat(), members=[nexus])
    outside = sorted(path.name for path in place.parent.iterdir())

    @settings(
        max_examples=settings().max_examples // 3,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(argument_texts(tool), min_size=1, max_size=12))
    def check(texts: list[str]) -> None:
        events, names = run_calls(place, [(tool.name, text) for text in texts])
        assert tool.name in names
        given = {event.call.id: event.result for event in events if isinstance(event, ToolResultEvent)}
        results = [given[event.call.id] for event in events if isinstance(event, ToolCallEvent)]
        if len(results) < len(given):  # a call behind one that waits, or that came too often, is not begun
            results = list(given.values())
        end = events[-1]
        assert isinstance(end, TurnEnd) and (end.outcome.error or {}).get("kind") != "internal", end
        assert len(results) == len(texts) == len(given)
        for text, result in zip(texts, results, strict=True):
            told = f"{text[:300]!r}: {result.error[:300]}"
            assert result.text or result.success, told
            assert not result.error.startswith(f"{tool.name} failed:") and "Traceback (" not in result.text, told
            if not is_object(text):
                assert result.error.startswith(("arguments are not a JSON object", "not run: the same call")), told
                assert not result.ran, told

    check()
    assert sorted(path.name for path in place.parent.iterdir()) == outside


def is_object(text: str) -> bool:
    """True if nothing has to be completed or guessed to make an object of it, even if it is encoded twice."""
    try:
        value = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return False
    return is_object(value) if isinstance(value, str) else value is None or isinstance(value, dict)
