"""The shape of the product, read from its source: import order, what may print, the budget, names, what stays out.

Owns the yardsticks of the source; leaves style to ruff and types to mypy. Reads whatever rooms exist.
`python tests/test_architecture.py` prints the table `BUDGET` with the figures of the tree.
"""

from __future__ import annotations

import ast
import json
import os
import pwd
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ROOT / "nexus_cli"

FLOOR = {
    "core": 0,
    "text": 1,
    "config": 1,
    "tree": 2,
    "plugins": 3,
    "provider": 4,
    "tools": 4,
    "sandbox": 3,
    "rules": 4,
    "ledger": 4,
    "worktrees": 4,
    "conversation": 5,
    "undo": 5,
    "mcp": 6,
    "permission": 6,
    "context": 6,
    "guides": 7,
    "hooks": 7,
    "sections": 8,
    "engine": 9,
    "session": 10,
    "reports": 11,
    "service_list": 11,
    "workers": 11,
    "spaces": 11,
    "runs": 12,
    "imports": 12,
    "commands": 13,
    "client": 14,
    "rpc": 14,
    "ui": 15,
    "acp": 15,
    "adapters": 16,
    "cli": 16,
    "testing": 16,
    "__main__": 17,
}
"""A room imports from lower floors only; rooms of one floor do not know each other. A new room needs a line here."""

ONE_DOOR = {"litellm": "provider/litellm_backend.py", "tiktoken": "conversation/tokens/counter.py"}
"""Libraries that one file alone may import, and only when it must."""

