"""The question after a plan: whether the model carries it out, and at which level. Front ends ask it."""

from __future__ import annotations

from collections.abc import Mapping

from nexus_cli.core.event import Outcome
from nexus_cli.core.limits import AUTO, EDIT, PLAN

PROMPT = "Proceed with this plan?"
PROCEED = "Proceed with the plan."
"""The message to the model in the person's name."""


def offer_levels(outcome: Outcome | None, level: str, *, has_sandbox: bool) -> Mapping[str, str]:
    """Return the answers to the question after a turn at `level` by the level that each chooses, "" to keep planning;
    none if the turn was not in plan mode or has no answer."""
    if level != PLAN or outcome is None or not (outcome.ok and outcome.text.strip()):
        return {}
    auto = {AUTO: "auto"} if has_sandbox else {}
    return {EDIT: "yes, edit level", **auto, "": "no, keep planning"}
