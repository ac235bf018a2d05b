"""Options of `nexus ask` alone, and a turn with their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from nexus_cli.cli.command_options import Json, NoPlugins, SharedOptions, check_amount, refuse_empty, whole_number
from nexus_cli.core.errors import UsageError
from nexus_cli.core.limits import Limits

if TYPE_CHECKING:
    from nexus_cli.cli.work_folder import WorkFolder
    from nexus_cli.config.settings import Settings
    from nexus_cli.core.attachment import Trigger
    from nexus_cli.core.context_contract import ContextContract

Schema = Annotated[
    str,
    typer.Option(
        metavar="SCHEMA",
        callback=refuse_empty,
        help="Require a JSON answer that matches this JSON Schema: a file, the schema itself, or a pydantic "
        "MODULE:CLASS. The model may correct its answer twice; exit status 3 if it never matches.",
    ),
]
_PANEL = "Context contract (a first request that violates it is not sent: exit status 4)"


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The arguments and options of `nexus ask` beside those that it shares with `nexus`."""

    prompt: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", show_default=False)] = None
    no_plugins: NoPlugins = False
    json: Json = False
    stream_json: Annotated[bool, typer.Option("--stream-json", help="Print events as JSON lines.")] = False
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            callback=refuse_empty,
            help="Attach a text file, some of its lines (a.py:3-5), a PDF or an image.",
        ),
    ] = None
    max_steps: Annotated[
        int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum number of model requests.")
    ] = None
    max_total_tokens: Annotated[
        int | None,
        typer.Option(callback=whole_number(), metavar="N", help="Maximum input and output tokens of the turn."),
    ] = None
    max_cost: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="USD", help="Maximum cost of the turn in dollars.")
    ] = None
    timeout: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="SECONDS", help="Time limit of the turn in seconds.")
    ] = None
    until: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            callback=refuse_empty,
            help="Continue until this shell command exits with 0; exit status 3 if a limit is reached first.",
        ),
    ] = ""
    schema: Schema = ""
    watch: Annotated[
        bool, typer.Option("--watch", help="Run one turn for each batch of lines on stdin, until stdin ends.")
    ] = False
    watch_lines: Annotated[
        int, typer.Option(callback=whole_number(), metavar="N", help="With --watch: maximum lines in a batch.")
    ] = 50
    watch_pause: Annotated[
        float,
        typer.Option(
            callback=check_amount,
            metavar="SECONDS",
            help="With --watch: seconds without input after which a batch ends.",
        ),
    ] = 2.0
    require_save: Annotated[bool, typer.Option("--require-save", help="Fail if the session cannot be saved.")] = False
    explain_context: Annotated[
        bool,
        typer.Option("--explain-context", help="Before each request, print on stderr what it contains and why."),
    ] = False
    full_input: Annotated[
        bool,
        typer.Option(
            "--require-full-input",
            help="Fail if the prompt, files or stdin would be truncated.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    max_input: Annotated[
        int | None,
        typer.Option(
            "--max-input-tokens",
            "--max-input",
            callback=whole_number(),
            metavar="N",
            help="Maximum input tokens of each request; a later request above this ends the turn with exit status 3.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    max_drop: Annotated[
        int | None,
        typer.Option(
            callback=whole_number(0),
            metavar="TOKENS",
            help="Maximum tokens left out of the first request.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    no_drops: Annotated[bool, typer.Option("--no-drops", help="Same as --max-drop 0.", rich_help_panel=_PANEL)] = False
    require_section: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Require a context section in full; repeatable.", rich_help_panel=_PANEL),
    ] = None
    price: Annotated[
        bool,
        typer.Option(
            "--price",
            help="Print the tokens and price of the first request as JSON, without sending or saving anything.",
        ),
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
