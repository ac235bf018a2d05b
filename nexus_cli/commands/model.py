"""The models that are usable: list them, show one, continue with another; `/effort` sets how much it thinks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from nexus_cli.commands.arguments import resume_options
from nexus_cli.commands.command import Choice, CommandContext, usage_error
from nexus_cli.commands.verb import Act, Authority, Noun, Report, Source, Verb, print_act, report_act
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.config.settings_file import write_setting
from nexus_cli.config.stored_keys import stored_names
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.option import Argument
from nexus_cli.core.price import price_input
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.request import ModelInfo
from nexus_cli.provider.available_models import keys_present, resolve_alias, unnamed_model
from nexus_cli.provider.call_arguments import effort_notice
from nexus_cli.provider.endpoint import resolve_endpoint, stored_name
from nexus_cli.provider.local_servers import LocalServer, local_servers
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.model_names import SUBSCRIPTIONS
from nexus_cli.provider.model_table import (
    check_model,
    describe_unknown_window,
    model_info,
    provider_of,
    subscription_models,
    takes_effort,
)
from nexus_cli.provider.served_models import list_served
from nexus_cli.reports.text.blocks import Blocks, Columns, Pair, Table
from nexus_cli.reports.text.lines import dollars, number

WINDOW_CAUSES = (Cause.TRUNCATION, Cause.COMPACTION)
"""Causes of drops for which a window was too small."""
NO_MODEL = "No model is available: no key or local server offers a model. To store a key: nexus login PROVIDER"
COVERED = "covered by the subscription"
PRICES = (
    ("input_price", "input"),
    ("output_price", "output"),
    ("cache_read_price", "read from cache"),
    ("cache_write_price", "write to cache"),
)
Name = Annotated[str, Argument("NAME", "A litellm model name, or an alias.")]


class ModelObject(JsonOf[ModelInfo]):
    """A model; prices are US dollars per million tokens."""

    because: list[str]
    """Reasons that make the model usable."""


class ModelsReport(VersionedReport):
    """The models that are usable."""

    chosen: str | None
    models: list[ModelObject]


class ModelReport(ModelObject):
    """One model."""

    version: Literal[1]
    provider: str
    effort: bool
    chosen: bool


def list_models(source: Source) -> Report[ModelsReport]:
    """List the current model, aliases, and the models of your keys and local servers."""
    return Report("models", models_report(source.settings()))


def show_model(
    source: Source,
    name: Annotated[str, Argument("[NAME]", "A litellm model name, or an alias; default: the model in use.")] = "",
) -> Report[ModelReport]:
    """Print the endpoint, context window and prices of a model."""
    settings = source.settings()
    model_name = replace_surrogates(name) or (source.live.model if source.live else unnamed_model(settings))
    if not model_name:
        raise UsageError("model show", "no model is set", "Give a NAME; `nexus model list` lists usable models")
    return Report("model", model_report(model_name, settings))


def use_model(source: Source, name: Name) -> Act:
    """Set the default model: writes `model` to the personal config.toml."""
    value = model_report(replace_surrogates(name), source.settings())
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
    if context.session.context.available > available and (line := _offer_omitted(context)):
        lines.append(line)
    return print_act("\n".join(lines), context.session.model)


def _offer_omitted(context: CommandContext) -> str:
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
    tokens, new, info = request.tokens, request.uncached_tokens, context.session.engine.model.info
    if not new or info.input_price == 0:
        return ""
    if new == tokens:
        price = price_input(info, tokens, request.cached).cost_usd
        cost = f", {dollars(price)}" if price else ""
        return f"The next request misses the cache (about {tokens:,} tokens{cost})."
    return f"About {new:,} of {tokens:,} tokens of the next request miss the cache."


async def _choose_model(context: CommandContext) -> str | None:
    listed = await asyncio.to_thread(models_report, context.settings)
    present = context.session.model
    choices = [Choice(row["name"], _label(row, present)) for row in listed["models"]]
    if not choices:
        context.show("models", listed)
        return None
    return await context.choose(f"Model: {present}. Available now ($ per million tokens):", choices)


def _label(row: JsonObject, present: str) -> str:
    """Describe a model on one line: name, window, prices, cache, the reason that it is usable."""
    price = " / ".join(f"${shown_price(row, key)}" for key in ("input_price", "output_price"))
    if row["input_price"] is None or row["output_price"] is None:
        price = COVERED if row.get("covered") else "price unknown"
    because = ", ".join(row["because"]) + (", current" if row["name"] == present else "")
    cache = "cache" if row["cache"] else "no cache"
    return f"{row['name']}  {shown_window(row)}  {price}  {cache}  ({because})"


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
    return quick_names(source.settings())


def models_report(settings: Settings, servers: Sequence[LocalServer] | None = None) -> ModelsReport:
    """Return the chosen model, aliases, models of the keys, and those of local `servers` (None: search them)."""
    chosen = unnamed_model(settings)
    rows: dict[str, ModelObject] = {}  # by true name, which may be a key in the wrong field
    for name, why in _usable(settings, chosen, local_servers() if servers is None else servers):
        if name not in rows:
            rows[name] = _figures(name, settings)
        rows[name]["because"].append(why)
    return {"version": 1, "chosen": redact(chosen) or None, "models": list(rows.values())}


def model_report(name: str, settings: Settings) -> ModelReport:
    """Return one model by its name or alias; raise `UsageError` if its provider is unknown."""
    model = resolve_alias(name, settings)
    check_model(model)
    chosen = unnamed_model(settings)
    row = _figures(model, settings)
    servers = [server for server in local_servers() if model.startswith(server.prefix)]
    row["because"] = [why for usable, why in _usable(settings, chosen, servers) if usable == model]
    details = {"provider": provider_of(model), "effort": takes_effort(model), "chosen": model == chosen}
    return ModelReport({"version": 1, **row, **details})


def _figures(name: str, settings: Settings) -> ModelObject:
    """Return the figures of one model: tokens, and US dollars per million tokens."""
    figures = replace(load_model_info(name, settings, waits=True), name=redact(name))
    return ModelObject({"name": figures.name, "because": [], **to_json_value(figures)})


def _usable(settings: Settings, chosen: str, servers: Sequence[LocalServer]) -> Iterator[tuple[str, str]]:
    if chosen:
        yield chosen, "chosen"
    for alias, name in settings.alias.items():
        yield name, f"alias {alias}"
    for variable, name in keys_present(settings).items():
        # A server of one's own has its own models, not those of the public host.
        if name in (list_served(provider_of(name)) or [name]):
            yield name, variable
    stored = stored_names()
    for provider, title in SUBSCRIPTIONS.items():
        if stored_name(provider) in stored:
            for name in subscription_models(provider):
                yield name, f"{title} login"
    for server in servers:
        for name in list_served(server.prefix.rstrip("/"), server.url):
            yield name, f"{server.name} at {server.url}"


def quick_names(settings: Settings) -> list[str]:
    """Return aliases and the models of the stored keys, without querying servers."""
    return [*settings.alias, *dict.fromkeys(keys_present(settings).values())]


def shown_price(model: JsonObject, key: str) -> str:
    """Return a price of a model as a table shows it."""
    return "incl." if model[key] is None and model.get("covered") else number(model[key])


def shown_window(model: JsonObject) -> str:
    """Return the window of a model in tokens, with a question mark if it is assumed."""
    return number(model["window"]) if model["known"] or model["window_told"] else f"{model['window']:,}?"


FIGURES: Columns = {
    "window": shown_window,
    "$ in": lambda model: shown_price(model, "input_price"),
    "$ out": lambda model: shown_price(model, "output_price"),
}
"""Columns of a table of models."""


def models_text(value: JsonObject) -> Blocks:
    """List the models that are usable now."""
    models = value["models"]
    if not models:
        return [NO_MODEL]
    columns = {
        "": lambda model: "*" if model["name"] == value["chosen"] else "",
        "model": "name",
        **FIGURES,
        "cache": lambda model: "yes" if model["cache"] else "no",
        "source": lambda model: ", ".join(model["because"]),
    }
    incl = f" incl.: {COVERED}." if any(m.get("covered") for m in models) else ""
    foot = f"Prices in $ per million tokens (-: unknown).{incl} * marks the default."
    return [Table(columns, models), "", foot]


def model_text(value: JsonObject) -> Blocks:
    """Show one model: its address, its window, its prices."""
    rows = [
        ("model", value["name"] + (" (the default)" if value["chosen"] else "")),
        ("provider", value["provider"] or "unknown"),
        ("window", f"{shown_window(value)} tokens{_origin(value)}"),
        ("output", f"at most {number(value['max_output'])} tokens" if value["max_output"] else "unknown"),
        *((f"$ {name}", _price(value[key], value)) for key, name in PRICES),
        *((able, "yes" if value.get(able) else "no") for able in ("cache", "images", "tools", "effort")),
        ("source", ", ".join(value["because"]) or "-"),
    ]
    size = max(len(name) for name, _ in rows) + 2
    return (Pair(name, text, size) for name, text in rows)


def _price(value: Any, model: JsonObject) -> str:
    if value is None:
        return COVERED if model.get("covered") else "unknown"
    foreign = f" (list price of {model['name']}; this server may differ)" if model.get("list_price") else ""
    return f"{number(value)} per million tokens{foreign}"


def _origin(model: JsonObject) -> str:
    """Describe the origin of a window that is not in the table."""
    if model["window_told"]:
        return f', reported by the provider; [models."{model["name"]}"] window in config.toml overrides it'
    return "" if model["known"] else ", assumed: the window of this model is unknown"


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
