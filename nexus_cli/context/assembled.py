"""ASSEMBLE as one value: the three layers of a request with their tools, budget, limits and what was decided (seed B).

Made from an epoch and the slots behind its frame, by whoever shows a request or plans one; it decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.tokens.estimator import apportion
from nexus_cli.core.budget import TokenBudget, Used
from nexus_cli.core.entry import Epoch, Slot
from nexus_cli.core.limits import Limits

_FIGURE = re.compile(r"\b(\d[\d,]*)( tokens\b| are left\b)")
"""Tokens in the planner's words: it speaks in our own count."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the planner decided, and how the figures came about."""

    sections: tuple[Mapping[str, Any], ...]
    """Layer 1, then layer 3: the `sections` of interface.md section 8. Their `tokens` are in the scale of the budget
    and come to what their layer uses; `counted` and `full_counted` are our own counts of each."""
    counted: Used
    """Tokens by layer by our own count; the budget holds them as the provider counts, or is expected to."""
    basis: str
    """`reported`, `estimate` or `reported+estimate`."""
    scale: float
    """Tokens of the budget's figures for each one that we count, of all."""
    messages: float
    """The same of the messages alone, what we add to them among it."""


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
        layers: Callable[[Used], Used],
        basis: str,
    ) -> AssembledContext:
        """The request of `slots` (arranged) under `epoch`, of which earlier requests held the entries up to `sent`.

        `fixed` and `told` describe the sections of layers 1 and 3; those stand in the slots already, unless there are
        none. `sent` is -1 where the epoch has sent nothing yet: then no cache has its sections. `layers` says how many
        tokens so many counted ones are.
        """
        late = sum(int(one["tokens"]) for one in told)
        messages = sum(slot.tokens for slot in slots)
        counted = Used(epoch.system_tokens, epoch.tools_tokens, max(0, messages - late), late)
        used = layers(counted)
        scale, beside = _ratio(used.total, counted.total), used.history + used.event
        ratio = _ratio(beside, counted.history + counted.event) if beside else scale
        fixed = [{**one, "cached": bool(one.get("cached")) and sent >= 0} for one in fixed]
        system = scaled(fixed, used.system, _ratio(used.system, counted.system))
        sections = (*system, *scaled(told, used.event, ratio))
        return cls(
            epoch.system,
            tuple(slot for slot in slots if slot.entry <= sent),
            tuple(slot for slot in slots if slot.entry > sent),
            epoch.tools,
            replace(budget, used=used),
            limits,
            Report(sections, counted, basis, scale, ratio),
        )


def _ratio(used: int, counted: int) -> float:
    return used / max(1, counted)


def scaled(rows: Sequence[Mapping[str, Any]], total: int, scale: float) -> list[dict[str, Any]]:
    """Described sections with their tokens in the scale of the budget: what is sent comes to `total`, with what joins
    and wraps it."""
    tokens = apportion(total, [int(one["tokens"]) for one in rows])
    return [_scaled(dict(one), part, scale) for one, part in zip(rows, tokens, strict=True)]


def _scaled(row: dict[str, Any], tokens: int, scale: float) -> dict[str, Any]:
    """A described section; every figure of its reason is in the scale of its tokens."""
    counted, full = int(row["tokens"]), int(row.get("full_tokens", row["tokens"]))
    whole = tokens if full == counted else max(tokens, round(full * scale))
    known = {full: whole, counted: tokens}

    def figure(found: re.Match[str]) -> str:
        plain = int(found[1].replace(",", ""))
        return f"{known.get(plain, round(plain * scale)):,}{found[2]}"

    reason = _FIGURE.sub(figure, str(row.get("reason") or ""))
    return row | {
        "tokens": tokens, "full_tokens": whole, "counted": counted, "full_counted": full, "reason": reason,
    }  # fmt: skip