LAZY = {
    "workers/workers.py": {"nexus_cli"},  # worktrees run git
    "guides/agent_roles.py": {"nexus_cli"},  # the tools of MCP servers, which few folders have
    "commands/__init__.py": {"nexus_cli"},  # slash commands, of which a shell command makes none
    "commands/arguments.py": {"nexus_cli"},  # what decides on calls
    "commands/context.py": {"nexus_cli"},  # the factory, which opens a session to look at it
    "commands/jobs.py": {"nexus_cli"},  # the tools, of which a listing needs none
    "commands/status.py": {"nexus_cli"},  # the engine, for the tools of a session
    "commands/agents.py": {"nexus_cli"},  # worktrees run git
    "commands/runs.py": {"nexus_cli"},  # the runner, where a run is answered
    "commands/doctor.py": {"nexus_cli"},  # all that is checked
    "commands/replay.py": {"nexus_cli"},  # the check of what was sent
    "commands/permissions.py": {"nexus_cli"},  # the rules, which a session loads when it needs them
    "commands/config.py": {"nexus_cli"},  # the rules, which few settings are
    "commands/skill.py": {"nexus_cli"},  # the check; the names of all commands
    "commands/schedule.py": {"nexus_cli"},  # cron and time zones, where something is scheduled
    "commands/export.py": {"nexus_cli", "markdown_it"},  # the page of a session; the code blocks of an answer
    "commands/diff.py": {"nexus_cli"},  # the diff of a turn
    "commands/worktree.py": {"nexus_cli"},  # worktrees run git
    "commands/verb.py": {"asyncio", "nexus_cli"},  # a verb that waits; settings, which few verbs ask for
    "commands/trust.py": {"nexus_cli"},  # rules, once somebody asks
    "commands/plugin.py": {"nexus_cli"},  # the files of plugins, which few people have
    "commands/undo.py": {"nexus_cli"},  # the journal of an undo
    "commands/rewind.py": {"nexus_cli"},  # the journal of an undo
    "commands/sessions.py": {"nexus_cli"},  # the journal of an undo, which a fork copies
    "commands/timeline.py": {"nexus_cli"},  # spaces and runs, of which a plain session has none
    "runs/plan_service.py": {"nexus_cli"},  # the parser of rules, which little work brings
    "core/certificates.py": {"ssl", "truststore"},  # a connection of our own; a system that verifies by itself
    "core/errors.py": {"difflib"},
    "core/proxy.py": {"http", "urllib"},  # a connection of our own; an error of the network
    "core/private_process.py": {"_ctypes"},
    "core/decode.py": {"charset_normalizer"},
    "config/ledger_place.py": {"nexus_cli"},  # settings that name a server
    "config/paths.py": {"platformdirs"},
    "config/repository_owner.py": {"nexus_cli"},  # git's settings, where a repository belongs to another user
    "config/protected_places.py": {"nexus_cli"},  # redaction, where there are settings of a build tool
    "config/project_settings.py": {"tomllib", "nexus_cli"},
    "config/trust_items.py": {"tomllib", "tomlkit"},
    "plugins/python_plugins.py": {"configparser", "pluggy", "nexus_cli"},  # where there is a plugin
    "plugins/installed_plugins.py": {"nexus_cli"},  # the files of plugins, which few people have
    "mcp/server_entries.py": {"tomllib"},  # where the settings name servers
    "mcp/tool_schema.py": {"jsonschema", "referencing"},  # schemas of a server that was asked
    "config/stored_keys.py": {"nexus_cli"},  # redaction, where there is a key
    "config/settings_file.py": {"tomlkit", "tomllib"},  # only for writing
    "config/settings.py": {"nexus_cli"},  # few settings have checks and hooks
    "config/load_settings.py": {"tomllib", "nexus_cli"},
    "provider/litellm_env.py": {"importlib"},
    "provider/light_import.py": {"pydantic"},  # a part of litellm
    "provider/litellm_backend.py": {"litellm", "openai", "nexus_cli"},  # the SDK under it; errors, once there is one
    "provider/head_start.py": {"httpcore", "urllib"},  # httpcore comes with litellm, after the request
    "provider/key_check.py": {"http"},  # once for a key that was typed
    "provider/served_models.py": {"http", "nexus_cli"},  # a model server of one's own
    "provider/local_servers.py": {"nexus_cli"},  # a start that names no model
    "engine/requests/notices.py": {"nexus_cli"},  # a pin that another process set
    "engine/requests/engine.py": {"nexus_cli"},  # a resumed session, and what only looks ahead
    "provider/open_stream.py": {"nexus_cli"},  # an answer that is no stream
    "provider/model_info.py": {"nexus_cli"},  # models that nobody states a window for
    "text/front_matter.py": {"yaml", "tomllib"},  # slow, and few guides need it
    "conversation/tokens/counter.py": {"tiktoken"},
    "sections/contributors/run_blocks.py": {"nexus_cli"},  # a structured run
    "context/manager.py": {"nexus_cli"},  # truncation and compaction: when the window is too full
    "reports/acts.py": {"nexus_cli"},  # an event of a turn that no entry holds; jobs, which few sessions have
    "reports/transcript.py": {"nexus_cli"},  # a transcript is shown
    "reports/context.py": {"nexus_cli"},  # the engine, with a running session
    "reports/request_view.py": {"nexus_cli"},
    "rpc/dispatcher.py": {"nexus_cli"},  # own commands: few clients ask for them
    "commands/login.py": {"nexus_cli"},  # few sessions ask for a key
    "provider/available_models.py": {"nexus_cli", "difflib"},
    "permission/folder_rules.py": {"nexus_cli"},  # rules: at the first one that a session brings
    "permission/call_permission.py": {"nexus_cli"},  # rules and sandbox: at the first call that needs them
    "engine/compaction/context_fit.py": {"nexus_cli"},  # compaction and truncation: when the window is too full
    "reports/timeline.py": {"nexus_cli"},  # runs, of which a plain session has none
    "text/cells.py": {"wcwidth"},  # text outside ASCII
    "session/factory.py": {"nexus_cli"},  # a resumed session; facts before a compaction
    "session/cold_request.py": {"nexus_cli"},  # the price of a compaction, if the next request is expensive
    "session/settle_projects.py": {"nexus_cli"},  # a process was killed during a command
    "session/session_facts.py": {"nexus_cli"},  # where a fact is kept
    "session/service_makers.py": {"nexus_cli"},  # services that few sessions use
    "engine/calls/call_changes.py": {"nexus_cli"},  # the first call that changes something
    "engine/calls/dispatch.py": {"nexus_cli"},  # the first edit; hooks, which few sessions have
    "sections/project_outline.py": {"nexus_cli"},  # the files of a repository
    "session/section_sources.py": {"nexus_cli"},  # the state of a repository
    "session/session.py": {"nexus_cli"},  # a compaction on command, the end of a turn, the status line
    "ledger/sessions.py": {"difflib"},
    "ledger/file_journal.py": {"nexus_cli"},  # a ledger that fails
    "ledger/session_log.py": {"nexus_cli"},  # the journal of a ledger on a server
    "ledger/store.py": {"nexus_cli"},  # forks, deletion, a ledger that is only read, spaces, runs, plans
    "ledger/lane_log.py": {"nexus_cli"},  # a run begins or ends to wait
    "spaces/post_message.py": {"nexus_cli"},  # the router's model: where the settings name one
    "commands/space.py": {"nexus_cli"},  # most sessions have no space
    "rules/bash_syntax.py": {"tree_sitter", "tree_sitter_bash"},
    "tools/html_worker.py": {"bs4", "markdownify"},  # found in the folders of its job
    "tools/pdf_worker.py": {"pypdfium2"},  # found in the folder of its job
    "tools/own_worker.py": {"nexus_cli"},  # the sandbox, at the first search
    "tools/registry.py": {"nexus_cli"},  # calls under names of other programs
    "tools/wait_conditions.py": {"nexus_cli"},  # a process of the system, where there is no /proc
    "config/trust.py": {"nexus_cli"},  # the items of a project's files, which few have
    "engine/calls/waiting.py": {"nexus_cli"},  # a session that waits
    "session/start_conversation.py": {"nexus_cli"},  # what may follow a reply in few turns; guides
    "sections/capability_snapshot.py": {"nexus_cli"},  # what only `nexus status` tells; environments; servers
    "session/context_tool_service.py": {"nexus_cli"},  # the list of drops, when the model asks for it
    "tools/files.py": {"nexus_cli"},  # the spelling of a path, once there is one
    "sandbox/own_git.py": {"nexus_cli"},  # the walls, at the first run of git
    "sandbox/walls.py": {"nexus_cli"},  # the probe, where there is no Landlock
    "tools/listing.py": {"nexus_cli"},  # ignore files, where git does not list the files
    "ledger/facts.py": {"nexus_cli"},  # the words of facts, once there are any
}
"""Imports inside functions, by file. `cli/`, `ui/` and `__main__.py` may delay anything: `--help` must not load it."""

