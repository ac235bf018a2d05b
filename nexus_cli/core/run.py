"""Values of spaces, runs that wait, and plans (seed C): who takes part, what was said, what is due.

Ids that people see are made of the keys of the ledger: `run-12`, `msg-12`, `space-3`, `ent-1`, `plan-2`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.core.errors import NexusError

HUMAN, AGENT = "human", "agent"
QUEUED, RUNNING, WAITING, DONE, FAILED, CANCELLED = (
    "queued",
    "running",
    "waiting_reply",
    "done",
    "failed",
    "cancelled",
)
STATES = (QUEUED, RUNNING, WAITING, DONE, FAILED, CANCELLED)
"""States of a run. Queued: a trigger that no process has taken up yet."""
ENDED = (DONE, FAILED, CANCELLED)
UNATTENDED = ("plan", "service", "space_message")
"""Types of triggers whose runs nobody watches."""
APPROVAL = "approval"
"""Kind of the wait for a person who allows a call, and of the signal that answers it."""
TRIGGER_MARK, RESUME_MARK = "<- TRIGGER", "<- RESUME"
"""Stand behind the one entry that started a run, and behind what resolved a wait."""
AGENT_NAME = "nexus"
"""The agent of plain sessions."""
SELF = "You"
"""The agent itself in its timeline: the name of nobody."""
LONGEST_NAME = 64
LONGEST_MESSAGE = 1 << 20
"""Characters of a message."""
_UNFIT = re.compile(r"[\"()\[\]@:\\]")


def check_name(name: str, what: str) -> str:
    """Return the name of a space or of somebody without outer spaces; `NexusError("usage", ...)` if it is none."""
    name = re.sub(" +", " ", unicodedata.normalize("NFC", name)).strip()
    # Neither controls nor marks of direction or width are printable.
    if name and len(name) <= LONGEST_NAME and not _UNFIT.search(name) and name.isprintable():
        return name
    why = f"it takes 1 to {LONGEST_NAME} printable characters without quotes, brackets, '@', ':' and '\\'"
    raise NexusError("usage", f"{what} {name[:LONGEST_NAME]!r}", why, "Choose another name")


def fold_name(name: str) -> str:
    """Return the form by which names are compared: two that look alike but for case, width and spaces are one."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


def parse_key(text: str, prefix: str) -> int | None:
    """Return the key in an id like `run-12`, `run:12` or `12`; None if it is none."""
    match = re.fullmatch(rf"(?:{prefix}[-:])?([1-9][0-9]{{0,17}})", text.strip().lower())
    return int(match[1]) if match else None


