"""`nexus map`: one turn for each file or each line of stdin. Reads the items, then calls `run_map`."""

from __future__ import annotations

import os

import typer

from nexus_cli.cli.command_options import NoPlugins, SharedOptions, expand_dataclasses
from nexus_cli.cli.process import block_imports_from
from nexus_cli.cli.run.map_options import MapOptions
from nexus_cli.cli.work_folder import open_work_folder
from nexus_cli.config.project_settings import settings_in
from nexus_cli.core.errors import UsageError
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.ui.print.stream import Stream, write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def map_items(context: typer.Context, options: MapOptions, shared: SharedOptions, no_plugins: NoPlugins = False) -> int:
    """Run one turn for each of FILES, or for each line of stdin; {} in PROMPT is replaced by the item.

    Each file is attached to its message. Prints one JSON line per item. Exit status: 0 success, 3 if some items failed
    (see their lines), else as nexus ask. More: nexus docs map.
    """
    shared.check()
    files = options.files
    if not options.prompt.strip():
        raise UsageError("no prompt", "the text is empty", "See `nexus map --help`")
    if files and options.null:
        raise UsageError("--null", "applies only to items on stdin, but files are given", "Omit --null, or the files")
    if not files and os.isatty(0):
        why = "no files are given, and stdin is a terminal"
        raise UsageError("no items", why, "Name files, or pipe a list to nexus")
    block_imports_from(str(shared.folder))
    Stream(1).refuse_closed()  # before anything is paid
    schema = ""
    if options.schema:
        from nexus_cli.cli.run.schema_option import load_schema  # noqa: PLC0415  (few runs have a schema)

        schema = load_schema(options.schema)
    with open_work_folder(shared.folder, "", quiet=shared.quiet) as work:
        settings = settings_in(work.path)
        chosen = choose_model(shared.model, settings)
        from nexus_cli.ui.input.items import read_items  # noqa: PLC0415  (loads the decoder)

        items, notice = (files, "") if files else read_items(0, nul=options.null)
        if not shared.quiet:
            empty = "" if items else "stdin has no items; nothing was sent"
            for line in filter(None, (chosen.announce, *work.notices, notice, empty)):
                write_stderr_line(f"nexus: {line}")
        if not items:
            return 0
        from nexus_cli.cli.run.run_map import PreparedMap, run_map  # noqa: PLC0415  (loads the engine)

        return run_map(PreparedMap(options, shared, items, schema, settings, work, chosen.model))


app.command("map")(expand_dataclasses(map_items, ("newest", "resume", "worktree", "add_dirs", "verbose")))
