"""`nexus ask`: one turn from the command line. Reads what is asked, opens a session, shows its events, ends.

The engine is `nexus_cli.session`; how things look is `nexus_cli.ui`. Nothing heavy is imported before a model is
known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from nexus_cli.cli.choose_model import choose
from nexus_cli.cli.options import (
    MOST,
    Allow,
    Continue,
    Directory,
    Effort,
    Json,
    Model,
    NoSave,
    NoTools,
    Quiet,
    RecipeName,
    Resume,
    SharedOptions,
    Verbose,
)
from nexus_cli.cli.process import forget_folder
from nexus_cli.cli.prompt import Question
from nexus_cli.cli.tell import tell
from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from nexus_cli.config.settings import Settings
    from nexus_cli.core.attachment import Trigger

app = typer.Typer(add_completion=False, rich_markup_mode=None)
NOTHING = SharedOptions()
UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class AskOptions:
    """Everything that the command line said."""

    words: tuple[str, ...] = ()
    shared: SharedOptions = NOTHING
    files: tuple[str, ...] = ()
    json: bool = False
    stream_json: bool = False
    require_save: bool = False
    limits: Limits = UNLIMITED
    explain: bool = False

    def check(self) -> None:
        """`NexusError("usage", ...)` where options contradict each other."""
        self.shared.check()
        if self.json and self.stream_json:
            raise NexusError("usage", "--json and --stream-json", "they are two forms of output", "Give one of them")
        if self.require_save and self.shared.no_save:
            raise NexusError("usage", "--require-save and --no-save", "they contradict each other", "Give one of them")


@dataclass(frozen=True, slots=True)
class Run:
    """A turn that is ready to start."""

    options: AskOptions
    settings: Settings
    folder: Path
    model: str
    trigger: Trigger


@app.command("ask")
def ask(
    context: typer.Context,
    prompt: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", show_default=False)] = None,
    model: Model = "",
    effort: Effort = "",
    continue_: Continue = False,
    resume: Resume = "",
    directory: Directory = "",
    recipe: RecipeName = "",
    no_tools: NoTools = False,
    allow: Allow = "",
    no_save: NoSave = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
    stream_json: Annotated[bool, typer.Option("--stream-json", help="Print events as JSON lines.")] = False,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="PATH", help="Attach a text file or an image.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, max=MOST, metavar="N", help="Model requests at most.")] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option(min=1, max=MOST, metavar="N", help="Input and output tokens of the turn at most.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(metavar="USD", help="Dollars of the turn at most.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Seconds of the turn at most.")] = None,
    require_save: Annotated[
        bool, typer.Option("--require-save", help="End when the session cannot be written.")
    ] = False,
    explain_context: Annotated[
        bool, typer.Option("--explain-context", help="Tell on stderr what each request holds, and why, before it goes.")
    ] = False,
) -> int:
    """One turn, then exit. Without PROMPT (or with -) stdin is the prompt; with one, piped stdin is added to it.

    The answer goes to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 usage or configuration,
    3 stopped short, 75 try again later, 130, 143 and 129 interrupted by SIGINT, SIGTERM and SIGHUP.
    """
    for name, value in (("--max-cost", max_cost), ("--timeout", timeout)):
        if value == float("inf"):
            raise NexusError("usage", f"wrong value for {name}: inf", "it limits nothing", f"Leave {name} away")
        if value is not None and not value > 0:
            why = "it must be above 0"
            raise NexusError("usage", f"wrong value for {name}: {value:g}", why, "See nexus ask --help")
    shared = SharedOptions(
        model, effort, continue_, resume, directory, recipe, no_tools, allow, no_save, verbose, quiet
    )
    options = AskOptions(
        tuple(prompt or ()),
        shared.over(context.obj if isinstance(context.obj, SharedOptions) else None),
        tuple(file or ()),
        json,
        stream_json,
        require_save,
        Limits(max_steps, max_total_tokens, max_cost, timeout),
        explain_context,
    )
    return run_ask(options)


def run_ask(options: AskOptions) -> int:
    """Run one turn and return the exit status; what goes wrong before there is a session is raised as `NexusError`."""
    options.check()
    ready = _prepare(options)
    from nexus_cli.cli.run_turn import run_turn  # noqa: PLC0415  (the engine, once there is something to do)

    return run_turn(ready)


def _prepare(options: AskOptions) -> Run:
    folder = options.shared.folder
    forget_folder(str(folder))
    resumes = bool(options.shared.resume or options.shared.newest)
    question = Question(options.words, options.files, resumes=resumes)
    question.check()
    settings = load_settings_in(project_root(folder), places(), defaults_dir(), os.environ).settings
    chosen = choose(options.shared.model, os.environ, settings, resumes=resumes)
    prompt = question.read()
    if not options.shared.quiet:
        for line in filter(None, (chosen.announce, *prompt.notices)):
            tell(f"nexus: {line}")
    return Run(options, settings, folder, chosen.model, prompt.trigger)
