"""Show the parts of the next request of a session, or of one that was sent."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Model, Option, Recipe
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.reports.context import ContextReport, context_report, sent_request_report
from nexus_cli.reports.context_summary import context_summary
from nexus_cli.reports.request_diff import DifferenceReport, request_difference
from nexus_cli.service_list import SERVICES
from nexus_cli.session.options import Options

if TYPE_CHECKING:
    from nexus_cli.session.session import Session


def build_context(
    source: Source,
    step: Annotated[int | None, Option("N", "Request N, from 1.", least=-MAX_INT, is_positional=True)] = None,
    model: Model = "",
    recipe: Recipe = "",
    difference: Annotated[
        bool, Option(None, "Compare request N (default: the newest) with the previous request.", "--diff")
    ] = False,
    whole: Annotated[bool, Option(None, "In a session: show every section, tool, drop and limit.", "--all")] = False,
) -> Report[Annotated[Any, ContextReport | DifferenceReport]]:
    """Show the content and token counts of the next request, without sending it; with --step, of request N.

    In a session, show a bar of its parts, the largest items, the drops and the next rewrite of the window.
    """
    is_sent = step is not None or difference
    if is_sent and recipe:
        why = "the recipe of a sent request cannot be changed"
        raise UsageError(f"--recipe {recipe}", why, "Omit --recipe, or omit --step and --diff")
    if difference:
        return Report("between", request_difference(source.ledger, source.session(), source.settings(), step))
    if step is not None:
        return Report("context", sent_request_report(source.ledger, source.session(), source.settings(), step))
    if source.live and not (model or recipe):
        return Report("context" if whole else "context_summary", context_summary(source.live))
    session, settings = _find_session(source), source.settings()
    options = prepare_options(source, settings, session, model)
    options = replace(options, resume=session, recipe=recipe or options.recipe, save=False, newest=False)
    return Report("context", context_report(options, settings, session or None, services=SERVICES))


def _find_session(source: Source) -> str:
    """Return the id of the session, "" for a new one: the folder has none, or none that has sent a request."""
    if source.live:
        return source.session() if source.ledger.log(source.session()).step() else ""
    newest = None if source.named else source.ledger.newest_session(str(source.folder()))
    return source.session() if source.named or newest else ""


def look_at_session(source: Source) -> Session:
    """Return the session that a shell command names, as it would be opened. Changes nothing."""
    from nexus_cli.session.draft import look_at  # noqa: PLC0415  (the engine; not for others)
    from nexus_cli.session.limits_record import NextLimits  # noqa: PLC0415

    session, settings = source.ledger.session(source.session()), source.settings()
    options = replace(prepare_options(source, settings, session.id, ""), resume=session.id, save=False, newest=False)
    recipe = NextLimits.load(source.ledger.log(session.id), session, options, settings).recipe
    return look_at(source.ledger, session, options, settings, recipe, SERVICES)


def prepare_options(source: Source, settings: Settings, session: str, model: str) -> Options:
    """Return the options with which `nexus` would begin or resume the session here."""
    try:
        chosen = choose_model(model, settings, resumes=bool(session), servers=tuple).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
    if source.live:
        return replace(source.live.options, model=chosen)
    is_interactive = os.isatty(0)  # plain `nexus` would then be interactive
    front = "chat" if is_interactive else "ask"
    return Options(source.folder(), chosen, settings.effort, front=front, interactive=is_interactive)


NOUN = Noun(
    "context",
    "context",
    (Verb(build_context, of_session=True),),
    "Show the content of the next request.",
    aliases=("tokens",),
    is_first=True,
)