LAZY_ROOMS = {"cli", "ui", "__main__"}

PROGRAMS = {"tools/grep_worker.py", "tools/html_worker.py", "tools/pdf_worker.py"}
"""Started as processes of their own: their streams are pipes to us."""

STARTS_PROGRAMS = {
    "config/programs.py": "the door: programs of our own, never one from the project",
    "tools/process.py": "commands of the model and of the person",
    "sandbox/confined_launch.py": "the same commands, once it is in the sandbox",
    "sandbox/confinement.py": "the same commands, in the sandbox",
    "sandbox/walls.py": "git of our own and our workers, in walls",
    "sandbox/inspect_sandbox.py": "`true`, in the sandbox, to measure a start",
    "sandbox/probe.py": "attempts of our own Python, in the sandbox",
    "client.py": "our own Python, as a server",
    "core/bounded_call.py": "a fork of itself, which ends with its function",
}
"""Files that start a program or a process. All others go through `config/programs`."""

FINDS_PROGRAMS = {
    "config/programs.py": "the door",
    "config/host_environment.py": "whether commands of the model find `nexus`",
    "rules/readers.py": "whether the PATH leads a command of the model to a program of the project",
    "sandbox/inspect_sandbox.py": "`true`, run in the sandbox",
}
"""Files that look for a program on the PATH."""

OUTSIDE_WALLS = {
    "config/programs.py": "the command line, the environment, and git that finds no repository",
    "sandbox/own_git.py": "the door: git in walls",
    "plugins/plugin_source.py": "a fetch from the network that a person typed, into an empty folder",
}
"""Files that use what a command line of git is made of. All others run `sandbox/own_git.Git`."""

TOP = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "constraints.txt", "nexus_cli", "defaults", "tests"}

NEVER_NAMES = {"utils", "util", "helpers", "helper", "misc", "manager2", "_runtime", "common"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files of the checkout that git knows or would add; without git, all but hidden folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return tuple(ROOT / name for name in names if (ROOT / name).is_file())
    found = (path for path in ROOT.rglob("*") if path.is_file())
    return tuple(
        p for p in found if not any(part.startswith((".", "__pycache__")) for part in p.relative_to(ROOT).parts)
    )


def product() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(PRODUCT)]


def name(path: Path) -> str:
    return path.relative_to(PRODUCT if path.is_relative_to(PRODUCT) else ROOT).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PRODUCT).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree(path)))


