"""The acts of an agent in spaces: send, answer, read, list its runs. Implements `Spaces` for one session.

Only explicit messages are delivered. A call posts once: its id is the key of the message in the ledger. After a kill,
the next process finds the posted message and its wait by that key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from nexus_cli.core.clock import Clock, format_utc
from nexus_cli.core.elide import clip_text
from nexus_cli.core.entry import AGENT_NAME, Memo
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.memo_kinds import ACTIVE_SPACE
from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import (
    AGENT,
    ENDED,
    QUEUED,
    RUNNING,
    UNATTENDED,
    WAITING,
    Brake,
    Entity,
    Run,
    Space,
    SpaceMessage,
    Wait,
    find_mentions,
    fold_name,
    make_goal,
    name_goal,
    parse_key,
)
from nexus_cli.core.services import Spaces
from nexus_cli.ledger import Ledger, SessionLog
from nexus_cli.ledger.spaces import Posted
from nexus_cli.session.session import Session
from nexus_cli.spaces.agent_goals import add_goal
from nexus_cli.spaces.run_facts import find_active_space
from nexus_cli.spaces.space_history import END, TimelineLines, neutral_text
from nexus_cli.text.untrusted_text import neutralize

MOST = 100
"""Most messages that one call reads."""
ENDED_SHOWN = 5
"""Ended runs that are listed."""
LONGEST_WAIT = 7 * 86_400.0
"""Seconds after which a run no longer waits for a reply."""
_CALLED = re.compile(r"(?<![\w@])@(\w[\w-]*)")
ORIGIN = 500
"""Most characters of the request for which a message was carried to another space."""


@dataclass
class SpaceService(Spaces):
    """The spaces of one agent, as one of its sessions sees them."""

    ledger: Ledger
    log: SessionLog
    session: str
    agent: Entity
    clock: Clock
    brake: Brake

    # Calls of the tools

    def send(self, call: str, text: str, space: str, *, wait: bool) -> ToolResult:
        """Post a message; with `wait` the run waits for its reply."""
        return _answer(lambda: self._send(call, text, self._choose_space(space), wait=wait))

    def reply(self, call: str, message: str, text: str) -> ToolResult:

        def work() -> ToolResult:
            space_message = self._find_message(message)
            space = next(space for space in self._own_spaces() if space.key == space_message.space)
            return self._send(call, text, space, reply_to=space_message.key)

        return _answer(work)

    def enter(self, space: str) -> ToolResult:

        def work() -> ToolResult:
            entered = self._find_space(space)
            self.log.record_memo(
                Memo(ACTIVE_SPACE, format_utc(self.clock()), self.log.last_id(), {"space": entered.key})
            )
            return ToolResult(f"{_quote_name(entered)} is active: {self._members(entered)}.")

        return _answer(work)

    def read(self, space: str, before: str, limit: int) -> ToolResult:
        """Return messages of a space, oldest first, and move the cursor to the newest of them."""
        return _answer(lambda: self._read(self._choose_space(space), before, limit))

    def runs(self) -> ToolResult:
        """Return the open runs of the agent, and the last ended ones."""

        def work() -> ToolResult:
            table = self.ledger.runs
            open_runs = table.list_runs((QUEUED, RUNNING, WAITING), entity=self.agent.key)
            ended = table.list_runs(ENDED, ENDED_SHOWN, entity=self.agent.key)
            return ToolResult("\n".join(map(self._run_line, [*open_runs, *ended])) or "There are no runs.")

        return _answer(work)

    def add_goal(self, text: str, priority: int, long_term: bool) -> ToolResult:

        def work() -> ToolResult:
            add_goal(self.ledger, self.agent, text, priority, long_term=long_term, by=AGENT)
            return ToolResult("The goal was added; it also applies to your later runs.")

        return _answer(work)

    def describe_goal(self, text: str, priority: int, long_term: bool) -> str:
        agent, new = self.ledger.spaces.get_entity(self.agent.key), make_goal(0, text, priority, long_term=long_term)
        lines = [f"goal: {name_goal(new)}", f"agent: {agent.name}"]
        return "\n".join([*lines, *(f"has: {name_goal(goal)}" for goal in agent.goals if goal["done"] is None)])

    def recover(self, call: str) -> ToolResult | None:
        """Return the result of a `send` or `reply` that an earlier process began."""

        def work() -> ToolResult:
            message = self.ledger.spaces.find_posted(self.session, call)
            if message is None:
                return ToolResult(error="not sent: the process ended first. Send it again if it is still needed.")
            space = self.ledger.spaces.get(message.space)
            return self._result(space, Posted(message), wait=message.waits)

        return _answer(work)

    # Sending

    def _send(
        self, call: str, text: str, space: Space, *, wait: bool = False, reply_to: int | None = None
    ) -> ToolResult:
        other_members = self._list_other_members(space)
        if wait and not other_members:
            raise UsageError(_quote_name(space), "the space has no other member who could answer")
        if (
            wait
            and not find_mentions(text, [entity.name for entity in other_members])
            and (called := _CALLED.search(text))
        ):
            names = ", ".join(entity.name for entity in other_members)
            raise UsageError(f"nobody in {_quote_name(space)} is called {called[1][:80]!r}", f"other members: {names}")
        if wait and not self.log.is_saving:
            raise NexusError("ledger", "this session cannot wait", "it is not saved")
        run = self._run()
        cause = self._cause(run)
        # A person's own session is not braked as a whole: they are there.
        root = self.ledger.spaces.root_of(run) if run is not None and run.type in UNATTENDED else 0
        posted = self.ledger.spaces.post(
            space,
            self.agent,
            text,
            format_utc(self.clock()),
            reply_to=reply_to,
            waits=wait,
            origin=self._origin(cause, space),
            hops=1 if cause is None else cause.hops + 1,
            root=root if cause is None else cause.root or cause.key,
            brake=self.brake,
            session=self.session,
            call=call,
        )
        return self._result(space, posted, wait=wait)

    def _result(self, space: Space, posted: Posted, *, wait: bool) -> ToolResult:
        message = posted.message
        lines = [f"{message.id} is posted in {_quote_name(space)}."]
        lines += [f"It started run-{key} of {agent.name}." for agent, key in posted.triggered]
        if message.quiet:
            lines.append(f"It started no{' other' if posted.triggered else ''} agent: {message.quiet}. Ask a person.")
        other_members = self._list_other_members(space)
        mentions = find_mentions(message.text, [entity.name for entity in other_members])
        addressed = [entity for entity in other_members if entity.name in mentions]
        is_cut = bool(message.quiet) and all(entity.kind == AGENT for entity in addressed or other_members)
        if not wait or is_cut:  # no reply can come
            return ToolResult(" ".join(lines))
        who = " and ".join(mentions) if mentions else "anybody"
        value = {
            "space": space.key,
            "message": message.key,
            "from": [entity.key for entity in addressed],
            "sender": self.agent.key,
        }
        until = self.ledger.runs.now() + LONGEST_WAIT
        waits = Wait("reply", f"a reply of {who} in {_quote_name(space)}", value, until)
        return ToolResult(" ".join(lines), waits={"wait": to_json_value(waits), "entity": self.agent.key})

    def _run(self) -> Run | None:
        """Return the open run of this session."""
        run = self.ledger.runs.of_session(self.session)
        return None if run is None or run.has_ended else run

    def _cause(self, run: Run | None) -> SpaceMessage | None:
        """Return the message that the run works for: the newest reply that it received, else its trigger."""
        if run is None:
            return None
        replies = [
            signal.value["message"]
            for signal in self.ledger.runs.signals(run.key, is_taken=True)
            if signal.kind == "reply"
        ]
        key = replies[-1] if replies else run.message
        return self.ledger.spaces.message(key) if key else None

    def _origin(self, cause: SpaceMessage | None, space: Space) -> JsonObject:
        """Return the origin of a message that was asked for in a space other than `space`: author, text and place."""
        if cause is None or cause.space == space.key:
            return {}
        source_space = self.ledger.spaces.get(cause.space)
        text = clip_text(cause.text, ORIGIN)
        return {"who": cause.sender.name, "text": text, "space": source_space.name}

    # Spaces and messages

    def _own_spaces(self) -> list[Space]:
        return self.ledger.spaces.list_spaces(self.agent)

    def _list_other_members(self, space: Space) -> list[Entity]:
        return [member for member in space.members if member.key != self.agent.key]

    def _choose_space(self, name: str) -> Space:
        if name:
            return self._find_space(name)
        if (active := find_active_space(self.log.memos(ACTIVE_SPACE), self._run(), self._own_spaces())) is None:
            raise UsageError("no space is active", f"enter a space, or name one; your spaces: {self._own_names()}")
        return active

    def _find_space(self, name: str) -> Space:
        own_spaces, key = self._own_spaces(), parse_key(name, "space")
        folded_name = fold_name(name.strip().strip('"'))
        spaces = [space for space in own_spaces if fold_name(space.name) == folded_name] or [
            candidate for candidate in own_spaces if candidate.key == key
        ]
        if not spaces:
            why = f"you are not in a space with this name; your spaces: {self._own_names()}"
            raise UsageError(f"space {name[:80]!r}", why)
        return spaces[0]

    def _own_names(self) -> str:
        return ", ".join(map(_quote_name, self._own_spaces())) or "none"

    def _find_message(self, text: str) -> SpaceMessage:
        key = parse_key(text.strip().strip("[]"), "msg")
        message = self.ledger.spaces.message(key) if key else None
        if message is None or message.space not in {space.key for space in self._own_spaces()}:
            raise UsageError(f"message {text[:40]!r}", "no message in your spaces has this id")
        return message

    def _members(self, space: Space) -> str:
        names = [f"{member.name} ({member.kind})" for member in self._list_other_members(space)]
        return ", ".join([*names, "You"])

    def _read(self, space: Space, before: str, limit: int) -> ToolResult:
        first = self._find_message(before).key if before else None
        messages = self.ledger.spaces.read(space, limit=max(1, min(limit, MOST)), before=first)
        last_seen = self.ledger.spaces.seen(space, self.agent)
        lines = [f"{_quote_name(space)}: {self._members(space)}"]
        if messages and self.ledger.spaces.count(space, before=messages[0].key, most=1):
            lines.append(f'  [earlier messages: read_messages(before: "{messages[0].id}")]')
        run = self._run()
        form = TimelineLines.of(self.ledger, space, self.agent, (run and run.message) or END)
        lines += [str(form.format(message, neutral_text(message.text))) for message in messages]
        if messages and messages[-1].key > last_seen:
            self.ledger.spaces.mark_seen(space.key, self.agent.key, messages[-1].key)
        text = "\n".join(lines) if messages else f"{lines[0]}\n(no messages)"
        return ToolResult(text, counts={"messages": len(messages)})

    def _run_line(self, run: Run) -> str:
        mark = " (this run)" if run.session == self.session else ""
        space = self.ledger.spaces.get(run.space) if run.space else None
        place = f" in {_quote_name(space)}" if space else ""
        sender = run.trigger.get("sender", {}).get("name", "")
        why = f"triggered by {sender}{place}" if sender else f"{run.type}{place}"
        waits = f", waits for {run.waits.why}" if run.waits else ""
        return f"{run.id}{mark}: {run.state}, {why}{waits}: {_quote(run.title)}"


def nexus_spaces(session: Session) -> SpaceService:
    """Return the spaces of a plain session, which acts for the agent `nexus`."""
    return _spaces_of(session, session.ledger.spaces.find_entity(AGENT_NAME))


def run_spaces(session: Session, entity: int) -> SpaceService:
    """Return the spaces of the session of a run, which acts for the agent of this key."""
    return _spaces_of(session, session.ledger.spaces.get_entity(entity))


def _spaces_of(session: Session, agent: Entity | None) -> SpaceService:
    assert agent is not None, "only members have the tools of spaces"
    settings = session.engine.settings.spaces
    brake = Brake(settings.max_runs, settings.max_cost)
    return SpaceService(session.ledger, session.record, session.id, agent, session.conversation.clock, brake)


def _answer(work: Callable[[], ToolResult]) -> ToolResult:
    """Return the result of `work`; an error becomes a result for the model."""
    try:
        return work()
    except NexusError as error:
        return ToolResult(error=f"{error.what}: {error.why}.")


def _quote_name(space: Space) -> str:
    return f'"{space.name}"'


def _quote(text: str) -> str:
    return json.dumps(neutralize(text), ensure_ascii=False)
