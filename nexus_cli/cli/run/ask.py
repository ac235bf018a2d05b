"""`nexus ask`: run one turn. Builds the prompt from words, stdin and files, then runs an `AskTurn`.

Heavy modules are imported after a model is chosen.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

import typer

from nexus_cli.cli.command_options import NoPlugins, SharedOptions, expand_dataclasses
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.run.ask_options import AskOptions, PreparedTurn
from nexus_cli.cli.work_folder import WorkFolder, open_work_folder
from nexus_cli.config.paths import project_root
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.attachment import Attachments, Trigger
from nexus_cli.core.errors import UsageError
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.ui.input.piped import Reader
from nexus_cli.ui.print.stream import Stream, write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)
FOREIGN_PLACES = (".agents", ".claude", ".codex", ".cursor", ".mcp.json", ".opencode", ".vscode")
"""Files and folders of a project for other programs, some of which nexus reads too."""


def ask(context: typer.Context, shared: SharedOptions, *, no_plugins: NoPlugins = False, options: AskOptions) -> int:
    """Run one turn, then exit. Without PROMPT (or with -) the prompt is read from stdin; otherwise piped stdin is added
    to PROMPT.

    The answer goes to stdout, everything else to stderr. Exit status: 0 success, 1 failure, 2 wrong usage or
    configuration, 3 stopped before the end (a limit, no answer), 4 an input limit such as --no-drops would be broken
    (nothing was sent), 75 temporary failure, 130, 143 and 129 stopped by SIGINT, SIGTERM and SIGHUP.
    """
    for name in () if options.watch else ("watch_lines", "watch_pause"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise UsageError(option, "has no effect without --watch", f"Add --watch, or omit {option}")
    options.check(shared)
    words = tuple(options.prompt or ())
    block_imports_from(str(shared.folder))
    if options.watch:
        from nexus_cli.cli.run.watch import check_watch  # noqa: PLC0415  (few runs watch a stream)

        check_watch(words, is_terminal=os.isatty(0), until=options.until)
    resumes = bool(shared.resume or shared.newest)
    prompt = PromptReader(
        words,
        options.file or (),
        resumes=resumes,
        is_stream=options.watch,
        timeout=options.timeout,
        quiet=shared.quiet,
    )
    prompt.check()
    Stream(1).refuse_closed()  # before anything is paid
    if options.schema:
        from nexus_cli.cli.run.schema_option import load_schema  # noqa: PLC0415  (few runs have a schema)

        prompt.schema = load_schema(options.schema)
    with open_work_folder(shared.folder, shared.worktree, quiet=shared.quiet) as work:
        run = _prepare(shared, options, prompt, work)
        from nexus_cli.cli.run.run_turn import AskTurn  # noqa: PLC0415  (loads the engine)

        if options.price or (run.contract and not run.trigger.expands):
            from nexus_cli.cli.run.rehearse_turn import price_turn  # noqa: PLC0415  (few runs have a contract)

            price_turn(run, prints=options.price)
            if options.price:
                return 0
        return AskTurn(run).run()


app.command("ask")(expand_dataclasses(ask))


def _prepare(shared: SharedOptions, options: AskOptions, prompt: PromptReader, work: WorkFolder) -> PreparedTurn:
    settings = settings_in(work.path)
    chosen = choose_model(shared.model, settings, resumes=bool(shared.resume or shared.newest))
    prompt.report_silence()
    trigger, notices = prompt.read()
    if trigger.expands and trigger.text.startswith("/"):
        from nexus_cli.cli.run.called_guide import check_call, choose_guide_model  # noqa: PLC0415  (few call a guide)

        trigger, call_notices = check_call(trigger, work.path)
        notices += call_notices
        if chosen.model and not (shared.model or shared.resume or shared.newest):
            guide_model = choose_guide_model(trigger, work.path, chosen.model, settings)
            if guide_model is not None:
                notices.append(f"{trigger.text.split()[0]} sets {guide_model}")
                chosen = replace(chosen, model=guide_model.model or chosen.model, announce="")
                shared = replace(shared, effort=shared.effort or guide_model.effort)
    if not shared.quiet:
        root = project_root(work.path)
        if not (shared.no_save or options.price) and any(os.path.exists(root / name) for name in FOREIGN_PLACES):
            from nexus_cli.config.unsupported import new_unsupported_line  # noqa: PLC0415  (few projects have these)

            notices += new_unsupported_line(root, "ask:").splitlines()
        for line in filter(None, (chosen.announce, *work.notices, *notices)):
            write_stderr_line(f"nexus: {line}")
    trigger = replace(trigger, until=options.until) if options.until else trigger
    if contract := options.make_contract():
        inputs = () if options.watch else tuple(prompt.inputs)
        contract = replace(contract, inputs=inputs, uncounted=trigger.uncounted)
    return PreparedTurn(shared, options, contract, settings, work, chosen.model, trigger)


class PromptReader:
    """Reads the prompt from words, stdin (`-` or a pipe) and attached files."""

    def __init__(
        self,
        words: Sequence[str],
        files: Sequence[str],
        *,
        resumes: bool,
        is_stream: bool,
        timeout: float | None,
        quiet: bool = False,
    ) -> None:
        """With `is_stream`, another reader reads stdin; otherwise stdin and each pipe among `files` must end within
        `timeout` seconds. With `quiet` a long wait is not reported."""
        self._from_stdin = list(words) == ["-"] or not words
        self._words = "" if self._from_stdin else " ".join(words)
        self._files = files
        self._resumes = resumes
        self.schema = ""
        self.inputs: list[tuple[str, str]] = []
        """Name and text of each input that was read."""
        self._timeout = timeout
        self._tell = None if quiet else write_stderr_line
        is_optional = resumes or not self._from_stdin
        self._reader = None if is_stream or os.isatty(0) else Reader(0, "stdin", timeout, self._tell, is_optional)
        if self._reader is None and list(words) == ["-"]:
            raise UsageError(
                "no prompt", "`-` reads the prompt from stdin, which is a terminal", 'Try `nexus ask "..."`'
            )

    def check(self) -> None:
        """Raise `UsageError` if there is no prompt. Does not read stdin to its end."""
        if self._resumes or self._words.strip():
            return
        if not self._from_stdin or self._reader is None or self._reader.empty:
            why = "no text was given, and stdin is empty" if self._reader else "no text was given"
            why = why if self._from_stdin else "the text is empty"
            raise UsageError("no prompt", why, 'Try `nexus ask "..."`, or pipe text to `nexus ask`')

    def report_silence(self) -> None:
        """Wait for the first bytes of a stdin that is added to the prompt, and report a long wait."""
        if self._reader and not self._from_stdin:
            self._reader.report_silence()

    def read(self) -> tuple[Trigger, list[str]]:
        """Return the trigger and notices about its input. Its text: the words, a block per file, one for stdin."""
        attached = Attachments([self._words])
        if self._files:
            from nexus_cli.ui.input.attached_files import read_attachment  # noqa: PLC0415  (with --file only)
        for name in self._files:
            read = read_attachment(name, f"--file {name}", timeout=self._timeout, tell=self._tell)
            attached.add(read)
            self.inputs.append((f"--file {name}", read.block))
        if "@" in self._words and not self._words.startswith("/"):
            from nexus_cli.ui.input.attached_files import list_mentioned_files  # noqa: PLC0415  (few prompts have an @)

            for name in list_mentioned_files(self._words):
                attached.notices.append(f"@{name} is sent as text; to attach the file, add -f {shlex.quote(name)}")
        if self._reader and not self._reader.empty:
            piped = self._reader.read()
            if piped.notice:
                attached.notices.append(piped.notice)
            attached.uncounted += piped.uncounted
            if self._from_stdin:
                attached.blocks[0] = piped.text.strip("\n")
            else:
                attached.blocks.append(f"<stdin>\n{piped.text.removesuffix(chr(10))}\n</stdin>")
            self.inputs.append(("stdin", piped.text))
        if self._words:
            self.inputs.append(("the prompt", self._words))
        text = "\n\n".join(block for block in attached.blocks if block.strip())
        source = "stdin" if self._from_stdin and attached.blocks[0] else "person"
        calls = not self._from_stdin and ("/" in self._words[:1] or "$" in self._words or "@" in self._words)
        parts, files = tuple(attached.parts), tuple(attached.files)
        return Trigger(
            text, source, parts, files, attached.uncounted, expands=calls, schema=self.schema
        ), attached.notices
