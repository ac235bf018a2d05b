"""The words of permission levels: one vocabulary inside, and the former names where scripts and old files have them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import nexus_cli
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import FORMER_NAMES, LEVELS, PLAN, Limits, level_fields, parse_level, require_level

ROOT = Path(nexus_cli.__file__).parent
LIMITS = ROOT / "core" / "limits.py"
WORDS = frozenset((*LEVELS, *FORMER_NAMES.values()))
QUOTED_WORD = re.compile(rf"""["'](?:{"|".join(WORDS)})["']""")
PARAMETER = re.compile(r"(?:level|allow)\w*(?:: [^=\n]*)?[,)=\n]", re.IGNORECASE)
"""What every file has in which a level is a text, or a parameter: to parse all files takes seconds."""


def test_a_level_has_one_word_and_its_former_name_stays_valid() -> None:
    assert LEVELS == ("ask", "edit", "auto", "all")
    assert [parse_level(word) for word in ("read", "edit", "run", "all")] == list(LEVELS)
    assert [parse_level(word) for word in LEVELS] == list(LEVELS)
    assert require_level("Run", "--allow") == "auto" and parse_level("plan") == PLAN


@pytest.mark.parametrize("level", [*LEVELS, PLAN])
def test_json_has_both_words_and_a_limit_is_read_from_either(level: str) -> None:
    former = {"ask": "read", "auto": "run"}.get(level, level)
    assert level_fields(level) == {"allow": former, "level": level} == Limits(allow=level).to_json()
    assert Limits.from_json({"allow": former}) == Limits.from_json({"allow": level}) == Limits(allow=level)


@pytest.mark.parametrize("word", ["", "plan", "sandbox"])
def test_another_word_is_refused_with_those_that_there_are(word: str) -> None:
    with pytest.raises(NexusError, match="must be ask, edit, auto or all"):
        require_level(word, "--allow")


def test_whatever_shows_a_level_in_json_shows_it_in_the_words_of_now_too() -> None:
    import_module("nexus_cli.cli.json_page")  # imports all that is described
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("nexus_cli.")]
    kinds = [kind for module in modules for kind in vars(module).values() if is_row(kind)]
    with_level = [kind for kind in kinds if "allow" in kind.__annotations__]
    assert len(with_level) > 4
    assert [kind.__name__ for kind in with_level if "level" not in kind.__annotations__] == []


def is_row(kind: object) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__total__")


@pytest.mark.matrix
def test_code_names_levels_by_the_constants_alone() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    modules = {
        path: ast.parse(text) for path, text in texts.items() if QUOTED_WORD.search(text) or PARAMETER.search(text)
    }
    takes = {pair for module in modules.values() for pair in level_arguments(module)}
    assert {("set_level", 0), ("load", 0), ("decide", 1)} <= takes
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, module in modules.items()
        if path != LIMITS and QUOTED_WORD.search(texts[path])
        for line in find_words(module, takes)
    ]
    assert found == [], "use ASK, EDIT, AUTO, ALL of core.limits"


@pytest.mark.parametrize(
    "code",
    [
        'level == "all"',
        'state.allow != "auto"',
        '"ask" if level in ("read", "x") else ""',
        'options["allow"] == "run"',
        'options.get("allow", "read")',
        'limits.allow or "ask"',
        'Options(allow="edit")',
        'open({"allow": "ask"})',
        'def run(allow: str = "auto"): ...',
        'class Settings:\n    allow: str = "ask"',
        'session.set_level("auto")',
        'def load(self, level): ...\npermission.load("ask")',
        'LEVELS = ("ask", "edit", PLAN)',
        'MODES = {"ask": 1, "auto": 2}',
    ],
)
def test_a_level_that_is_written_as_a_text_is_found(code: str) -> None:
    module = ast.parse(code)
    assert list(find_words(module, set(level_arguments(module)))) != []


@pytest.mark.parametrize(
    "code", ['decision == "ask"', 'profile = "read"', '("none", "read", "edit", "run")', 'backend: str = "auto"']
)
def test_the_same_word_for_another_thing_is_no_level(code: str) -> None:
    assert list(find_words(ast.parse(code), {("load", 0)})) == []


def level_arguments(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield name and place of each positional argument of a function that is a level."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [one.arg for one in [*node.args.posonlyargs, *node.args.args] if one.arg not in ("self", "cls")]
            yield from ((node.name, place) for place, name in enumerate(names) if is_level(name))


def find_words(module: ast.Module, takes: set[tuple[str, int]]) -> Iterator[int]:
    """Yield the line of each text that stands for a level: beside a name with `level` or `allow`, among others, or as
    an argument in `takes`."""
    for node in ast.walk(module):
        match node:
            case ast.Compare() | ast.BoolOp():
                yield from words_beside(
                    [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.values
                )
            case ast.keyword() if node.arg and is_level(node.arg):
                yield from words_in(node.value)
            case ast.Call():
                yield from words_beside([node.func, *node.args])
                called = name_of(node.func)
                yield from (one.lineno for at, one in enumerate(node.args) if (called, at) in takes and is_word(one))
            case ast.Dict() if len(node.keys) > 1 and all(is_word(key) for key in node.keys):
                yield node.lineno
            case ast.Dict():
                yield from (line for pair in zip(node.keys, node.values, strict=True) for line in words_beside(pair))
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from words_beside([*targets, node.value])
                yield from words_in(node.value) if is_list_of_words(node.value) else ()
            case ast.arguments():
                arguments = [*node.posonlyargs, *node.args]
                pairs = [*zip(arguments[len(arguments) - len(node.defaults) :], node.defaults, strict=True)]
                pairs += [(one, made) for one, made in zip(node.kwonlyargs, node.kw_defaults, strict=True) if made]
                yield from (line for one, made in pairs if is_level(one.arg) for line in words_in(made))


def words_beside(nodes: list[ast.expr] | list[ast.expr | None] | tuple[ast.expr | None, ...]) -> Iterator[int]:
    """Yield the lines of words in one of `nodes` if another one of them names a level."""
    if any(is_level(name_of(node)) for node in nodes):
        yield from (line for node in nodes if node is not None for line in words_in(node))


def words_in(node: ast.expr) -> Iterator[int]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    yield from (part.lineno for part in parts if is_word(part))


def is_list_of_words(node: ast.expr) -> bool:
    """True for several levels in a row, as texts or among names."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    texts = [part for part in parts if isinstance(part, ast.Constant)]
    return len(texts) > 1 and all(map(is_word, texts))


def is_word(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in WORDS


def is_level(name: str) -> bool:
    return any(word in {"level", "levels", "allow"} for word in name.casefold().strip("_").split("_"))


def name_of(node: ast.expr | None) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if name_of(func) == "get":
            return name
        case ast.Call(func=func):
            return name_of(func)
    return ""
