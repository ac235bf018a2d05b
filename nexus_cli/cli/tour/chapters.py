"""The chapters of the tour: each runs the real engine and checks the claims of its text.

A chapter takes the `TourSession` and raises `NexusError` if a claim does not hold. The texts are in
`defaults/tour/chapters.toml`.
"""

from __future__ import annotations

from nexus_cli.cli.tour.sandbox import WINDOW, sandbox_settings
from nexus_cli.cli.tour.tour_session import TourSession, accepted_compaction, select, tour_error
from nexus_cli.conversation.compaction.work_record import RECORD
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.event import ContextDrop, ContextRecall, ToolResultEvent
from nexus_cli.reports.context_summary import context_summary

SUMMARY_HEAD = "[CONTEXT SUMMARY"


async def run_first_turn(tour: TourSession) -> None:
    """Run one turn: read, test, edit, test again."""
    tour.begin_chapter("turn")
    tour.say("turn", "asks" if tour.asks else "straight")
    tour.open()
    happened = await tour.run_turn(tour.words("turn"))
    runs = select(happened, ToolResultEvent, lambda one: one.call.name == "bash" and one.result.ran)
    if any(one.result.denied for one in select(happened, ToolResultEvent)):
        tour.say("turn", "denied")
    elif not runs or runs[-1].result.status != 0:
        raise tour_error("the tests still fail after the edit", "A tool does not do what it says")
    else:
        tour.say("turn", "passed")


async def show_window(tour: TourSession) -> None:
    """Show the contents of the next request."""
    tour.begin_chapter("context")
    await tour.send("/context")
    tour.report("context_summary", context_summary(tour.session.state))
    tour.say("context", "after", share=f"{tour.session.status().cached or 0:.0%}")


async def show_drop(tour: TourSession) -> None:
    tour.begin_chapter("drop", window=f"{WINDOW:,}", cap=f"{TokenBudget.of(WINDOW).output_cap:,}")
    happened = await tour.run_turn(tour.words("drop"))
    drops = select(happened, ContextDrop)
    if not drops or not select(happened, ContextRecall):
        raise tour_error("nothing was left out of a long result, or it was not read back")
    tour.drop = drops[0].drop.id
    tour.say("drop", "after", drop=tour.drop)


async def fill_window(tour: TourSession) -> None:
    """Fill the window until it is compacted in the middle of a turn."""
    tour.begin_chapter("compaction", at=f"{sandbox_settings().compact.at:.0%}".rstrip("%"))
    done = accepted_compaction(await tour.run_turn(tour.words("compaction"), drop=tour.drop))
    tour.say("compaction", "after", before=f"{done.before:,}", after=f"{done.after:,}")
    summary = [one.content for one in tour.session.context.messages if one.content.startswith(SUMMARY_HEAD)][-1]
    if RECORD not in summary:
        raise tour_error("the record of the work is not below the summary")
    tour.quote(summary.partition("\n\n")[2])
    tour.say("compaction", "record")


CHAPTERS = (run_first_turn, show_window, show_drop, fill_window)
"""The chapters before the end."""
