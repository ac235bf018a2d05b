"""Tokens and dollars of tasks: recorded trajectories against the real session and tools, with and without each choice.

`benchmarks.trajectories` has the tasks, `benchmarks.task_player` the model and the account. What a choice hides and the
task still needs is read again, and that is paid for. Nothing is sent; the sessions decide by the prices of `MODEL`.
"""

from __future__ import annotations

import asyncio
import difflib
import itertools
import math
import os
import re
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.cache_share import Passing
from benchmarks.measure import ChildFailedError
from benchmarks.row import Benchmark, Row
from benchmarks.task_player import Account, Player
from benchmarks.trajectories import Trajectory, trajectories, write_programs

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.approval import Allow, Answer, PersonQuestion, Question
from nexus_cli.core.elide import drop_marker
from nexus_cli.core.event import CompactionDone, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import Tool, ToolContext
from nexus_cli.engine.requests import clip_output
from nexus_cli.engine.requests.control import Control
from nexus_cli.provider.model_table import model_info
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.tools.builtin import glob, grep
from nexus_cli.tools.registry import ToolRegistry

MODEL = "anthropic/claude-sonnet-4-5"
PRICED = (MODEL, "openai/gpt-5", "deepseek/deepseek-chat")
"""Models whose prices the table is computed with."""
SAMPLE = frozenset(
    ("drops", "estimates", "servers", "bug", "huge_output", "later_suite", "commit 475a5e50", "commit 02814ef1")
)
"""Tasks that are played with each choice, three of them long; all are played as shipped and as before."""
PROCESSES = 2
MOST_STEPS = 600


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: what is other than as shipped."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """What stands in place of names, by `module:name` or `module:Class.name`."""
    compact: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `[compact]`."""


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return "\n".join(list(lines)[2:])


def _ungrouped(text: str) -> str:
    """Put the path before each match of a search, as `grep -rn` does."""
    lines, path = [], ""
    for block in text.split("\n\n"):
        rows = block.split("\n")
        if len(rows) > 1 and not rows[0][:1].isdigit():
            path, rows = rows[0], rows[1:]
        lines += [f"{path}:{row}" if row[:1].isdigit() else row for row in rows]
    return "\n".join(lines)


def _folded(text: str) -> str:
    """Name the folder of listed files once, on a line above them."""
    folders = itertools.groupby(text.split("\n"), lambda path: path.rpartition("/")[0])
    return "\n".join(
        "\n".join([f"{folder}/", *(path.rpartition("/")[2] for path in paths)]) for folder, paths in folders
    )


def _without_repeats(text: str) -> str:
    """Keep of lines that differ in numbers alone the first two and the last, of a long line its ends."""
    lines: list[str] = []
    for _, run in itertools.groupby(text.split("\n"), lambda line: re.sub(r" *\d+", "0", line[:2000])):
        found = [line if len(line) <= 2000 else f"{line[:500]}\n{GAP}\n{line[-500:]}" for line in run]
        lines += [*found[:2], GAP, found[-1]] if len(found) > 12 else found
    return "\n".join(lines)


GAP = drop_marker("d100")(100_000, 200_000, 1_000_000, 10_000)


def _failures(text: str) -> str:
    """Keep of a report of pytest what names the failures: the failing lines, the errors, the summary."""
    if "= FAILURES =" not in text:
        return text
    return "\n".join(line for line in text.split("\n") if FAILURE.match(line))


FAILURE = re.compile(r"[>E] |_{3,} |FAILED|ERROR|\S+:\d+: |\[exit status|.*\b(?:passed|failed)\b")


async def _run_listed(arguments: glob.GlobArguments, context: ToolContext) -> ToolResult:
    return replace(listed := await RUN_GLOB(arguments, context), output=_folded(listed.output))


def _clip(
    shorten: Callable[[str], str],
) -> Callable[..., Coroutine[Any, Any, tuple[ToolResult, clip_output.ClippedText]]]:
    """Return a `clip_result` that shortens the output of commands first; the whole of it is the drop."""

    async def clip(
        context: ContextManager,
        control: Control,
        find: Callable[[str], Tool | None],
        call: ToolCall,
        result: ToolResult,
        room: int,
        *,
        refers: bool,
    ) -> tuple[ToolResult, clip_output.ClippedText]:
        if call.name == "bash" and (short := shorten(result.output)) != result.output:
            result = replace(result, output=f"{GAP}\n{short}")
        return await CLIP(context, control, find, call, result, room, refers=refers)

    return clip


