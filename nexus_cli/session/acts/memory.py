"""Acts on memory: consolidate facts, extract facts before a compaction, reflect on the session.

Each runs in a fork or a side conversation, without changing the conversation. Facts that the person stated or accepted
stay until they accept a replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.memory import Fact, FactMerger, FactState, MemorySlot
from nexus_cli.core.shared_types import TakeText
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.ledger import Ledger
from nexus_cli.sections.find_recipe import own_recipe
from nexus_cli.session.acts.side_run import run_in_fork, run_separately
from nexus_cli.session.base_session import Act, BaseSession
from nexus_cli.session.session_facts import SessionFacts
from nexus_cli.text.untrusted_text import neutralize
from nexus_cli.tools.registry import ToolRegistry

SLOTS = (MemorySlot.AGENT, MemorySlot.PROJECT)
"""Slots that are consolidated; facts about the person are not."""
SHARE = 0.5
"""Share of the budget for the list of facts."""
TOOL = "remember"


@dataclass
class Consolidation:
    """The act that consolidates the facts; it has the changes as its result, also after an error."""

    looked_at: int = 0
    """Facts that the model reviewed."""
    left: int = 0
    """Older facts that it did not review."""
    remembered: Sequence[Fact] = ()
    """Facts that it wrote; proposals wait for the person."""
    forgotten: Sequence[Fact] = ()
    answer: str = ""
    """The model's comment."""

    async def __call__(self, session: BaseSession) -> None:
        """Consolidate the facts of the session's project and agent. May raise `NexusError`."""
        recipe = own_recipe("sleep_consolidate")
        before = _facts(session)
        ours = [fact for fact in before if fact.slot in SLOTS]
        _check_facts(ours)
        sent_facts = _newest_that_fit(session, ours)
        self.looked_at, self.left = len(sent_facts), len(ours) - len(sent_facts)
        tool_names = recipe.limits.tools or frozenset()
        dispatcher = _merging(session.dispatcher)
        tools = [
            definition
            for definition in dispatcher.registry.get_definitions()
            if definition["function"]["name"] in tool_names
        ]
        try:
            text = "\n".join(map(_line, sent_facts))
            ids = [fact.id for fact in sent_facts]
            self.answer = await run_separately(session.engine, dispatcher, recipe, text, tools, facts=ids)
        finally:
            after = {fact.id: fact for fact in _facts(session)}
            earlier_facts = {fact.id: fact for fact in before}
            self.remembered = [fact for fact in after.values() if earlier_facts.get(fact.id) != fact]
            self.forgotten = [fact for fact in before if fact.id not in after]

    @staticmethod
    def check(folder: Path) -> None:
        """Raise `UsageError` if a session in `folder` has too few facts to consolidate."""
        with Ledger.read_personal() as ledger:
            _check_facts(ledger.facts.list_facts(ledger.project_of(folder), SLOTS))


def _check_facts(facts: Sequence[Fact]) -> None:
    """Raise `UsageError` if these are too few facts to consolidate."""
    if len(facts) < 2:
        why = f"the project and the agent have {'only one fact' if facts else 'no facts'}"
        raise UsageError("nothing to consolidate", why, "See `nexus memory list`")


def _merging(dispatcher: Dispatcher) -> Dispatcher:
    """Return the dispatcher with the tool that merges facts."""
    services = dispatcher.services.plus(FactMerger, FactMerger(dispatcher.services[SessionFacts].merge))
    return replace(dispatcher, registry=ToolRegistry(None, services), services=services)


def _facts(session: BaseSession) -> list[Fact]:
    """Return the facts of every slot, the newest first; raise `UsageError` without a ledger."""
    if session.has_no_ledger:
        raise UsageError(
            "no memory",
            "another program created this session without a ledger",
            "Start the session with nexus",
        )
    return session.ledger.facts.list_facts(session.ledger.project_of(session.dispatcher.cwd))


def _newest_that_fit(session: BaseSession, facts: Sequence[Fact]) -> list[Fact]:
    """Return the newest of `facts` that fit a request."""
    context = session.engine.context
    room = int(context.countable(context.budget.available) * SHARE)
    fitting: list[Fact] = []
    for fact in facts:
        room -= context.count(_line(fact))
        if room < 0:
            break
        fitting.append(fact)
    return fitting


def _line(fact: Fact) -> str:
    kind = "waits for the person" if fact.state is FactState.PROPOSED else "kept"
    kind += f", replaces {', '.join(fact.replaces)}" if fact.replaces else ""
    return f"{fact.id} ({fact.slot}, {fact.at[:10]}, {kind}): {neutralize(fact.statement)}"


async def extract_facts(dispatcher: Dispatcher, engine: Engine) -> None:
    """Let a fork of the conversation store facts. An error becomes a notice, and the compaction continues. Does nothing
    without memory."""
    if dispatcher.registry.get(TOOL) is None:
        return
    try:
        await run_in_fork(engine, dispatcher, own_recipe("pre_compaction"))
    except NexusError as error:
        engine.control.emit_notice(f"no facts were saved before the compaction: {error.message}", warning=False)


def reflection(tell: TakeText, *, goes_on: bool = False, most: int | None = None) -> Act:
    """Ask the model for its lessons, in at most `most` requests, and pass its answer to `tell`.

    With `goes_on` the recipe `reflection_cont` follows its first calls. Raises `NexusError` if the session has
    no turn yet, or an open call.
    """

    async def act(session: BaseSession) -> None:
        engine = session.engine
        if not engine.conversation.newest_words():
            raise UsageError("/reflect", "this session has no turn yet", "Send a message first")
        if not engine.conversation.next_step().is_done:
            raise UsageError("/reflect", "the last turn is not finished", "Finish it with /continue first")
        await engine.begin_pending_epoch()
        then = own_recipe("reflection_cont") if goes_on else None
        tell(await run_in_fork(engine, session.dispatcher, own_recipe("reflection"), then, most))

    return act
