"""`/init` and `/review`: turns with our own instruction, about the project or a change in it."""

from __future__ import annotations

from html import escape

from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority
from nexus_cli.config.paths import project_root
from nexus_cli.engine.compaction.record_sources import read_log_in_pieces
from nexus_cli.reports.diff import changes_to_review
from nexus_cli.reports.instructions import check_written
from nexus_cli.sections.prompts import load_prompt

MOST_TOKENS = 400
"""Tokens of a NEXUS.md that `/init` writes, unless the person names another number."""


async def write_instructions(context: CommandContext, rest: str) -> None:
    """Write NEXUS.md: tested commands and pitfalls.

    The file has at most 400 tokens, or TOKENS. The model explores the project, tries the commands for building and
    testing, and writes the file; your permission level applies to each step. Then nexus counts the tokens and lists
    commands that did not exit with status 0; the model may correct the file once. WORDS are additional instructions. An
    existing NEXUS.md is revised.
    """
    first, _, words = rest.partition(" ")
    is_bound = first.isascii() and first.isdecimal()
    most = int(first[:9]) if is_bound else MOST_TOKENS
    if not most:
        raise usage_error("init", rest, "0 tokens are not enough", "/init 800 permits 800")

    def start(text: str, *, is_last: bool) -> None:
        async def check() -> None:
            state = context.session.state
            await read_log_in_pieces(state.engine.conversation, state.engine.work)
            runs = state.engine.work.commands.values()
            path = project_root(context.session.folder) / "NEXUS.md"
            count = state.engine.context.count
            problems, price = check_written(path, count, most, [run.command for run in runs if run.status == 0])
            context.say("\n".join([price, *problems]))
            if problems and not is_last and price:
                again = load_prompt("init_again", problems="\n".join(problems), tokens=most)
                start(again, is_last=True)

        context.start(text, after=None if context.options.served else check)

    start(load_prompt("init", words=words if is_bound else rest, tokens=most), is_last=False)


async def review_change(context: CommandContext, rest: str) -> None:
    """Review uncommitted changes, or a range.

    RANGE is an argument of `git diff`: a commit, a branch, `main...HEAD`. Words after RANGE set the focus. The model
    reads and reports; it changes nothing.
    """
    revision, _, words = rest.partition(" ")
    change = await changes_to_review(context.session.folder, revision)
    if change.problem:
        raise usage_error("review", rest, change.problem, "Without a range, /review reviews uncommitted changes")
    what = f"the change `{revision}`" if revision else "the uncommitted change of this folder"
    shared = await context.session.share(change.text, f"output of {change.command}")
    block = f'<shell command="{escape(change.command)}">\n{shared.rstrip()}\n</shell>'
    context.start(f"{load_prompt('review', what=what, words=words.strip())}\n\n{block}")


COMMANDS = (
    Command("init", "run", write_instructions, "[TOKENS] [WORDS]", idle=True, authority=Authority.ACTS),
    Command("review", "run", review_change, "[RANGE [WORDS]]", idle=True, authority=Authority.ACTS),
)
