"""Making room before a request: compaction, then truncation, and the refusal where neither can help (laws 2 and 6)."""

from __future__ import annotations

from nexus_cli.context.lane import Frame
from nexus_cli.core import event
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.session.compact import compact
from nexus_cli.session.engine import Engine

AGAIN_AFTER = 10
"""Steps after which a failed compaction is tried again."""


async def make_room(engine: Engine) -> None:
    """Bring the window to where the next request fits; `NexusError("overflow")` when system and tools alone do not."""
    _refuse_if_hopeless(engine)
    expected = engine.meter.estimate(engine.lane.counted)
    fits = engine.fits()
    if fits and expected < engine.compact.at * engine.budget.available:
        return
    if _may_compact(engine, fits):
        await compact(engine, "window", engine.compact.to)
    if not engine.fits():
        truncate(engine)


async def after_overflow(engine: Engine, error: ProviderError) -> None:
    """The provider refused the request as too long: learn from its words and cut harder than usual."""
    engine.overflowed(engine.lane.counted, error)
    _refuse_if_hopeless(engine)
    if not await compact(engine, "overflow", engine.compact.overflow_to):
        truncate(engine)
    if not engine.fits():
        truncate(engine)


def truncate(engine: Engine, *, cause: str = "truncation", frame: Frame | None = None) -> None:
    """Cut the window down to the low-water mark and tell what was left out."""
    drops = engine.context.rewriter.truncate(
        engine.lane, engine.meter.countable(engine.budget.available), cause=cause, frame=frame
    )
    engine.meter.forget()
    for drop in drops:
        engine.emit(event.Dropped(drop))


def _may_compact(engine: Engine, fits: bool) -> bool:
    failed = engine.last_failed_compaction
    return failed is None or not fits or engine.step - failed >= AGAIN_AFTER


def _refuse_if_hopeless(engine: Engine) -> None:
    epoch = engine.lane.epoch
    fixed = epoch.system_tokens + epoch.tools_tokens
    available = engine.budget.available
    if fixed > engine.meter.countable(available):
        parts = sorted(engine.fixed_parts().items(), key=lambda part: -part[1])[:3]
        named = ", ".join(f"{name} {tokens}" for name, tokens in parts)
        raise NexusError(
            "overflow",
            "system text and tools alone exceed the budget",
            f"{fixed} of {available} tokens ({named})",
            "Shorten the instruction files, use --no-tools, or a model with a larger window",
        )
