"""`nexus map`: one turn for each file or each line of stdin. Reads the items, then calls `run_map`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import (
    NoPlugins,
    SharedOptions,
    check_amount,
    refuse_empty,
    take_shared,
    whole_number,
)
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.run.ask_options import Schema
from nexus_cli.cli.work_folder import open_work_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)
MOST_JOBS = 64
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        callback=whole_number(1, MOST_JOBS),
        metavar="N",
        help="Maximum number of items that run at the same time.",
    ),
]
ResumeFile = Annotated[
    str,
    typer.Option(
        "--resume",
        metavar="FILE",
        callback=refuse_empty,
        help="Append each finished item to FILE, and skip items with an answer in FILE.",
    ),
]


def map_items(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES]...", show_default=False, callback=refuse_empty)
    ] = None,
    jobs: Jobs = 4,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="Items on stdin are separated by NUL instead of newlines.")
    ] = False,
    resume: ResumeFile = "",
    unordered: Annotated[bool, typer.Option("--unordered", help="Print results as items finish.")] = False,
    max_cost: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="USD", help="Maximum total cost in dollars.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(callback=whole_number(), metavar="N", help="Maximum number of requests per item.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(callback=check_amount, metavar="SECONDS", help="Time limit per item in seconds.")
    ] = None,
    schema: Schema = "",
    *,
    shared: SharedOptions,
    no_plugins: NoPlugins = False,
) -> int:
    """Run one turn for each of FILES, or for each line of stdin; {} in PROMPT is replaced by the item.

    Each file is attached to its message. Prints one JSON line per item. Exit status: 0 success, 3 if some items failed
    (see their lines), else as nexus ask. More: nexus docs map.
    """
    shared.check()
    if not prompt.strip():
        raise NexusError("usage", "no prompt", "the text is empty", "See `nexus map --help`")
    if files and null:
        raise NexusError(
            "usage", "--null", "applies only to items on stdin, but files are given", "Omit --null, or the files"
        )
    if not files and os.isatty(0):
        why = "no files are given, and stdin is a terminal"
        raise NexusError("usage", "no items", why, "Name files, or pipe a list to nexus")
    block_imports_from(str(shared.folder))
    text = ""
    if schema:
        from nexus_cli.cli.run.schema_option import load_schema  # noqa: PLC0415  (few runs have a schema)

        text = load_schema(schema)
    with open_work_folder(shared.folder, "", quiet=shared.quiet) as work:
        settings = settings_in(work.path)
        chosen = choose_model(shared.model, settings)
        from nexus_cli.ui.input.items import read_items  # noqa: PLC0415  (loads the decoder)

        items, notice = (files, "") if files else read_items(0, nul=null)
        if not shared.quiet:
            empty = "" if items else "stdin has no items; nothing was sent"
            for line in filter(None, (chosen.announce, *work.notices, notice, empty)):
                write_stderr_line(f"nexus: {line}")
        if not items:
            return 0
        from nexus_cli.cli.run.run_map import PreparedMap, run_map  # noqa: PLC0415  (loads the engine)

        limits = Limits(max_steps=max_steps, max_cost=max_cost, timeout=timeout)
        arguments = (prompt, items, bool(files), shared, limits, jobs, unordered, resume, text)
        return run_map(PreparedMap(*arguments, settings, work, chosen.model))


app.command("map")(take_shared(map_items, ("newest", "resume", "worktree", "add_dirs", "verbose")))
