"""The shape of the product, read from its source: import order, what may print, sizes, names, what stays out.

Owns the yardsticks of the source; leaves style to ruff and types to mypy. Reads whatever rooms exist.
"""

from __future__ import annotations

import ast
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ROOT / "nexus_cli"

FLOOR = {
    "core": 0,
    "text": 1,
    "config": 1,
    "plugins": 2,
    "context": 3,
    "provider": 3,
    "tools": 3,
    "sandbox": 2,
    "rules": 3,
    "ledger": 3,
    "worktrees": 3,
    "undo": 4,
    "mcp": 4,
    "permission": 4,
    "hooks": 5,
    "lane": 5,
    "turn": 6,
    "session": 7,
    "reports": 8,
    "service_list": 8,
    "workers": 8,
    "spaces": 8,
    "runs": 9,
    "imports": 9,
    "commands": 10,
    "client": 10,
    "rpc": 11,
    "ui": 12,
    "warm": 12,
    "acp": 12,
    "adapters": 13,
    "cli": 13,
    "testing": 13,
    "__main__": 14,
}
"""A room imports from lower floors only; rooms of one floor do not know each other. A new room needs a line here."""

ONE_DOOR = {"litellm": "provider/litellm_backend.py", "tiktoken": "context/tokens/counter.py"}
"""Libraries that one file alone may import, and only when it must."""

LAZY = {
    "workers/workers.py": {"nexus_cli"},  # worktrees run git
    "commands/agents.py": {"nexus_cli"},  # worktrees run git
    "commands/runs.py": {"nexus_cli"},  # the runner, where a run is answered
    "commands/schedule.py": {"nexus_cli"},  # cron and time zones, where something is scheduled
    "commands/export.py": {"nexus_cli"},  # the journal of an undo, where the diff of a turn is shown
    "commands/undo.py": {"nexus_cli"},  # the journal of an undo
    "commands/rewind.py": {"nexus_cli"},  # the journal of an undo
    "commands/sessions.py": {"nexus_cli"},  # the journal of an undo, which a fork copies
    "commands/timeline.py": {"nexus_cli"},  # spaces and runs, of which a plain session has none
    "runs/plan_service.py": {"nexus_cli"},  # the parser of rules, which little work brings
    "core/errors.py": {"difflib"},
    "core/private_process.py": {"_ctypes"},
    "core/decode.py": {"charset_normalizer"},
    "config/ledger_place.py": {"nexus_cli"},  # settings that name a server
    "config/paths.py": {"platformdirs"},
    "config/protected_places.py": {"nexus_cli"},  # redaction, where there are settings of a build tool
    "config/project_settings.py": {"tomllib", "nexus_cli"},
    "config/trust_items.py": {"tomllib", "tomlkit"},
    "plugins/python_plugins.py": {"configparser", "pluggy", "nexus_cli"},  # where there is a plugin
    "plugins/installed_plugins.py": {"nexus_cli"},  # the files of plugins, which few people have
    "mcp/server_entries.py": {"tomllib"},  # where the settings name servers
    "config/stored_keys.py": {"nexus_cli"},  # redaction, where there is a key
    "config/setting_rules.py": {"nexus_cli"},  # tables `[[check]]`, which few settings have
    "config/settings_file.py": {"tomlkit", "tomllib"},  # only for writing
    "config/settings.py": {"tomllib", "tomlkit", "nexus_cli"},
    "provider/litellm_backend.py": {"litellm", "nexus_cli"},  # and the classes of errors, once there is one
    "lane/skill_catalogue.py": {"nexus_cli"},  # relevance: only where there are skills
    "context/sections/front_matter.py": {"yaml"},  # slow, and few guides need it
    "context/tokens/counter.py": {"tiktoken"},
    "context/manager.py": {"nexus_cli"},  # truncation and compaction: when the window is too full
    "reports/context.py": {"nexus_cli"},  # the engine, with a running session
    "reports/request_view.py": {"nexus_cli"},
    "lane/available_models.py": {"nexus_cli"},
    "permission/folder_rules.py": {"nexus_cli"},  # rules: at the first one that a session brings
    "permission/call_permission.py": {"nexus_cli"},  # rules and sandbox: at the first call that needs them
    "lane/compaction/context_fit.py": {"nexus_cli"},  # compaction and truncation: when the window is too full
    "reports/timeline.py": {"nexus_cli"},  # runs, of which a plain session has none
    "text/cells.py": {"wcwidth"},  # text outside ASCII
    "session/factory.py": {"nexus_cli"},  # a resumed session; facts before a compaction
    "session/cold_request.py": {"nexus_cli"},  # the price of a compaction, if the next request is expensive
    "session/settle_projects.py": {"nexus_cli"},  # a process was killed during a command
    "session/memory/session_facts.py": {"nexus_cli"},  # where a fact is kept
    "session/service_makers.py": {"nexus_cli"},  # services that few sessions use
    "turn/call_changes.py": {"nexus_cli"},  # the first call that changes something
    "turn/admit_trigger.py": {"nexus_cli"},  # the mark of what started a run
    "lane/section_sources.py": {"nexus_cli"},  # the files of a repository
    "session/session.py": {"nexus_cli"},  # a compaction on command, the end of a turn, the status line
    "ledger/sessions.py": {"difflib"},
    "ledger/store.py": {"nexus_cli"},  # forks, deletion, a ledger that is only read, spaces, runs, plans
    "ledger/lane_log.py": {"nexus_cli"},  # a run begins or ends to wait
    "spaces/post_message.py": {"nexus_cli"},  # the router's model: where the settings name one
    "commands/space.py": {"nexus_cli"},  # most sessions have no space
    "rules/bash_syntax.py": {"tree_sitter", "tree_sitter_bash"},
    "tools/html_worker.py": {"bs4", "markdownify"},  # found in the folders of its job
    "tools/pdf_worker.py": {"pypdf"},  # found in the folder of its job
    "tools/registry.py": {"nexus_cli"},  # calls under names of other programs
    "tools/wait_conditions.py": {"nexus_cli"},  # a process of the system, where there is no /proc
    "config/trust.py": {"nexus_cli"},  # the items of a project's files, which few have
    "turn/waiting.py": {"nexus_cli"},  # a session that waits
    "session/start_lane.py": {"nexus_cli"},  # a resumed session
    "lane/capability_snapshot.py": {"nexus_cli"},  # what only `nexus status` tells; environments of a project; servers
    "session/context_tool_service.py": {"nexus_cli"},  # the list of drops, when the model asks for it
    "tools/files.py": {"nexus_cli"},  # the spelling of a path, once there is one
    "sandbox/own_git.py": {"nexus_cli"},  # the walls, at the first run of git
    "sandbox/git_walls.py": {"nexus_cli"},  # the probe, where there is no Landlock
    "tools/listing.py": {"nexus_cli"},  # ignore files, where git does not list the files
    "ledger/facts.py": {"nexus_cli"},  # the words of facts, once there are any
    "warm/place.py": {"nexus_cli", "tomllib"},
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
    "sandbox/git_walls.py": "git of our own, in walls",
    "sandbox/inspect_sandbox.py": "`true`, in the sandbox, to measure a start",
    "sandbox/probe.py": "attempts of our own Python, in the sandbox",
    "sandbox/restricted_thread.py": "/bin/sh that ends what a command left running",
    "cli/tour/kill_demo.py": "our own Python, on the tour's session",
    "warm/caller.py": "our own Python, as the warm process",
    "client.py": "our own Python, as a server",
    "warm/server.py": "a fork of itself",
    "warm/child.py": "a fork of itself",
}
"""Files that start a program or a process. All others go through `config/programs`."""

