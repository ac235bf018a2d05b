"""Find the text form of a report by its name: it converts a JSON value to lines for people at a width in columns.

The form NAME lays out the `Blocks` that the function `NAME_text(value)` returns: in the file of its noun here, or in a
file of `nexus_cli.reports`. One that chooses by the width takes it too, and one that paints a `look` (`ReportStyle`).
Blocks are sanitized, and no line is wider than asked, from 20 columns on.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib import import_module
from inspect import isfunction, signature

from nexus_cli import commands, reports
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import Blocks, lay_out
from nexus_cli.reports.text.style import ReportStyle

SUFFIX = "_text"
MODULES = tuple(
    f"{room.__name__}.{module.name}"
    for room in (commands, reports)
    for module in pkgutil.iter_modules(room.__path__)
    if not module.ispkg
)


@cache
def find_form(name: str, file: str = "") -> Callable[..., str]:
    """Return a form, searching imported modules first, then those whose name begins its name or that of the `file` of
    the verb that shows it; raise `LookupError` if none. Its text cannot harm a terminal, and does not end in a
    newline."""

    def distance(module: str) -> tuple[bool, bool]:
        stem = module.rpartition(".")[2].removesuffix("s")
        return module not in sys.modules, not (name.startswith(stem) or file.startswith(stem))

    for module in sorted(MODULES, key=distance):
        if form := forms_of(module).get(name):
            return form
    raise LookupError(f"no report has the form {name}")


@cache
def forms_of(module: str) -> Mapping[str, Callable[..., str]]:
    """Import a module; return its forms by name."""
    named_forms = (
        (name.removesuffix(SUFFIX), form) for name, form in vars(import_module(module)).items() if name.endswith(SUFFIX)
    )
    return {
        name: _wrap_text_form(form)
        for name, form in named_forms
        if isfunction(form) and form.__annotations__.get("return") == "Blocks"
    }


def _wrap_text_form(form: Callable[..., Blocks]) -> Callable[..., str]:
    parameter_count = len(signature(form).parameters)

    @wraps(form)
    def text(value: JsonObject, width: int, *look: ReportStyle) -> str:
        return "\n".join(lay_out(form(*(value, width, *look)[:parameter_count]), width)).rstrip("\n")

    return text
