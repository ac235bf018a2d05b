"""What a line of the stream (`--stream-json`, the server) has besides the fields of its event in `core/event.py`."""

from typing import Any, Literal, NotRequired, TypedDict

from nexus_cli.core.json_types.ask_result import AskResult
from nexus_cli.core.json_types.context_report import BudgetObject, SectionObject
from nexus_cli.core.json_types.setup_reports import WorkerObject


class StreamLine(TypedDict):
    """The fields of every line. Ignore unknown types and keys."""

    v: Literal[1]
    seq: int
    """From 0, without gaps."""
    at: str
    """ISO 8601, UTC."""
    agent: NotRequired[str]
    """The worker whose event it is, such as `w1`."""
    lane: NotRequired[str]
    """The session of that worker."""


class QuestionKey(TypedDict):
    """The further key of `approval.ask` and `approval.answer`."""

    id: str
    """For `approve`: the id of the call; for a worker's call with the worker before it, `w1:c3`."""


class PlanObject(TypedDict):
    """A request before it is sent."""

    step: int
    epoch: int
    basis: str
    budget: BudgetObject
    sections: list[SectionObject]
    entries: int
    drops: list[str]
    facts: list[dict[str, str]]
    limits: dict[str, Any]


class WorkerStateObject(WorkerObject):
    """A worker as it is now."""

    call: str
    """The call that started it."""
    model: str
    """Empty if the worker uses the model of its parent."""
    folder: str
    scope: dict[str, Any]
    """Its limits."""


class ResultLine(StreamLine, AskResult):
    """Always the last line."""
