"""Reports on the setup: status, rules, settings, skills, memory, worktrees, sessions in detail."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types import LevelFields, VersionedReport
from nexus_cli.core.json_types.report_types import PermissionDecision, SessionObject

RuleObject = TypedDict(
    "RuleObject",
    {"decision": PermissionDecision, "rule": str, "file": str, "line": int, "from": str, "folder": str | None},
)


class RulesReport(VersionedReport):
    """`nexus rules list --json`."""

    rules: list[RuleObject]
    """Strictest first."""
    problems: list[str]


class SettingObject(TypedDict):
    value: Any
    origin: str


class ConfigReport(VersionedReport):
    """`nexus config show --json`, `nexus config get KEY --json`."""

    settings: dict[str, SettingObject]


class JobObject(TypedDict):
    """A background command of a session."""

    id: str
    name: str
    """The command on one line, shortened."""
    command: str
    state: str
    """`running`, `ended`, `stopped`, or `closed` with the session."""
    status: int | None
    """Its exit status."""
    seconds: float
    how: str
    """Its state in words."""


class SkillObject(TypedDict):
    name: str
    description: str
    path: str
    origin: Literal["personal", "plugin", "project"]
    plugin: str
    """The plugin that it is of, else ""."""
    shadowed: bool
    """True if another skill with this name takes precedence."""
    problem: str


class ListedSkill(SkillObject):
    catalogue: Literal["described", "named", "counted", ""]
    """Its form in the system text of a session; "" if it is not there."""


class CommandObject(SkillObject):
    """A command of the person or the project."""

    built_in: bool
    """True if a built-in command has its name, so that only `$NAME` calls it."""


class SkillsReport(VersionedReport):
    """`nexus skill list --json`."""

    skills: list[ListedSkill]
    commands: list[CommandObject]
    agents: list[SkillObject]
    """Roles of workers."""
    untrusted: int
    """Skills, commands and agents of a project that are not in effect."""


class PluginItem(TypedDict):
    """A skill, command, agent, hook or server of a plugin."""

    kind: Literal["skill", "command", "agent", "hook", "server"]
    name: str
    what: str
    """The commands that a guide runs, or the entry of a server; the name of a hook has its command."""
    state: Literal["active", "off", "changed", "new", "removed"]
    """`off`: not accepted. `changed`, `new`, `removed`: different from what was accepted; not in effect."""


class PluginObject(TypedDict):
    """A plugin folder."""

    name: str
    version: str
    description: str
    source: str
    """PATH, or REPOSITORY@COMMIT[:FOLDER]."""
    path: str
    """The folder of the installed copy."""
    problem: str
    """The reason why the plugin is inactive, or the items that are off because they changed; else ""."""
    items: list[PluginItem]
    left_out: list[str]
    """Content that nexus does not support or cannot read."""


class PythonPluginObject(TypedDict):
    name: str
    package: str
    """Name and version of its package."""
    adds: list[str]
    """Kind and name of each addition."""
    problems: list[str]
    """The ignored parts, with the reason."""


class PluginsReport(VersionedReport):
    """`nexus plugin list --json`, and `add` and `update`."""

    plugins: list[PluginObject]
    python: NotRequired[list[PythonPluginObject]]
    """Of `list`: the packages with an entry point `nexus.plugins`."""
    diff: NotRequired[str]
    """Of `update`: the changes of files since the installed copy."""


class StoredFact(TypedDict):
    """A fact as it is stored."""

    id: str
    slot: Literal["user", "project", "agent"]
    text: str
    at: str
    state: str
    actor: str
    session: str
    entry: int
    quote: str
    project: str
    deleted: bool
    accepted: str
    replaces: list[str]
    """Facts that are forgotten once it is accepted."""


class FactObject(StoredFact):
    """A fact, and where it comes from."""

    statement: str
    """The text that requests contain: the fact, or the quote of an unaccepted paraphrase."""
    waits: bool
    """True if the person can accept it."""
    source: str
    place: str
    told_in: NotRequired[list[Any]]
    """For a forgotten fact: sessions that still contain it."""


class FactsReport(VersionedReport):
    """`nexus memory list --json`, and `search`, `add`, `accept`, `forget`."""

    facts: list[FactObject]
    project: NotRequired[str | None]
    more: NotRequired[bool]
    text: NotRequired[str]
    whole: NotRequired[bool]
    done: NotRequired[str]
    here: NotRequired[str]
    forgotten: NotRequired[list[FactObject]]


class ConsolidationReport(VersionedReport):
    """`nexus memory consolidate --json`."""

    session: str
    """The session in which the model did it."""
    looked_at: int
    """Facts that the model reviewed."""
    left: int
    """Older facts that it did not review."""
    remembered: list[StoredFact]
    """Facts that it wrote; proposals wait for the person."""
    forgotten: list[StoredFact]
    answer: str
    """The model's comment."""


class CapabilityItem(TypedDict):
    """A tool, skill, server or credential."""

    name: str
    state: str
    why: str


class CapabilityObject(TypedDict):
    """All items of one kind."""

    category: str
    counts: dict[str, int]
    items: list[CapabilityItem]


