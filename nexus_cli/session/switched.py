"""The epoch that a switch of model or effort would begin, put together as it would be sent, and neither sent nor
recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter
from nexus_cli.context.window.lane import Frame
from nexus_cli.context.window.timeline import MemoryLog
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Drop, Epoch, Memo, Slot
from nexus_cli.core.memory import Facts
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Assembly, Recall, Seen, TokenCounter
from nexus_cli.ledger import LaneLog
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.session.engine import Model
from nexus_cli.session.frames import Frames
from nexus_cli.session.fresh import Nobody, finished
from nexus_cli.session.gathering import gatherer
from nexus_cli.session.memory import open_facts
from nexus_cli.session.offered import names_of, offered
from nexus_cli.session.options import Options
from nexus_cli.tools.registry import ToolRegistry


class _Unwritten(MemoryLog):
    """Goes on after the log of a session, in memory: nothing that is noted here reaches the session."""

    def __init__(self, log: LaneLog) -> None:
        super().__init__(log.last_id(), log.last_drop(), log.next_epoch())
        self._log = log

    def memos(self, kind: str) -> Sequence[Memo]:
        """See `Log`."""
        return [*self._log.memos(kind), *super().memos(kind)]


def switched(
    log: LaneLog,
    options: Options,
    info: ModelInfo,
    recipe: Recipe,
    settings: Settings,
    *,
    before: Epoch,
    head: Sequence[Slot],
    effort: str,
    failed: Callable[[str], None],
    runs: bool,
) -> tuple[Epoch, list[Drop]]:
    """The epoch after `before` for the model `info`, with `head` as its window, and what its sections leave out; `runs`
    as for `fresh_epoch`."""
    unwritten = _Unwritten(log)
    counter = StoredCounter(TiktokenCounter(info.encoding), log)
    budget = TokenBudget.of(info.window, info.max_output)
    context = ContextManager(
        ContextConfig(budget.window, budget.window - budget.available), unwritten, token_counter=counter
    )
    services: dict[type, Any] = {Recall: log, Seen: log, TokenCounter: counter, Assembly: None}
    with ExitStack() as memory:
        facts = services[Facts] = memory.enter_context(open_facts(options.cwd))
        tools = offered(ToolRegistry(None, services), recipe, before)
        gathers = gatherer(
            options, info, recipe, budget, count=counter.count, log=unwritten, clock=local_now,
            started=datetime.fromisoformat(log.session.created).astimezone(), failed=failed, settings=settings,
            tools=lambda: names_of(tools), facts=facts, runs=runs,
        )  # fmt: skip
        rules = rules_for(info.provider, info.name).dumps()
        frames = Frames(
            gathers, Model(info, Nobody(), effort), rules, tools, context.system_cost, context.tools_cost
        )  # fmt: skip
        planned = finished(frames.frame())
    epoch = replace(
        before, id=log.next_epoch(), parent=before.id, cause="model", head=tuple(head), base=log.last_id(),
        **{f.name: getattr(planned.frame, f.name) for f in fields(Frame)},
    )  # fmt: skip
    return epoch, [replace(drop, text=None) for drop in planned.drops]
