"""Run bounded work in a side conversation (a fork, or a new conversation), with requests and tool calls within the
limits of a recipe.

It is a turn without steering, event sections, streamed text or rewrites of the window. A conversation without tools
ends at the first call, because providers refuse a history with calls and no tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import TOLD_FACTS
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.request import Model
from nexus_cli.core.services import Waits
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.model_call import call_model
from nexus_cli.permission.approvals import ApprovalDeferred
from nexus_cli.permission.run_limits import SPARE
from nexus_cli.sections.recipe import Recipe
from nexus_cli.text.untrusted_text import as_note

NO_TOOLS = "not run: this run has no tools"
MOST = 10
"""Most steps of a recipe without `max_iterations`."""


async def run_in_fork(
    engine: Engine, dispatcher: Dispatcher, recipe: Recipe, then: Recipe | None = None, most: int | None = None
) -> str:
    """Run the recipe's instruction in a fork of the conversation, with the calls that the recipe allows; return the
    answer.

    With `then` the fork continues with that recipe and its instruction after its first step of calls. Its requests
    begin with the conversation's lines, and are at most `most`; the conversation does not change. Raises `NexusError`.
    """
    return await _run(engine.fork(recipe.name, _instruction(recipe)), dispatcher, recipe, then, most)


async def run_separately(
    engine: Engine,
    dispatcher: Dispatcher,
    recipe: Recipe,
    text: str,
    tools: Sequence[JsonObject] = (),
    *,
    model: Model | None = None,
    facts: Sequence[str] = (),
) -> str:
    """Return the answer to `text` under the recipe's instruction in a new conversation; may raise `NexusError`."""
    instruction = _instruction(recipe)
    side = engine.separate(recipe.name, model or engine.model)
    context = side.context
    header = replace(
        context.conversation.epoch,
        system=instruction,
        system_tokens=context.system_cost(instruction),
        tools=tuple(tools),
        tools_tokens=context.tools_cost(tools),
    )
    context.conversation.rewrite((), "start", (), header)
    notes = {TOLD_FACTS: {"ids": list(facts)}} if facts else None
    context.conversation.append(Kind.USER, Message(Role.USER, text), "nexus", notes)
    return await _run(side, dispatcher, recipe)


def _instruction(recipe: Recipe) -> str:
    if recipe.instruction:
        return recipe.instruction
    why = "the recipe has no `contract` text"
    raise NexusError("config", f"recipe {recipe.name}", why, "Set `contract` in its [overrides]")


async def _run(
    side: Engine, dispatcher: Dispatcher, recipe: Recipe, then: Recipe | None = None, most: int | None = None
) -> str:
    """Run the steps of the side conversation; its usage counts for the turn, within the limits of both."""
    try:
        with side.spending.within(recipe):
            return await _steps(side, dispatcher, recipe, then, most)
    except ApprovalDeferred:
        why = "a tool approval was deferred"
        raise NexusError("denied", f"recipe {recipe.name} was stopped", why, "Run the recipe again") from None


async def _steps(side: Engine, dispatcher: Dispatcher, recipe: Recipe, then: Recipe | None, most: int | None) -> str:
    conversation = side.conversation
    side_dispatcher = _dispatcher(side.window_request(), dispatcher, recipe)
    all_of_it = (recipe.limits.max_iterations or MOST) + SPARE
    remaining_steps = all_of_it if most is None else min(most, all_of_it)
    while True:
        step = conversation.next_step()
        if step.calls and not conversation.epoch.tools:
            return _answer_without_tools(recipe, side.conversation, step.calls)
        if step.calls:
            await side_dispatcher.run(side, step.calls)
            if then is not None:
                conversation.append(Kind.INSTRUCTION, Message(Role.USER, _instruction(then)), "nexus")
                return await _run(side, dispatcher, then, most=None if most is None else most - 1)
            continue
        if step.is_done:
            last = conversation.items[-1].message
            return last.content.strip() if last.role is Role.ASSISTANT else ""
        if not remaining_steps:
            raise NexusError("limit", f"recipe {recipe.name} was stopped", "the step limit was reached")
        remaining_steps -= 1
        notices = side.notices.waiting
        if notices and conversation.attach_preamble("\n".join(map(as_note, notices))):
            notices.clear()
        needs = side.window_request()
        if not needs.fits:
            why = f"the request needs about {needs.upper_bound:,} tokens, but only {needs.room:,} fit"
            raise NexusError("overflow", f"recipe {recipe.name} was stopped", why, "Free context with /compact")
        await call_model(side, needs, main=False)


def _answer_without_tools(recipe: Recipe, conversation: Conversation, calls: Sequence[ToolCall]) -> str:
    """Record results for calls that cannot run, and return the text beside them; raise `NexusError` without text."""
    words = conversation.items[-1].message.content.strip()
    for call in calls:
        conversation.append(Kind.TOOL, Message(Role.TOOL, NO_TOOLS, tool_call_id=call.id), f"tool:{call.name}")
    if words:
        return words
    why = "the model called a tool, but this run has no tools"
    raise NexusError("provider", f"recipe {recipe.name} gave no answer", why, "Try again, or choose another model")


def _dispatcher(request: RequestPlan, dispatcher: Dispatcher, recipe: Recipe) -> Dispatcher:
    """Return a dispatcher like the session's, with the recipe's limits and separate records."""
    return replace(
        dispatcher,
        limits=dispatcher.limits & recipe.limits,
        services=dispatcher.services.without(Waits),
        signals=recipe.signals,
        tokens_at_start=request.tokens,
        denied=[],
        changed={},
        partial_outputs={},
        started_here={},
        errors=0,
    )
