"""`tests/SEEDS.md`, the stranger's questions of `tests/README.md`, the READMEs of the rooms: what they name exists.

The tests of `tests/SEEDS.md` and of the rooms `FROZEN_ROOMS` are frozen: `tests/frozen.json` has the digest of each,
and a change of one is refused until `python tests/test_seeds.py renew NAME...` has renewed its digest.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from test_architecture import tracked

TESTS = Path(__file__).resolve().parent
TABLE = (TESTS / "SEEDS.md").read_text(encoding="utf-8")
FROZEN = TESTS / "frozen.json"
FROZEN_ROOMS = ("context", "conversation", "sections")
RENEW = "python tests/test_seeds.py renew"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@cache
def names_by_file() -> dict[Path, set[str]]:
    """By file: the names of its tests."""
    return {path: set(DEFINED.findall(path.read_text(encoding="utf-8"))) for path in sorted(TESTS.rglob("test_*.py"))}


def names_to_freeze() -> set[str]:
    """Return the names of the tests that have to be frozen: those of the seeds' table and of `FROZEN_ROOMS`."""
    ours = [names for path, names in names_by_file().items() if path.relative_to(TESTS).parts[0] in FROZEN_ROOMS]
    return set(re.findall(r"`(test_\w+)`", TABLE)).union(*ours)


def outline(value: object) -> str:
    """Return the text of a syntax tree without its imports and its layout; all versions of Python return the same."""
    if isinstance(value, list):
        return f"[{' '.join(outline(item) for item in value if not isinstance(item, ast.Import | ast.ImportFrom))}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = [f"{field}={outline(inner)}" for field, inner in ast.iter_fields(value) if inner not in (None, [])]
    return f"{type(value).__name__}({' '.join(fields)})"


