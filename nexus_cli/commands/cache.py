"""The cache use of each request, and why one missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Argument, Option
from nexus_cli.reports.cache import CacheReport, MissReport, cache_report, miss_report

OFFERED = 20
"""Most requests that completion offers."""


def build_cache(source: Source) -> Report[CacheReport]:
    """Show the expected and actual cache hits of each request of a session."""
    return Report("cache", cache_report(source.ledger, source.session(), source.settings()))


def build_miss(
    source: Source,
    step: Annotated[
        int | None,
        Argument("STEP", "Number of the request; default: the newest cache miss.", least=-MAX_INT),
    ] = None,
    details: Annotated[
        bool, Option(help="Also show the first difference and price of each rewrite.", name="--all")
    ] = False,
) -> Report[MissReport]:
    """Explain why a request missed the cache: the first difference from the previous request, expiry, or the
    provider."""
    form = "miss_details" if details else "miss"
    return Report(form, miss_report(source.ledger, source.session(), source.settings(), step))


def _complete_steps(source: Source) -> Sequence[str]:
    """Return the numbers of the newest requests."""
    last = source.ledger.log(source.session()).step()
    return [str(step) for step in range(last, max(0, last - OFFERED), -1)]


NOUN = Noun(
    "cache",
    "context",
    (Verb(build_cache, of_session=True), Verb(build_miss, "why", of_session=True, complete=_complete_steps)),
    "Show the cache use of each request.",
)
