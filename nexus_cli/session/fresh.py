"""The first request of a session that does not exist yet, put together and not sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.sections.collect import SectionCollector
from nexus_cli.context.sections.epoch_draft import EpochDraft
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.entry import Epoch
from nexus_cli.core.memory import Facts
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Assembly, Recall, Seen, TokenCounter
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.provider.call_arguments import effort_notice
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.engine import Model
from nexus_cli.session.frames import Frames
from nexus_cli.session.gathering import gatherer
from nexus_cli.session.memory import open_facts
from nexus_cli.session.offered import names_of, offered
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry

T = TypeVar("T")
Both = tuple[EpochDraft, list[dict[str, Any]]]
"""The frame of a first epoch and the described event sections."""


def fresh_epoch(
    ledger: Ledger,
    options: Options,
    info: ModelInfo,
    recipe: Recipe,
    settings: Settings,
    failed: Callable[[str], None],
    *,
    runs: bool,
) -> tuple[Epoch, list[dict[str, Any]], LaneLog, StoredCounter]:
    """The epoch, the event sections, and the log (in `ledger`, one in memory) that the drops stand in.

    `failed` is told which contributor was skipped, and what is odd about a file that was read; `runs` says whether a
    command may run in that session, or somebody can be asked.
    """
    moment = local_now()
    made = ledger.create_session(
        folder=str(options.cwd), project=str(project_root(options.cwd)), model=info.name, recipe=recipe.name,
        at=format_utc(moment),
    )  # fmt: skip
    log = ledger.log(made.id)
    counter = StoredCounter(TiktokenCounter(info.encoding), log)
    budget = TokenBudget.of(info.window, info.max_output)
    context = ContextManager(ContextConfig(budget.window, budget.window - budget.available), log, token_counter=counter)
    services: dict[type, Any] = {Recall: log, Seen: log, TokenCounter: counter, Assembly: None}
    memory = ExitStack()
    facts = services[Facts] = memory.enter_context(open_facts(options.cwd))
    tools = offered(ToolRegistry(() if options.no_tools else None, services), recipe)
    gathers = gatherer(
        options, info, recipe, budget, count=counter.count, log=log, clock=local_now, started=moment,
        failed=failed, settings=settings, tools=lambda: names_of(tools), facts=facts, runs=runs,
    )  # fmt: skip
    rules = rules_for(info.provider, info.name).dumps()
    effort = "" if effort_notice(info.name, options.effort) else options.effort
    frames = Frames(
        gathers, Model(info, Nobody(), effort), rules, tools, context.system_cost, context.tools_cost
    )  # fmt: skip
    with memory:
        planned, event = finished(_both(frames, gathers))
    context.lane.reframe(planned.frame)
    for drop in planned.drops:
        log.record_drop(drop)
    return context.lane.epoch, event, log, counter


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives, also where the loop of this thread already runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def _both(frames: Frames, collector: SectionCollector) -> Both:
    return await frames.frame(), (await collector.changed_sections()).to_json()


class Nobody:
    """A provider that is never asked."""

    def stream(self, request: object) -> Any:
        raise AssertionError("a report sends nothing")


