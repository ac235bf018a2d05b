"""A list on the screen: what is shown of it, and which keys take, search and cancel."""

from __future__ import annotations

import asyncio

import pytest
from ui.screen.screen_stand import Stand, stand
from wcwidth import wcswidth

from nexus_cli.commands.command import Choice

pytestmark = pytest.mark.put_clock

UP, DOWN, PAGE_DOWN, ESC = "\x1b[A", "\x1b[B", "\x1b[6~", "\x1b"
SESSIONS = [
    Choice("01AAAA", "fix the discount", "12 minutes ago   3 turns  $0.02  01AAAA"),
    Choice(
        "01BBBB",
        "a title in 日本語 and then so many words that it fits no line of any terminal that I know",
        "     yesterday  12 turns     $?  01BBBB",
    ),
    Choice("01CCCC", "login page\x1b[2J", "    2026-01-03   1 turn   $1.50  01CCCC"),
]
MANY = [Choice(f"k{number}", f"session {number}", "today") for number in range(40)]


TITLE = "Which session? Not in the diff: build.log"


def choosing(on: Stand, choices: list[Choice], title: str = "Which session?") -> asyncio.Task[str | None]:
    return asyncio.ensure_future(on.screen.choose(title, choices))


@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (60, 12), (100, 24), (160, 40)])
async def test_title_age_turns_cost_and_id_are_shown_at_every_width(columns: int, rows: int) -> None:
    async with stand(columns, rows) as on:
        task = choosing(on, SESSIONS, TITLE)
        await on.until("Search:")
        seen = await on.still()
        text = "\n".join(seen)
        assert TITLE in " ".join(text.split()), seen
        assert all(wcswidth(line) < columns for line in seen), seen
        for part in ("Which session?", "> fix the discount", "12 minutes ago", "12 turns", "$1.50", "01CCCC"):
            assert part in text
        first = next(number for number, line in enumerate(seen) if "fix the discount" in line)
        below = columns < 72
        assert ("12 minutes ago" in seen[first + below]) and ("3 turns" in seen[first + below])
        ends = {len(line) for line in seen if line.endswith(("01AAAA", "01CCCC"))}
        assert below or len(ends) == 1, "columns stand below each other"
        on.type(DOWN + DOWN)
        await on.until("> login page")
        on.type("\r")
        assert await task == "01CCCC"
        assert not any("Which session?" in line for line in await on.still()), "it is taken away"


async def test_typing_searches_in_all_that_is_shown_and_esc_cancels() -> None:
    async with stand(100, 16) as on:
        on.type("a draft")
        await on.until("a draft")
        task = choosing(on, SESSIONS)
        await on.until("Search:")
        on.type("page LOG")
        await on.until("> login page")
        assert not any("discount" in line for line in await on.still())
        on.type("zzz")
        await on.until("nothing matches")
        on.type("\r")
        assert "nothing matches" in "\n".join(await on.still()) and not task.done()
        on.type("\x15yesterday")
        await on.until("> a title")
        on.type(ESC)
        assert await task is None
        await on.until("a draft")
        on.type("\r")
        await on.until(lambda: on.controller.said)
        assert "a draft" in str(on.controller.said[-1]), "the box has its text and the keys again"


@pytest.mark.matrix
async def test_a_name_with_all_words_of_the_search_comes_before_the_figures_beside_others() -> None:
    """All models of a gateway had a window of 128,000 tokens, so that "llama 12" began with the first of them."""
    models = [Choice(f"team/llama-{number}", f"team/llama-{number}  128,000?") for number in range(20)]

    async with stand(100, 16) as on:
        task = choosing(on, models)
        await on.until("Search:")
        on.type("llama 12")
        await on.until("> team/llama-12")
        assert "1 of 20" in "\n".join(await on.still())
        on.type("\r")
        assert await task == "team/llama-12"


async def test_several_lines_at_once_are_words_of_the_search_and_take_nothing() -> None:
    async with stand(100, 16) as on:
        task = choosing(on, SESSIONS)
        await on.until("Search:")
        on.type("login\rpage\r")
        await on.until("Search: login page")
        assert "> login page" in "\n".join(await on.still()) and not task.done()
        await asyncio.sleep(0.2)
        on.type("\r")
        assert await task == "01CCCC"


async def test_of_a_list_that_is_cut_all_can_be_searched_and_the_rest_is_counted() -> None:
    def search(words: str) -> tuple[list[Choice], int]:
        found = [choice for choice in MANY if words in choice.label]
        return found[:5], len(found)

    async with stand(60, 16) as on:
        task = asyncio.ensure_future(on.screen.choose("Which session?", MANY[:5], search))
        await on.until("Which session?  35 more: type to search")
        on.type("session 3")
        await on.until("> session 3")
        await on.until("6 more: type to search")
        on.type("9")
        await on.until("> session 39")
        assert "more" not in "\n".join(await on.still())
        on.type("\r")
        assert await task == "k39"


@pytest.mark.matrix
async def test_a_long_list_scrolls_and_says_how_long_it_is() -> None:
    async with stand(60, 12) as on:
        task = choosing(on, MANY)
        await on.until("1 of 40")
        on.type(UP)
        await on.until("> session 39")
        on.type(DOWN + PAGE_DOWN)
        await on.until(lambda: "> session 7" in "\n".join(on.seen()))
        assert len([line for line in await on.still() if "session " in line]) >= 6
        on.resize(60, 6)
        await on.until("> session 7")
        on.resize(30, 3)
        await on.until("> session 7")
        on.type("\x03")
        assert await task is None


@pytest.mark.matrix
async def test_a_choice_ends_with_the_screen_and_with_who_asked() -> None:
    async with stand(60, 12) as on:
        task = choosing(on, MANY)
        await on.until("Search:")
        task.cancel()
        await on.until(lambda: not any("Search:" in line for line in on.seen()))
        last = choosing(on, MANY)
        await on.until("Search:")
        on.screen.leave()
        assert await last is None
