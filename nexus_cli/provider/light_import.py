"""Import litellm with less work, for the versions that `reexports.txt` was made for; others are imported plainly.

Three things are put off until they are used: the validators of pydantic models, the modules of packages that only
re-export names, and litellm's tokenizer. Every name leads to the same object as after a plain import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from nexus_cli.provider.litellm_env import installed_version, litellm_environment

TABLE = Path(__file__).with_name("reexports.txt")
"""Distributions with their versions, then the packages that only re-export. `tests/provider/reexports.py` writes it."""
LIBRARIES = ("litellm", "openai")
"""Top-level packages whose models are built late."""
TOKENIZER, ENCODING = "litellm.litellm_core_utils.default_encoding", "cl100k_base"
"""The module that loads litellm's tokenizer, and the name of its encoding."""


def read_table() -> tuple[dict[str, str], frozenset[str]]:
    """Return the versions by distribution, and the names of the packages."""
    lines = [line.split() for line in TABLE.read_text().splitlines()]
    return dict(line for line in lines if line[1:]), frozenset(line[0] for line in lines if not line[1:])


@contextmanager
def light_imports() -> Iterator[None]:
    """Import litellm lightly within the block. What it defers stays deferred; classes that are defined after the block
    are built at once again, and listed packages of the libraries resolve lazily whenever they are imported."""
    versions, packages = read_table()
    if not all(installed_version(name) == number for name, number in versions.items()):
        yield
        return
    sys.meta_path.insert(0, _Finder(packages))
    with _defer_model_building():
        yield


@contextmanager
def _defer_model_building() -> Iterator[None]:
    """Let pydantic build the models that the libraries define within the block when they are first used."""
    try:
        from pydantic._internal._config import ConfigWrapper  # noqa: PLC0415  (a part of the library)
        from pydantic.main import _rebuild_lock  # noqa: F401, PLC0415  (without it two threads may build one model)
    except ImportError:
        yield
        return
    plain = vars(ConfigWrapper)["for_model"]

    class DeferredConfig(ConfigWrapper):
        defer_build = True

    def for_model(bases: Any, namespace: dict[str, Any], *more: Any) -> Any:
        is_ours = namespace.get("__module__", "").partition(".")[0] in LIBRARIES
        return plain.__get__(None, DeferredConfig if is_ours else ConfigWrapper)(bases, namespace, *more)

    setattr(ConfigWrapper, "for_model", staticmethod(for_model))  # noqa: B010  (a method)
    try:
        yield
    finally:
        setattr(ConfigWrapper, "for_model", plain)  # noqa: B010


class _Finder:
    """Finds the listed packages and the tokenizer, and gives them a loader that puts their work off."""

    def __init__(self, packages: frozenset[str]) -> None:
        self._loaders: dict[str, type[SourceFileLoader]] = dict.fromkeys(packages, _ReexportLoader)
        self._loaders[TOKENIZER] = _TokenizerLoader

    def find_spec(self, name: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module that is loaded late, None for every other."""
        loader = self._loaders.get(name)
        if loader is None:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = loader(name, spec.loader.path)
        return spec


class _Place(NamedTuple):
    """The place where a re-exported name is defined."""

    module: str
    name: str


class _ReexportLoader(SourceFileLoader):
    """Runs the file of a package without importing anything, and resolves the names when they are asked for."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the file with an import that only notes places."""
        package, names = module.__name__, vars(module)

        def note(name: str, _globals: Any, _locals: Any, attributes: Sequence[str], level: int) -> SimpleNamespace:
            base = package.split(".")[: 1 - level or None] if level else []
            source = ".".join([*base, *([name] if name else [])])
            return SimpleNamespace(**{attribute: _Place(source, attribute) for attribute in attributes})

        names["__builtins__"] = {"__import__": note}
        super().exec_module(module)
        places = {name: value for name, value in names.items() if isinstance(value, _Place)}
        for name in places:
            del names[name]
        names["__getattr__"] = _resolver(module, places)
        names["__dir__"] = lambda: sorted({*names, *places})


def _resolver(module: ModuleType, places: dict[str, _Place]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that re-exports `places`."""
    package = module.__name__

    def resolve(name: str) -> Any:
        place = places.get(name, _Place(package, name))
        if place.module != package:
            value = getattr(import_module(place.module), place.name)
            vars(module)[name] = value
            return value
        try:
            return import_module(f"{package}.{place.name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{place.name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return resolve


class _TokenizerLoader(SourceFileLoader):
    """Provides `encoding`, also to who asks tiktoken by name; the file, which reads the table, runs once something is
    asked of it."""

    def exec_module(self, module: ModuleType) -> None:
        """Define `encoding`."""
        registry: Any = sys.modules["tiktoken.registry"]  # litellm has imported it
        run = super().exec_module

        def load() -> None:
            with litellm_environment(), registry._lock:
                registry.ENCODINGS.pop(ENCODING, None)
                run(module)

        late: Any = _LazyEncoding(module, load)
        registry.ENCODINGS[ENCODING] = vars(module)["encoding"] = late


class _LazyEncoding:
    """A `tiktoken.Encoding` that is loaded at the first use."""

    def __init__(self, module: ModuleType, load: Callable[[], None]) -> None:
        self._module = module
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if self._module.encoding is self:
            self._load()
        return getattr(self._module.encoding, name)
