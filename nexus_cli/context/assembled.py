"""ASSEMBLE as one value: the three layers of a request with their tools, budget, limits and what was decided (seed B).

Made from an epoch and the slots behind its frame, by whoever shows a request or plans one; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.apportion import apportion
from nexus_cli.core.budget import TokenBudget, Used
from nexus_cli.core.entry import Epoch, Slot
from nexus_cli.core.limits import Limits


@dataclass(frozen=True, slots=True)
class Report:
    """What the planner decided, and how the figures came about."""

    sections: tuple[Mapping[str, Any], ...]
    """Layer 1, then layer 3: the `sections` of interface.md section 8. Their `tokens` are in the scale of the budget
    and come to what their layer uses; `counted` is our own count of each."""
    counted: Used
    """Tokens by layer by our own count; the budget holds them as the provider counts, or is expected to."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    scale: float
    """Tokens of the budget's figures for each one that we count."""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """One request, whole."""

    system: str
    """Layer 1, the text."""
    history: tuple[Slot, ...]
    """Layer 2: what earlier requests held."""
    event: tuple[Slot, ...]
    """Layer 3 with what it belongs to: what no earlier request held, each with its preamble."""
    tools: tuple[Mapping[str, Any], ...]
    """The schemas, in order."""
    budget: TokenBudget
    """With `used` by layer: `event` is what we add to the newest message, its own words count as history."""
    limits: Limits
    report: Report

    @classmethod
    def of(
        cls,
        epoch: Epoch,
        slots: Sequence[Slot],
        sent: int,
        *,
        fixed: Sequence[Mapping[str, Any]],
        told: Sequence[Mapping[str, Any]],
        budget: TokenBudget,
        limits: Limits,
        expect: Callable[[int], int],
        basis: str,
    ) -> AssembledContext:
        """The request of `slots` (arranged) under `epoch`, of which earlier requests held the entries up to `sent`.

        `fixed` and `told` describe the sections of layers 1 and 3; those stand in the slots already, unless there are
        none. `sent` is -1 where the epoch has sent nothing yet: then no cache has its sections. `expect` says how many
        tokens so many counted ones are.
        """
        late = sum(int(one["tokens"]) for one in told)
        messages = sum(slot.tokens for slot in slots)
        counted = Used(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
        total = expect(counted.total)
        scale = total / max(1, counted.total)
        used = Used(*apportion(total, (counted.system, counted.tools, counted.history, counted.event)))
        fixed = [{**one, "cached": bool(one.get("cached")) and sent >= 0} for one in fixed]
        sections = (*scaled(fixed, used.system, scale), *scaled(told, used.event, scale))
        return cls(
            epoch.system,
            tuple(slot for slot in slots if slot.entry <= sent),
            tuple(slot for slot in slots if slot.entry > sent),
            epoch.tools,
            replace(budget, used=used),
            limits,
            Report(sections, counted, basis, scale),
        )


def scaled(rows: Sequence[Mapping[str, Any]], total: int, scale: float) -> list[dict[str, Any]]:
    """Described sections with their tokens in the scale of the budget: what is sent comes to `total`, with what joins
    and wraps it."""
    tokens = apportion(total, [int(one["tokens"]) for one in rows])
    return [_scaled(dict(one), part, scale) for one, part in zip(rows, tokens, strict=True)]


def _scaled(row: dict[str, Any], tokens: int, scale: float) -> dict[str, Any]:
    counted, full = int(row["tokens"]), int(row.get("full_tokens", row["tokens"]))
    reason = str(row.get("reason") or "").replace(f", {counted:,} tokens)", f", {tokens:,} tokens)", 1)
    whole = tokens if full == counted else max(tokens, round(full * scale))
    return row | {"tokens": tokens, "full_tokens": whole, "counted": counted, "reason": reason}
