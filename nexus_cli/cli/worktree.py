"""`nexus worktree list | diff | apply | remove`: show the changes in worktrees, and apply them to the project."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_report, print_text
from nexus_cli.config.paths import places, working_folder
from nexus_cli.config.worktree_record import WorktreeRecord, find_worktree
from nexus_cli.core.elide import plural
from nexus_cli.reports.replay import ONE_LINE
from nexus_cli.reports.worktrees import applied_text, find_project, worktrees_report, worktrees_text
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Stream, write_stderr_line
from nexus_cli.ui.render.theme import choose_theme
from nexus_cli.ui.render.unified_diff import diff_lines
from nexus_cli.undo.follow_changes import follow_apply
from nexus_cli.worktrees.apply_worktree import apply_worktree, clean_killed_apply
from nexus_cli.worktrees.carry_ignored import read_carried
from nexus_cli.worktrees.worktrees import diff_worktree, find_worktree_of, is_in_use, remove_worktree

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Work that was done beside yours.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the worktree.")]


@app.command("list")
def list_command(
    everywhere: Annotated[bool, typer.Option("--all", help="Those of every project.")] = False, json: Json = False
) -> int:
    """List the worktrees of this project, and what is in them."""
    value = worktrees_report(None if everywhere else find_project(working_folder()))
    return print_report(value, worktrees_text, json=json, whole=True)


@app.command("diff")
def diff(
    name: Name, stat: Annotated[bool, typer.Option("--stat", help="Count the changed lines of each file.")] = False
) -> int:
    """Print what was done in a worktree; what the project had changed when it was made is no part of it.

    In a pipe it is a patch that git apply takes, with binary files.
    """
    stream = Stream(1)
    record = _find(name)
    data = diff_worktree(record, stat=stat, binary=not stat and not stream.terminal)
    if stream.terminal and (carried := read_carried(record.home)):
        write_stderr_line(f"nexus: copied from the project, not part of the diff: {', '.join(carried)}.")
    if not stream.terminal:
        stream.write_bytes(data)
        return 0
    text = data.decode("utf-8", "replace")
    if not text:
        print_text("Nothing has changed.")
    elif stat or not stream.colour:
        stream.write(sanitize(text))
    else:
        theme = choose_theme("auto", os.environ, stream.colour)
        stream.write("".join(f"{line}\n" for line in diff_lines(text, stream.width, theme, names=True)))
    return 0


@app.command("apply")
def apply(name: Name) -> int:
    """Bring what was done in a worktree to the project, by a three-way merge of each file.

    What both changed is merged or marked in the file; what cannot be merged stays as it is in the project. Exit status
    1 if anything of that is left for you. `nexus undo --session worktree-NAME` takes it back.
    """
    record = _find(name)
    if is_in_use(record):
        write_stderr_line(f"nexus: a session is working in worktree {name}: what it does from now on is not applied.")
    if here := find_worktree(record.source):
        write_stderr_line(f"nexus: worktree {name} was made of worktree {here.name}: its changes go there.")
    result = follow_apply(places().data, name, record.source, lambda: apply_worktree(record))
    print_text(applied_text(result.to_json(record), ONE_LINE))
    if not result.conflicts:
        return 0
    names = ", ".join(one.path for one in result.conflicts)
    left = plural(len(result.conflicts), "conflict")
    write_stderr_line(f"nexus: worktree {name}: {left}: {names}. Nothing of yours was overwritten.")
    return 1


@app.command("remove")
def remove(
    name: Name, force: Annotated[bool, typer.Option("--force", help="Discard what is not applied.")] = False
) -> int:
    """Remove a worktree with its branch. One in which something is not applied is removed with --force alone."""
    record = _find(name)
    clean_killed_apply(record)
    more = remove_worktree(record, force=force)
    write_stderr_line(f"nexus: worktree {name} is removed{f'; {more}' if more else ''}.")
    return 0


def _find(name: str) -> WorktreeRecord:
    return find_worktree_of(find_project(working_folder()), name)