def _search_ungrouped(*given: Any) -> ToolResult:
    return replace(found := SEARCH(*given), output=_ungrouped(found.output))


SEARCH, RUN_GLOB, CLIP = grep._search, glob.run, clip_output.clip_result


def _capped(tokens: int) -> Mapping[str, Any]:
    return {
        "nexus_cli.core.budget:TokenBudget.output_cap": property(lambda budget: tokens),
        "nexus_cli.engine.calls.dispatch:read_room": lambda window: tokens,
    }


def _describe_nothing(registry: ToolRegistry) -> list[dict[str, Any]]:
    definitions = DEFINITIONS(registry)
    for one in definitions:
        one["function"]["description"] = ""
    return definitions


DEFINITIONS = ToolRegistry.get_definitions
REGISTRY = "nexus_cli.tools.registry"
OLD, LEAST = "nexus_cli.conversation.pruning:OLD", "nexus_cli.engine.requests.clip_output:MIN_TEXT"
EDITED = "nexus_cli.tools.builtin.edit_file:name_changed_lines"
LISTS = {"benchmarks.trajectories:LISTS": True}
SHIPPED = Choice("as shipped")
BEFORE = Choice("before", {OLD: math.inf, LEAST: math.inf, EDITED: _diff}, {"prune": False})
CHOICES: Sequence[Choice] = (
    SHIPPED,
    BEFORE,
    Choice("old results stay", {OLD: math.inf}),
    Choice("old and stale results stay", compact={"prune": False}),
    Choice("a result is shown again", {LEAST: math.inf}),
    Choice("files are read whole", {"benchmarks.trajectories:WHOLE": math.inf}),
    Choice("an edit shows the whole file", {EDITED: lambda before, after: after}),
    Choice("an edit shows a diff", {EDITED: _diff}),
    Choice("an edit shows nothing", {EDITED: lambda before, after: ""}),
    Choice("each match with its path", {"nexus_cli.tools.builtin.grep:_search": _search_ungrouped}),
    Choice("a result has at most 100,000 tokens", _capped(100_000)),
    Choice("a result has at most 3,000 tokens", _capped(3000)),
    Choice("tests show failures alone", {"nexus_cli.engine.calls.dispatch:clip_result": _clip(_failures)}),
    Choice("lines that repeat are folded", {"nexus_cli.engine.calls.dispatch:clip_result": _clip(_without_repeats)}),
    Choice("each commit lists its folders", LISTS),
    Choice("the same, folded", {**LISTS, "nexus_cli.tools.builtin.glob:run": _run_listed}),
    Choice("every tool is sent", {"nexus_cli.engine.requests.tool_selection:MENTION": ""}),
    Choice("whole schemas", {"nexus_cli.tools.schema:UNSENT_KEYWORDS": ()}),
    Choice("schemas without descriptions", {f"{REGISTRY}:ToolRegistry.get_definitions": _describe_nothing}),
)


@dataclass(frozen=True, slots=True)
class Played:
    """One task, played."""

    name: str
    is_long: bool
    account: Account
    compactions: int
    fault: str
    """Why it is not solved, "" if it is."""


@contextmanager
def choosing(choice: Choice) -> Iterator[Settings]:
    """Put a choice in place; yield its settings."""
    with ExitStack() as stack:
        for name, value in choice.values.items():
            module, _, inner = name.partition(":")
            stack.enter_context(patch(f"{module}.{inner}", value))
        yield replace(Settings(), compact=replace(Settings().compact, **choice.compact))


@dataclass(frozen=True, slots=True)
class Answers:
    """A person who answers the questions of the model."""

    answers: Sequence[str]

    async def ask(self, question: Question) -> Answer:
        """Allow the call."""
        return Allow()

    can_ask = True

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """See `QuestionAsker`."""
        return [*self.answers]


