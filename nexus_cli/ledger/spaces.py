"""The tables of spaces: members, messages, and the cursor of each member.

Posting a message is one transaction with its consequences: signals for the runs that wait for it, and queued runs for
the agents that it triggers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.errors import NexusError, UsageError, nearest_name
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.run import (
    AGENT,
    GOALS,
    HUMAN,
    LONGEST_MESSAGE,
    MUTED_END,
    QUEUED,
    SELF,
    WAITING,
    Brake,
    Entity,
    Run,
    Space,
    SpaceMessage,
    check_name,
    find_mentions,
    fold_name,
    parse_key,
)
from nexus_cli.ledger.database import Database
from nexus_cli.ledger.runs import cancel_run, queue_run
from nexus_cli.ledger.signals import OPEN, count_caused, signal_member_left, signal_replies
from nexus_cli.ledger.stored_levels import read_options

MAX_HOPS = 12
"""Consecutive messages of agents that may trigger another agent. After that, a person has to post."""
ROOT, QUIET, FIRST = "root", "quiet", "first_quiet"
"""Fields of `SpaceMessage` that are stored with its origin."""
BRAKE = Brake()
MUTED = "muted"
"""Option of an agent: the keys of the spaces whose messages do not start it."""
_MESSAGE = (
    "m.key, m.space, e.key, e.name, e.kind, e.options, m.at, m.text, m.reply_to, m.waits, m.origin, m.hops"
    " FROM messages m JOIN entities e ON e.key = m.sender"
)


@dataclass(frozen=True, slots=True)
class Posted:
    """A posted message and its consequences."""

    message: SpaceMessage
    triggered: tuple[tuple[Entity, int], ...] = ()
    """The triggered agents, with the keys of their runs."""
    resumed: tuple[int, ...] = ()
    """Keys of the runs that it resumed."""


class SpaceTable:
    """The spaces of one ledger. Methods that write have committed when they return."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # Members

    def entity(self, name: str, kind: str, options: JsonObject | None = None) -> Entity:
        """Return the entity of a name, created if it does not exist; raise `UsageError` if it has another
        kind.

        `options` replace those of an agent.
        """
        name = check_name(name, "the name")
        if fold_name(name) in {fold_name(SELF), *([] if kind == AGENT else [AGENT_NAME])}:
            raise UsageError(f"name {name}", "this name is reserved", "Choose another name")
        with self._db.write():
            self._db.lock("entities")
            existing = self.find_entity(name)
            if existing is None:
                self._db.run(
                    "INSERT INTO entities (name, folded, kind, options) VALUES (?, ?, ?, ?)",
                    name,
                    fold_name(name),
                    kind,
                    json.dumps(dict(options or {})),
                )
            elif existing.kind != kind:
                holder = "an agent" if existing.kind == AGENT else "a person"
                raise UsageError(f"name {existing.name}", f"{holder} has this name", "Choose another name")
            elif options is not None:
                self._db.run("UPDATE entities SET options = ? WHERE key = ?", json.dumps(dict(options)), existing.key)
        entity = self.find_entity(name)
        assert entity is not None
        return entity

    def find_entity(self, name: str) -> Entity | None:
        """Return the entity of a name, None if it does not exist."""
        return next(iter(self._entities("folded = ?", fold_name(name.strip()))), None)

    def get_entity(self, key: int) -> Entity:
        entities = self._entities("key = ?", key)
        if not entities:
            raise UsageError(f"ent-{key}", "there is no such member")
        return entities[0]

    def _entities(self, condition: str, value: Any) -> list[Entity]:
        rows = self._db.all(f"SELECT key, name, kind, options FROM entities WHERE {condition} ORDER BY key", value)
        return [Entity(key, name, kind, read_options(options)) for key, name, kind, options in rows]

    def own_role(self) -> str:
        """Return the role of this connection on a server, "" for a file."""
        rows = self._db.constants("SELECT current_user") if self._db.is_shared else []
        return str(rows[0][0]) if rows else ""

    def is_own(self, entity: Entity) -> bool:
        """True if this role may act as `entity`: as the person of its name, as an agent that it made, and as `nexus`.
        In a file everybody is the person's own."""
        if not self._db.is_shared or (entity.kind == AGENT and fold_name(entity.name) == AGENT_NAME):
            return True
        if entity.kind != AGENT:
            return fold_name(entity.name) == fold_name(self.own_role())
        return self._db.one("SELECT 1 FROM entities WHERE key = ? AND made_by = current_user", entity.key) is not None

    # Spaces

    def create(self, name: str, at: str, *, project: str = "", members: Sequence[Entity] = ()) -> Space:
        """Create a space; raise `UsageError` if the name is taken."""
        with self._db.write():
            self._db.lock("spaces")
            name = self.check_free(name)
            key = self._db.insert(
                "INSERT INTO spaces (name, folded, project, at) VALUES (?, ?, ?, ?)",
                name,
                fold_name(name),
                replace_surrogates(project),
                at,
            )
            for member in members:
                self._add_member(key, name, member)
        return self.get(key)

    def check_free(self, name: str) -> str:
        """Return the name of a new space; raise `UsageError` if it is invalid or taken."""
        name = check_name(name, "the name of a space", colons=True)
        if self._db.one("SELECT 1 FROM spaces WHERE folded = ?", fold_name(name)):
            raise UsageError(f"space {name}", "a space with this name already exists", "Choose another name")
        return name

    def join(self, space: Space, member: Entity) -> bool:
        """Add a member, for whom all earlier messages are new; False if it is a member already. Raises
        `UsageError` for the agent of another role."""
        with self._db.write():
            if self._db.one("SELECT 1 FROM members WHERE space = ? AND entity = ?", space.key, member.key):
                return False
            self._add_member(space.key, space.name, member)
        return True

    def _add_member(self, space: int, name: str, member: Entity) -> None:
        if member.kind == AGENT and not self.is_own(member):
            how = f"nexus space join {shlex.quote(name)} --as {shlex.quote(member.name)}"
            raise UsageError(
                f"agent {member.name}", "the agent belongs to another user", f"Its owner can add it: {how}"
            )
        self._db.run("INSERT INTO members (space, entity) VALUES (?, ?) ON CONFLICT DO NOTHING", space, member.key)

    def leave(self, space: Space, member: Entity) -> bool:
        """Remove a member; False if it is not one. Its queued and waiting runs there end, and those that wait for its
        reply are signalled."""
        now = utc_now()
        with self._db.write():
            membership = self._db.one("SELECT 1 FROM members WHERE space = ? AND entity = ?", space.key, member.key)
            self._db.run("DELETE FROM members WHERE space = ? AND entity = ?", space.key, member.key)
            for (key,) in self._db.all(
                f"SELECT key FROM runs WHERE space = ? AND entity = ? AND state IN ('{QUEUED}', '{WAITING}')",
                space.key,
                member.key,
            ):
                cancel_run(self._db, key, now)
            if membership is not None:
                signal_member_left(self._db, space.key, member.key, member.name, now)
        return membership is not None

    def mute(self, space: Space, agent: Entity, *, muted: bool) -> None:
        """Let messages of a space start an agent no more, or again; raise `UsageError` if it belongs to
        somebody else."""

        def change(entity: Entity) -> list[int]:
            keys = {*entity.options.get(MUTED, ())}
            return sorted(keys | {space.key} if muted else keys - {space.key})

        hint = f"To leave the space: nexus space leave {shlex.quote(space.name)} --as NAME"
        self.change_option(agent, MUTED, change, f"mute {agent.name}", hint)

    def change_option(
        self, agent: Entity, name: str, change: Callable[[Entity], Any], what: str, hint: str = ""
    ) -> Entity:
        """Store what `change` makes of an agent as an option of it, and return the agent; raise
        `UsageError` if it belongs to another user."""
        with self._db.write():
            self._db.lock("entities")
            entity = self.get_entity(agent.key)
            value = {**entity.options, name: change(entity)}
            self._db.run("UPDATE entities SET options = ? WHERE key = ?", json.dumps(value), agent.key)
            self._db.notify()
        changed = self.get_entity(agent.key)
        if changed.options.get(name) != value[name]:  # row-level security lets only its owner
            raise UsageError(what, "the agent belongs to another user", hint)
        return changed

    def get(self, key: int) -> Space:
        """Return a space with its members; raise `UsageError` if it does not exist."""
        spaces = self._load("s.key = ?", key)
        if not spaces:
            raise UsageError(f"space-{key}", "there is no such space", "See `nexus space list`")
        return spaces[0]

    def find(self, text: str) -> Space:
        """Return a space by its name or id; raise `UsageError` if it does not exist."""
        spaces = self._load("s.folded = ?", fold_name(text.strip()))
        key = parse_key(text, "space") if not spaces and "-" in text else None
        spaces = spaces or (self._load("s.key = ?", key) if key else [])
        if not spaces:
            names = [space.name for space in self.list_spaces()]
            part = fold_name(text.strip())
            near = nearest_name(text, names) or next((name for name in names if part and part in fold_name(name)), "")
            hint = f"Did you mean {near}?" if near else "See `nexus space list`"
            raise UsageError(f"space {text[:80]!r}", "there is no such space", hint)
        return spaces[0]

    def list_spaces(self, member: Entity | None = None) -> list[Space]:
        """Return all spaces, or those of one member, by name."""
        if member is None:
            return self._load("1 = 1")
        return self._load("s.key IN (SELECT space FROM members WHERE entity = ?)", member.key)

    def _load(self, condition: str, *values: Any) -> list[Space]:
        rows = self._db.all(
            f"SELECT s.key, s.name, s.project, s.at FROM spaces s WHERE {condition} ORDER BY s.folded", *values
        )
        return [Space(key, name, project, at, tuple(self._members(key))) for key, name, project, at in rows]

    def _members(self, space: int) -> list[Entity]:
        return self._entities("key IN (SELECT entity FROM members WHERE space = ?)", space)

    # Messages

    def post(
        self,
        space: Space,
        sender: Entity,
        text: str,
        at: str,
        *,
        reply_to: int | None = None,
        waits: bool = False,
        origin: JsonObject | None = None,
        hops: int = 0,
        root: int = 0,
        brake: Brake = BRAKE,
        session: str = "",
        call: str = "",
        offered: Collection[int] = (),
    ) -> Posted:
        """Post a message. It signals the runs that wait for it, then triggers agents: those that it mentions, the other
        member of a space of two, and those that a router chose (`offered`, keys), as far as `brake` lets the person's
        message that led to it (`root`, 0 for itself) start more runs.

        With `call` (of `session`) the message is posted only once: later calls return the first message.
        """
        text = replace_surrogates(text).replace("\0", "\ufffd")
        if not text.strip():
            raise UsageError("the message is empty", "there is nothing to post", "Type a message")
        if len(text) > LONGEST_MESSAGE:
            why = f"{len(text):,} characters; the maximum is {LONGEST_MESSAGE:,}"
            raise UsageError("the message is too long", why, "Put the text into a file and post its path")
        if reply_to is not None and self.message(reply_to, space) is None:
            raise UsageError(f"msg-{reply_to}", f"there is no such message in {space.name}")
        with self._db.write():
            self._db.lock(f"space {space.key}")  # orders the messages, which a reader's cursor relies on
            if call and (earlier := self.find_posted(session, call)):
                return Posted(earlier)
            space = replace(space, members=tuple(self._members(space.key)))  # the current members
            if sender.key not in {member.key for member in space.members}:
                raise not_a_member(space, sender)
            key = self._db.insert(
                "INSERT INTO messages (space, sender, at, text, reply_to, waits, origin, hops, session, call)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                space.key,
                sender.key,
                at,
                text,
                reply_to,
                int(waits),
                json.dumps({**(origin or {}), **({ROOT: root} if root else {})}),
                hops,
                session,
                call,
            )
            message = SpaceMessage(key, space.key, sender, at, text, reply_to, waits, dict(origin or {}), hops, root)
            self._db.run(
                "UPDATE members SET seen = ? WHERE space = ? AND entity = ?"
                " AND seen = (SELECT coalesce(max(key), 0) FROM messages WHERE space = ? AND key < ?)",
                key,
                space.key,
                sender.key,
                space.key,
                key,
            )
            resumed, answered = signal_replies(self._db, message)
            triggered, message = self._trigger(message, _find_called(space, message, answered, offered), brake)
            self._db.notify()
        return Posted(message, tuple(triggered), tuple(resumed))

    def root_of(self, run: Run) -> int:
        """Return the key of the message whose limits apply to what a run posts without a message of its own: the
        message that its plan was made for, else the first one of its session; 0 if there is none yet."""
        message = self.message(run.message) if run.message else None
        if message is None and (root := run.options.get(ROOT)):
            return int(root)
        if message is None and run.session:
            of_session = "m.session = ? AND m.call <> '' ORDER BY m.key LIMIT 1"
            message = next(iter(self._messages(of_session, run.session)), None)
        return (message.root or message.key) if message else 0

    def find_posted(self, session: str, call: str) -> SpaceMessage | None:
        """Return the message that a call of a session posted, None if it posted none."""
        # The last condition is that of the index; without it the query would scan all messages.
        return next(iter(self._messages("m.session = ? AND m.call = ? AND m.call <> ''", session, call)), None)

    def _trigger(
        self, message: SpaceMessage, called: Sequence[tuple[Entity, str]], brake: Brake
    ) -> tuple[list[tuple[Entity, int]], SpaceMessage]:
        """Queue the runs of the `called` agents. Return them and the message, which says why if the brake held."""
        triggered: list[tuple[Entity, int]] = []
        for agent, source in called:
            if is_muted(agent, message.space):
                message = self._set_quiet(message, f"{agent.name}{MUTED_END}")
                continue
            if why := self._explain_no_run(message, brake):
                return triggered, self._set_quiet(message, why)
            run = self._queue(message, agent, source)
            if run is not None:
                triggered.append((agent, run))
        return triggered, message

    def _explain_no_run(self, message: SpaceMessage, brake: Brake) -> str:
        """Return the reason that a message starts no run, "" if it starts one."""
        if message.hops > MAX_HOPS:
            return f"agents have sent {MAX_HOPS} messages in a row"
        root = message.root or message.key
        runs, dollars = count_caused(self._db, root)
        if runs >= brake.runs:
            return f"msg-{root} has started {plural(runs, 'run')}, the maximum for one message (spaces.max_runs)"
        return _describe_spent(root, dollars) if dollars >= brake.dollars else ""

    def record_spent(self, key: int) -> None:
        """Record with a message that a run which it triggered has ended because too few dollars were left for it."""
        with self._db.write():
            if message := self.message(key):
                root = message.root or message.key
                self._set_quiet(message, _describe_spent(root, count_caused(self._db, root)[1]))
                self._db.notify()

    def _set_quiet(self, message: SpaceMessage, why: str) -> SpaceMessage:
        root = message.root or message.key
        rows = self._db.all(
            "SELECT origin FROM messages WHERE space = ? AND key >= ? AND origin LIKE ?",
            message.space,
            root,
            f'%"{QUIET}"%',
        )
        is_first = all(json.loads(origin).get(ROOT) not in (root, None) for (origin,) in rows)
        space_message = replace(message, quiet=why, is_first_quiet=is_first)
        value = {**space_message.origin, ROOT: root, QUIET: why, FIRST: is_first}
        self._db.run("UPDATE messages SET origin = ? WHERE key = ?", json.dumps(value), message.key)
        return space_message

    def _queue(self, message: SpaceMessage, agent: Entity, source: str) -> int | None:
        sender, space = message.sender, self.get(message.space)
        root = f"msg-{message.root} " if message.root else ""
        asks = source == "mention" or message.text.rstrip().endswith("?")
        trigger = {
            "type": "space_message",
            "triggerSource": source,
            "space": {"id": space.id, "name": space.name},
            "sender": {"id": sender.id, "name": sender.name, "type": sender.kind},
            "message": message.text,
            "messageId": message.id,
            "timestamp": message.at,
            "senderExpectsReply": source != "proactive_router" and (message.waits or (sender.kind == HUMAN and asks)),
        }
        return queue_run(
            self._db,
            "space_message",
            message.text,
            trigger,
            {name: value for name, value in agent.options.items() if name not in (MUTED, GOALS)},
            message.at,
            cause=f"{root}{message.id} {agent.id}",
            entity=agent.key,
            space=space.key,
            message=message.key,
        )

    def message(self, key: int, space: Space | None = None) -> SpaceMessage | None:
        """Return a message, None if it does not exist or is not in `space`."""
        space_message = next(iter(self._messages("m.key = ?", key)), None)
        return space_message if space_message is None or space is None or space_message.space == space.key else None

    def read(self, space: Space, *, limit: int = 50, before: int | None = None, after: int = 0) -> list[SpaceMessage]:
        """Return the newest messages of a space, oldest first: those before one key and after another."""
        messages = self._messages(
            "m.space = ? AND m.key > ? AND m.key < ? ORDER BY m.key DESC LIMIT ?",
            space.key,
            after,
            (1 << 62) if before is None else before,
            limit,
        )
        return messages[::-1]

    def _messages(self, condition: str, *values: Any) -> list[SpaceMessage]:
        return [_message(row) for row in self._db.all(f"SELECT {_MESSAGE} WHERE {condition}", *values)]

    def count(self, space: Space, *, after: int = 0, before: int | None = None, most: int = 1 << 62) -> int:
        """Count the messages of a space after one key and before another, up to `most`."""
        return self._db.number(
            "SELECT count(*) FROM (SELECT 1 FROM messages WHERE space = ? AND key > ? AND key < ? LIMIT ?) AS counted",
            space.key,
            after,
            (1 << 62) if before is None else before,
            most,
        )

    # The cursor

    def seen(self, space: Space, member: Entity) -> int:
        """Return the key of the last message that a member has seen, 0 for none."""
        return self._db.number("SELECT seen FROM members WHERE space = ? AND entity = ?", space.key, member.key)

    def newest_begun(self, space: Space, agent: Entity, before: int) -> int:
        """Return the newest message, older than `before`, that an open run of an agent works on; 0 for none (keys)."""
        return self._db.number(
            f"SELECT max(message) FROM runs WHERE {OPEN} AND state <> '{QUEUED}' AND space = ? AND entity = ?"
            " AND message < ?",
            space.key,
            agent.key,
            before,
        )

    def mark_seen(self, space: int, entity: int, message: int) -> None:
        """Record that a member has seen the messages of a space up to this one."""
        with self._db.write():
            self._db.run(
                "UPDATE members SET seen = ? WHERE space = ? AND entity = ? AND seen < ?",
                message,
                space,
                entity,
                message,
            )


