"""Report the models that are usable now, with window, price, cache support and the reason that they are usable.

Front ends choose from them. Only servers on loopback are queried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import stored_names
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.redact_secrets import redact
from nexus_cli.core.request import ModelInfo
from nexus_cli.provider.available_models import keys_present, resolve_alias, unnamed_model
from nexus_cli.provider.endpoint import stored_name
from nexus_cli.provider.local_servers import LocalServer, local_servers
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.model_names import SUBSCRIPTIONS
from nexus_cli.provider.model_table import check_model, provider_of, subscription_models, takes_effort
from nexus_cli.provider.served_models import list_served
from nexus_cli.reports.text.blocks import Blocks, Columns, Pair, Table
from nexus_cli.reports.text.lines import number

NO_MODEL = "No model is available: no key or local server offers a model. To store a key: nexus login PROVIDER"
COVERED = "covered by the subscription"
PRICES = (
    ("input_price", "input"),
    ("output_price", "output"),
    ("cache_read_price", "read from cache"),
    ("cache_write_price", "write to cache"),
)


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


def list_models(settings: Settings, servers: Sequence[LocalServer] | None = None) -> ModelsReport:
    """Return the chosen model, aliases, models of the keys, and those of local `servers` (None: search them)."""
    chosen = unnamed_model(settings)
    rows: dict[str, ModelObject] = {}  # by true name, which may be a key in the wrong field
    for name, why in _usable(settings, chosen, local_servers() if servers is None else servers):
        if name not in rows:
            rows[name] = _figures(name, settings)
        rows[name]["because"].append(why)
    return {"version": 1, "chosen": redact(chosen) or None, "models": list(rows.values())}


def show_model(name: str, settings: Settings) -> ModelReport:
    """Return one model by its name or alias; raise `UsageError` if its provider is unknown."""
    model = resolve_alias(name, settings)
    check_model(model)
    chosen = unnamed_model(settings)
    row = _figures(model, settings)
    servers = [server for server in local_servers() if model.startswith(server.prefix)]
    row["because"] = [why for usable, why in _usable(settings, chosen, servers) if usable == model]
    details = {"provider": provider_of(model), "effort": takes_effort(model), "chosen": model == chosen}
    return ModelReport({"version": 1, **row, **details})


def quick_names(settings: Settings) -> list[str]:
    """Return aliases and the models of the stored keys, without querying servers."""
    return [*settings.alias, *dict.fromkeys(keys_present(settings).values())]


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