class SkillName(TypedDict):
    name: str
    description: str
    origin: str


class ServerState(TypedDict):
    """A configured MCP server."""

    name: str
    state: Literal["listed", "not listed"]
    """Whether its tools are known. No report starts a server."""


class UnsupportedFile(TypedDict):
    """A file that nexus does not read."""

    path: str
    what: str


class ProjectState(TypedDict):
    folder: str
    trust: str
    skills_not_trusted: int
    unsupported: list[UnsupportedFile]


class SandboxState(TypedDict):
    backend: str
    why: str
    walls: list[str]


class HookState(TypedDict):
    """A hook (`nexus docs hooks`)."""

    event: str
    matcher: str
    command: str
    timeout: float
    on_timeout: str
    source: str
    """The file that contains the entry."""
    state: str
    """`active`, `changed`, `not trusted` or `not supported`."""
    why: str


class StatusReport(VersionedReport, LevelFields):
    """`nexus status --json`."""

    model: str | None
    tools: list[str]
    skills: list[SkillName]
    servers: list[ServerState]
    plugins: list[str]
    """Plugin folders and Python plugins, by name."""
    hooks: list[HookState]
    credentials: list[str]
    """Names, never values."""
    environment: str
    """The project's environments that sandboxed commands use: `python 3.12 from .venv`."""
    capabilities: list[CapabilityObject]
    host: str
    model_why: str
    recipes: list[str]
    project: ProjectState
    memory: dict[str, int] | None
    notices: list[str]
    sandbox: SandboxState


class EntryObject(TypedDict):
    """An entry of a session."""

    id: int
    at: str
    actor: str
    kind: str
    text: str
    calls: list[Annotated[dict[str, Any], "ToolCall"]]
    call: str | None
    """For a result: the id of its call."""
    images: list[str]
    preamble: str
    tokens: int


class WorkerObject(TypedDict):
    """A worker of a session."""

    id: str
    """`w1`; `w1.1` for a worker of `w1`."""
    session: str
    """Empty before the run has a session."""
    task: str
    recipe: str
    state: str
    """`waiting`, `running`, `asking`, `finished`, `failed`, `stopped`; `unknown` if its process was killed."""
    doing: str
    """Its current activity."""
    steps: int
    seconds: float
    tokens: int
    cost_usd: float | None
    changed: list[str]
    worktree: str
    left: str
    """The changes in its worktree."""
    to_review: bool
    """True if its worktree has changes."""
    error: str


ImportOrigin = TypedDict("ImportOrigin", {"from": str, "id": str, "file": str})
"""The program, its id of the session, and the file that an imported session comes from."""


class SessionReport(SessionObject, VersionedReport):
    """`nexus sessions show ID --json`, `nexus agents show ID --json`."""

    workers: list[WorkerObject]
    entries: list[EntryObject]
    imported: NotRequired[ImportOrigin]


class SearchHit(TypedDict):
    """A match of the text."""

    session: str
    name: str
    folder: str
    entry: int
    at: str
    actor: str
    snippet: str


class SearchReport(VersionedReport):
    """`nexus sessions search TEXT --json`."""

    text: str
    folder: str | None
    hits: list[SearchHit]
    more: bool
    damaged: int
    """Entries that could not be read."""


WorktreeCondition = Literal["missing", "unreadable", "empty", "applied", "changed"]


class WorktreeObject(TypedDict):
    name: str
    project: str
    folder: str
    branch: str
    created: str
    state: WorktreeCondition
    in_use: bool
    files: int
    added: int
    removed: int
    commits: int
    kept: list[str]
    carried: list[str]
    """Ignored paths that were copied from the project; they are not part of the changes."""
    problem: str


class WorktreesReport(VersionedReport):
    """`nexus worktree list --json`."""

    project: str | None
    worktrees: list[WorktreeObject]


class ServiceObject(TypedDict):
    """A service of the server."""

    name: str
    url: str
    token_file: str


class ServeLine(TypedDict):
    """`nexus serve --json`."""

    url: str
    token_file: str
    pid: int
    services: list[ServiceObject]


class TrustSetting(TypedDict):
    key: str
    value: Any
    effect: str


class TrustFile(TypedDict):
    """A file of the project's configuration."""

    name: str
    bytes: int


TrustItemState = Literal["trusted", "changed", "new", "removed"]


class TrustItemObject(TypedDict):
    """A separately trusted item."""

    kind: str
    name: str
    what: str
    """For a server its entry on one line, for a command or skill its shell commands, shortened; else ""."""
    state: TrustItemState
    diff: str


class TrustReport(VersionedReport):
    """`nexus trust --json`."""

    project: str
    state: str
    settings: list[TrustSetting]
    refused: list[str]
    """Keys that a project cannot set."""
    files: list[TrustFile]
    items: list[TrustItemObject]
    active: list[str]
    unsupported: list[str]
    """Project configuration for other programs that nexus does not apply, each as `FILE: WHAT`."""
    problems: list[str]


class RevokedTrust(VersionedReport):
    """`nexus trust --revoke --json`."""

    project: str
    revoked: bool
    state: str
