"""Where a command may write, the product opens, lists, copies, links and removes by descriptor: read from its source.

A path that was checked may be a link a moment later. So every module reaches such folders through `core/real_files`
and `tree/real_tree` alone: relative to an open folder, through no link. `OWN` lists what those that handle them do by
path, `ELSEWHERE` the modules whose paths lead elsewhere, each with the reason.
`test_exchanged_folders.py` holds the same for what runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[1] / "nexus_cli"
DATA, PACKAGE, SYSTEM, NEW = (
    "a file of nexus's data folder",
    "a file of the package",
    "a file of the system",
    "in a new folder that no command has seen",
)
OWN: dict[str, dict[str, tuple[str, str]]] = {
    "commands/mcp.py": {
        "remove": (DATA, "unlink"),
    },
    "config/command_records.py": {
        "find_records": (DATA, "listdir open"),
    },
    "tree/real_tree.py": {
        "_set_mode": ("`/proc/self/fd/N` of an open folder", "chmod"),
    },
    "sandbox/own_git.py": {
        "merge_texts": (NEW, "write_bytes"),
    },
    "sandbox/command_guard.py": {
        "*": (DATA, ""),
    },
    "session/factory.py": {
        "_settle_session": (DATA, "glob"),
    },
    "tools/documents.py": {
        "": (PACKAGE, "read_text"),
    },
    "tools/files.py": {
        "read_regular_file": ("what the person named for their editor", "open"),
    },
    "tools/foreign_calls.py": {
        "_rows": (PACKAGE, "read_text"),
    },
    "tools/builtin/grep.py": {
        "": (PACKAGE, "read_text"),
    },
    "tools/listing.py": {
        "_list_with_git": (NEW, "mkdir write_text"),
    },
    "tools/web_page.py": {
        "": (PACKAGE, "read_text"),
    },
    "tools/grep_worker.py": {
        "_enter_folder": (SYSTEM, "open"),
        "main": ("its own input and output", "open"),
    },
    "tools/listeners.py": {
        "network_of": (SYSTEM, "readlink"),
        "_read_tables": (SYSTEM, "read_text"),
        "_held_sockets": (SYSTEM, "listdir readlink"),
    },
    "tools/process_tree.py": {
        "_count_numbers": (SYSTEM, "read_text"),
        "_find_marked": (SYSTEM, "listdir open read_text"),
        "_from_proc": (SYSTEM, "listdir"),
        "read_stat": (SYSTEM, "open"),
    },
    "tools/registry.py": {
        "*": (PACKAGE, ""),
    },
    "tools/wait_conditions.py": {
        "this_machine": (SYSTEM, "read_text"),
        "_started": (SYSTEM, "read_text"),
    },
    "tree/byte_store.py": {
        "*": (DATA, ""),
    },
    "undo/follow_changes.py": {
        "settle_killed": (DATA, "glob unlink"),
        "_find_killed": (DATA, "glob"),
        "_is_another_running": (DATA, "glob"),
    },
    "undo/journal.py": {
        "*": (DATA, ""),
    },
    "undo/linked_objects.py": {
        "*": (DATA, ""),
    },
    "undo/project_look.py": {
        "LookedProject.remove": (DATA, "unlink"),
    },
    "undo/saved_look.py": {
        "*": (DATA, ""),
    },
    "undo/repository_copy.py": {
        "keep_repository": (DATA, "read_text unlink write_bytes write_text"),
        "trim_copies": (DATA, "touch unlink utime"),
        "forget_copies": (DATA, "iterdir rmtree unlink"),
        "_Mirror._mirror": (DATA, "scandir"),
        "_Mirror._mirror_entry": (DATA, "utime"),
        "_remove": (DATA, "rmtree unlink"),
        "_Mirror._keep": (DATA, "replace unlink"),
        "_Mirror._link": (DATA, "unlink"),
        "_Mirror._copy": (DATA, "open unlink utime"),
        "_read": (DATA, "read_bytes"),
        "_fill": (DATA, "scandir"),
        "_copy_into": (DATA, "open"),
        "list_copies": (DATA, "iterdir walk"),
    },
    "tree/write_state.py": {
        "make_writable": ("`/proc/self/fd/N/NAME` of an open folder", "chmod"),
    },
    "undo/retention.py": {
        "*": (DATA, ""),
    },
    "worktrees/carry_ignored.py": {
        "find_needed": (DATA, "write_bytes"),
        "read_carried": (DATA, "read_bytes"),
    },
    "worktrees/inspect_worktree.py": {
        "_find_staged": (DATA, "read_bytes"),
    },
    "worktrees/make_worktree.py": {
        "fill_worktree": (NEW, "mkdir write_bytes"),
        "_carry_ignored": (DATA, "write_text"),
        "_write_index": (NEW, "replace"),
    },
    "worktrees/own_repository.py": {
        "writing_git": (DATA, "symlink_to write_text"),
        "create_repository": (NEW, "mkdir symlink_to write_bytes write_text"),
        "read_published": (DATA, "read_text"),
        "read_references": (DATA, "read_bytes"),
    },
    "worktrees/snapshot_store.py": {
        "*": (DATA, ""),
    },
    "worktrees/worktrees.py": {
        "*": (DATA, ""),
    },
}
"""By module and function: the reason for which it may use paths, and what it calls. `*` stands for the whole module."""

ELSEWHERE: Mapping[str, str] = {
    "folders of nexus itself: settings, keys, data, cache, sockets": """
    cli/run/map_journal.py cli/serve/run_server.py client.py config/daily_notice.py config/file_lock.py
    config/host_environment.py
    config/ledger_place.py config/paths.py config/private_file.py config/server_token.py config/load_settings.py
    config/record_file.py config/settings_file.py config/stored_keys.py config/trust.py
    config/worktree_record.py
    sections/contributors/own.py conversation/tokens/counter.py hooks/hook_list.py
    ledger/lock_owners.py ledger/open_database.py ledger/project_keys.py ledger/store.py ledger/unsaved_entries.py
    mcp/login.py mcp/tool_cache.py plugins/installed_plugins.py plugins/store_plugin.py provider/request_template.py
    provider/served_models.py rpc/listening.py rules/rule_set.py runs/missed_runs.py runs/seen_deliveries.py
    runs/service_triggers.py sandbox/bwrap.py sandbox/probe.py sandbox/profile.py config/crash_report.py
    ui/input/history.py ui/repl/clipboard.py
    """,
    "a new folder, pages of the package, or the commit of its checkout": """
    cli/doc_pages.py cli/start_table.py cli/tour/__init__.py cli/tour/sandbox.py
    provider/light_import.py provider/litellm_backend.py
    provider/model_names.py provider/model_table.py reports/page/session_page.py sandbox/confinement.py cli/version.py
    """,
    "the system: devices, /proc, its settings": """
    cli/app.py cli/process.py context/sysinfo.py core/local_time.py ledger/postgres.py mcp/host.py
    sandbox/confined_launch.py sandbox/landlock.py sandbox/restricted_thread.py sandbox/session_network.py
    sandbox/visible_places.py sandbox/walls.py sandbox/bounds.py
    """,
    "settings, sessions and tools of the person's other programs": """
    config/foreign_items.py config/project_environment.py imports/foreign_session.py
    imports/foreign_setup.py imports/other_setups.py plugins/python_plugins.py
    sandbox/tool_folders.py
    """,
    "what the person named for this call": """
    adapters/harbor_agent.py cli/run/schema_option.py cli/print_report.py plugins/plugin_folder.py reports/export.py
    ui/input/attached_files.py ui/input/editor.py ui/print/stream.py
    """,
    "names alone, bounded in number": """
    config/trust_files.py config/unasked_files.py sections/recipe.py
    guides/skills.py core/file_names.py rules/denied_files.py rules/folders.py ui/input/completion.py
    ui/input/file_index.py
    """,
    "a beginning that decides and is not shown": """
    config/protected_places.py config/git_configuration.py permission/call_permission.py sandbox/git_walls.py
    """,
    "the doors, and what `config/unasked_files` checks after it was opened": """
    config/text_file.py core/real_files.py
    """,
}
"""By reason: the modules that use paths for nothing that a command may write, or open nothing of it."""

CHANGES = frozenset(
    """
    link rename replace unlink remove mkdir makedirs removedirs rmdir symlink chmod chown utime readlink truncate
    """.split()
)
"""Functions of `os` that need a `dir_fd`, or the descriptor of what they change."""
LISTS = frozenset({"scandir", "listdir", "walk", "fwalk", "open"})
METHODS = frozenset(
    """
    read_bytes read_text write_bytes write_text iterdir glob rglob walk unlink rename mkdir rmdir symlink_to hardlink_to
    touch chmod lchmod readlink
    """.split()
)
"""Methods of `Path`, which follow links above the last name; `open` and `replace` besides."""
OPENERS = frozenset(
    {
        "open_folder",
        "open_listable",
        "open_at",
        "open_regular",
        "_open_emptied",
        "_open_without_links",
        "open",
        "dup",
        "_find",
    }
)
"""Functions that return a descriptor."""
HARMLESS = frozenset({"which", "copyfileobj", "disk_usage"})


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each outermost function with its name, a method with its class, and the rest of the module as ""."""
    yield "", ast.Module([one for one in tree.body if not isinstance(one, ast.ClassDef | ast.FunctionDef)], [])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield f"{node.name}.{getattr(inner, 'name', '')}".rstrip("."), inner


