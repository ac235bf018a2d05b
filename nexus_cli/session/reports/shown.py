"""One request of a session, or the next one, collected from the ledger before a report writes it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.assembled import AssembledContext
from nexus_cli.context.contents import Contents
from nexus_cli.context.meter import Meter
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter
from nexus_cli.context.window.groups import Group, flatten, group_tool_calls
from nexus_cli.context.window.lane import slot_of
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.entry import Drop, Epoch, Form, Memo, Slot
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits, compose_limits
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import ModelInfo
from nexus_cli.ledger import LaneLog, Ledger, RequestRow, SessionInfo, pick_request
from nexus_cli.provider.call_arguments import effort_notice
from nexus_cli.session.anchors import anchor_on, take_anchor
from nexus_cli.session.in_force import LIMITS, limits_of
from nexus_cli.session.memo_kinds import PLAN
from nexus_cli.session.opening import known_model, looked_at
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.recipes import recipe_of
from nexus_cli.session.reports.held import Held, held
from nexus_cli.session.signals import Signals

MODELLESS = ModelInfo("", "openai", 128_000, known=False)
UNNOTED = "the limits that this request was sent under were not recorded at that time"
Sections = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Running:
    """What a session that runs here knows, beside what is on record."""

    now: Signals | None = None
    """The state of its run."""
    pending: str = ""
    """Why its next request begins a new epoch, or ""."""
    meter: Meter | None = None
    along: tuple[str, ...] = ()
    """Texts that wait to be sent with the person's next message."""


IDLE = Running()


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
    bounds: Sequence[Mapping[str, Any]]
    """The limits in force, described; none for a request of before they were recorded."""
    counter: StoredCounter
    event: Sections = ()
    """What was told with this request; with the first one of a new session what would be."""
    told: Sections = ()
    """For the next request of a session: what was told last."""
    notices: tuple[str, ...] = ()
    memos: Callable[[str], Sequence[Memo]] = lambda kind: ()
    """Those of its lane of one kind, by then."""
    along: Sequence[Slot] = ()
    """What waits to be sent with the person's next message."""

    @cached_property
    def groups(self) -> list[Group]:
        """The window as atomic groups."""
        return group_tool_calls(self.slots)

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
            [*self.arranged, *self.along],
            self.sent,
            fixed=json.loads(self.epoch.sections),
            told=self.event,
            budget=TokenBudget.of(self.info.window, self.info.max_output),
            limits=self.limits,
            layers=lambda counted: self.meter.layers(counted, reported),
            basis=self.meter.basis if reported is None else "reported",
        )


def shown(
    ledger: Ledger,
    found: SessionInfo,
    options: Options,
    settings: Settings,
    step: int | None,
    recipe: Recipe | None = None,
    running: Running = IDLE,
) -> Shown:
    """Request `step` of a session, or with None what it would send next, in `recipe` where that is at hand, and as
    `running` says where it runs.

    `NexusError("usage", ...)` when there is no such request, or nothing was sent yet.
    """
    log = ledger.log(found.id)
    if step is None:
        return _next(ledger, log, found, options, settings, held(log, found, options, settings, recipe), running)
    rows = log.requests()
    row = pick_request(rows, step)
    epoch, last = log.epoch(row.manifest.epoch), row.manifest.last
    slots = [*epoch.head, *map(slot_of, log.read(epoch.base + 1, last))]
    noted = limits_of(log.memos(LIMITS), row.manifest)
    kept = noted or {"recipe": found.recipe, "section_budget": None, "limits": ()}
    asked = row.manifest.arguments
    info = _then(known_model(ledger, str(asked["model"]), settings), {**_beside(asked), **kept})
    before = rows[step - 2] if step > 1 else None
    return Shown(
        found, info, Recipe(str(kept["recipe"]), section_budget=kept["section_budget"]), epoch, slots, last,
        log.last_id(), row, before.manifest.last if before and before.manifest.epoch == epoch.id else -1,
        _meter(log, info, epoch, slots, row),
        [drop for drop in log.drops() if row.manifest.is_newer_than(drop.after, drop.at)], Limits(),
        tuple(kept["limits"]), StoredCounter(TiktokenCounter(info.encoding), log), _told(log, rows, row),
        notices=() if noted else (UNNOTED,),
        memos=lambda kind: [memo for memo in log.memos(kind) if row.manifest.is_newer_than(memo.entry, memo.at)],
    )  # fmt: skip


def _then(info: ModelInfo, noted: Mapping[str, Any]) -> ModelInfo:
    """The model with the window that it was taken to have when a request was sent; requests of before this was recorded
    are shown in that of today."""
    return replace(info, **{name: noted[name] for name in ("window", "max_output") if name in noted})


