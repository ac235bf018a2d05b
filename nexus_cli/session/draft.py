"""The epoch that a request would begin, put together as it would be sent, and neither sent nor recorded: the first one
of a session that does not exist yet, and the next one after a reload or a switch of model or effort."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from nexus_cli.config.settings import Settings
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.sections.collect import EpochDraft, SectionCollector
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens.counter import StoredCounter, TiktokenCounter
from nexus_cli.context.window.groups import flatten, group_tool_calls
from nexus_cli.context.window.lane import with_frame
from nexus_cli.context.window.timeline import MemoryLog
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Drop, Epoch, Memo, WindowItem
from nexus_cli.core.limits import UNASKED
from nexus_cli.core.memory import Facts
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Assembly, Log, Plans, Recall, SeenFileStore, TextCounter, Waits, Workers
from nexus_cli.lane.current_request import begins_epoch, next_request
from nexus_cli.lane.lane_state import NextEpoch
from nexus_cli.lane.next_request import NextRequest, Sections
from nexus_cli.lane.options import Options
from nexus_cli.lane.prompt_assembly import PromptAssembly
from nexus_cli.lane.request_history import load_history
from nexus_cli.lane.section_sources import make_collector
from nexus_cli.lane.tool_selection import select_tools, tool_names
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.provider.call_arguments import sent_effort
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.memory.session_facts import open_facts
from nexus_cli.session.session_state import SessionState
from nexus_cli.tools.registry import ToolRegistry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FirstEpoch:
    """The first epoch of a session that does not exist yet."""

    epoch: Epoch
    told: Sections
    """The event sections of its first request."""
    drops: Sequence[Drop]
    """Drops of its system text, as a ledger in memory has them."""
    count: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class DraftInputs:
    """Inputs of a drafted epoch."""

    options: Options
    info: ModelInfo
    recipe: Recipe
    settings: Settings
    failed: Callable[[str], None]
    """Told which contributor was skipped, and what is odd about a file that was read."""
    runs: bool
    """True if a command may run in that session, or the person can be asked."""
    permission: Mapping[str, Any] = field(default_factory=dict)
    """What the section `permission` of its first request says."""

    def first(self, ledger: Ledger) -> FirstEpoch:
        """Return the first epoch of a new session, which begins in `ledger`, one in memory."""
        options, info = self.options, self.info
        moment = local_now()
        made = ledger.create_session(
            folder=str(options.cwd),
            project=str(project_identity(options.cwd)),
            model=info.name,
            recipe=self.recipe.name,
            at=format_utc(moment),
        )
        log = ledger.log(made.id)
        effort = sent_effort(info.name, options.effort)
        with self._frames(log, log, moment, effort, None) as (frames, gathers, context):
            planned, told = run_to_end(_draft_and_told(frames, gathers))
        context.lane.replace_header(planned.frame)
        for drop in planned.drops:
            log.record_drop(drop)
        return FirstEpoch(context.lane.epoch, told, log.drops(), context.counter.count)

    def after(self, log: LaneLog, before: Epoch, head: Sequence[WindowItem], effort: str) -> tuple[Epoch, list[Drop]]:
        """Return the epoch after `before` with `head` as its window, and what its sections leave out."""
        began = datetime.fromisoformat(log.session.created).astimezone()
        with self._frames(log, _Unwritten(log), began, effort, before) as (frames, _, _):
            planned = run_to_end(frames.draft_epoch())
        new = replace(
            before, id=log.next_epoch(), parent=before.id, cause="model", head=tuple(head), base=log.last_id()
        )
        return with_frame(new, planned.frame), [replace(drop, text=None) for drop in planned.drops]

    @contextmanager
    def _frames(
        self, kept: LaneLog, log: Log, began: datetime, effort: str, before: Epoch | None
    ) -> Iterator[tuple[PromptAssembly, SectionCollector, ContextManager]]:
        """Give what plans sections; the tools read from `kept`, what is left out is noted in `log`."""
        options, info, recipe = self.options, self.info, self.recipe
        counter = StoredCounter(TiktokenCounter(info.encoding), kept)
        budget = TokenBudget.of(info.window, info.max_output)
        context = ContextManager(token_counter=counter)
        services: dict[type, Any] = {Recall: kept, SeenFileStore: kept, TextCounter: counter}
        services |= {Assembly: None, Workers: None, Waits: None, Plans: None}
        with ExitStack() as memory:
            facts = services[Facts] = memory.enter_context(open_facts(options.cwd))
            registry = ToolRegistry(() if before is None and options.no_tools else None, services)
            tools = select_tools(registry, recipe, before)
            gathers = make_collector(
                options,
                info,
                recipe,
                budget,
                count=counter.count,
                log=log,
                clock=local_now,
                started=began,
                failed=self.failed,
                settings=self.settings,
                tools=tool_names(tools),
                facts=facts,
                runs=self.runs,
                permission=lambda: self.permission,
            )
            made = PromptAssembly(gathers, context, tools, rules_for(info.provider, info.name).dumps(), effort)
            yield made, gathers, context


class _Unwritten(MemoryLog):
    """Goes on after the log of a session, in memory: nothing that is noted here reaches the session."""

    def __init__(self, log: LaneLog) -> None:
        super().__init__(log.last_id(), log.last_drop(), log.next_epoch())
        self._log = log

    def memos(self, kind: str) -> Sequence[Memo]:
        """See `Log`."""
        return [*self._log.memos(kind), *super().memos(kind)]


async def _draft_and_told(frames: PromptAssembly, gathers: SectionCollector) -> tuple[EpochDraft, Sections]:
    return await frames.draft_epoch(), (await gathers.changed_sections()).to_json()


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` gives, also where the loop of this thread already runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def prepare_next_request(state: SessionState) -> NextRequest:
    """Return the next request of a session that runs here; what it begins with is looked up where that is another
    system text by then, and what a cache may hold where the session was not opened yet. Blocks, and sends nothing."""
    lane_state, ledger, options = state.lane_state, state.ledger, state.options
    if ledger is None or options is None:
        return next_request(lane_state)
    log, settings = ledger.log(state.session_id), lane_state.settings
    if lane_state.cache.last is None:
        lane_state.cache = load_history(lane_state, ledger, log, settings)
    if lane_state.lane.is_recorded and begins_epoch(lane_state):
        info, before, notices = lane_state.model.info, lane_state.lane.epoch, list[str]()
        runs = options.interactive or state.limits.allow in UNASKED
        drafting = DraftInputs(options, info, state.recipe, settings, notices.append, runs)
        head = flatten(group_tool_calls(lane_state.lane.items))
        epoch, drops = drafting.after(log, before, head, lane_state.model.effort or before.effort)
        lane_state.draft = NextEpoch(epoch, tuple(drops), tuple(notices))
    return next_request(lane_state)
