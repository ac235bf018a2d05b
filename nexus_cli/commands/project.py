"""`/init` and `/review`: turns with our own instruction, about the project or a change in it."""

from __future__ import annotations

from html import escape

from nexus_cli.commands.command import Command, CommandContext, always, usage_error
from nexus_cli.context.sections.prompts import load_prompt
from nexus_cli.reports.diff import changes_to_review


async def write_instructions(context: CommandContext, rest: str) -> None:
    """Write NEXUS.md from the project's contents.

    The model explores the project, tries the commands for building and testing, and writes the file; your permission
    level applies to each step. WORDS are further instructions. An existing NEXUS.md is revised.
    """
    context.start(load_prompt("init", words=rest))


async def review_change(context: CommandContext, rest: str) -> None:
    """Review uncommitted changes, or a range.

    RANGE is an argument of `git diff`: a commit, a branch, `main...HEAD`. Words after it set the focus. The model reads
    and reports; it changes nothing.
    """
    revision, _, words = rest.partition(" ")
    change = await changes_to_review(context.session.folder, revision)
    if change.problem:
        raise usage_error("review", rest, change.problem, "Without a range it reviews uncommitted changes")
    what = f"the change `{revision}`" if revision else "the uncommitted change of this folder"
    shared = await context.session.share(change.text, f"output of {change.command}")
    block = f'<shell command="{escape(change.command)}">\n{shared.rstrip()}\n</shell>'
    context.start(f"{load_prompt('review', what=what, words=words.strip())}\n\n{block}")


COMMANDS = (
    Command("init", "work", write_instructions, "[WORDS]", idle=True, is_first=True, served=always),
    Command("review", "work", review_change, "[RANGE [WORDS]]", idle=True),
)