FINDS_PROGRAMS = {
    "config/programs.py": "the door",
    "config/host_environment.py": "whether commands of the model find `nexus`",
    "rules/read_only_forms.py": "whether the PATH leads a command of the model to a program of the project",
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


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def modules_of(path: Path, node: ast.AST) -> list[str]:
    """Full names of what an import statement of `path` imports; [] for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = ("nexus_cli", *path.relative_to(PRODUCT).parts[:-1])
        start = list(package[: len(package) - node.level + 1]) if node.level else []
        base = ".".join([*start, *([node.module] if node.module else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    return []


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
        for module in modules_of(path, node):
            yield getattr(node, "lineno", 0), module


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


OPEN_ROOMS = {"core", "config", "text", "reports"}
"""Rooms of values, texts and reports: every module is public."""


def test_rooms_are_entered_by_their_doors() -> None:
    """A room's README lists its public modules; a module that nobody outside imports is not listed."""
    used: dict[str, set[str]] = {}
    for path, targets in imported_files().items():
        for target in targets - {path}:
            own, inner = target.partition("/")[::2]
            if inner and not inner.endswith("__init__.py") and own != path.partition("/")[0]:
                used.setdefault(own, set()).add(inner.removesuffix(".py"))
    wrong = []
    for own in sorted(used.keys() - OPEN_ROOMS):
        readme = (PRODUCT / own / "README.md").read_text(encoding="utf-8")
        line = re.search(r"^Public modules: (.*?)\.$", readme, re.MULTILINE | re.DOTALL)
        public = set(re.findall(r"`([\w/]+)`", line[1])) if line else set()
        wrong += [f"{own}/{inner} is used from outside" for inner in sorted(used[own] - public)]
        wrong += [f"{own}/{inner} is used by nobody outside" for inner in sorted(public - used[own])]
    assert not wrong, "change the list in the README of the room, or the import:\n" + "\n".join(wrong)


@cache
def imported_files() -> dict[str, set[str]]:
    """By file: the files of the product that it imports, delayed imports and those for types alone included."""
    files = {".".join(("nexus_cli", *path.relative_to(PRODUCT).with_suffix("").parts)): path for path in product()}
    files |= {module.removesuffix(".__init__"): path for module, path in files.items()}

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
    "session/acts": "a session carries out acts, an act gets the state of its session",
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
        for function in functions(path):
            for node in ast.walk(function):
                for module in modules_of(path, node):
                    if module.split(".")[0] not in LAZY.get(name(path), set()):
                        wrong.append(f"{name(path)}:{getattr(node, 'lineno', 0)} imports {module} in {function.name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def _writes_to_terminal(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
        return f"calls {node.func.id}"
    streams = ("stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__")
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys" and node.attr in streams:
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
    if isinstance(node, ast.Attribute) and node not in types and _STARTS.match(ast.unparse(node)):
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
    starters = {"run_program", "start_program", "start_program_async"}
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
        if (isinstance(node, ast.Attribute) and ast.unparse(node) == "shutil.which")
        or (isinstance(node, ast.ImportFrom) and node.module == "shutil" and "which" in str(ast.unparse(node)))
    }
    assert found == FINDS_PROGRAMS.keys(), "find it by nexus_cli/config/programs.py"


def test_files_stay_small() -> None:
    sizes = {name(path): lines(path) for path in product() if lines(path)}
    large = {path: size for path, size in sizes.items() if size > 550}
    assert not large, f"over 550 lines: {large}"


def test_the_formatter_is_on_everywhere() -> None:
    pattern = re.compile(r"# fmt: ski[p]|^ *# fmt: off$", re.MULTILINE)
    off = [
        name(path) for path in tracked() if path.suffix == ".py" and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert off == [], "caps and diffs mean something only where the formatter decides"


def test_functions_fit_one_screen() -> None:
    long = [
        f"{name(path)}:{function.lineno} {function.name} has {size} lines"
        for path in product()
        for function in functions(path)
        if (size := (function.end_lineno or function.lineno) - function.lineno + 1) > 70
    ]
    assert not long, "\n".join(long)


def test_the_loop_stays_under_150_lines() -> None:
    assert lines(PRODUCT / "turn" / "turn.py") < 150


def test_modules_say_what_they_own() -> None:
    python = [p for p in tracked() if p.suffix == ".py" and p.stat().st_size and not p.name.startswith("test_")]
    silent = [path.relative_to(ROOT).as_posix() for path in python if not ast.get_docstring(tree(path))]
    assert not silent, f"no module docstring: {silent}"


def test_names_of_files_are_nouns_of_the_design() -> None:
    wrong = [name(p) for p in product() if NEVER_NAMES & {part.removesuffix(".py") for part in Path(name(p)).parts}]
    assert not wrong, f"a name that says nothing: {wrong}"


REGISTRIES = {
    "cli",
    "commands",
    "tools/builtin",
    "context/sections/contributors",
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


MEASURES = {"lane/next_request.py", "lane/current_request.py", "lane/cache_expectation.py", "session/draft.py"}
"""Files that ask the token estimator how large a request is."""
ESTIMATES = {"estimate", "estimate_without_anchor", "layers", "unanchored", "upper"}
"""Methods of the token estimator that say how large a request is."""


def test_one_module_says_how_large_a_request_is() -> None:
    wrong = [
        f"{name(path)}:{node.lineno} asks for {node.attr}"
        for path in product()
        if room(path) != "context" and name(path) not in MEASURES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ESTIMATES and "estimator" in ast.unparse(node.value)
    ]
    assert not wrong, "read it off `next_request` or `window_request`:\n" + "\n".join(wrong)


WHOLE_LANE = 65
"""Functions of lane, turn and session that take a whole `LaneState`. Only ever lowered."""


def test_functions_take_the_part_of_a_lane_that_they_use() -> None:
    whole = [
        f"{name(path)}:{function.lineno} {function.name}"
        for path in product()
        if room(path) in ("lane", "turn", "session")
        for function in functions(path)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and "LaneState" in ast.unparse(argument.annotation).split(" | ")
    ]
    why = "take the window, the lane, the cache or `Upcoming`; where fewer take the whole lane state, lower the bound"
    assert len(whole) == WHOLE_LANE, f"{why}:\n" + "\n".join(whole)


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
