"""Methods of our data classes are compiled when they are first called, and are the methods that Python compiles."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from types import ModuleType
from typing import Any

import pytest

from nexus_cli.core.lazy_methods import compile_methods_lazily

NAME = "nexus_cli.late_classes"
SOURCE = """
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True)
class Point:
    '''A point.'''
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list, compare=False)
    hidden: int = field(default=3, repr=False, kw_only=True)

@dataclass(frozen=True, slots=True)
class Placed(Point):
    '''A point in space.'''
    z: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", self.z + 1)

@dataclass(order=True)
class Mutable:
    '''A number.'''
    number: int
"""
METHODS = sys.version_info < (3, 13)
"""True if Python compiles each method by itself."""


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return what defines the classes in a module of a name, with late methods."""
    for name in ("_create_fn",) if METHODS else ():
        monkeypatch.setattr(dataclasses, name, getattr(dataclasses, name))
    compile_methods_lazily()

    def defined(name: str) -> ModuleType:
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(SOURCE, vars(module))
        return module

    return defined


def is_compiled(kind: type, method: str) -> bool:
    return str(getattr(kind, method).__code__.co_filename) == "<string>"


def observe(made: ModuleType) -> list[Any]:
    """What a program can see of the classes."""
    point, placed, one = made.Point(1, hidden=4), made.Placed(1, names=["a"]), made.Mutable(1)
    seen: list[Any] = [repr(point), repr(placed), placed.z, point == made.Point(1, 2), point == placed]
    seen += [hash(made.Point(1)) == hash(made.Point(1, names=["b"])), made.Point.__match_args__]
    seen += [dataclasses.asdict(placed), dataclasses.replace(point, x=5), copy.deepcopy(placed), one < made.Mutable(2)]
    one.number = 3
    for attempt in (lambda: setattr(point, "x", 2), lambda: delattr(placed, "z"), lambda: made.Point(), lambda: {one}):
        with pytest.raises((FrozenInstanceError, TypeError)) as error:
            attempt()
        seen.append(str(error.value))
    seen += [one, pickle.loads(pickle.dumps(placed)), made.Placed.__init__.__qualname__]
    return list(map(repr, seen))


def test_the_methods_are_those_that_python_compiles(define: Callable[[str], ModuleType]) -> None:
    assert observe(define(NAME)) == observe(define("plain_classes"))


@pytest.mark.skipif(not METHODS, reason="compiled otherwise")
def test_each_method_is_compiled_at_its_first_call(define: Callable[[str], ModuleType]) -> None:
    made = define(NAME)
    assert not is_compiled(made.Point, "__init__") and not is_compiled(made.Placed, "__eq__")
    placed = made.Placed(1)
    assert is_compiled(made.Placed, "__init__") and not is_compiled(made.Placed, "__eq__")
    assert placed == made.Placed(1) and is_compiled(made.Placed, "__eq__") and not is_compiled(made.Point, "__eq__")


@pytest.mark.skipif(not METHODS, reason="compiled otherwise")
def test_classes_of_libraries_are_compiled_as_always(define: Callable[[str], ModuleType]) -> None:
    assert is_compiled(define("plain_classes").Point, "__init__")