def _beside(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The window that stood among the arguments of a request for a while, before it stood with the limits."""
    return {"window": asked["window"], "max_output": asked.get("most_output")} if "window" in asked else {}


def _next(
    ledger: Ledger, log: LaneLog, found: SessionInfo, options: Options, settings: Settings, holds: Held,
    running: Running,
) -> Shown:
    """What a session would send next; under a new epoch where one is `pending`, or the model or the effort is another
    one by then, and its recipe says what that begins with."""
    row, epoch = log.last_request(), log.current_epoch()
    if epoch is None:
        raise NexusError("usage", f"session {found.id}", "it has sent nothing yet", "Ask something first")
    if holds.lost:
        options = replace(options, model=epoch.model, effort=epoch.effort)
    info = known_model(ledger, options.model or found.model, settings)
    slots = [*epoch.head, *map(slot_of, log.read(epoch.base + 1, log.last_id()))]
    sent = row.manifest.last if row and row.manifest.epoch == epoch.id else -1
    drops, notices = log.drops(), [holds.lost] if holds.lost else []
    effort = "" if effort_notice(info.name, options.effort) else options.effort
    counter = StoredCounter(TiktokenCounter(info.encoding), log)
    meter, began = _running_meter(running, log, info), epoch
    if running.meter is None and epoch.model == info.name:
        meter.contents = Contents(lambda: (began, slots))
        take_anchor(meter, log, epoch, slots)
    if running.pending or (epoch.model, epoch.effort) != (info.name, effort or epoch.effort):
        from nexus_cli.session.switched import switched  # noqa: PLC0415  (contributors, for few reports)

        notices.append(_change(epoch, info.name, effort or epoch.effort))
        epoch, left = switched(
            log, options, info, holds.recipe, settings, before=epoch, head=flatten(group_tool_calls(slots)),
            effort=effort or epoch.effort, failed=notices.append, runs=_runs(options, holds.limits),
        )  # fmt: skip
        slots, sent, drops = list(epoch.head), -1, [*drops, *left]
        meter.forget()
    meter.contents = Contents(lambda: (epoch, slots))
    view = Shown(
        found, info, holds.recipe, epoch, slots, log.cursor(), log.last_id(), None, sent,
        meter, drops, holds.limits, (), counter, (), _told(log, [], row) if row else (), tuple(notices), log.memos,
        _along(running.along, log.last_id() + 1, counter),
    )  # fmt: skip
    return _limited(view, holds, running.now)


def _running_meter(running: Running, log: LaneLog, info: ModelInfo) -> Meter:
    """That of the session where it runs here, else what is on record of the model's counting."""
    return running.meter.fork() if running.meter else Meter(log.calibration(info.served_name))


def _along(texts: Sequence[str], number: int, counter: StoredCounter) -> list[Slot]:
    """What waits for the next message, which will be entry `number`, as it would stand in the window."""
    return [Slot(number, Form.FULL, Message(Role.USER, text), tokens=counter.count(text)) for text in texts]


def _limited(view: Shown, holds: Held, now: Signals | None = None) -> Shown:
    """A request that comes next under what holds for it, and what the state of the run makes of that."""
    holds = holds.at(view.assembled.budget, now)
    return replace(view, limits=holds.limits, bounds=holds.described())


def _change(epoch: Epoch, model: str, effort: str) -> str:
    """What a person is told who looks at a request that begins with other words than the one before."""
    if epoch.model != model:
        return f"a switch of model begins a new epoch; this shows what {model} would be sent, after {epoch.model}"
    if epoch.effort == effort:
        return "a reload begins a new epoch; this shows what would be sent"
    return f"a switch of effort begins a new epoch; this shows what would be sent with {effort!r}"


def fresh(ledger: Ledger, options: Options, settings: Settings, along: Sequence[str] = ()) -> Shown:
    """The first request of a new session; `along` are texts that wait for it."""
    from nexus_cli.session.fresh import fresh_epoch  # noqa: PLC0415  (contributors; not for a session that is there)

    info = MODELLESS
    if options.model:
        with looked_at() as kept:
            info = known_model(kept, options.model, settings)
            ledger.calibrate(info.served_name, kept.calibration(info.served_name))
    recipe, _ = recipe_of(None, options)
    limits, bounds = compose_limits(limit_layers(settings, recipe, options, False))
    unknown = f"the window of {info.name} is unknown" if info.name else "no model is chosen"
    notices = [] if info.known or info.window_refused else [f"{unknown}: a window of {info.window:,} tokens is assumed"]
    runs = _runs(options, limits)
    epoch, event, log, counter = fresh_epoch(ledger, options, info, recipe, settings, notices.append, runs=runs)
    view = Shown(
        None, info, recipe, epoch, (), 0, 0, None, -1, _meter(log, info, epoch, (), None),
        log.drops(), limits, (), counter, event, (), tuple(notices),
        along=_along(along, 1, counter),
    )  # fmt: skip
    return _limited(view, Held(recipe, limits, bounds))


def _runs(options: Options, limits: Limits) -> bool:
    """Whether a command may run, or somebody can be asked, in a session with these."""
    return options.interactive or limits.allow == "all"


def _meter(log: LaneLog, info: ModelInfo, epoch: Epoch, slots: Sequence[Slot], row: RequestRow | None) -> Meter:
    """What is known of the model's counting, anchored on `row` where that was reported under this epoch."""
    meter = Meter(log.calibration(info.served_name), Contents(lambda: (epoch, slots)))
    if row:
        anchor_on(meter, row, epoch, slots)
    return meter


def _told(log: LaneLog, rows: Sequence[RequestRow], row: RequestRow) -> Sections:
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
