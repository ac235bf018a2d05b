"""`nexus model list | show | use`: list the usable models, show one, set the default one."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nexus_cli.cli.command_options import Json
from nexus_cli.cli.print_report import print_report, print_text
from nexus_cli.config.paths import defaults_dir, places
from nexus_cli.config.settings import own_settings
from nexus_cli.config.settings_file import write_setting
from nexus_cli.core.message import replace_surrogates
from nexus_cli.provider.model_table import describe_unknown_window, model_info
from nexus_cli.reports import models as reports
from nexus_cli.reports.models import model_text, models_text
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="The models that are usable now.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="A litellm model name, or an alias.")]


@app.callback()
def model() -> None:
    """The models that are usable now."""


@app.command("list")
def list_models(json: Json = False) -> int:
    """List the chosen model, aliases, the models of the keys there are, and those of local servers."""
    value = reports.list_models(own_settings(), os.environ)
    return print_report(value, models_text, json=json)


@app.command("show")
def show_model(name: Name, json: Json = False) -> int:
    """Print all that is known of a model: where it goes, its window, its prices."""
    value = reports.show_model(replace_surrogates(name), own_settings(), os.environ)
    return print_report(value, model_text, json=json)


@app.command("use")
def use(name: Name) -> int:
    """Use a model when none is named: writes `model` to the personal config.toml."""
    value = reports.show_model(replace_surrogates(name), own_settings(), os.environ)
    write_setting(places(), defaults_dir(), "model", replace_surrogates(name).strip())
    if not value["known"]:
        write_stderr_line(f"nexus: {describe_unknown_window(model_info(value['name']), value['window'])}")
    if named := os.environ.get("NEXUS_MODEL", "").strip():
        write_stderr_line(f"nexus: NEXUS_MODEL is set and wins over it: {named}.")
    print_text(f"{value['name']} is used when no model is named ({places().settings}).")
    return 0
