"""The other reports that have `--json`."""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types import LevelFields, ReportOfSession, VersionedReport
from nexus_cli.core.json_types.ask_result import CostObject, UntilObject, UsageObject

PermissionDecision = Literal["allow", "ask", "deny"]
ScheduleState = Literal["active", "paused", "done"]
RunState = Literal["queued", "running", "waiting_reply", "done", "failed", "cancelled"]
SandboxName = Literal["read", "write", "net", "none"]


class SessionObject(TypedDict):
    """A session in a list."""

    id: str
    name: str
    folder: str
    project: str
    model: str
    recipe: str
    created: str
    """ISO 8601, UTC."""
    updated: str
    turns: int
    parent: str | None
    """The session that it was forked from."""
    first_text: str
    cost_usd: float | None
    """null if a price is unknown."""
    front: str
    """`ask` for runs of `nexus ask`, `chat` for the terminal."""
    known_usd: float
    """Cost of the requests with a known price."""
    spawner: str | None
    worktree: str
    saved_usd: float
    """Dollars that the cache saved, as far as `cost` is known by component."""
    entry_count: int


class ListedSession(SessionObject):
    """A session with the short id that people see."""

    short: str
    person: NotRequired[str]
    """On a server: the role whose session it is."""


class SessionsReport(VersionedReport):
    """`nexus sessions list --json`."""

    sessions: list[ListedSession]
    """Newest first."""
    total: int
    runs: int
    """Runs of `nexus ask` in this folder that are not listed."""


class UsageSumObject(UsageObject):
    """The usage of several requests."""

    sessions: int
    requests: int
    known_usd: float
    known_cost: CostObject
    """The known components of `known_usd`: requests that an older nexus recorded have none."""
    saved_usd: float
    """Dollars that the cache saved in the requests whose components are known."""
    unpriced: int
    """Requests without a known price."""
    unfinished: int
    """Those among them that are under way, or whose process was ended before the answer: their input is estimated."""


class UsageByDay(UsageSumObject):
    day: str


class UsageByModel(UsageSumObject):
    model: str


class UsageByProject(UsageSumObject):
    project: str


class UsageByName(UsageSumObject):
    """The usage grouped by `--by`."""

    name: str
    """"" for the sessions of no agent or plan."""


ImportedUsage = TypedDict(
    "ImportedUsage", {"from": str, "sessions": int, "input": int, "output": int, "cache_read": int, "cache_write": int}
)
"""What sessions of another program had used before they were imported; in no sum."""


class UsageReport(VersionedReport):
    """`nexus usage --json`."""

    zone: Literal["local", "UTC"]
    since: str | None
    total: UsageSumObject
    days: list[UsageByDay]
    models: list[UsageByModel]
    projects: list[UsageByProject]
    by: NotRequired[Literal["project", "model", "key", "day", "recipe", "person", "agent", "plan"]]
    """With `--by`: whose usage `named` has."""
    named: NotRequired[list[UsageByName]]
    imported: NotRequired[list[ImportedUsage]]
    """The programs that sessions were imported from; without `--since`."""


CommandPartObject = TypedDict(
    "CommandPartObject", {"command": list[str], "decision": PermissionDecision, "rule": str | None, "from": str}
)


class TestedPartObject(CommandPartObject):
    """A command of a line; `from` names a level by its former name."""

    origin: str
    """`built in`, `level ask`, or file and line of the rule."""


class RulesTestReport(LevelFields):
    """`nexus rules test --json`."""

    decision: PermissionDecision
    profile: SandboxName
    parts: list[TestedPartObject]
    why: str


DecisionObject = TypedDict(
    "DecisionObject",
    {
        "id": str,
        "tool": str,
        "subject": str,
        "ran": bool,
        "decision": PermissionDecision | None,
        "level": str,
        "profile": str | None,
        "rule": str | None,
        "from": str | None,
        "parts": list[CommandPartObject],
        "answer": str | None,
        "why": str,
        "at": str,
        "bound_by": NotRequired[str],
        "kind": NotRequired[str],
        "said": NotRequired[str],
        "more_parts": NotRequired[int],
    },
)


class DecisionsReport(ReportOfSession):
    """`nexus why --json`.

    For a decision, `decision` is null if the call could not run; `from` is file and line of the rule, `built in`,
    `level X`, `limit X` or `allowed for this session`; `bound_by` is the layer of that level or limit; `answer` is
    `yes`, `session`, `always`, `no` or `none`, null if nobody was asked; `said` are the words of a no.
    """

    decisions: list[DecisionObject]
    """Newest last."""
    more: int


class DecisionReport(DecisionObject, ReportOfSession):
    """`nexus why ID --json`."""


class ModelObject(TypedDict):
    """A model; prices are US dollars per million tokens."""

    name: str
    because: list[str]
    """Reasons that make the model usable."""
    window: int
    max_output: int | None
    input_price: float | None
    output_price: float | None
    cache_read_price: float | None
    cache_write_price: float | None
    cache: bool
    images: bool
    tools: bool
    known: bool
    covered: bool
    """A subscription pays: there are no prices."""
    list_price: bool
    """The prices are those of the public list, and the server of the environment may charge others."""
    window_told: bool


