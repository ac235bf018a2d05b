"""Find the text form of a report by its name: it converts a JSON value to lines for people at a width in columns.

The form NAME lays out the `Blocks` that the function `NAME_text(value)` of a module of this folder returns. One that
chooses by the width takes it too, and one that paints a `look` (`ReportStyle`). Blocks are sanitized, and no line is
wider than asked, from 20 columns on.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib import import_module
from inspect import isfunction, signature

from nexus_cli import reports
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import Blocks, lay_out
from nexus_cli.reports.text.look import ReportStyle

SUFFIX = "_text"
MODULES = tuple(module.name for module in pkgutil.iter_modules(reports.__path__) if not module.ispkg)


@cache
def find_form(name: str, noun: str = "") -> Callable[..., str]:
    """Return a form, searching imported modules first, then that of its name or of the noun that it shows; raise
    `LookupError` if none. Its text cannot harm a terminal, and does not end in a newline."""
    there = {module for module in MODULES if f"{reports.__name__}.{module}" in sys.modules}
    for module in sorted(MODULES, key=lambda module: (module not in there, module not in (name, noun))):
        if form := forms_of(module).get(name):
            return form
    raise LookupError(f"no report has the form {name}")


@cache
def forms_of(module: str) -> Mapping[str, Callable[..., str]]:
    """Import a module of this folder; return its forms by name."""
    members = vars(import_module(f"{reports.__name__}.{module}"))
    named_forms = ((name.removesuffix(SUFFIX), form) for name, form in members.items() if name.endswith(SUFFIX))
    return {
        name: _laid_out(form)
        for name, form in named_forms
        if isfunction(form) and form.__annotations__.get("return") == "Blocks"
    }


def _laid_out(form: Callable[..., Blocks]) -> Callable[..., str]:
    taken = len(signature(form).parameters)

    @wraps(form)
    def text(value: JsonObject, width: int, *look: ReportStyle) -> str:
        return "\n".join(lay_out(form(*(value, width, *look)[:taken]), width)).rstrip("\n")

    return text