def find_mentions(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that `text` mentions as `@Name`, in order, each once; of several the longest counts.

    An address (`a@b.org`) mentions nobody.
    """
    by_length = sorted(names, key=len, reverse=True)
    text = unicodedata.normalize("NFC", text)
    if not by_length:
        return []
    pattern = re.compile(rf"(?<![\w@])@({'|'.join(map(re.escape, by_length))})(?!\w)", re.IGNORECASE)
    folded = {fold_name(name): name for name in by_length}
    found = (folded.get(fold_name(match[1])) for match in pattern.finditer(text))
    return list(dict.fromkeys(name for name in found if name is not None))


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody who takes part in spaces: a person or an agent."""

    key: int
    name: str
    kind: str
    """`human` or `agent`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of an agent: `folder`, `model`, `recipe`, `allow`, `max_cost` of its runs."""

    @property
    def id(self) -> str:
        """The id that people see."""
        return f"ent-{self.key}"

    @property
    def actor(self) -> str:
        """The actor of an entry with their words: `Husam (human, ent-1)`."""
        return f"{self.name} ({self.kind}, {self.id})"


@dataclass(frozen=True, slots=True)
class Space:
    """A named conversation of several parties."""

    key: int
    name: str
    project: str
    """The project that it belongs to, "" for none."""
    at: str
    members: tuple[Entity, ...] = ()

    @property
    def id(self) -> str:
        """The id that people see."""
        return f"space-{self.key}"


@dataclass(frozen=True, slots=True)
class SpaceMessage:
    """One message of a space. Never changes."""

    key: int
    space: int
    sender: Entity
    at: str
    """ISO 8601, UTC."""
    text: str
    reply_to: int | None = None
    waits: bool = False
    """The sender waits for a reply."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Of a message that was carried here from another space: `who` asked for it, `text`, `space`."""
    hops: int = 0
    """Messages of agents between this one and the words of a person that led to it."""

    @property
    def id(self) -> str:
        """The id that people see."""
        return f"msg-{self.key}"


@dataclass(frozen=True, slots=True)
class Wait:
    """The event that a run waits for."""

    kind: str
    """`reply`, `file`, `process`, `time`, `url` or `approval`."""
    why: str
    """In a few words, for people: `a reply of Husam in "Project Alpha"`."""
    value: Mapping[str, Any] = field(default_factory=dict)
    """What to look at. Of a reply: `space`, `message` (keys), `from` (keys of those who have to answer; none:
    anybody but `sender`)."""
    until: float | None = None
    """Seconds since the epoch at which it ends anyway; of kind `time`: the time."""

    def to_json(self) -> dict[str, Any]:
        """Return it for the ledger."""
        return {"kind": self.kind, "why": self.why, "value": dict(self.value), "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Wait:
        """Return what `to_json` gave."""
        return cls(value["kind"], value["why"], value["value"], value["until"])


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that a run waits for, or may come to wait for, has happened."""

    key: int
    run: int
    at: str
    kind: str
    """`reply`, `file`, `process`, `time`, `url`, `approval`, `timeout`, `person`: somebody resumed it, or
    `unanswered`: an agent that was asked has ended its run without a reply."""
    value: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON; of a reply `message` (key), of `unanswered` the `entity`, its `name` and its `run` (keys)."""


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of work that outlives processes: queued by a trigger, done in a session of its own."""

    key: int
    state: str
    type: str
    """Of its trigger: `space_message`, `plan`, `service`; `repl` or `ask` where a plain session began to wait."""
    title: str
    """What it is about, in one line."""
    trigger: Mapping[str, Any]
    """The facts of seed C's TRIGGER block, with its keys."""
    options: Mapping[str, Any]
    """How its session is opened: `folder`, `model`, `recipe`, `allow`, `max_cost`, `max_steps`."""
    session: str = ""
    """"" before it has one."""
    entity: int | None = None
    """The agent that works."""
    space: int | None = None
    message: int | None = None
    plan: int | None = None
    waits: Wait | None = None
    owner: str = ""
    """The process that runs it: `HOST:PID`."""
    lease: float | None = None
    """Seconds since the epoch, by the clock of the database, at which another process may take it over."""
    fence: int = 0
    """Counts the claims. Only the newest one may record anything."""
    resumes: int = 0
    report: str = ""
    """Its last words."""
    error: str = ""
    cost_usd: float | None = None
    created: str = ""
    updated: str = ""

    @property
    def id(self) -> str:
        """The id that people see."""
        return f"run-{self.key}"

    @property
    def has_ended(self) -> bool:
        """True if it goes on no more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Plan:
    """Work at a time, or again and again."""

    key: int
    prompt: str
    options: Mapping[str, Any]
    """As those of a run; also `max_cost_day`."""
    created: str
    cron: str = ""
    """Five fields; "" for a plan of one time."""
    zone: str = ""
    """IANA name of the time zone of `cron`."""
    missed: str = "once"
    """Of times at which nobody was there to run it: `once`: one run for all of them; `skip`: none."""
    next_at: float | None = None
    """Seconds since the epoch; None: never again."""
    last_at: float | None = None
    paused: bool = False
    name: str = ""

    @property
    def id(self) -> str:
        """The id that people see."""
        return f"plan-{self.key}"