class ModelsReport(VersionedReport):
    """`nexus model list --json`."""

    chosen: str | None
    models: list[ModelObject]


class ModelReport(ModelObject, VersionedReport):
    """`nexus model show NAME --json`."""

    provider: str
    effort: bool
    chosen: bool


class FailedCommand(TypedDict):
    """A command of a run whose last run failed."""

    command: str
    status: int | None
    """None if it did not end by itself."""


class RunObject(LevelFields):
    id: str
    state: RunState
    paused: bool
    """A person paused it."""
    broken_off: bool
    """It is `running`, but its process has ended: it can be resumed."""
    type: str
    title: str
    agent: str | None
    """Name of the agent that does it."""
    space: str | None
    key: str | None
    """For a run of a service: the key of its events, such as the commit."""
    events: int | None
    """The number of these events; None for a run without `key`."""
    plan: str | None
    """Id of the plan that started it."""
    folder: str
    model: str | None
    session: str | None
    waits_for: str | None
    """`provider`: the provider is away, see `error`."""
    waits_since: str | None
    came: str | None
    """The end of its wait: an answer or an event that no process has taken up yet."""
    wake_at: str | None
    resumes: int
    created: str
    updated: str
    cost_usd: float | None
    error: str | None
    last_words: str
    """The text of its last reply."""
    refused: list[str]
    """A line for each call that was refused."""
    steps: int | None
    """Requests of the run, including its final reflection. This and the following keys are known once the run has
    ended."""
    seconds: float | None
    """From its beginning to its end, waits included."""
    usage: UsageObject | None
    files_changed: list[str]
    failed_commands: list[FailedCommand]
    """Commands whose last run did not exit with 0."""
    branch: str | None
    commits: list[str]
    """Its commits, newest first, each as `ID SUBJECT`; without those that others made while it waited."""
    uncommitted: list[str]
    """Uncommitted files, without files that were uncommitted before the run and that it did not change."""
    no_longer_uncommitted: list[str]
    """Files that were uncommitted when it began, and were committed, put back or removed since."""
    until: UntilObject | None
    """The state of its work for the command of `nexus schedule add --until`."""
    worktree: str | None
    """Name of its worktree (`nexus schedule add --worktree`), which is removed if nothing is left in it."""


class RunsReport(VersionedReport):
    """`nexus runs list --json`, and `cancel`, `pause`, `resume` of several runs."""

    done: NotRequired[str]
    """The action of a command on them."""
    runs: list[RunObject]
    """Newest first."""


class SignalObject(TypedDict):
    """An event that a run waited for."""

    at: str
    kind: str
    value: dict[str, Any]
    taken: bool


class RunReport(RunObject, VersionedReport):
    """`nexus runs show ID --json`, and `cancel`, `pause`, `resume`."""

    trigger: dict[str, Any]
    signals: list[SignalObject]
    report: str
    questions: list[dict[str, Any]]
    done: NotRequired[str]
    """The result of `cancel` or `resume`."""


class LastRun(TypedDict):
    """The newest run of a schedule."""

    id: str
    state: str
    at: str
    paused: bool
    broken_off: bool
    came: str | None
    """These three as in `RunObject`."""


ScheduleObject = TypedDict(
    "ScheduleObject",
    {
        "id": str,
        "name": str,
        "prompt": str,
        "state": ScheduleState,
        "cron": str,
        "zone": str,
        "next_at": str | None,
        "in": str | None,
        "last_at": str | None,
        "missed": str,
        "folder": str,
        "model": str,
        "recipe": str,
        "allow": str,
        "level": str,
        "max_cost": float | None,
        "until": str,
        "worktree": bool,
        "max_cost_day": float | None,
        "max_steps": int | None,
        "ask": bool,
        "rules": list[str],
        "agent": str,
        "by": str,
        "session": str,
        "created": str,
        "last_run": LastRun | None,
    },
)


class SchedulesReport(VersionedReport):
    """`nexus schedule list --json`."""

    plans: list[ScheduleObject]


class ScheduleReport(SchedulesReport):
    """`nexus schedule add --json`, and `remove`, `pause`, `resume`."""

    done: str
    run: str
    offer: str
    """With `add`: how to keep its runs away from the person's files; "" if nothing of theirs is in the way."""


class EntityObject(TypedDict):
    """A person or an agent."""

    id: str
    name: str
    type: str


class SpaceObject(TypedDict):
    id: str
    name: str
    project: str
    at: str
    members: list[EntityObject]


class ListedSpace(SpaceObject):
    """A space with its new messages."""

    member: bool
    new: int | None
    newest: str | None


class SpacesReport(VersionedReport):
    """`nexus space list --json`."""

    spaces: list[ListedSpace]


class SpaceMessageObject(TypedDict):
    """A message in a space."""

    id: str
    at: str
    sender: EntityObject
    text: str
    seen: bool
    reply_to: str | None
    quiet: str | None
    """The reason why the message started no more agents."""
    run: str | None
    """With the last message that a run posted: the run."""
    facts: list[str]
    """The result of the run once it has ended, such as `1 commit`, `1 command failed`."""