def definitions(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield what a file defines at its top level, by name."""
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            named = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            yield from ((node.id, statement) for node in named)


def used_names(statement: ast.stmt) -> set[str]:
    """Return every name, argument and string of a statement: a fixture is an argument or a string of `usefixtures`."""
    nodes = list(ast.walk(statement))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return names | strings | {node.arg for node in nodes if isinstance(node, ast.arg)}


def digests_of_file(path: Path, names: set[str]) -> dict[str, str]:
    """Return the digests of tests of a file: of each test and of all that it uses in its file, imports left out."""
    defined: dict[str, list[ast.stmt]] = {}
    for name, statement in definitions(ast.parse(path.read_bytes(), str(path))):
        defined.setdefault(name, []).append(statement)
    texts = {name: " ".join(outline(statement) for statement in found) for name, found in defined.items()}
    uses = {name: set().union(*map(used_names, found)) & defined.keys() for name, found in defined.items()}
    always = {name for name, text in texts.items() if name == "pytestmark" or "'autouse'" in text}
    digests = {}
    for test in names:
        reached, todo = set[str](), {test} | always
        while todo:
            reached |= todo
            todo = set().union(*(uses[name] for name in todo)) - reached
        content = "\n".join(texts[name] for name in sorted(reached))
        digests[test] = hashlib.sha256(content.encode()).hexdigest()[:16]
    return digests


def present_digests(wanted: set[str]) -> dict[str, set[str]]:
    """Return the digests of tests by name, from wherever they stand under `tests/`; a name may stand in two files."""
    found: dict[str, set[str]] = {}
    for path, names in names_by_file().items():
        if wanted & names:
            for name, digest in digests_of_file(path, wanted & names).items():
                found.setdefault(name, set()).add(digest)
    return found


def frozen_digests() -> dict[str, str]:
    """Return the digests of `tests/frozen.json` by name of the test."""
    frozen: dict[str, str] = json.loads(FROZEN.read_text(encoding="utf-8")) if FROZEN.exists() else {}
    return frozen


def renew_digests(names: set[str]) -> None:
    """Write the present digests of tests to `tests/frozen.json`; a test that is gone leaves it."""
    present = present_digests(names)
    kept = {name: digest for name, digest in frozen_digests().items() if name not in names}
    renewed = kept | {name: min(digests) for name, digests in present.items()}
    FROZEN.write_text(json.dumps(renewed, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def test_the_tests_of_the_seeds_are_unchanged() -> None:
    frozen = frozen_digests()
    present = present_digests(names_to_freeze() | frozen.keys())
    wrong = [f"{name} is frozen and gone" for name in frozen.keys() - present.keys()]
    wrong += [f"{name} is not frozen yet" for name in names_to_freeze() & present.keys() - frozen.keys()]
    wrong += [f"{name} was changed" for name in frozen.keys() & present.keys() if frozen[name] not in present[name]]
    why = f"put the test back, or run `{RENEW} NAME...` and explain the change in the message of the commit"
    assert not wrong, f"{why}:\n" + "\n".join(sorted(wrong))


def test_a_frozen_test_may_change_its_imports_and_nothing_else(tmp_path: Path) -> None:
    source = """
import pytest
from nexus_cli.core import old
LIMIT = 3
OTHER = 4
def limit():
    return LIMIT
def test_it(limit):
    from nexus_cli.core import late
    assert old(limit) == "a b"
"""

    def digest(old: str = "", new: str = "") -> str:
        path = tmp_path / "test_one.py"
        path.write_text(source.replace(old, new) if old else source)
        return digests_of_file(path, {"test_it"})["test_it"]

    kept = [("core import", "lane import"), ("OTHER = 4", ""), ('"a b"', "(  'a b')")]
    assert {digest(*change) for change in kept} == {digest()}
    changed = [("LIMIT = 3", "LIMIT = 2"), ("a b", "ab"), ("import pytest", "pytestmark = 1"), ("assert", "assert not")]
    assert len({digest(), *(digest(*change) for change in changed)}) == len(changed) + 1


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert named
    gone = sorted(named.difference(*names_by_file().values()))
    assert not gone, f"tests/SEEDS.md names tests that are not there; write their new names: {', '.join(gone)}"


def test_every_row_of_a_seed_names_a_test() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith(("| part", "| field"))]
    assert len(rows) > 80
    tests = re.compile(r"`test_\w+`(, `test_\w+`)*")
    assert [row for row in rows if not tests.fullmatch(row.split("|")[3].strip())] == []


def test_every_file_that_answers_a_stranger_is_there() -> None:
    package = TESTS.parent / "nexus_cli"
    questions = (TESTS / "README.md").read_text(encoding="utf-8").partition("## Ten questions of a stranger")[2]
    named = re.findall(r"`([\w/]+\.py)`", questions.partition("| question |")[2])
    assert len(named) > 10
    assert [name for name in named if not (package / name.removeprefix("nexus_cli/")).is_file()] == []


def test_every_file_of_the_seeds_is_there() -> None:
    package = TESTS.parent / "nexus_cli"
    names = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", TABLE.partition("\n## ")[2]))
    assert [name for name in named if not any(f"/{there}".endswith(f"/{name}") for there in names)] == []


def test_the_words_of_the_source_documents_stand_in_the_room_of_the_context_alone() -> None:
    root, word = TESTS.parent, re.compile(r"\bseeds?\b", re.IGNORECASE)
    files = [root / "README.md", root / "CHANGELOG.md"]
    files += [path for folder in ("nexus_cli", "defaults") for path in (root / folder).rglob("*.*")]
    texts = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in files
        if path.suffix in (".md", ".py", ".toml", ".txt") and not path.is_relative_to(root / "nexus_cli" / "context")
    }
    assert len(texts) > 500
    assert [name for name, text in texts.items() if word.search(text)] == [], "say the thing itself there"


def test_the_names_that_scripts_import_are_there_and_take_what_scripts_pass() -> None:
    from nexus_cli.client import Client
    from nexus_cli.context import ContextConfig, ContextManager, compaction, loader, manager, prompt_loader
    from nexus_cli.core import Message, Role, ToolCall, ToolResult
    from nexus_cli.rpc.pool import Agent, AgentConfig, AgentPool, SharedComponents
    from nexus_cli.session import LogConfig, Session, SessionLogger

    assert manager.ContextManager is ContextManager and manager.ContextConfig is ContextConfig
    assert {"CompactionResult", "select_messages_for_compaction", "build_summarize_prompt"} <= set(dir(compaction))
    assert "PromptLoader" in dir(prompt_loader) and "ContextLoader" in dir(loader)
    assert Message(Role.USER, "hello").content == ToolResult("hello").text
    assert ToolCall("c1", "read", {}).name == "read" and callable(Client)
    parts = {"context": ContextManager(), "logger": None, "registry": None}
    inspect.signature(Session).bind(object(), **parts)
    inspect.signature(SessionLogger).bind(LogConfig)
    inspect.signature(AgentPool).bind(SharedComponents())
    assert AgentConfig(system_prompt="Be brief.").system_prompt == "Be brief."
    assert {"context", "session", "registry", "dispatcher"} <= set(dir(Agent))


def test_a_room_is_described_in_sixty_lines_and_its_files_are_there() -> None:
    root = TESTS.parent
    names = {f"/{path.relative_to(root)}" for path in tracked()}
    readmes = list((root / "nexus_cli").rglob("README.md"))
    assert len(readmes) > 10
    wrong = []
    for path in readmes:
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r"`([\w/]+\.py)`", text)) - {"NAME.py"}
        wrong += [f"{path}: {name}" for name in named if not any(there.endswith(f"/{name}") for there in names)]
        lines = len(text.splitlines())
        wrong += [f"{path}: {lines} lines, at most 60: join or shorten some"] if lines > 60 else []
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] != ["renew"] or not sys.argv[2:]:
        sys.exit(f"usage: {RENEW} NAME...")
    renew_digests(set(sys.argv[2:]))
