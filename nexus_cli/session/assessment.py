"""Assess a task before its turn with the model of `assess.model`; its answer only restricts.

If the model fails or gives no usable answer, nothing is restricted.
"""

from __future__ import annotations

import json
import re
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MODES, Limits
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.turn import prepare_request
from nexus_cli.sections.find_recipe import own_recipe
from nexus_cli.session.acts.side_run import run_separately
from nexus_cli.text.untrusted_text import neutralize

LONGEST_TASK = 4_000
"""Most characters of the task that are sent."""
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


async def assess(engine: Engine, dispatcher: Dispatcher, words: str) -> Limits:
    """Return the limits that the model recommends for a task; its cost counts for the turn. Raises `NexusError` if
    the request of the turn would break its contract."""
    name = engine.settings.assess.model
    if engine.contract is not None:  # a broken contract must not send the task here either
        await prepare_request(engine)
    try:
        model = engine.other_model(name)
        answer = await run_separately(
            engine, dispatcher, own_recipe("assess"), neutralize(words[:LONGEST_TASK]), model=model
        )
    except NexusError as error:
        engine.control.emit_notice(f"{name} could not assess the task: {error.message}", warning=False)
        return Limits()
    limits = parse_assessment(answer)
    if summary := ", ".join(f"{key} {value}" for key, value in limits.to_json().items()):
        engine.control.emit_notice(f"assessed by {name}: {summary}", warning=False)
    return limits


def parse_assessment(answer: str) -> Limits:
    """Parse an answer to limits; ignore unknown keys and invalid values."""
    match = _OBJECT.search(answer)
    try:
        value: Any = json.loads(match[0]) if match else {}
    except (ValueError, RecursionError):
        value = {}
    steps, mode = value.get("recommended_iterations"), value.get("recommended_mode")
    counts = isinstance(steps, int) and not isinstance(steps, bool) and steps > 0
    return Limits(
        max_iterations=steps if counts else None,
        mode=mode if mode in MODES else None,
        confirm=True if value.get("recommend_confirm_dangerous") is True else None,
    )
