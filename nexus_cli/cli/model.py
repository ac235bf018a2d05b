"""`nexus model list`: the models that are usable now, with window, price and cache support."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import typer

from nexus_cli.cli.choose_model import Server, choose, find_local, keys_present
from nexus_cli.cli.options import Json
from nexus_cli.cli.show import columns, show, show_json
from nexus_cli.core.errors import NexusError
from nexus_cli.core.paths import defaults, places
from nexus_cli.core.settings import Settings, load_settings
from nexus_cli.provider.windows import model_info
from nexus_cli.ui.reports import models_text

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="The models that are usable now.")
_ANSWER = 1024 * 1024


@app.callback()
def model() -> None:
    """The models that are usable now."""


@app.command("list")
def list_models(json: Json = False) -> int:
    """List the chosen model, aliases, the models of keys in the environment, and those of local servers."""
    settings = load_settings(places(), defaults(), os.environ).settings
    servers = find_local()
    try:
        chosen = choose("", os.environ, settings, servers=lambda: servers).model
    except NexusError:
        chosen = ""
    rows: dict[str, dict[str, Any]] = {}
    for name, why in _usable(settings, chosen, list(servers)):
        row = rows.setdefault(name, _row(name, settings))
        row["because"].append(why)
    value = {"version": 1, "chosen": chosen or None, "models": list(rows.values())}
    if json:
        show_json(value)
    else:
        show(models_text(value, columns()))
    return 0


def _usable(settings: Settings, chosen: str, servers: list[Server]) -> Iterator[tuple[str, str]]:
    if chosen:
        yield chosen, "chosen"
    for alias, name in settings.alias.items():
        yield name, f"alias {alias}"
    for variable, name in keys_present(os.environ, settings).items():
        yield name, variable
    for server in servers:
        for name in _served(server.url):
            yield server.prefix.rstrip("/") + "/" + name, f"{server.name} at {server.url}"


def _row(name: str, settings: Settings) -> dict[str, Any]:
    info = model_info(name, settings.models)
    return {
        "name": name,
        "because": [],
        "window": info.window,
        "max_output": info.max_output,
        "input_price": info.input_price,
        "output_price": info.output_price,
        "cache_read_price": info.cache_read_price,
        "cache_write_price": info.cache_write_price,
        "cache": info.cache,
        "images": info.images,
        "known": info.known,
    }


def _served(url: str) -> list[str]:
    """The names that a server on loopback lists; none when it does not speak as expected."""
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415  (only when a server was found)

    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "127.0.0.1", place.port or 80, timeout=1.0)
    try:
        connection.request("GET", "/v1/models")
        answer = jsonlib.loads(connection.getresponse().read(_ANSWER))
        return [str(entry["id"]) for entry in answer["data"]]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return []
    finally:
        connection.close()
