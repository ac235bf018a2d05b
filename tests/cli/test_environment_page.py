"""`nexus docs settings` names every environment variable that the source reads, also the hidden ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from nexus_cli.cli.doc_pages import page_text
from nexus_cli.config.paths import PACKAGE
from nexus_cli.config.protected_places import _RELOCATING_VARIABLES
from nexus_cli.provider.endpoint import KEY_VARIABLES
from nexus_cli.provider.local_servers import BASE_VARIABLES
from nexus_cli.sandbox.profile import _CACHES

_VARIABLE = re.compile(r"(?:_NEXUS_|[A-Z])[A-Z0-9]+(?:_[A-Z0-9]+)*")
SETTERS = {"litellm_env.py", "read_only_environment.py"}
"""Modules that set variables for a library and for programs."""
KNOWN = {"NEXUS_HOME", "_NEXUS_COMPLETE", "EDITOR", "LC_ALL", "WEZTERM_PANE"}
"""Read by name, by a constant, over names by `map` or in a loop: found by each of these ways."""


def read_variables(module: ast.Module) -> Iterator[str]:
    """Yield the environment variables that a module reads by name, by a constant, or in a loop over names."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        targets: list[ast.expr] = []
        match node:
            case ast.Assign(targets=found, value=value):
                targets = found
            case ast.AnnAssign(target=one, value=ast.expr() as value):
                targets = [one]
            case ast.For(target=one, iter=value) | ast.comprehension(target=one, iter=value):
                targets = [one]
        for name in (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)):
            values.setdefault(name, []).append(value)
    for key in (key for node in ast.walk(module) for key in keys_of(node)):
        yield from constants(key, values)


def keys_of(node: ast.AST) -> list[ast.expr]:
    """Return the keys with which a node reads a mapping of environment variables."""
    match node:
        case ast.Call(func=ast.Name(id="map"), args=[ast.Attribute(value=of, attr="get"), names]):
            return [names] if "env" in ast.unparse(of) else []
        case ast.Call(func=ast.Attribute(value=of, attr="get" | "pop" | "setdefault"), args=[key, *_]):
            return [key] if "env" in ast.unparse(of) else []
        case ast.Subscript(value=of, slice=key) | ast.Compare(left=key, comparators=[of]):
            return [key] if "env" in ast.unparse(of) else []
    return []


def constants(key: ast.expr, values: dict[str, list[ast.expr]], depth: int = 0) -> Iterator[str]:
    """Yield the names in an expression, and in what its own names are assigned or loop over."""
    for part in ast.walk(key):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _VARIABLE.fullmatch(part.value):
            yield part.value
        if isinstance(part, ast.Name) and depth < 2:
            for value in values.get(part.id, ()):
                yield from constants(value, values, depth + 1)


@pytest.mark.matrix
def test_the_page_names_every_variable_that_the_source_reads() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.name not in SETTERS]
    found = {name for text in texts if "env" in text for name in read_variables(ast.parse(text))}
    assert found >= KNOWN
    tables = (*KEY_VARIABLES.values(), *BASE_VARIABLES.values(), _RELOCATING_VARIABLES, [one[0] for one in _CACHES])
    named = set(re.findall(r"`(\w+)(?:=\w+)?`", page_text("settings")))
    missing = sorted(found.union(*tables) - named)
    assert not missing, f"name in nexus_cli/docs/settings.md, under the variables: {', '.join(missing)}"
