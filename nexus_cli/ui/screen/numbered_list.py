"""A list to pick from by number, for terminals that cannot be drawn on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nexus_cli.commands.command import Choice, Search
from nexus_cli.text.cells import one_line, wrap
from nexus_cli.text.terminal_sanitizer import sanitize

MOST = 20
"""Most choices that are listed; others are found by their beginning, or by a search."""
TRIES = 3
PROMPT = "Number (Enter to cancel): "
_INDENT = " " * 5


async def choose_by_number(
    title: str,
    choices: Sequence[Choice],
    width: int,
    question: Callable[[str, str], Awaitable[str | None]],
    search: Search | None = None,
) -> str | None:
    """Return the key of the choice that the answer to `question` (text, prompt) selects by number or beginning of a
    label; None without an answer, or after three that select none.

    Other words are searched for; the result of `search` replaces the listed choices.
    """
    total = search("")[1] if search else len(choices)
    text = "\n".join([*wrap(sanitize(title), width), *_menu(choices, total, width)])
    for _ in range(TRIES):
        word = (await question(text, PROMPT) or "").strip()
        if not word:
            return None
        if word.isdecimal() and 1 <= int(word) <= len(choices):
            return choices[int(word) - 1].key
        fits = [choice.key for choice in choices if word in (choice.key, choice.label)]
        fits = fits or [choice.key for choice in choices if choice.label.casefold().startswith(word.casefold())]
        if len(fits) == 1:
            return fits[0]
        found, total = search(word) if search and not fits else ((), 0)
        if len(found) == 1:
            return found[0].key
        if found:
            choices, text = found, "\n".join(_menu(found, total, width))
            continue
        number = f"a number from 1 to {len(choices)}" if len(choices) > 1 else "1"
        text = "\n".join(wrap(f"{one_line(word)!r} is not one of these: type {number}", width))
    return None


def _menu(choices: Sequence[Choice], total: int, width: int) -> list[str]:
    """Return the numbered choices in lines that fit; longer ones continue below their beginning."""
    made = []
    for number, choice in enumerate(choices[:MOST], 1):
        text = "  ".join(filter(None, (choice.label, " ".join(choice.detail.split()))))
        first, *more = wrap(sanitize(text), width - len(_INDENT))
        made += [f"{number:>3}  {first}", *(_INDENT + piece for piece in more)]
    left = total - min(len(choices), MOST)
    return [*made, *([f"     ... and {left:,} more"] if left > 0 else ())]
