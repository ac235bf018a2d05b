"""The models that are usable: list them, show one, continue with another; `/effort` sets how much it thinks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.arguments import resume_options
from nexus_cli.commands.command import Choice, CommandContext, usage_error
from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.config.paths import places
from nexus_cli.config.settings_file import write_setting
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.option import Argument
from nexus_cli.core.price import price_input
from nexus_cli.provider.available_models import resolve_alias, unnamed_model
from nexus_cli.provider.call_arguments import effort_notice
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.model_table import check_model, describe_unknown_window, model_info
from nexus_cli.reports import models as reports
from nexus_cli.reports.text.lines import dollars

WINDOW_CAUSES = (Cause.TRUNCATION, Cause.COMPACTION)
"""Causes of drops for which a window was too small."""


Name = Annotated[str, Argument("NAME", "A litellm model name, or an alias.")]


def list_models(source: Source) -> Report[reports.ModelsReport]:
    """List the current model, aliases, and the models of your keys and local servers."""
    return Report("models", reports.list_models(source.settings()))


def show_model(
    source: Source,
    name: Annotated[str, Argument("[NAME]", "A litellm model name, or an alias; default: the model in use.")] = "",
) -> Report[reports.ModelReport]:
    """Print the endpoint, context window and prices of a model."""
    settings = source.settings()
    shown = replace_surrogates(name) or (source.live.model if source.live else unnamed_model(settings))
    if not shown:
        raise UsageError("model show", "no model is set", "Give a NAME; `nexus model list` lists usable models")
    return Report("model", reports.show_model(shown, settings))


def use_model(source: Source, name: Name) -> Act:
    """Set the default model: writes `model` to the personal config.toml."""
    value = reports.show_model(replace_surrogates(name), source.settings())
    write_setting(places(), "model", replace_surrogates(name).strip())
    if not value["known"]:
        source.say(describe_unknown_window(model_info(value["name"]), value["window"]))
    if env_model := os.environ.get("NEXUS_MODEL", "").strip():
        source.say(f"NEXUS_MODEL is set and takes precedence: {env_model}.")
    return print_act(f"{value['name']} is now the default model ({places().settings}).", value["name"])


async def set_model(
    context: CommandContext,
    name: Annotated[str, Argument("[NAME]", "A litellm model name, or an alias.")] = "",
) -> Act:
    """Switch to the model NAME; without NAME, choose from the available models.

    The session continues. Providers cache per model, so the command prints how much of the next request misses the
    cache.
    """
    name = resolve_alias(replace_surrogates(name), context.settings) if name else await _choose_model(context) or ""
    if not name:
        return report_act("")
    try:
        check_model(name)
        await asyncio.to_thread(resolve_endpoint, name)  # a keyring may wait for the person to unlock it
    except NexusError as error:
        raise usage_error("model", name, f"this model cannot be used: {error.why[:200]}", error.hint) from None
    if name == context.session.model:
        return print_act(f"Already using {name}.")
    available = context.session.context.available
    await context.reopen(resume_options(context, model=name))
    lines = [f"Using {context.session.model}. {await describe_cache_miss(context)}".rstrip()]
    if context.session.context.available > available and (line := _offer_left_out(context)):
        lines.append(line)
    return print_act("\n".join(lines), context.session.model)


def _offer_left_out(context: CommandContext) -> str:
    """Return a line that offers the newest messages that were left out and have room now; "" if there are none."""
    record, usage = context.session.record, context.session.context.get_token_usage()
    room = usage["available"] - usage["total"]
    fitting = [
        drop for drop in record.drops() if drop.cause in WINDOW_CAUSES and not drop.recalls and drop.tokens <= room
    ]
    if not fitting:
        return ""
    last = fitting[-1]
    more = f" /drops lists {len(fitting) - 1:,} more." if len(fitting) > 1 else ""
    return f"The context window now has room for {last.what} ({last.tokens:,} tokens): /drops recall {last.id}.{more}"


async def describe_cache_miss(context: CommandContext) -> str:
    """Return a sentence about the part of the next request that misses the cache.

    "" if nothing misses or the model is free, before the first request, and if the ledger fails.
    """
    try:
        request = await asyncio.to_thread(context.session.prepare_next_request)
    except NexusError:
        return ""
    tokens, new, info = request.tokens, request.sent_anew, context.session.engine.model.info
    if not new or info.input_price == 0:
        return ""
    if new == tokens:
        price = price_input(info, tokens, request.cached).cost_usd
        cost = f", {dollars(price)}" if price else ""
        return f"The next request misses the cache (about {tokens:,} tokens{cost})."
    return f"About {new:,} of {tokens:,} tokens of the next request miss the cache."


async def _choose_model(context: CommandContext) -> str | None:
    listed = await asyncio.to_thread(reports.list_models, context.settings)
    present = context.session.model
    choices = [Choice(row["name"], _label(row, present)) for row in listed["models"]]
    if not choices:
        context.show("models", listed)
        return None
    return await context.choose(f"Model: {present}. Available now ($ per million tokens):", choices)


def _label(row: JsonObject, present: str) -> str:
    """Describe a model on one line: name, window, prices, cache, the reason that it is usable."""
    price = " / ".join(f"${reports.shown_price(row, key)}" for key in ("input_price", "output_price"))
    if row["input_price"] is None or row["output_price"] is None:
        price = reports.COVERED if row.get("covered") else "price unknown"
    because = ", ".join(row["because"]) + (", current" if row["name"] == present else "")
    cache = "cache" if row["cache"] else "no cache"
    return f"{row['name']}  {reports.shown_window(row)}  {price}  {cache}  ({because})"


_CHOICES = (DEFAULT_EFFORT, *EFFORTS)


async def set_effort(
    context: CommandContext,
    level: Annotated[str, Argument("LEVEL", "The new reasoning effort.", values=_CHOICES)] = "",
) -> Act:
    """Set how much the model thinks.

    The levels are none, minimal, low, medium, high, xhigh and max; not every model supports all of them. `default` uses
    the model's default level.
    """
    present = context.session.status().effort
    if not level:
        if effort_notice(context.session.model, EFFORTS[0]):
            return print_act(f"{context.session.model} has no known effort levels; choose another model with /model.")
        title = f"Effort: {present or DEFAULT_EFFORT}."
        level = await context.choose(title, [Choice(option, option) for option in _CHOICES]) or ""
        if not level:
            return report_act("")
    if level == (present or DEFAULT_EFFORT):
        return print_act(f"Effort is already {level}.")
    if notice := effort_notice(context.session.model, level):
        raise UsageError(f"/effort {level}", notice, "Choose another model with /model")
    await context.reopen(resume_options(context, effort=level))
    return print_act(f"Effort: {level}. {await describe_cache_miss(context)}".rstrip(), level)


def _complete_models(source: Source) -> Sequence[str]:
    return reports.quick_names(source.settings())


NOUN = Noun(
    "model",
    "setup",
    (
        Verb(set_model, complete=_complete_models),
        Verb(list_models, "list", opens="nothing"),
        Verb(show_model, "show", opens="nothing", complete=_complete_models),
        Verb(use_model, "use", Authority.PERMITS, "nothing", complete=_complete_models),
    ),
    "List models, or switch to another.",
    aliases=("models",),
    is_first=True,
    is_idle=True,
)
NOUNS = (Noun("effort", "setup", (Verb(set_effort),), is_idle=True),)
