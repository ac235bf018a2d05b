"""One request of a session, or the next one, collected from the ledger before a report writes it out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nexus_cli.context.assembled import AssembledContext
from nexus_cli.context.groups import Group, arrange, flatten
from nexus_cli.context.kinds import total
from nexus_cli.context.lane import slot_of
from nexus_cli.context.meter import Meter
from nexus_cli.context.recipe import Recipe
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Drop, Epoch, Slot
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Bound, Limits, compose
from nexus_cli.core.paths import places
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Calibration
from nexus_cli.core.settings import Settings
from nexus_cli.ledger import Ledger, RequestRow, SessionInfo
from nexus_cli.session.frames import PLAN
from nexus_cli.session.fresh import fresh_epoch
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.opening import known_model
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.recipes import recipe_for

MODELLESS = ModelInfo("", "openai", 128_000, known=False)
Sections = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Shown:
    """One request, or the next one."""

    session: SessionInfo | None
    info: ModelInfo
    recipe: Recipe
    epoch: Epoch
    slots: Sequence[Slot]
    """The window, not arranged."""
    cursor: int
    total_entries: int
    row: RequestRow | None
    """None for the next request."""
    sent: int
    """The last entry that an earlier request of this epoch held; -1 when there was no such request."""
    meter: Meter
    drops: Sequence[Drop]
    limits: Limits
    bounds: Sequence[Bound]
    counter: StoredCounter
    event: Sections = ()
    """What was told with this request; with the first one of a new session what would be."""
    told: Sections = ()
    """For the next request of a session: what was told last."""
    notices: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> list[Group]:
        """The window as atomic groups."""
        return arrange(self.slots)

    @cached_property
    def arranged(self) -> list[Slot]:
        """The window as it is sent."""
        return flatten(self.groups)

    @cached_property
    def assembled(self) -> AssembledContext:
        """The request as one value."""
        row = self.row
        reported = row.usage.input if row and row.usage and row.reported else None
        return AssembledContext.of(
            self.epoch,
            self.arranged,
            self.sent,
            fixed=json.loads(self.epoch.sections),
            told=self.event,
            budget=TokenBudget.of(self.info.window, self.info.max_output),
            limits=self.limits,
            expect=self.meter.estimate if reported is None else lambda counted: reported,
            basis=self.meter.basis if reported is None else "reported",
        )


def shown(ledger: Ledger, found: SessionInfo, options: Options, settings: Settings, step: int | None) -> Shown:
    """Request `step` of a session, or with None what it would send next.

    `NexusError("usage", ...)` when there is no such request, or nothing was sent yet.
    """
    log = SessionLogger(ledger=ledger, session=found.id)
    rows = log.request_rows() if step is not None else []
    row = log.last_request() if step is None else _row(rows, step)
    name = str(row.manifest.arguments["model"]) if row and step is not None else options.model or found.model
    info = known_model(ledger, name, settings)
    epoch = log.epoch(row.manifest.epoch) if row and step is not None else log.current_epoch()
    if epoch is None:
        raise NexusError("usage", f"session {found.id}", "it has sent nothing yet", "Ask something first")
    last = row.manifest.last if row and step is not None else log.last_id()
    slots = [*epoch.head, *map(slot_of, log.read(epoch.base + 1, last))]
    recipe, _ = recipe_for(found.recipe, options.cwd)
    limits, bounds = compose(limit_layers(settings, recipe, options, True))
    drops = [drop for drop in ledger.drops(found.id) if step is None or row is None or drop.at <= row.manifest.at]
    told = _told(log, rows, row) if row else ()
    return Shown(
        found, info, recipe, epoch, slots, row.manifest.last if row and step is not None else log.cursor(),
        log.last_id(), row if step is not None else None, _sent(rows, row, epoch, info, options, step),
        _meter(log, info, epoch, slots, row), drops, limits, bounds, StoredCounter(TiktokenCounter(info.encoding), log),
        () if step is None else told, told if step is None else (),
    )  # fmt: skip


def fresh(ledger: Ledger, options: Options, settings: Settings) -> Shown:
    """The first request of a new session."""
    if options.model:
        ledger.calibrate(options.model, _learned(options.model))
    info = known_model(ledger, options.model, settings) if options.model else MODELLESS
    recipe, _ = recipe_for(options.recipe, options.cwd)
    limits, bounds = compose(limit_layers(settings, recipe, options, False))
    notices = [] if info.known else [f"the window of {info.name or 'the model'} is unknown: {info.window} are assumed"]
    epoch, event, log, counter = fresh_epoch(ledger, options, info, recipe, settings, notices.append)
    return Shown(
        None, info, recipe, epoch, (), 0, 0, None, -1, Meter(log.calibration(info.name)),
        ledger.drops(log.session.id), limits, bounds, counter, event, (), tuple(notices),
    )  # fmt: skip


def _row(rows: Sequence[RequestRow], step: int) -> RequestRow:
    if step > len(rows):
        raise NexusError("usage", f"--step {step}", f"this session has sent {len(rows)} requests", "Name one of them")
    return rows[step - 1]


def _sent(
    rows: Sequence[RequestRow],
    row: RequestRow | None,
    epoch: Epoch,
    info: ModelInfo,
    options: Options,
    step: int | None,
) -> int:
    """The last entry that an earlier request of the epoch held, -1 where there is none."""
    before = row if step is None else rows[step - 2] if step > 1 else None
    same = step is not None or (epoch.model, epoch.effort) == (info.name, options.effort or epoch.effort)
    return before.manifest.last if before is not None and before.manifest.epoch == epoch.id and same else -1


def _meter(log: SessionLogger, info: ModelInfo, epoch: Epoch, slots: Sequence[Slot], row: RequestRow | None) -> Meter:
    """What is known of the model's counting, anchored on `row` where that was reported under this epoch."""
    meter = Meter(log.calibration(info.name))
    meter.since = lambda entry: total(slot for slot in slots if slot.entry > entry)
    if row and row.usage and row.reported and row.manifest.epoch == epoch.id:
        sent = sum(slot.tokens for slot in slots if slot.entry <= row.manifest.last)
        meter.anchored(row.manifest.last, epoch.system_tokens + epoch.tools_tokens + sent, row.usage.input)
    return meter


def _told(log: SessionLogger, rows: Sequence[RequestRow], row: RequestRow) -> Sections:
    """What was told with `row`: the plans of the entries that none of the earlier `rows` held; without these what was
    told last."""
    last = row.manifest.last
    plans = [memo for memo in log.memos(PLAN) if memo.entry <= last]
    newest = plans[-1].entry - 1 if plans else 0
    before = max((one.manifest.last for one in rows if one.manifest.step < row.manifest.step), default=0)
    sections: dict[str, dict[str, Any]] = {}
    for memo in plans:
        if memo.entry > (before if rows else newest):
            sections.update({one["id"]: one for one in memo.value["sections"]})
    return tuple(sections.values())


def _learned(model: str) -> Calibration:
    """What the person's ledger knows of `model`; nothing where there is none, or it cannot be read."""
    path = places().ledger
    if not path.exists():
        return Calibration()
    try:
        ledger = Ledger.open(path)
    except NexusError:
        return Calibration()
    try:
        return ledger.calibration(model)
    finally:
        ledger.close()