def is_muted(agent: Entity, space: int) -> bool:
    """True if messages of the space (key) do not start the agent."""
    return space in agent.options.get(MUTED, ())


def _find_called(
    space: Space, message: SpaceMessage, answered: Collection[int], offered: Collection[int]
) -> list[tuple[Entity, str]]:
    """Return the agents that a message is for, each with its `triggerSource`."""
    recipients = [member for member in space.members if member.key != message.sender.key]
    mentioned = {fold_name(name) for name in find_mentions(message.text, [entity.name for entity in recipients])}
    called = []
    for agent in recipients:
        if agent.kind != AGENT or agent.key in answered:
            continue
        if fold_name(agent.name) in mentioned:
            called.append((agent, "mention"))
        elif len(space.members) == 2:
            called.append((agent, "auto"))
        elif agent.key in offered and not mentioned:
            called.append((agent, "proactive_router"))
    return called


def not_a_member(space: Space, who: Entity) -> NexusError:
    """Return the error for somebody who is not a member of a space."""
    why = f"{who.name} is not a member"
    hint = f"To join: nexus space join {shlex.quote(space.name)} --as {shlex.quote(who.name)}"
    return UsageError(f"space {space.name}", why, hint)


def _describe_spent(root: int, dollars: float) -> str:
    return f"the runs of msg-{root} have cost ${dollars:.2f}, which reaches the limit spaces.max_cost"


def _message(row: Sequence[Any]) -> SpaceMessage:
    key, space, sender, name, kind, options, at, text, reply_to, waits, origin, hops = row
    who = Entity(sender, name, kind, read_options(options))
    value = json.loads(origin)
    marks = value.pop(ROOT, 0), value.pop(QUIET, ""), value.pop(FIRST, False)
    return SpaceMessage(key, space, who, at, text, reply_to, bool(waits), value, hops, *marks)
