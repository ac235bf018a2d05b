"""Options of `nexus ask` alone, and a turn with their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from nexus_cli.cli.command_options import Json, SharedOptions
from nexus_cli.core.errors import UsageError
from nexus_cli.core.limits import Limits
from nexus_cli.core.option import Argument, Option

if TYPE_CHECKING:
    from nexus_cli.cli.work_folder import WorkFolder
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.attachment import Trigger
    from nexus_cli.core.context_contract import ContextContract

Schema = Annotated[
    str,
    Option(
        "SCHEMA",
        "Require a JSON answer that matches this JSON Schema: a file, the schema itself, or a pydantic MODULE:CLASS. "
        "The model may correct its answer twice; exit status 3 if it never matches.",
    ),
]
_PANEL = "Context contract (a first request that violates it is not sent: exit status 4)"


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The arguments and options of `nexus ask` beside those that it shares with `nexus`."""

    prompt: Annotated[list[str] | None, Argument("[PROMPT]...", least=0)] = None
    json: Json = False
    stream_json: Annotated[bool, Option(None, "Print events as JSON lines.")] = False
    file: Annotated[
        list[str] | None,
        Option("PATH", "Attach a text file, some of its lines (a.py:3-5), a PDF or an image. Repeatable.", "--file -f"),
    ] = None
    max_steps: Annotated[int | None, Option("N", "Maximum number of model requests.")] = None
    max_total_tokens: Annotated[int | None, Option("N", "Maximum input and output tokens of the turn.")] = None
    max_cost: Annotated[float | None, Option("USD", "Maximum cost of the turn in dollars.")] = None
    timeout: Annotated[float | None, Option("SECONDS", "Time limit of the turn in seconds.")] = None
    until: Annotated[
        str,
        Option("COMMAND", "Continue until this shell command exits with 0; exit status 3 if a limit is reached first."),
    ] = ""
    schema: Schema = ""
    watch: Annotated[bool, Option(None, "Run one turn for each batch of lines on stdin, until stdin ends.")] = False
    watch_lines: Annotated[int, Option("N", "With --watch: maximum lines in a batch.")] = 50
    watch_pause: Annotated[
        float, Option("SECONDS", "With --watch: seconds without input after which a batch ends.")
    ] = 2.0
    require_save: Annotated[bool, Option(None, "Fail if the session cannot be saved.")] = False
    explain_context: Annotated[bool, Option(None, "Before each request, print on stderr what it contains and why.")] = (
        False
    )
    full_input: Annotated[
        bool,
        Option(
            None,
            "Fail if the prompt, files or stdin would be truncated.",
            "--require-full-input",
            panel=_PANEL,
        ),
    ] = False
    max_input: Annotated[
        int | None,
        Option(
            "N",
            "Maximum input tokens of each request; a later request above this ends the turn with exit status 3.",
            "--max-input-tokens --max-input",
            panel=_PANEL,
        ),
    ] = None
    max_drop: Annotated[
        int | None, Option("TOKENS", "Maximum tokens left out of the first request.", least=0, panel=_PANEL)
    ] = None
    no_drops: Annotated[bool, Option(None, "Same as --max-drop 0.", panel=_PANEL)] = False
    require_section: Annotated[
        list[str] | None,
        Option("ID", "Require a context section in full; repeatable.", least=0, panel=_PANEL),
    ] = None
    price: Annotated[
        bool,
        Option(None, "Print the tokens and price of the first request as JSON, without sending or saving anything."),
    ] = False

    def check(self, shared: SharedOptions) -> None:
        """Raise `UsageError` if options contradict each other."""
        shared.check()
        if self.json and self.stream_json:
            raise UsageError("--json and --stream-json", "cannot be used together", "Omit one of them")
        if self.price and self.stream_json:
            raise UsageError("--price and --stream-json", "--price prints one object", "Omit --stream-json")
        if self.price and self.watch:
            raise UsageError(
                "--price and --watch",
                "cannot be used together, because the batches are not known in advance",
                "Omit --watch",
            )
        if self.require_save and shared.no_save:
            raise UsageError("--require-save and --no-save", "cannot be used together", "Omit one of them")

    @property
    def limits(self) -> Limits:
        """The limits of the turn."""
        return Limits(self.max_steps, self.max_total_tokens, self.max_cost, self.timeout)

    def make_contract(self) -> ContextContract | None:
        """Return the contract of the requests, None if no option sets one."""
        max_drop, sections = 0 if self.no_drops else self.max_drop, self.require_section or ()
        if not (self.full_input or sections) and self.max_input is None and max_drop is None:
            return None
        from nexus_cli.core.context_contract import ContextContract  # noqa: PLC0415  (few runs have one)

        return ContextContract(self.full_input, self.max_input, max_drop, tuple(map(str.strip, sections)))


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn of `nexus ask` that is ready to start."""

    shared: SharedOptions
    options: AskOptions
    contract: ContextContract | None
    settings: Settings
    work: WorkFolder
    model: str
    trigger: Trigger
