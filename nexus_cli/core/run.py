"""Values of spaces, runs and plans: members, messages, waits, signals.

Ids for people are made from the keys in the ledger: `run-12`, `msg-12`, `space-3`, `ent-1`, `plan-2`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypedDict

from nexus_cli.core.elide import plural
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import LEVELS

HUMAN, AGENT = "human", "agent"
QUEUED, RUNNING, WAITING, DONE, FAILED, CANCELLED = STATES = (
    "queued",
    "running",
    "waiting_reply",
    "done",
    "failed",
    "cancelled",
)
"""States of a run. A queued run was not yet claimed by a process."""
ENDED = (DONE, FAILED, CANCELLED)
UNATTENDED = ("plan", "service", "space_message")
"""Types of triggers whose runs nobody watches."""
PLAIN = ("ask", "repl")
"""Types of runs that are a person's own sessions."""
APPROVAL = "approval"
"""Kind of a wait for a person's approval of a call, and of the signal with the answer."""
PROVIDER = "provider"
"""Kind of a wait for a provider that is away, and of the signal that the next attempt is due."""
PERSON = "person"
"""Kind of the signal that a person resumed a run."""
REFUSED = "Refused calls:"
"""Precedes the refused calls in the report of a run, one to a line."""
SPACE_HEADER = 'SPACE HISTORY ("{}"):'
"""Header line of the messages of a space."""
TRIGGER_MARK, RESUME_MARK = "<- TRIGGER", "<- RESUME"
"""Follow the entry that started a run, and the event that resolved a wait."""
SELF = "You"
"""The agent's name for itself in its timeline; no member can have it."""
GOALS, PRIORITY = "goals", 3
"""Option of an agent: what it works for beyond one run. The priority of a goal that names none; 1 is the highest."""
LONGEST_NAME = 64
LONGEST_MESSAGE = 1 << 20
"""Most characters of a message."""
_FORBIDDEN_CHARACTERS = re.compile(r"[\"()\[\]@:\\]")


class AgentGoal(TypedDict):
    """A goal that an agent has beyond one run."""

    id: str
    text: str
    priority: int
    """1 is the highest."""
    long_term: bool
    by: str
    """`person`, or `agent` if it proposed the goal itself."""
    at: str
    done: str | None
    """Time of completion; null while the goal is open."""


def resume_lines(came: Sequence[str]) -> list[str]:
    """Return the lines of the events that resumed a run, the last one with the resume mark."""
    return [*came[:-1], f"{came[-1]}  {RESUME_MARK}"] if came else []


def check_name(name: str, label: str, *, colons: bool = False) -> str:
    """Normalize the name of a member, or a space (`colons`); raise `UsageError` if it is invalid."""
    name = re.sub(" +", " ", unicodedata.normalize("NFC", name)).strip()
    # isprintable() is False for control characters and marks of direction or width.
    checked = name.replace(":", "") if colons else name
    if name and len(name) <= LONGEST_NAME and not _FORBIDDEN_CHARACTERS.search(checked) and name.isprintable():
        return name
    unfit = "'@' or '\\'" if colons else "'@', ':' or '\\'"
    why = f"a name has 1 to {LONGEST_NAME} printable characters, without quotes, brackets, {unfit}"
    raise UsageError(f"{label} {name[:LONGEST_NAME]!r}", why, "Choose another name")