def is_opened(value: ast.expr, known: set[str]) -> bool:
    """Return True for a descriptor: a name that was bound to one, or the call of a function that opens one."""
    if isinstance(value, ast.Call):
        called = value.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        return name in OPENERS or name == "fileno"
    return isinstance(value, ast.Name) and value.id in known


def names_in(target: ast.expr | None) -> Iterator[str]:
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name)) if target else ()


def find_descriptors(function: list[ast.AST]) -> set[str]:
    """Return the names that are bound to descriptors in the nodes of a function: parameters of type `int`, and what was
    opened."""
    known = {
        arg.arg
        for node in function
        if isinstance(node, ast.arguments)
        for arg in (*node.args, *node.kwonlyargs)
        if arg.annotation is not None and "int" in ast.unparse(arg.annotation).split(" | ")
    }
    for node in function:
        if isinstance(node, ast.withitem) and is_opened(node.context_expr, set()):
            known |= {*names_in(node.optional_vars)}
        elif isinstance(node, ast.Assign) and is_opened(node.value, set()):
            known |= {name for target in node.targets for name in names_in(target)}
    return known


def why_refused(call: ast.Call, known: set[str]) -> str:
    """Return the name of a function that takes a path, if the call gives it one; "" for any other call."""
    given = {word.arg for word in call.keywords if word.arg}
    first = call.args[0] if call.args else ast.Constant(None)
    if isinstance(call.func, ast.Name):
        opens = call.func.id == "open" and not is_opened(first, known) and "opener" not in given
        return call.func.id if opens or call.func.id == "read_beginning" else ""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, value = call.func.attr, call.func.value
    is_module = isinstance(value, ast.Name) and value.id in ("os", "shutil")
    if not is_module and name not in METHODS | {"open", "replace"}:
        return ""
    owner = ast.unparse(value)
    if owner == "os":
        by_path = name in CHANGES | LISTS and not given & {"dir_fd", "src_dir_fd", "dst_dir_fd"}
        return f"os.{name}" if by_path and not is_opened(first, known) else ""
    if owner == "shutil":
        return f"shutil.{name}" if name not in HARMLESS else ""
    if name == "open":
        return f"{owner}.open" if not owner.endswith(("chain", "store", "reader", "Ledger", "_Work", "_ports")) else ""
    is_path = name in METHODS or (name == "replace" and len(call.args) == 1 and not call.keywords)
    return f"{owner}.{name}" if is_path and not owner.endswith(("tree", "_tree")) else ""


