"""What the next request has in the provider's cache after another model or effort was chosen, or before a reload.

Puts the epoch together that would begin, as `/context` does; sends, writes and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.config.settings import Settings
from nexus_cli.context.contents import Contents
from nexus_cli.context.meter import Meter
from nexus_cli.context.window.groups import flatten, group_tool_calls
from nexus_cli.core.entry import Epoch, Slot
from nexus_cli.ledger import LaneLog
from nexus_cli.session.cache import known_life
from nexus_cli.session.engine import Engine
from nexus_cli.session.miss import age, expected
from nexus_cli.session.parts import Parts
from nexus_cli.session.past import resume
from nexus_cli.session.reports.held import held
from nexus_cli.session.switched import switched


def anew(parts: Parts) -> dict[str, int]:
    """`tokens` of the next request, as a status line shows them, and how many of these are `cached`; all of them where
    it goes on from all that the request before it held. `tokens` is 0 before the first request. Blocks."""
    engine, ledger, options = parts.engine, parts.ledger, parts.options
    if ledger is None or options is None:
        return {"tokens": 0, "cached": 0}
    log, settings = ledger.log(parts.session_id), parts.settings or Settings()
    if engine.sent is None:  # not opened yet: what it will know of by then
        engine = replace(engine, meter=engine.meter.fork(), earlier={}, least={}, uses={})
        resume(engine, ledger, log, settings)
    if engine.sent is None:
        return {"tokens": 0, "cached": 0}
    epoch, slots = _next(parts, engine, log, settings)
    if epoch is not engine.lane.epoch:
        parts.engine.ahead = _meter(engine, epoch), epoch.system_tokens + epoch.tools_tokens
    tokens = parts.engine.coming()
    if engine.sent.shares(epoch, slots)[0] >= engine.sent.tokens:
        return {"tokens": tokens, "cached": tokens}
    return {"tokens": tokens, "cached": min(tokens, _cached(engine, epoch, slots))}


def _next(parts: Parts, engine: Engine, log: LaneLog, settings: Settings) -> tuple[Epoch, Sequence[Slot]]:
    """The epoch of the next request, and its window."""
    before, slots, model = engine.lane.epoch, engine.lane.slots, engine.model
    effort = model.effort or before.effort
    if not engine.pending and (before.model, before.effort) == (model.info.name, effort):
        return before, slots
    assert parts.options is not None, "looked at by the caller"
    options = replace(parts.options, model=model.info.name, effort=effort, recipe="")
    recipe = held(log, log.session, options, settings, None).recipe
    head = flatten(group_tool_calls(slots))
    epoch, _ = switched(
        log, options, model.info, recipe, settings, before=before, head=head, effort=effort,
        failed=lambda line: None, runs=options.interactive or parts.limits.allow == "all",
    )  # fmt: skip
    return epoch, head


def _meter(engine: Engine, epoch: Epoch) -> Meter:
    """The meter of a request that begins with `epoch`, of which nothing was reported yet."""
    meter = engine.meter.fork()
    meter.forget()
    meter.contents = Contents(lambda: (epoch, engine.lane.slots))
    return meter


def _cached(engine: Engine, epoch: Epoch, slots: Sequence[Slot]) -> int:
    """Tokens that a cache should hold of it, of whichever request that was sent before."""
    life, now = known_life(engine.model.info), engine.clock()
    sent = [one for one in (engine.sent, *engine.earlier.values()) if one is not None]
    return max(expected(life, one.shares(epoch, slots)[0], age(engine.uses.get(one.epoch.id), now)) for one in sent)