def fold_name(name: str) -> str:
    """Fold a name for comparison: case, width and spaces do not count."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


def parse_key(text: str, prefix: str) -> int | None:
    """Parse an id such as `run-12`, `run:12` or `12`; return its key, None for other text."""
    match = re.fullmatch(rf"(?:{prefix}[-:])?([1-9][0-9]{{0,17}})", text.strip().lower())
    return int(match[1]) if match else None


def find_mentions(text: str, names: Iterable[str]) -> list[str]:
    """Return the names mentioned as `@Name`, each once, the longest match first; mail addresses are no mentions."""
    by_length = sorted(names, key=len, reverse=True)
    text = unicodedata.normalize("NFC", text)
    if not by_length:
        return []
    pattern = re.compile(rf"(?<![\w@])@({'|'.join(map(re.escape, by_length))})(?!\w)", re.IGNORECASE)
    folded = {fold_name(name): name for name in by_length}
    mentioned = (folded.get(fold_name(match[1])) for match in pattern.finditer(text))
    return list(dict.fromkeys(name for name in mentioned if name is not None))


@dataclass(frozen=True, slots=True)
class Entity:
    """A member of spaces: a person or an agent."""

    json_fields: ClassVar = "id name type:kind"
    key: int
    name: str
    kind: str
    """`human` or `agent`."""
    options: JsonObject = field(default_factory=dict)
    """For an agent: `folder`, `model`, `recipe`, `allow`, `max_cost` of its runs, its `goals`, where it is `muted`."""

    @property
    def id(self) -> str:
        return f"ent-{self.key}"

    @property
    def actor(self) -> str:
        """The actor of an entry with their message: `Husam (human, ent-1)`."""
        return f"{self.name} ({self.kind}, {self.id})"

    @property
    def goals(self) -> list[AgentGoal]:
        """The goals of an agent, the most important first, those that are done at the end. Some are texts of its
        settings."""
        stored = enumerate(self.options.get(GOALS, ()), 1)
        goals = [make_goal(number, goal) if isinstance(goal, str) else goal for number, goal in stored]
        return sorted(goals, key=lambda goal: (goal["done"] is not None, goal["priority"]))


def name_goal(goal: JsonObject) -> str:
    """Return the line of a goal in the GOALS block of a structured run."""
    return f"{goal['text']} ({'long-term, ' if goal['long_term'] else ''}priority: {goal['priority']})"


def make_goal(
    number: int, text: str, priority: int = PRIORITY, *, long_term: bool = False, by: str = PERSON, at: str = ""
) -> AgentGoal:
    """Return a new goal of an agent."""
    return {
        "id": f"g{number}",
        "text": text,
        "priority": priority,
        "long_term": long_term,
        "by": by,
        "at": at,
        "done": None,
    }


@dataclass(frozen=True, slots=True)
class Space:
    """A named conversation of several members."""

    json_fields: ClassVar = "id name project at members"
    key: int
    name: str
    project: str
    """The project that it belongs to, "" for none."""
    at: str
    members: tuple[Entity, ...]

    @property
    def id(self) -> str:
        return f"space-{self.key}"


MUTED_END = " is muted"
"""End of `SpaceMessage.quiet` if the agent that it names is muted in the space."""


@dataclass(frozen=True, slots=True)
class SpaceMessage:
    """One message of a space. Never changes."""

    json_fields: ClassVar = "id at sender text"
    key: int
    space: int
    sender: Entity
    at: str
    """ISO 8601, UTC."""
    text: str
    reply_to: int | None = None
    waits: bool = False
    """The sender waits for a reply."""
    origin: JsonObject = field(default_factory=dict)
    """For a message relayed from another space: `who` asked for it, `text`, `space`."""
    hops: int = 0
    """Number of messages of agents between this one and the person's message that led to it."""
    root: int = 0
    """Key of the person's message that led to it; 0 for itself."""
    quiet: str = ""
    """The reason that it started no more agents; "" if it started all that it is for."""
    is_first_quiet: bool = False
    """True if no earlier message of the same root has a `quiet`, so that people are told once."""

    @property
    def id(self) -> str:
        return f"msg-{self.key}"

    @property
    def notice(self) -> str:
        """The line for people about agents that it did not start, "" unless it is the first one of its root."""
        if self.is_first_quiet and self.quiet.endswith(MUTED_END):
            name = self.quiet.removesuffix(MUTED_END)
            return (
                f"not started: {name}{MUTED_END} here. To unmute: /unmute {name}, or nexus space mute --off SPACE NAME."
            )
        again = "The next message from a person starts agents again"
        return f"no more agents were started: {self.quiet}. {again}." if self.is_first_quiet else ""


@dataclass(frozen=True, slots=True)
class Brake:
    """Limits on what one message of a person starts, including the messages that agents send because of it. See
    `[spaces]`."""

    runs: int = 12
    dollars: float = 2.0


MISSED = "missed"
"""Kind of a taken signal: an event of a service that a run did not wait for."""
JOINED = "joined"
"""Kind of a taken signal: a further event with the `KEY` of a run. Also the memo of the message that tells of such
events: `last` is the key of the newest one."""
KEY, DEBOUNCE = "key", "debounce"
"""Options of a service's run: events of the service with the same key join it while it is open; the seconds that it
waits for further ones before it begins."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The event that a run waits for."""

    kind: str
    """`reply`, `file`, `process`, `time`, `url`, `approval` or `provider`."""
    why: str
    """The event in a few words: `a reply of Husam in "Project Alpha"`."""
    value: JsonObject = field(default_factory=dict)
    """Parameters of the event. For a reply: `space`, `message` (keys), `from` (keys of the members who must answer;
    empty: anybody but `sender`). For a provider: `since` (seconds since the epoch), `tries` (those that failed),
    `error`."""
    until: float | None = None
    """Deadline in seconds since the epoch; for kind `time` the time itself."""

    @property
    def text(self) -> str:
        """The event for people: of a provider with its last error."""
        return f"the provider: {self.value['error']}" if self.kind == PROVIDER else self.why

    @classmethod
    def from_json(cls, value: JsonObject) -> Wait:
        """Restore a wait from the JSON form in the ledger."""
        return cls(value["kind"], value["why"], value["value"], value["until"])