class SpaceReport(VersionedReport):
    """`nexus space read --json`."""

    space: SpaceObject
    reader: EntityObject
    unread_before: int
    messages: list[SpaceMessageObject]


class TriggeredRun(TypedDict):
    """A run that a message started."""

    name: str
    run: str


class PostReport(VersionedReport):
    """`nexus space post --json`."""

    message: SpaceMessageObject
    triggered: list[TriggeredRun]
    resumed: list[str]


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
    """Time of completion; None while the goal is open."""


class GoalsReport(VersionedReport):
    """`nexus space goal AGENT --json`, also with `add` and `done`."""

    agent: EntityObject
    done: NotRequired[str]
    """The action of the command: `added` or `finished`."""
    goals: list[AgentGoal]
    """The most important goals first, completed goals last."""


class NewSpaceReport(VersionedReport):
    """`nexus space create NAME --json`."""

    space: SpaceObject


class ServeOnceReport(VersionedReport):
    """`nexus serve --once --json` and `nexus schedule run --json`."""

    ok: bool
    exit: int
    runs: list[RunObject]
    held_back: str | None
    """The reason why due runs did not begin."""


class ProfileObject(TypedDict):
    """A sandbox profile, tested on this system."""

    writes: list[str]
    network: bool
    hides: list[str]
    notes: list[str]
    start_ms: float | None
    problem: str


class SandboxReport(TypedDict):
    """The sandbox, tested on this system."""

    backend: str
    why: str
    walls: list[str]
    """Restrictions that were tested and are enforced."""
    abi: int
    """Landlock ABI version."""
    profiles: dict[str, ProfileObject]


class CheckObject(TypedDict):
    name: str
    status: Literal["ok", "note", "broken"]
    detail: str
    hint: str


class DoctorReport(VersionedReport):
    """`nexus doctor --json`."""

    ok: bool
    model: str | None
    sandbox: SandboxReport
    checks: list[CheckObject]


class KeptPathObject(TypedDict):
    """A path that an undo left as it is."""

    path: str
    why: str
    aside: str | None
    """The path of its earlier state; null if it has none."""


class MovedHead(TypedDict):
    """A HEAD that the turn moved, and an undo did not move back."""

    before: str
    after: str
    command: str
    """The command that restores the earlier value."""


class ReferenceObject(TypedDict):
    """A branch, tag, stash or HEAD that the turn changed, or a file in git's folder."""

    repository: str
    """Path of its work tree; "" for that of the project."""
    name: str
    before: str
    """Its value before the turn: a commit, `ref: NAME`, the digest of a file; "" if it was not there."""
    after: str
    restored: bool
    command: str | None
    """The command that restores the earlier value; null if it is already restored, or if there is no such command."""


class UncoveredPath(TypedDict):
    """A path that no undo brings back; `.` is all of the project."""

    path: str
    why: str


class UndoReport(VersionedReport):
    """`nexus undo --json`, `nexus redo --json`. Paths inside the project are relative to it; that of a folder in
    `restored` and `removed` ends with `/`."""

    action: Literal["undo", "redo"]
    turn: int | None
    """null if there was nothing to undo."""
    restored: list[str]
    removed: list[str]
    kept: list[KeptPathObject]
    references: list[ReferenceObject]
    head_moved: MovedHead | None
    not_covered: list[UncoveredPath]
    """Changes of the turn that an undo may not be able to restore."""
    unfollowed: list[str]
    """As text lines: exceptions that apply because the changes of a command are not known."""
    dry_run: bool


class ServerRow(TypedDict):
    """An MCP server in a list."""

    name: str
    source: Literal["personal", "plugin", "project", "editor"]
    file: str
    """The file that contains the entry."""
    transport: Literal["stdio", "http"]
    target: str
    """The command line or the address as its file names it, with `${NAME}` in place of the values of variables."""
    state: Literal["listed", "not listed", "failed"]
    tools: int | None
    """null until the server was asked."""
    tokens: int | None
    """Tokens of the schemas of its tools."""
    listed: str | None
    """Time of the server's answer, ISO 8601, UTC."""
    why: str
    """Why it is not available."""
    left_out: list[str]
    """One line for each tool that is not offered, with the reason."""


class ServersReport(VersionedReport):
    """`nexus mcp list --json`."""

    servers: list[ServerRow]
    sent: Literal["each", "one"]
    """`each`: every tool is sent by itself; `one`: the tool `mcp` in their place."""
    problems: list[str]
    """One line for each entry that is left out."""


class DiffReport(VersionedReport):
    """Changes to files."""

    turn: NotRequired[int | None]
    """null if no turn of the session changed a file."""
    source: Literal["git", "files"]
    text: str
    """The diff."""
    cut: str
    """What the diff lacks at its end; may be empty."""
    unread: list[str]
    """Files that are large or not text."""
    untracked: list[str]
    untracked_count: int