@cache
def import_statements(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, list[str]], ...]:
    """Return the import statements of a file in the order of `ast.walk`, each with the full names that it imports."""
    package = ("nexus_cli", *path.relative_to(PRODUCT).parts[:-1])
    statements: list[tuple[ast.Import | ast.ImportFrom, list[str]]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            statements.append((node, [alias.name for alias in node.names]))
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            statements.append((node, [f"{base}.{alias.name}" for alias in node.names]))
    return tuple(statements)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node, modules in import_statements(path):
        for module in modules:
            yield node.lineno, module


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_every_room_has_its_floor() -> None:
    rooms = {room(path) for path in product()} - {"__init__"}
    assert rooms <= set(FLOOR), f"give these rooms a floor: {sorted(rooms - set(FLOOR))}"
    assert "core" in rooms


def test_imports_run_one_way() -> None:
    wrong = []
    for path in product():
        own = room(path)
        for line, module in imports(path):
            parts = module.split(".")
            if parts[0] != "nexus_cli" or len(parts) < 2 or parts[1] not in FLOOR or parts[1] == own:
                continue
            if own == "__init__" or FLOOR[parts[1]] >= FLOOR[own]:
                wrong.append(f"{name(path)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@cache
def product_modules() -> dict[str, Path]:
    """By full name of a module: its file. A package is found by its own name and by that of its `__init__`."""
    files = {".".join(("nexus_cli", *path.relative_to(PRODUCT).with_suffix("").parts)): path for path in product()}
    return files | {module.removesuffix(".__init__"): path for module, path in files.items()}


@cache
def imported_files() -> dict[str, set[str]]:
    """By file: the files of the product that it imports, delayed imports and those for types alone included."""
    files = product_modules()

    def file_of(module: str) -> Path | None:
        return files.get(module) or files.get(module.rpartition(".")[0])

    targets = {path: {file_of(module) for _, module in imports(path)} - {None, path} for path in product()}
    return {name(path): {name(target) for target in found if target} for path, found in targets.items()}


def find_cycles(graph: dict[str, set[str]]) -> list[str]:
    """Return the nodes that are on a cycle: those left when everything without a way out or in is taken away."""
    left = dict(graph)
    while True:
        wanted = set().union(*left.values())
        kept = {node: targets & left.keys() for node, targets in left.items() if targets & left.keys()}
        kept = {node: targets for node, targets in kept.items() if node in wanted}
        if len(kept) == len(left):
            return sorted(kept)
        left = kept


def test_no_files_import_one_another_in_a_circle() -> None:
    assert not find_cycles(imported_files())


MEMBERS = {
    "cli/run": "the app begins a session, a command shares the options and the output of the others",
    "cli/serve": "the app begins the REPL of a client; as above",
    "cli/sessions": "as above",
    "cli/setup": "as above",
    "session/acts": "a session carries out acts, an act uses its session",
    "tools/builtin": "the registry finds the tools, a tool shares what others do with files",
}
"""Folders that the folder above them knows and that know it."""


def test_no_folders_import_one_another_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path, targets in imported_files().items():
        own = Path(path).parent.as_posix()
        others = {Path(target).parent.as_posix() for target in targets} - {own}
        graph.setdefault(own, set()).update(others - ({Path(own).parent.as_posix()} if own in MEMBERS else set()))
    graph.pop(".", None)
    assert not find_cycles(graph)


def test_core_knows_only_the_standard_library_and_what_it_loads_late() -> None:
    allowed = sys.stdlib_module_names | {"nexus_cli"}
    wrong = [
        f"{name(path)}:{line} imports {module}"
        for path in product()
        if room(path) == "core"
        for line, module in imports(path)
        if module.split(".")[0] not in allowed | LAZY.get(name(path), set())
    ]
    assert not wrong, "\n".join(wrong)


def test_litellm_and_tiktoken_have_one_door_each() -> None:
    wrong = []
    for path in product():
        for line, module in imports(path):
            door = ONE_DOOR.get(module.split(".")[0])
            if door is not None and name(path) != door:
                wrong.append(f"{name(path)}:{line} imports {module}; only {door} may")
    assert not wrong, "\n".join(wrong)


def test_imports_inside_functions_are_listed() -> None:
    wrong = []
    for path in product():
        if room(path) in LAZY_ROOMS:
            continue
        imported = [*imports(path)]
        for function in functions(path):
            for line, module in imported:
                inside = function.lineno <= line <= (function.end_lineno or 0)
                if inside and module.split(".")[0] not in LAZY.get(name(path), set()):
                    wrong.append(f"{name(path)}:{line} imports {module} in {function.name}")
    assert not wrong, "add a row to LAZY, or import at the top:\n" + "\n".join(sorted(set(wrong)))


def _writes_to_terminal(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
        return f"calls {node.func.id}"
    streams = ("stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__")
    if isinstance(node, ast.Attribute) and node.attr in streams and ast.unparse(node.value) == "sys":
        return f"uses sys.{node.attr}"
    if isinstance(node, ast.ImportFrom) and node.module == "sys":
        named = {alias.name for alias in node.names} & {"stdout", "stderr", "stdin"}
        return f"imports {', '.join(sorted(named))} from sys" if named else ""
    return ""


def test_nothing_below_ui_touches_the_terminal() -> None:
    wrong = [
        f"{name(path)}:{getattr(node, 'lineno', 0)} {what}"
        for path in product()
        if FLOOR.get(room(path), 0) < FLOOR["ui"] and name(path) not in PROGRAMS
        for node in nodes(path)
        if (what := _writes_to_terminal(node))
    ]
    assert not wrong, "\n".join(wrong)


_STARTS = re.compile(
    r"^(subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|pty\.(spawn|fork)|"
    r"os\.(exec\w+|spawn\w+|posix_spawn\w*|fork|forkpty|system|popen)|"
    r"(asyncio|loop|asyncio\.subprocess)\.(create_)?subprocess_(exec|shell)|webbrowser\.\w+|multiprocessing\.\w+)$"
)
_STARTERS = {
    "subprocess": {"PIPE", "DEVNULL", "STDOUT", "TimeoutExpired", "SubprocessError", "CompletedProcess"},
    "asyncio.subprocess": {"PIPE", "DEVNULL", "STDOUT", "Process"},
    "pty": {"openpty"},
    "webbrowser": set(),
    "multiprocessing": set(),
}
"""Modules that start programs, with the names in them that do not."""


def _starts_a_program(node: ast.AST, types: set[ast.AST]) -> str:
    is_dotted = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute)
    if is_dotted and node not in types and _STARTS.match(ast.unparse(node)):
        return f"uses {ast.unparse(node)}"
    if isinstance(node, ast.ImportFrom) and node.module in (*_STARTERS, "os", "asyncio"):
        named = {alias.name for alias in node.names} - _STARTERS.get(node.module, set())
        named = {one for one in named if node.module in _STARTERS or _STARTS.match(f"{node.module}.{one}")}
        return f"imports {', '.join(sorted(named))} from {node.module}" if named else ""
    return ""


def test_programs_are_started_by_one_door() -> None:
    found: dict[str, list[str]] = {}
    for path in product():
        types: set[ast.AST] = {node.value for node in nodes(path) if isinstance(node, ast.Subscript)}
        for node in nodes(path):
            if what := _starts_a_program(node, types):
                found.setdefault(name(path), []).append(f"{name(path)}:{getattr(node, 'lineno', 0)} {what}")
    wrong = [line for path, lines in found.items() if path not in STARTS_PROGRAMS for line in lines]
    assert not wrong, "start it by nexus_cli/config/programs.py, or give the reason here:\n" + "\n".join(wrong)


def test_git_is_run_by_one_door() -> None:
    """A `git` that is found elsewhere is only handed to `Git`: nobody else makes a command line of it."""
    parts = {"git_command", "git_environment", "GIT_OPTIONS"}
    found = {
        name(path) for path in product() for node in nodes(path) if isinstance(node, ast.Name) and node.id in parts
    }
    starters = {"run_program", "start_helper", "start_program_async"}
    found |= {
        name(path)
        for path in product()
        if re.search(r"\bgit\b", path.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[2])
        and any(isinstance(node, ast.Name) and node.id in starters for node in nodes(path))
        and any(isinstance(node, ast.Constant) and node.value == "git" for node in nodes(path))
    }
    assert found == OUTSIDE_WALLS.keys(), "run it by nexus_cli/sandbox/own_git.py"


def test_programs_are_looked_for_by_one_door() -> None:
    found = {
        name(path)
        for path in product()
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and node.attr == "which" and ast.unparse(node) == "shutil.which")
        or (isinstance(node, ast.ImportFrom) and node.module == "shutil" and "which" in str(ast.unparse(node)))
    }
    assert found == FINDS_PROGRAMS.keys(), "find it by nexus_cli/config/programs.py"


BUDGET: dict[str, tuple[int, int, int | None]] = {
    "__init__": (7, 0, 0),
    "__main__": (203, 0, 0),
    "acp": (9_107, 0, 1),
    "adapters": (732, 1_037, 0),
    "cli": (48_006, 0, 7),
    "client": (2_320, 0, 2),
    "commands": (71_964, 0, 60),
    "config": (36_008, 0, None),
    "context": (8_805, 0, 15),
    "conversation": (44_766, 0, 41),
    "core": (47_098, 0, None),
    "defaults": (0, 13_074, 0),
    "engine": (50_789, 0, 20),
    "guides": (4_768, 0, 19),
    "hooks": (7_679, 0, 21),
    "imports": (14_422, 0, 10),
    "ledger": (52_785, 0, 30),
    "mcp": (19_027, 0, 21),
    "permission": (13_750, 0, 48),
    "plugins": (8_076, 0, 22),
    "provider": (30_270, 91_765, 62),
    "reports": (60_235, 8_357, None),
    "rpc": (18_211, 0, 21),
    "rules": (31_573, 0, 20),
    "runs": (22_990, 0, 40),
    "sandbox": (38_232, 0, 27),
    "sections": (36_513, 0, 24),
    "service_list": (303, 0, 2),
    "session": (47_908, 0, 23),
    "spaces": (9_598, 0, 15),
    "testing": (1_483, 0, 0),
    "text": (4_477, 0, None),
    "tools": (54_674, 26_394, 57),
    "tree undo worktrees": (69_164, 0, 63),
    "ui": (95_985, 0, 44),
    "workers": (10_279, 0, 1),
}
"""By room: nodes of the syntax tree, bytes of data, and names that other rooms import. Each figure is a limit, that of
nodes with some `SLACK`.

Nodes are everything that `ast.walk` yields. Data is every file but Python, Markdown and plain text: settings, schemas,
recipes, style sheets. A name is a pair of module and name; every name of the rooms in `OPEN_ROOMS` is public.

A limit is only lowered, to the figures that `python tests/test_architecture.py` writes here. A room that takes work
over from others is counted with them until they are gone: `"tree undo worktrees"` is one row. A room may grow by what
another gives back, as long as `SUM` holds. Three features may raise `SUM`, each by at most its allowance of nodes:
third aid 12,000, front 8,000, parity 20,000. Any other feature names what leaves in its place.
"""

SUM = (972_207, 140_627)
"""Nodes of the syntax tree and bytes of data of the whole product.

16,500 nodes are owed. Undo of folders, references and inner repositories was built beside the walkers of
`sandbox/protected_snapshot`, `sandbox/restore_protected` and `worktrees/`: what these had twice is gone, the rest needs
the format of a record, or a feature, to go. The opening of a ledger in few round trips, `--rule` of a run, and `--json`
and a shell command for every noun owed 4,350; the provider, the folds of events and the types of reports paid 8,200.
Early answers, reasons of questions, levels of resumed sessions and pins of a second terminal owe 2,500; items of
plugins that a session would not load, rows of the bench, and files that the sandbox hides, 3,000. Completion from a
table, forks of editors, options of a slash command as in a shell, and what commands of a session may not change owe
1,900. What clients of a server may do, thinking and acts in a replay, references of removed repositories and items of a
map that edit their own files owe 2,500. Parity has taken all of its allowance. Without what is owed the sum goes back
to 952,200.
"""

SLACK = 300
"""Nodes by which a room, and the sum, may exceed their figures: a contribution of this size breaks no test. The figures
are those of the tree again once `python tests/check.py renew budget` has run."""

OPEN_ROOMS = {"core", "config", "text", "reports"}
"""Rooms of values, texts and reports: every name is public."""


def row_of(own: str) -> str:
    """Return the key of the budget under which a room is counted: the row that names the room, or the room itself."""
    return next((row for row in BUDGET if own in row.split()), own)


def count_nodes() -> Counter[str]:
    """Count the nodes of the syntax tree by row of the budget."""
    counted: Counter[str] = Counter()
    for path in product():
        counted[row_of(room(path))] += len(nodes(path))
    return counted


def count_data() -> Counter[str]:
    """Count the bytes of data by row of the budget."""
    counted: Counter[str] = Counter()
    for path in tracked():
        if path.suffix in {".py", ".md", ".txt", ".typed"}:
            continue
        if path.is_relative_to(PRODUCT):
            counted[row_of(room(path))] += path.stat().st_size
        elif path.is_relative_to(ROOT / "defaults"):
            counted[row_of("defaults")] += path.stat().st_size
    return counted


def names_read_from(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a file takes from the product, by import or as `module.name`."""
    files = product_modules()
    taken: dict[str, str] = {}
    for statement, modules in import_statements(path):
        for alias, module in zip(statement.names, modules, strict=True):
            if module in files:
                taken[alias.asname or alias.name] = module
            elif module.startswith("nexus_cli."):
                home, _, imported = module.rpartition(".")
                yield home, imported
    for node in nodes(path) if taken else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in taken:
            yield taken[node.value.id], node.attr


def count_names() -> Counter[str]:
    """Count, by row of the budget, the names that rooms of other rows import or read off an imported module."""
    files = product_modules()
    used: dict[str, set[tuple[str, str]]] = {}
    for path in product():
        for module, imported in names_read_from(path):
            own = row_of(room(files[module]))
            if own != row_of(room(path)) and module != "nexus_cli":
                used.setdefault(own, set()).add((module, imported))
    return Counter({own: len(names) for own, names in used.items()})


def measure_budget() -> dict[str, tuple[int, int, int | None]]:
    """Measure the tree in the form of `BUDGET`, in the order of `BUDGET`; rows that it lacks come last."""
    counted, data, names = count_nodes(), count_data(), count_names()
    rows = [row for row in BUDGET if row in counted.keys() | data.keys()]
    rows += sorted((counted.keys() | data.keys()) - BUDGET.keys())
    return {row: (counted[row], data[row], None if OPEN_ROOMS & {*row.split()} else names[row]) for row in rows}


def write_budget() -> None:
    """Set `BUDGET` and `SUM` in this file to the present tree, and print the lines that changed."""
    path, measured = Path(__file__), measure_budget()
    if new := measured.keys() - BUDGET.keys():
        sys.exit(f"write a row into BUDGET first: {', '.join(sorted(new))}")
    rows = {f'    "{row}": (': f"{counted:_}, {data:_}, {names})," for row, (counted, data, names) in measured.items()}
    nodes_and_data = (sum(row[column] or 0 for row in measured.values()) for column in (0, 1))
    rows["SUM = ("] = ", ".join(f"{figure:_}" for figure in nodes_and_data) + ")"
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if (start := line[: line.find("(") + 1]) in rows and line != start + rows[start]:
            lines[number] = start + rows[start]
            print(f"{line.strip()} -> {rows[start]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def line_of(start: str) -> str:
    """Return file and number of the first line of this file that begins with a text."""
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next((number for number, line in enumerate(source, 1) if line.strip().startswith(start)), 0)
    return f"{Path(__file__).relative_to(ROOT).as_posix()}:{number}"


UNITS = ("nodes of the syntax tree", "bytes of data", "names that other rooms import")


def test_every_room_keeps_to_its_budget() -> None:
    measured = measure_budget()
    over = [f"{row}: give it a row in BUDGET, {line_of('BUDGET')}" for row in measured.keys() - BUDGET.keys()]
    over += [
        f"{row}: {figure:,} {unit}, at most {limit:,}: {line_of(json.dumps(row))}"
        for row, figures in measured.items()
        for figure, limit, unit in zip(figures, BUDGET.get(row, ()), UNITS, strict=False)
        if figure is not None and limit is not None and figure > limit + SLACK * (unit == UNITS[0])
    ]
    sums = [sum(row[column] or 0 for row in measured.values()) for column in (0, 1)]
    over += [
        f"the sum: {figure:,} {unit}, at most {limit:,}: {line_of('SUM =')}"
        for figure, limit, unit in zip(sums, SUM, UNITS, strict=False)
        if figure > limit + SLACK * (unit == UNITS[0])
    ]
    why = (
        "take something out first; where a feature needs more, `python tests/test_architecture.py` writes the figures "
        "of the tree into the table, and the commit says what grew and why"
    )
    assert not over, f"{why}:\n" + "\n".join(over)


def test_every_row_of_the_budget_counts_rooms_that_exist_once() -> None:
    there = {room(path) for path in tracked() if path.is_relative_to(PRODUCT)} | {"defaults"}
    named = [own for row in BUDGET for own in row.split()]
    assert [own for own in named if own not in there] == [], "take these rooms out of BUDGET"
    assert len(named) == len(set(named)), "a room stands in two rows of BUDGET"


def test_the_formatter_is_on_everywhere_with_the_settings_that_the_caps_were_set_for() -> None:
    pattern = re.compile(r"# fmt: ski[p]|^ *# (fmt: off|yapf: disable)$", re.MULTILINE)
    off = [
        name(path) for path in tracked() if path.suffix == ".py" and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert off == [], "caps and diffs mean something only where the formatter decides"
    others = [path.relative_to(ROOT).as_posix() for path in tracked() if path.name in {"ruff.toml", ".ruff.toml"}]
    assert others == [], "the settings of ruff stand in pyproject.toml"
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    layout = {key: value for key, value in ruff.items() if key != "lint"}
    assert layout == {"line-length": 120, "target-version": "py311"}
    assert ruff["lint"].keys() == {"select", "ignore", "per-file-ignores"}


def test_functions_fit_one_screen() -> None:
    long = [
        f"{name(path)}:{function.lineno} {function.name} has {size} lines"
        for path in product()
        for function in functions(path)
        if (size := (function.end_lineno or function.lineno) - function.lineno + 1) > 70
    ]
    assert not long, "\n".join(long)


ASKS = re.compile(r"(Return |Yield )?(what|why|how|whether|where|which)\b", re.IGNORECASE)


def test_modules_say_what_they_own() -> None:
    python = [p for p in tracked() if p.suffix == ".py" and p.stat().st_size and not p.name.startswith("test_")]
    silent = [path.relative_to(ROOT).as_posix() for path in python if not ast.get_docstring(tree(path))]
    assert not silent, f"no module docstring: {silent}"


def test_docstrings_say_instead_of_asking() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    asks = [
        f"{name(path)}:{getattr(node, 'lineno', 1)} {text[:60]}"
        for path in product()
        for node in nodes(path)
        if isinstance(node, kinds) and ASKS.match(text := ast.get_docstring(node) or "")
    ]
    assert not asks, "name what is returned, or begin with a verb:\n" + "\n".join(asks)


def test_names_of_files_are_nouns_of_the_design() -> None:
    wrong = [name(p) for p in product() if NEVER_NAMES & {part.removesuffix(".py") for part in Path(name(p)).parts}]
    assert not wrong, f"a name that says nothing: {wrong}"


REGISTRIES = {
    "cli",
    "cli/run",
    "cli/serve",
    "cli/sessions",
    "cli/setup",
    "commands",
    "tools/builtin",
    "sections/contributors",
    "session/acts",
    "reports",
}
"""Folders whose files are named after a command, tool, section, act or report; these may share their names."""
SAME_NAMES = {
    "schema.py": "the tables of the ledger, and the JSON schema of arguments: the word of both fields",
    "usage.py": "the value in core, and what a provider's response says of it",
}
"""File names that two rooms share, with the reason."""


def test_files_have_names_of_their_own() -> None:
    homes: dict[str, list[str]] = {}
    for path in product():
        folder = Path(name(path)).parent.as_posix()
        if path.name != "__init__.py" and folder not in REGISTRIES:
            homes.setdefault(path.name, []).append(name(path))
    shared = {file: found for file, found in homes.items() if len(found) > 1}
    assert shared.keys() == SAME_NAMES.keys(), f"one name in several meanings: {shared}"


def test_public_classes_have_names_of_their_own() -> None:
    homes: dict[str, list[str]] = {}
    for path in product():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name(path))
    shared = {class_name: files for class_name, files in homes.items() if len(files) > 1}
    assert not shared, f"one name for several classes: {shared}"


def test_nothing_is_left_open() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    texts = [p for p in tracked() if p.is_relative_to(PRODUCT) or p.is_relative_to(ROOT / "defaults")]
    wrong = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if marks.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def _catches_all(node: ast.AST) -> bool:
    """A handler of everything that does not end in raising again."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = {n.id for n in ast.walk(node.type or ast.Name("Exception")) if isinstance(n, ast.Name)}
    last = node.body[-1]
    return bool(caught & {"Exception", "BaseException"}) and not (isinstance(last, ast.Raise) and last.exc is None)


def test_broad_excepts_give_their_reason() -> None:
    wrong = []
    for path in product():
        source = path.read_text(encoding="utf-8").splitlines()
        for node in nodes(path):
            if not _catches_all(node):
                continue
            line = getattr(node, "lineno", 0)
            said = " ".join(text.partition("#")[2] for text in source[line - 1 : line + 1])
            if not re.search(r"\w{3}", re.sub(r"noqa(: *[A-Z0-9, ]+)?", "", said)):
                wrong.append(f"{name(path)}:{line} {source[line - 1].strip()}")
    assert not wrong, "\n".join(wrong)


MEASURES = {"conversation/request_plan.py"}
"""Files that ask an estimate how large a request is."""
ESTIMATES = {"expected", "upper"}
"""Methods of an estimate that say how large a request is."""


def test_one_module_says_how_large_a_request_is() -> None:
    wrong = [
        f"{name(path)}:{node.lineno} asks for {node.attr}"
        for path in product()
        if not name(path).startswith("conversation/tokens/") and name(path) not in MEASURES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ESTIMATES and "estimate" in ast.unparse(node.value)
    ]
    assert not wrong, "read it off a `RequestPlan`:\n" + "\n".join(wrong)


ONE_IMPLEMENTER = {
    "Assembly": "the tool `context` calls it, which stands below the session",
    "CommandContext": "a client's context passes on what it lacks, and so has all members",
    "Counts": "a counter gets its store from the session: the conversation stores nothing",
    "EditorTexts": "tools call it, the editor's front end is above them",
    "Facts": "tools and contributors call it, which stand below the session",
    "Jobs": "`bash` and the permission for calls use it, which stand below the session",
    "Plans": "the tool `plan` calls it, which stands below runs",
    "PromptSource": "seed A names it: scripts write sources of their own",
    "Recall": "the tool `recall` calls it: tools and the ledger do not know each other",
    "RunningWorkers": "the session shows workers, which stand above it",
    "ScreenActions": "a screen has bindings, and they call the screen: the modules would be a circle",
    "SeenFileStore": "file tools call it: tools and the ledger do not know each other",
    "Spaces": "tools call it, which stand below spaces",
    "Waits": "the tool `wait_for` calls it, which stands below the engine",
    "Workers": "tools call it, which stand below workers",
    "_Tools": "the registry has the translation of calls, which asks it: the modules would be a circle",
}
"""Protocols of the product that one class implements, with the reason of each. The list only shrinks: where the class
stands below its users, they take the class; where they call one function of it, they take the function."""


def members_of(node: ast.ClassDef) -> set[str]:
    """Return the names that a class declares, defines or assigns; none that is abstract."""
    found: set[str] = set()
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {one.name} if "abstractmethod" not in map(ast.unparse, one.decorator_list) else set()
        targets = [one.target] if isinstance(one, ast.AnnAssign) else getattr(one, "targets", ())
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    stored = (one for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store))
    return found | {one.attr for one in stored if ast.unparse(one.value) == "self"}


def find_implementers() -> dict[str, set[str]]:
    """By protocol: the classes of the product that have the names of all its members, their own or inherited ones. A
    class that inherits from one of them is no other one."""
    classes = {node.name: node for path in product() for node in nodes(path) if isinstance(node, ast.ClassDef)}
    bases = {name: [ast.unparse(base).split("[")[0] for base in node.bases] for name, node in classes.items()}
    protocols = {name for name in classes if "Protocol" in bases[name]}

    @cache
    def all_members(name: str) -> frozenset[str]:
        above = (all_members(base) for base in bases[name] if base in classes)
        return frozenset(members_of(classes[name])).union(*above)

    found = {
        protocol: {name for name in classes.keys() - protocols if all_members(name) >= all_members(protocol)}
        for protocol in protocols
    }
    return {
        protocol: {name for name in implementers if not implementers & set(bases[name])}
        for protocol, implementers in found.items()
    }


def test_a_protocol_with_one_implementer_gives_its_reason() -> None:
    found = {protocol for protocol, classes in find_implementers().items() if len(classes) < 2}
    why = "use the class, or take the function that is called; what has gone leaves the list"
    assert found == ONE_IMPLEMENTER.keys(), f"{why}: {sorted(found ^ ONE_IMPLEMENTER.keys())}"


WHOLE_ENGINE = 52
"""Functions of engine and session that take a whole `Engine`. Only ever lowered."""


def test_functions_take_the_part_of_an_engine_that_they_use() -> None:
    whole = [
        f"{name(path)}:{function.lineno} {function.name}"
        for path in product()
        if room(path) in ("engine", "session")
        for function in functions(path)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and "Engine" in ast.unparse(argument.annotation).split(" | ")
    ]
    why = "take the context, the conversation or the notices; where fewer take the whole engine, lower the bound"
    assert len(whole) == WHOLE_ENGINE, f"{why}:\n" + "\n".join(whole)


def test_the_top_level_holds_only_what_belongs_there() -> None:
    there = {path.relative_to(ROOT).parts[0] for path in tracked()}
    extra = {entry for entry in there if not entry.startswith(".")} - TOP
    assert not extra, f"not foreseen at the top level: {sorted(extra)}"


def test_test_folders_are_no_packages() -> None:
    packages = [
        p.relative_to(ROOT).as_posix()
        for p in tracked()
        if p.is_relative_to(ROOT / "tests") and p.name == "__init__.py"
    ]
    assert not packages


def test_files_speak_of_no_machine_and_no_registry() -> None:
    hosts = r"(pypi|pythonhosted|npmjs|crates|conda|anaconda)\.(org|com|io)\b"
    folders = r"(?<![\w.])/(?:work|workspace|builds|Users|root)/"
    own = [str(ROOT), sys.prefix, pwd.getpwuid(os.getuid()).pw_dir]
    here = "|".join(re.escape(path.rstrip("/") + "/") for path in own if len(path) > 1)
    pattern = re.compile(f"{hosts}|{folders}|{here}")
    wrong = []
    for path in tracked():
        if path.stat().st_size > 2_000_000:
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        for found in pattern.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            wrong.append(f"{path.relative_to(ROOT)}:{number} {found.group()}")
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    write_budget()