@dataclass(frozen=True, slots=True)
class Signal:
    """An event that a run waits for, or may wait for later."""

    json_fields: ClassVar = "at kind value"
    key: int
    run: int
    at: str
    kind: str
    """`reply`, `file`, `process`, `time`, `url`, `service`, `approval`, `provider`, `timeout`, `person` (with `why` the
    run had failed), or `unanswered` (an agent that was asked has ended its run without a reply, or whoever was asked
    has left)."""
    value: JsonObject = field(default_factory=dict)
    """Plain JSON; for a reply `message` (key), for `unanswered` the `entity`, its `name` and its `run` (keys;
    none if it left the space)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Work that survives its process: queued by a trigger, executed in its own session."""

    key: int
    state: str
    type: str
    """Type of its trigger: `space_message`, `plan`, `service`; `repl` or `ask` if an ordinary session began to wait."""
    title: str
    """A summary on one line."""
    trigger: JsonObject
    """Fields of the TRIGGER block of a structured run."""
    options: JsonObject
    """Options of its session: `folder`, `model`, `recipe`, `allow`, `max_cost`, `max_steps`; for a plan or service
    the name of its `agent`; and `paused`."""
    session: str = ""
    """Id of its session; "" before it has one."""
    entity: int | None = None
    """Key of the agent that executes it."""
    space: int | None = None
    message: int | None = None
    plan: int | None = None
    waits: Wait | None = None
    owner: str = ""
    """The process that runs it: `HOST:PID`."""
    lease: float | None = None
    """Seconds since the epoch, by the database's clock, after which another process may claim it."""
    fence: int = 0
    """Number of claims. Only the owner of the newest may record anything."""
    resumes: int = 0
    report: str = ""
    """The text of its last reply, and below `REFUSED` the calls that were refused."""
    error: str = ""
    cost_usd: float | None = None
    created: str = ""
    updated: str = ""
    principal: str = ""
    """Role of a server whose rights it has, and on whose machines it works; "" in a file, and in an older row that
    anybody could write."""

    @property
    def id(self) -> str:
        return f"run-{self.key}"

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_paused(self) -> bool:
        """True if a person paused it: it goes no further until they end that."""
        return bool(self.options.get("paused")) and not self.has_ended

    @property
    def worktree(self) -> str:
        """Name of the worktree that it has of its own, "" for none. The date tells runs of other ledgers apart."""
        return f"{self.id}-{self.created[5:7]}{self.created[8:10]}" if self.options.get("worktree") is True else ""

    @property
    def may_write(self) -> bool:
        """True if its level lets it change files."""
        return self.options.get("allow") in LEVELS[1:]

    @property
    def last_words(self) -> str:
        """Return the text of its last reply."""
        return f"\n\n{self.report}".rpartition(f"\n\n{REFUSED}\n")[0].strip() if self.refused else self.report

    @property
    def record(self) -> JsonObject:
        """The facts about its end (`runs.run_summary`), {} before it has ended."""
        return self.options.get("record") or {}

    @property
    def facts(self) -> list[str]:
        """Return each thing that it left behind, in a few words: `1 commit`, `2 files uncommitted`, `1 command
        failed`."""
        return name_facts({**self.record, "refused": self.refused})

    @property
    def refused(self) -> tuple[str, ...]:
        """Return a line for each refused call."""
        _, mark, calls = f"\n\n{self.report}".rpartition(f"\n\n{REFUSED}\n")
        return tuple(line.removeprefix("- ") for line in calls.splitlines()) if mark else ()


def name_facts(record: JsonObject) -> list[str]:
    """Return the counts of a run's record in words, without those that are 0."""
    kinds = (
        ("commits", "{}", "commit"),
        ("files_changed", "{} changed", "file"),
        ("uncommitted", "{} uncommitted", "file"),
        ("no_longer_uncommitted", "{} no longer uncommitted", "file"),
        ("failed_commands", "{} failed", "command"),
        ("refused", "{} refused", "call"),
    )
    return [words.format(plural(len(record[key]), noun)) for key, words, noun in kinds if record.get(key)]


@dataclass(frozen=True, slots=True)
class Plan:
    """Scheduled work, once or repeatedly."""

    key: int
    prompt: str
    options: JsonObject
    """Options as those of a run, and `max_cost_day`."""
    created: str
    cron: str = ""
    """Five fields; "" for a plan that runs once."""
    zone: str = ""
    """IANA name of the time zone of `cron`."""
    missed: str = "once"
    """Treatment of missed times: `once` for one run for all of them, `skip` for none."""
    next_at: float | None = None
    """Seconds since the epoch; None for never."""
    last_at: float | None = None
    paused: bool = False
    name: str = ""

    @property
    def id(self) -> str:
        return f"plan-{self.key}"
