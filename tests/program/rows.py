"""The table of `nexus docs exit-status` as data: how each row is reached, and what it must end with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from program.stage import MODEL, PRICED, QUICK, calls

FOREVER = {"default": calls(("glob", {"pattern": "*.nothing"}))}
REFUSED = {"default": calls(("bash", {"command": "touch refused"}))}
BROKEN_AT_OPENING = "import nexus_cli.tools.registry as r; r.ToolRegistry.get_definitions = lambda self: 1 // 0"
BROKEN_IN_THE_TURN = (
    "import nexus_cli.engine.calls.dispatch as d; d.Dispatcher.run = lambda self, engine, calls: 1 // 0"
)
ENDED_INPUT = """import nexus_cli.session.factory as f
def ended(*_): raise EOFError
f.SessionFactory._context = ended
"""
"""An EOFError that nobody expects: no answer of a person ends so."""

NO_WALLS = "import nexus_cli.sandbox.probe as p; p._candidates = lambda *_: []"


@dataclass(frozen=True)
class Row:
    """One way to a row of the table."""

    name: str
    status: int
    kind: str
    script: Any = None
    arguments: tuple[str, ...] = ("hi",)
    env: dict[str, str | None] = field(default_factory=dict)
    settings: str = QUICK + PRICED
    bug: str = ""
    """Python that breaks the program before it starts."""
    session: bool = True
    """A session exists when it ends."""
    requests: int | None = 1
    """How many the model sees; None: not looked at."""
    installed: bool = False
    """Through the script itself, from the start of the interpreter on."""
    says: str = ""
    """Stands in the line on stderr."""


def fault(value: Any) -> dict[str, Any]:
    """A model that always answers so."""
    return {"default": {"text": "partial words", "fault": value}}


NOWHERE: dict[str, str | None] = {"OPENAI_API_BASE": "http://127.0.0.1:9/v1"}
KEYLESS: dict[str, str | None] = {"OPENAI_API_KEY": None, "OPENAI_API_BASE": None, "NEXUS_MODEL": None}

LISTED = (
    Row("done", 0, "", installed=True),
    Row("network", 1, "network", env=NOWHERE, requests=0, says="the connection to 127.0.0.1:9 was refused"),
    Row("provider", 1, "provider", fault({"status": 400, "message": "strange parameter"}), says="strange parameter"),
    Row(
        "balance", 1, "provider", fault({"status": 402, "message": "Insufficient Balance"}), says="plan and the balance"
    ),
    Row("empty", 1, "provider", {"default": {"text": ""}}, says="neither text nor tool calls"),
    Row("broke_off", 1, "provider", fault("no_finish"), requests=2),
    Row("opening_bug", 1, "internal", bug=BROKEN_AT_OPENING, session=False, requests=0),
    Row("ended_input", 1, "internal", bug=ENDED_INPUT, session=False, requests=0, says="EOFError"),
    Row("turn_bug", 1, "internal", FOREVER, bug=BROKEN_IN_THE_TURN),
    Row("allow", 2, "usage", arguments=("--allow", "some", "hi"), session=False, requests=0, says="auto or all"),
    Row("option", 2, "usage", arguments=("--max-stepz", "2", "hi"), session=False, requests=0, says="--max-steps"),
    Row("value", 2, "usage", arguments=("--max-steps", "x", "hi"), session=False, requests=0),
    Row("nothing", 2, "usage", arguments=(), session=False, requests=0, says="no prompt"),
    Row("folder", 2, "usage", arguments=("-C", "nowhere", "hi"), session=False, requests=0, says="no such folder"),
    Row("no_session", 2, "usage", arguments=("-c", "hi"), session=False, requests=0, says="there is no session"),
    Row("no_such_session", 2, "usage", arguments=("-r", "x9", "hi"), session=False, requests=0),
    Row("unknown_model", 2, "usage", fault({"status": 404, "message": "The model `scripted` does not exist"})),
    Row("no_provider", 2, "usage", arguments=("-m", "nonsense", "hi"), session=False, requests=0, says="nonsense"),
    Row(
        "price",
        2,
        "usage",
        arguments=("--max-cost", "1", "-m", "mistral/unlisted", "hi"),  # a model on this machine is free
        env={"MISTRAL_API_KEY": "sk-nobody"},
        settings=QUICK,
        session=False,
        requests=0,
        says="config set",
    ),
    Row("config", 2, "config", settings="allow = 3\n", session=False, requests=0, says="config.toml, line 1"),
    Row(
        "no_sandbox",
        2,
        "config",
        settings=QUICK + PRICED + '[sandbox]\nbackend = "required"\n',
        bug=NO_WALLS,
        session=False,
        requests=0,
        says="nexus doctor",
    ),
    Row(
        "no_model",
        2,
        "config",
        env=KEYLESS,
        session=False,
        requests=0,
        says="export ANTHROPIC_API_KEY=",
    ),
    Row(
        "no_key", 2, "auth", arguments=("-m", "anthropic/claude-sonnet-4-5", "hi"), requests=0, says="ANTHROPIC_API_KEY"
    ),
    Row(
        "wrong_key",
        2,
        "auth",
        fault({"status": 401, "message": "Incorrect API key provided: sk-***"}),
        says="OPENAI_API_KEY",
    ),
    Row("max_steps", 3, "limit", FOREVER, ("--max-steps", "2", "hi"), requests=2, says="--max-steps"),
    Row(
        "max_total_tokens",
        3,
        "limit",
        arguments=("--max-total-tokens", "1500", "hi"),
        requests=0,
        says="max_total_tokens",
    ),
    Row("max_cost", 3, "limit", arguments=("--max-cost", "0.004", "hi"), requests=0, says="max_cost"),
    Row(
        "timeout",
        3,
        "limit",
        {"default": {"text": "late", "delay": 40}},
        ("--timeout", "4", "hi"),
        requests=None,
        says="--timeout",
    ),
    Row("fifth_call", 3, "limit", FOREVER, requests=5, says="call 5 times; 4 ran"),
    Row("length", 3, "length", {"default": {"text": "half an ans", "finish": "length"}}, says="cut off"),
    Row("refused", 3, "refused", {"default": {"text": "I must", "finish": "content_filter"}}),
    Row("overflow", 3, "overflow", settings=QUICK + f'[models."{MODEL}"]\nwindow = 1200\n', requests=0, says="system"),
    Row("denied", 3, "denied", REFUSED, requests=5, says="were refused"),
    Row(
        "rate_limit",
        75,
        "rate_limit",
        fault({"status": 429, "retry_after": 0}),
        requests=None,
        settings=QUICK.replace("60.0", "2.0"),
    ),
    Row("overloaded", 75, "overloaded", fault(529), requests=2),
)
ROWS = tuple(sorted(LISTED, key=lambda row: row is not next(one for one in LISTED if one.kind == row.kind)))
"""The first row of each kind, which the gate runs, then the others."""
OF_EACH_KIND = len({row.kind for row in LISTED})
"""So many rows are the first of their kind."""