async def play(trajectory: Trajectory, settings: Settings, folder: Path) -> Played:
    """Play one task in an empty folder; raises `ChildFailedError` if a turn fails."""
    trajectory.prepare(folder)
    player, compactions = Player(TiktokenCounter().count), 0
    limits, answers = Limits(max_steps=MOST_STEPS), trajectory.answers
    options = Options(folder, MODEL, recipe="chat", allow="all", interactive=bool(answers), limits=limits)
    options = replace(options, save=trajectory.is_saved)
    approver = Answers(answers) if answers else None

    def opened() -> Session:
        return open_session(options, settings, approver=approver, provider=player, clock=Passing(), services=SERVICES)

    session = opened()
    for number, (prompt, script) in enumerate(trajectory.turns(player, folder)):
        player.play(script)
        if number in trajectory.sessions:
            await session.aclose()
            session = opened()
        async for event in session.run(prompt):
            match event:
                case TurnEnd(outcome) if outcome.error:
                    raise ChildFailedError(f"{trajectory.name}: {outcome.error}")
                case CompactionDone(ok=ok):
                    compactions += ok
                case _:
                    pass
    await session.aclose()
    return Played(trajectory.name, trajectory.is_long, player.account, compactions, trajectory.check(folder))


def _play_by_name(choice: str, name: str) -> Played:
    """Play a task in this process, which has nothing else to do."""
    chosen = next(one for one in CHOICES if one.name == choice)
    trajectory = next(one for one in trajectories() if one.name == name)
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as own:
        folder = Path(own) / "project"
        folder.mkdir()
        with choosing(chosen) as settings, patch.dict(os.environ, {"NEXUS_HOME": str(Path(own) / "nexus")}):
            return asyncio.run(play(trajectory, settings, folder))


def _play_all(choices: Sequence[Choice]) -> Iterator[tuple[Choice, list[Played]]]:
    """Yield each choice with its tasks, the slowest begun first."""
    tasks = sorted(trajectories(), key=lambda one: not one.is_long)
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as own:
        surroundings = {"HOME": own, "NEXUS_HOME": str(Path(own) / "nexus"), **write_programs(Path(own))}
        with patch.dict(os.environ, surroundings), ProcessPoolExecutor(PROCESSES) as pool:
            started: list[tuple[Choice, list[Future[Played]]]] = []
            for choice in choices:
                played = [task.name for task in tasks if choice in (SHIPPED, BEFORE) or task.name in SAMPLE]
                started.append((choice, [pool.submit(_play_by_name, choice.name, name) for name in played]))
            for choice, plays in started:
                yield choice, [one.result() for one in plays]


def _sum(played: Sequence[Played]) -> Account:
    total = Account()
    for one in played:
        total.add(one.account)
    return total


def _cells(account: Account) -> str:
    """Format the figures of an account as cells of a table."""
    written = account.input - account.cached
    prices = " | ".join(f"{account.dollars(model_info(model, {})):.4g}" for model in PRICED)
    return (
        f"{account.requests:,} | {account.rereads:,} | {account.input:,} | {account.cached:,} | {written:,} "
        f"| {account.output:,} | {prices}"
    )


LENGTHS = {False: "short", True: "long"}
HEAD = f"""| {{}} | requests | of them to read again | input | cached | written | output | {" | ".join(PRICED)} |
|{"---|" * 10}"""


def rows(times: int) -> Iterator[Row]:
    """Play every task as shipped and as before, those of the sample with each choice; print the tokens at the end."""
    base: dict[str, float] = {}
    tasks, choices = list[str](), list[str]()
    for choice, played in _play_all(CHOICES):
        unsolved = [f"{one.name}: {one.fault}" for one in played if one.fault]
        if unsolved:
            raise ChildFailedError(f"{choice.name}: {'; '.join(unsolved)}")
        if choice is SHIPPED:
            tasks = [f"| {one.name} | {_cells(one.account)} |" for one in played]
        if choice in (SHIPPED, BEFORE):
            for is_long, length in LENGTHS.items():
                every = [one for one in played if one.is_long is is_long]
                tasks.append(f"| **{len(every)} {length} tasks, {choice.name}** | {_cells(_sum(every))} |")
        for is_long, length in LENGTHS.items():
            account = _sum([one for one in played if one.is_long is is_long and one.name in SAMPLE])
            choices.append(f"| {choice.name}, {length} | {_cells(account)} |")
            dollars = account.dollars(model_info(MODEL, {}))
            base.setdefault(length, dollars)
            yield Row(f"{choice.name}, {length}", dollars, "$", base[length], SHIPPED.name)
    print("", HEAD.format("task, as shipped"), *tasks, "", HEAD.format("choice, in the sample"), *choices, sep="\n")


BENCHMARK = Benchmark("tokens of a solved task, with and without each choice", rows)
