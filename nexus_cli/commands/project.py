"""`/init` and `/review`: turns with our own instruction, about the project or a change in it."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.diff import changes_to_review
from nexus_cli.commands.verb import Noun, Verb
from nexus_cli.config.paths import project_root
from nexus_cli.config.prompts import load_prompt
from nexus_cli.core.option import Argument, Option
from nexus_cli.reports.instructions import check_written

MAX_TOKENS = 400
"""Tokens of a NEXUS.md that `/init` writes, unless the person names another number."""


async def write_instructions(
    context: CommandContext,
    tokens: Annotated[int, Option("TOKENS", "Maximum size of the file in tokens.", is_positional=True)] = MAX_TOKENS,
    words: Annotated[str, Argument("WORDS", "Further instructions.", is_text=True)] = "",
) -> None:
    """Write NEXUS.md: tested commands, and pitfalls.

    The file has at most 400 tokens, or TOKENS. The model explores the project, tries the commands for building and
    testing, and writes the file; your permission level applies to each step. Then nexus counts the tokens and lists
    commands that did not exit with 0; the model corrects such problems once. An existing NEXUS.md is revised.
    """

    def start(text: str, *, is_last: bool) -> None:
        async def check() -> None:
            engine = context.session.engine
            await engine.read_work()
            runs = engine.work.commands.values()
            path = project_root(context.session.folder) / "NEXUS.md"
            count = engine.context.count
            problems, price = check_written(path, count, tokens, [run.command for run in runs if run.status == 0])
            context.say("\n".join([price, *problems]))
            if problems and not is_last and price:
                again = load_prompt("init_again", problems="\n".join(problems), tokens=tokens)
                start(again, is_last=True)

        context.start(text, after=None if context.options.served else check)

    start(load_prompt("init", words=words, tokens=tokens), is_last=False)


async def review_change(
    context: CommandContext,
    revision: Annotated[str, Argument("RANGE", "A `git diff` range: a commit, a branch, `main...HEAD`.")] = "",
    words: Annotated[str, Argument("WORDS", "The focus of the review.", is_text=True)] = "",
) -> None:
    """Review uncommitted changes, or a range.

    The model is told to read and report, and to change nothing.
    """
    change = await changes_to_review(context.session.folder, revision)
    if change.problem:
        raise usage_error(
            "review",
            f"{revision} {words}".strip(),
            change.problem,
            "/review reviews the uncommitted changes of a git repository, /review RANGE a range",
        )
    subject = f"the change `{revision}`" if revision else "the uncommitted changes in this folder"
    block = await context.session.share(change.command, change.text)
    context.start(f"{load_prompt('review', what=subject, words=words)}\n\n{block}")


NOUNS = (
    Noun("init", "run", (Verb(write_instructions),), is_idle=True),
    Noun("review", "run", (Verb(review_change),), is_idle=True),
)
