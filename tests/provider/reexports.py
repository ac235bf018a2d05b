"""Write `nexus_cli/provider/reexports.txt`: the packages of litellm and openai that only re-export names.

    python tests/provider/reexports.py        for the versions that are installed; before a release with others

A package is listed if importing litellm or openai's resources runs its `__init__`, if that holds nothing but imports of
names and `__all__`, if no name is also that of a module in it, and if nobody imports all of its names with `*`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nexus_cli.provider.light_import import LIBRARIES, TABLE
from nexus_cli.provider.litellm_env import SETTINGS

LOADED = "import sys, litellm, openai.resources; print(*sys.modules)"


def loaded() -> set[str]:
    """The modules that a plain import of litellm and a first request load."""
    environment = {**os.environ, **SETTINGS}
    done = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def folder(package: str) -> Path:
    """Where a package lies; none is imported."""
    top, *rest = package.split(".")
    spec = find_spec(top)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.joinpath(*rest)


def target(package: str, statement: ast.ImportFrom) -> str:
    """The module that a statement in the `__init__` of a package imports from."""
    parts = package.split(".")
    parts = parts[: len(parts) - statement.level + 1] if statement.level else []
    return ".".join([*parts, *([statement.module] if statement.module else [])])


def only_reexports(package: str) -> bool:
    """True if the package's `__init__` imports names and does nothing else."""
    sources = {}
    for statement in ast.parse((folder(package) / "__init__.py").read_text()).body:
        if isinstance(statement, ast.ImportFrom):
            sources.update({name.asname or name.name: target(package, statement) for name in statement.names})
        elif not _says_nothing(statement):
            return False
    modules = {path.stem for path in folder(package).iterdir() if path.is_dir() or path.suffix == ".py"}
    is_clear = all(source == package for name, source in sources.items() if name in modules)
    return is_clear and bool(sources.keys() - {"annotations"}) and "*" not in sources


def _says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return ast.unparse(statement).startswith("__all__")
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def star_sources() -> Iterator[str]:
    """The modules from which some module of the libraries imports `*`."""
    for library in LIBRARIES:
        for path in folder(library).rglob("*.py"):
            if "import *" not in (text := path.read_text()):
                continue
            package = ".".join([library, *path.parent.relative_to(folder(library)).parts])
            for statement in ast.walk(ast.parse(text)):
                if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                    yield target(package, statement)


def table() -> str:
    """The text of the file for the installed versions."""
    candidates = sorted(name for name in loaded() - set(star_sources()) if name.split(".")[0] in LIBRARIES)
    packages = [name for name in candidates if (folder(name) / "__init__.py").exists() and only_reexports(name)]
    return "\n".join([*(f"{library} {version(library)}" for library in LIBRARIES), *packages, ""])


if __name__ == "__main__":
    TABLE.write_text(table())
    print(TABLE)
