"""The object of `nexus ask --json`, and its parts."""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_value import JsonOf
from nexus_cli.core.usage import Usage


class ErrorObject(TypedDict):
    """The error of a command that ended with a status other than 0."""

    kind: str
    """See `nexus docs exit-status`."""
    message: str
    hint: str
    """Advice; may be empty."""


class ContextFigures(TypedDict):
    """The use of the window."""

    window: int
    budget: int
    used: int
    basis: str
    """`reported` by the provider, `estimate`, or `reported+estimate`."""
    epoch: int


class DropObject(TypedDict):
    """Something left out of a request."""

    id: str
    what: str
    tokens: int
    cause: Literal[
        "section_budget",
        "truncation",
        "compaction",
        "output_cap",
        "instruction_cap",
        "input_cap",
        "pruned",
        "limit",
        "server",
        "refused",
    ]
    recall: str
    """The id for `nexus drops show` and the tool `recall`."""
    at: str
    """ISO 8601, UTC."""
    uncounted_bytes: int
    """Bytes beyond the hard limit, which were not kept."""
    recalls: int
    """Number of recalls."""


class DeniedCall(TypedDict):
    """A refused tool call."""

    id: str
    tool: str
    subject: str
    """Its main argument on one line."""
    why: str
    allow: str | None
    """The lowest level that would allow it, by its former name; null if none would, or only `all` and `rule` is
    narrower."""
    level: str | None
    """The same level: `ask`, `edit`, `auto` or `all`."""
    rule: str | None
    """An allow rule that would let it run, for `nexus rules add`."""
    option: str | None
    """An option that would let it run, such as `--add-dir DIR`."""
    limit: str
    """The limit that refused it, if one did."""
    by: str
    """`rules`, `person`, `signals`, or the layers of the limit."""
    hint: str


class UntilObject(TypedDict):
    """The state of work for a command: `nexus ask --until`."""

    command: str
    passed: bool
    """True if the command exited 0."""
    rounds: int
    """Runs of the command in this turn."""
    status: int | None
    """Exit status of the newest run; null before the first one."""
    left: list[str]
    """If the turn failed: the last lines of the newest run."""


class AskResult(TypedDict):
    """The result of one turn: `nexus ask --json`, and the last line of `--stream-json`."""

    type: Literal["result"]
    version: Literal[1]
    ok: bool
    exit: int
    """The exit status."""
    text: str
    """The text of the last step; with `--schema` its JSON document alone."""
    data: Any
    """With `--schema`: the answer as JSON. null without it, or if the answer does not match."""
    finish: str
    """`stop`, or the kind of the error. `limit` also where an agent of a server is ok, and `text` is its report at the
    end of its budget."""
    session: str | None
    """null if none was opened."""
    model: str | None
    steps: int
    """Requests."""
    seconds: float
    usage: JsonOf[Usage]
    context: ContextFigures | None
    drops: list[DropObject]
    """The drops of this turn."""
    denied: list[DeniedCall]
    files_changed: list[str]
    error: ErrorObject | None
    until: NotRequired[UntilObject]
    """In a turn that works for a command."""


class MapLine(TypedDict):
    """A line of `nexus map`: the result of one item."""

    item: str
    """The path or the line of stdin."""
    ok: bool
    text: str
    """The answer; in a failed item possibly partial."""
    data: Any
    """The answer as JSON values with --schema, else null."""
    cost_usd: float | None
    """null if a price is unknown; 0 for an item that occurs again."""
    error: ErrorObject | None