def find_paths(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield function, line and call for each that opens a path."""
    for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        nodes = list(ast.walk(function))
        calls = [node for node in nodes if isinstance(node, ast.Call) and why_refused(node, set())]
        known = find_descriptors(nodes) if calls else set()
        for node in calls:
            if what := why_refused(node, known):
                yield name, node.lineno, what


def test_folders_that_a_command_may_write_are_reached_by_descriptor() -> None:
    wrong, used = [], set()
    allowed = OWN | {module: {"*": (why, "")} for why, modules in ELSEWHERE.items() for module in modules.split()}
    for path in sorted(PRODUCT.rglob("*.py")):
        module = path.relative_to(PRODUCT).as_posix()
        excused = allowed.get(module, {})
        for function, line, what in find_paths(path):
            key = function if function in excused else "*"
            used.add((module, key))
            if key not in excused or (key != "*" and what.rpartition(".")[2] not in excused[key][1].split()):
                wrong.append(f"{module}:{line} {function}: {what}")
    assert not wrong, "open it by core/real_files:\n" + "\n".join(wrong)
    left = [
        f"{module}: {function}" for module, own in allowed.items() for function in own if (module, function) not in used
    ]
    assert not left, f"these open no path any more: {left}"


def test_every_kind_of_path_is_seen() -> None:
    lines = """
        open(place) | os.open(place, 0) | os.scandir(place) | os.listdir(folder / 'x') | os.walk(place) | place.open()
        place.read_bytes() | (place / 'x').read_text() | shutil.copy2(a, b) | shutil.rmtree(a) | os.link(a, b)
        os.replace(a, b) | place.replace(other) | os.unlink(a) | os.mkdir(a) | os.symlink(a, b) | os.chmod(a, 1)
        os.utime(a) | place.iterdir() | place.glob('*') | place.mkdir() | read_beginning(place, 5) | os.readlink(a)
    """
    for line in filter(None, map(str.strip, lines.replace("\n", "|").split("|"))):
        call = ast.parse(line).body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call) and why_refused(call.value, set()), line
    for line in (
        "text.replace('a', 'b')",
        "os.listdir(handle)",
        "os.unlink(a, dir_fd=b)",
        "open(os.open(a, 0, dir_fd=b))",
    ):
        call = ast.parse(line).body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call), line
        assert not why_refused(call.value, {"handle"}), line
