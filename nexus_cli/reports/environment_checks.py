"""Check the requirements of nexus, and say how to meet the missing ones: the report of `nexus doctor`.

Does not import litellm. Of the network it uses loopback, a ledger's server, and a connection to the provider of the
model on which nothing is sent. Nothing is broken by a missing key.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from nexus_cli import __version__
from nexus_cli.config.checks import list_checks
from nexus_cli.config.host_environment import host_environment, own_environment
from nexus_cli.config.ledger_place import ledger_place, shown_place
from nexus_cli.config.load_settings import build_settings, own_settings
from nexus_cli.config.paths import defaults_dir, exists, places, project_root, with_tilde
from nexus_cli.config.programs import ProgramRefused, find_named_program, find_program, own_interpreter
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.setting_tables import DEFAULTS
from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import key_place
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.certificates import (
    FILE_VARIABLES,
    HAS_NATIVE_STORE,
    certificate_file,
    find_certificate_error,
    named_file,
)
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError, write_failure_hint
from nexus_cli.core.install_hint import install_hint
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.proxy import ProxyError, open_connection
from nexus_cli.core.redact_secrets import redact
from nexus_cli.hooks.hook_list import list_hooks
from nexus_cli.ledger import Ledger
from nexus_cli.mcp.server_tools import Catalogue
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.provider.available_models import keys_present
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.failures import describe_unreachable
from nexus_cli.provider.key_shapes import LOGIN_NAMES
from nexus_cli.provider.local_servers import BASE_VARIABLES, local_servers
from nexus_cli.provider.model_table import model_info
from nexus_cli.provider.served_models import find_refusal
from nexus_cli.reports.foreign_gaps import list_gaps
from nexus_cli.reports.instructions import InstructionsReport, instructions_report
from nexus_cli.rules.rule_set import DECISIONS, read_rules
from nexus_cli.sandbox.inspect_sandbox import SandboxReport, inspect_sandbox
from nexus_cli.sections.instruction_files import instruction_layers
from nexus_cli.tools.registry import rule_tools
from nexus_cli.undo.retention import count_used

NETWORK_VARIABLES = (
    *(name for proxy in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY") for name in (proxy, proxy.lower())),
    *(name for names in BASE_VARIABLES.values() for name in names),
    *FILE_VARIABLES,
    "SSL_CERT_DIR",
    "SSL_VERIFY",
)
"""Variables that decide which servers are reached and how, and which certificates are trusted."""
HANDSHAKE_SECONDS = 3.0
LOOKS, SLOW_MS = 5, 25.0
"""Queries that measure the ledger's server; milliseconds above which it counts as slow."""
UNSAVED = "`nexus ask` works without a ledger, but saves nothing"
RECOVERY_COMMAND = "Move the damaged file elsewhere, then restore a backup or try `sqlite3 FILE .recover`"
CHECKED_BYTES = 1 << 29
"""A larger ledger is not checked for damage, which takes a second for some hundred megabytes."""
ROOM = 128 * 1024
"""Bytes that a session of a few turns needs. Random bytes are written, because some disks compress zeros."""


class DoctorReport(VersionedReport):
    """The checks of the installation."""

    ok: bool
    model: str | None
    sandbox: SandboxReport
    checks: list[JsonOf[Check]]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    status: str
    """`ok`, `note` (works, could be better) or `broken`."""
    detail: str
    hint: str = ""


def _python(settings: Settings) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    with suppress(ProgramRefused):
        if own_interpreter() == sys.executable:
            return Check("python", "ok", f"{version} at {sys.executable}")
    hint = "Install nexus elsewhere, e.g. with `uv tool install`"
    return Check("python", "note", f"{version} at {sys.executable}, where the model's commands can change nexus", hint)


def _nexus(settings: Settings) -> Check:
    folder = defaults_dir()
    if not (folder / "NEXUS.md").is_file():
        return Check("nexus", "broken", f"{__version__}, but its defaults are missing at {folder}", "Reinstall nexus")
    return Check("nexus", "ok", f"{__version__}, defaults at {folder}")


def _path(settings: Settings) -> Check:
    host_variables = host_environment(os.environ)
    entries, host_entries = (
        environment.get("PATH", "").split(os.pathsep) for environment in (os.environ, host_variables)
    )
    ours = dict.fromkeys(entry for entry in entries if entry not in host_entries)
    leads = [f"PATH has {', '.join(ours)}"] if ours else []
    if "VIRTUAL_ENV" in os.environ.keys() - host_variables.keys():
        leads.append("VIRTUAL_ENV is set")
    if not leads:
        return Check("path", "ok", "commands use your own programs")
    program = os.path.join(own_environment(), "bin", "nexus")
    hint = "Deactivate this environment, and install with `uv tool install .` or `pipx install .`, or link only the "
    hint += f"program: ln -s {program} ~/.local/bin/nexus"
    return Check("path", "note", f"{'; '.join(leads)}: nexus's own Python environment, hidden from commands", hint)


def _litellm(settings: Settings) -> Check:
    try:
        return Check("litellm", "ok", metadata.version("litellm"))
    except metadata.PackageNotFoundError:
        return Check("litellm", "broken", "is not installed", "Reinstall nexus with its dependencies")


def _tiktoken(settings: Settings) -> Check:
    missing = [name for name in ("cl100k_base", "o200k_base") if not TiktokenCounter(name).has_table]
    if missing or find_spec("tiktoken") is None:
        problem = f"tables are missing: {', '.join(missing)}" if missing else "tiktoken is not installed"
        return Check("token tables", "note", problem, "Tokens are estimated; reinstall nexus to count them")
    return Check("token tables", "ok", "offline")


def _ledger(settings: Settings) -> Check:
    path = places().ledger
    try:
        place = ledger_place()
        if not isinstance(place, Path):
            return _server(place)
        is_present = exists(path)
        ledger = Ledger.open(path if is_present else None)
    except NexusError as error:
        return Check("ledger", "broken", error.message, error.hint or UNSAVED)
    except OSError as error:
        return Check("ledger", "broken", f"{path}: {error.strerror}", UNSAVED)
    with closing(ledger):
        is_large = ledger.db.size() > CHECKED_BYTES
        damage = None if is_large else ledger.db.find_damage()
    if unwritable := _unwritable(path):
        return unwritable
    if damage:
        return Check("ledger", "broken", f"{path} is damaged: {damage}", RECOVERY_COMMAND)
    detail = f"{path}, writable" if is_present else f"{path}, will be created with the first session"
    detail += ", not checked for damage because of its size" if is_large else ""
    if replaced := ledger.list_replaced():
        file_list = ", ".join(map(str, replaced))
        return Check(
            "ledger",
            "note",
            f"{detail}; nexus replaced a damaged ledger (its sessions are in {file_list})",
            RECOVERY_COMMAND,
        )
    return Check("ledger", "ok", detail)


def _server(url: str) -> Check:
    """Check a ledger on a server: its version, the rights of this role, latency, durability."""
    with closing(Ledger.open_for_reading(url)) as ledger:
        version = ledger.db.one("SHOW server_version")
        seconds = []
        for _ in range(LOOKS):
            begun = time.perf_counter()
            ledger.db.one("SELECT 1")
            seconds.append(time.perf_counter() - begun)
        sure = ledger.db.all(
            "SELECT name FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')"
            " AND setting = 'off' ORDER BY name"
        )
        shared = ledger.db.one("SELECT count(*) FROM project_members")
        everything = ledger.db.is_administrator()
    latency = statistics.median(seconds) * 1000
    sees = "everything (as administrator)" if everything else "its own and shared sessions"
    detail = f"{shown_place(url)}, PostgreSQL {str(version and version[0]).split()[0]}; this role sees {sees}; "
    detail += f"latency {latency:.1f} ms" + ("" if ledger.writes else "; read-only")
    hints = [f"{row[0]} is off on the server: commits may be lost" for row in sure]
    if everything and shared and shared[0]:
        hints.append("Projects are shared on this server, so use a role that does not see everything")
    if latency > SLOW_MS:
        hints.append("Each commit needs several round trips; a server nearby is faster")
    if not ledger.writes:
        hints.append("Use the primary server")
    return Check("ledger", "note" if hints else "ok", detail, "; ".join(hints))


def _unwritable(path: Path) -> Check | None:
    """Return a `broken` check if a ledger at `path` cannot be created or grow, else None. Writes an unnamed file."""
    above = next(folder for folder in path.parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=above) as file:
            file.write(os.urandom(ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        hint = write_failure_hint(error, f"Nothing is saved until {path} can be written")
        return Check("ledger", "broken", f"{above} cannot be written ({error.strerror})", hint)
    return None


def _undo(settings: Settings) -> Check:
    used, limit = count_used(places().data), settings.undo.max_mb
    undo_folder = with_tilde(places().data / "undo")
    return Check(
        "undo", "ok", f"{used / 1e6:,.0f} of {limit:,} MB used by copies in {undo_folder} (setting undo.max_mb)"
    )


def _config(settings: Settings) -> Check:
    path = places().settings
    if settings.notices:
        return Check("settings", "note", "; ".join(settings.notices))
    return Check("settings", "ok", str(path) if path.exists() else f"defaults; {path} does not exist yet")


def _keys(settings: Settings) -> Check:
    present = keys_present(settings)
    if present:
        rows = [name if os.environ.get(name, "").strip() else f"{name} (in {key_place(name)})" for name in present]
        return Check("keys", "ok", ", ".join(rows))
    names = ", ".join(settings.default_models)
    hint = f"Run `nexus login PROVIDER` ({', '.join(LOGIN_NAMES)}) to store a key, or set one of these: {names}"
    return Check("keys", "note", "none", hint)


def _model(settings: Settings, model: str) -> Check:
    try:
        chosen = choose_model(model, settings)
    except NexusError as error:
        return Check("model", "note", error.why, error.hint)
    return Check("model", "ok", redact(chosen.model))


def _local(settings: Settings) -> Check:
    servers, refusals = list[str](), list[int]()
    for server in local_servers():
        refusals += filter(None, [refused := find_refusal(server.url.rstrip("/"))])
        why = f", which refused to list its models (HTTP status {refused})" if refused else ""
        servers.append(f"{server.name} at {server.url}{why}")
    detail = f"reached: {', '.join(servers)}" if servers else "none was reached"
    hint = "Check its key in the environment, or store one with `nexus login`" if refusals else ""
    return Check("model servers", "note" if refusals else "ok", detail, hint)


def _network(settings: Settings, model: str) -> Check:
    """List the variables of proxies, addresses and certificates, and try the way to the provider of the model."""
    url = _provider_address(settings, model)
    values = {name: os.environ[name] for name in NETWORK_VARIABLES if os.environ.get(name)}
    login = re.compile(r"^(\w+://)?.*@")
    variables = [f"{name}={login.sub(lambda match: match[1] or '', value)}" for name, value in values.items()]
    store = certificate_file() or ("the system" if HAS_NATIVE_STORE else "Python's certifi")
    detail = f"{', '.join(variables) or 'no proxy'}; certificates: {store}"
    tried = _try_connection(url) if url else Check("network", "ok", "nothing to connect to")
    name, path = named_file()
    if tried.status == "ok" and name and not os.path.exists(path):
        tried = replace(tried, status="note", hint=f"{name} names a path that does not exist")
    return replace(tried, detail=f"{detail}; {tried.detail}")


def _provider_address(settings: Settings, model: str) -> str:
    """Return the address to which requests to the chosen model go; "" if none is chosen, or none is known here."""
    try:
        return resolve_endpoint(choose_model(model, settings, servers=tuple).model).address
    except NexusError:
        return ""


def _try_connection(url: str) -> Check:
    """Connect to the server of `url`, with TLS where it has it, and send nothing."""
    host = urlsplit(url).hostname or ""
    try:
        open_connection(url, HANDSHAKE_SECONDS)[0].close()
    except OSError as error:
        is_set_up_wrong = isinstance(error, ProxyError) or find_certificate_error((error,))
        return Check("network", "broken" if is_set_up_wrong else "note", *describe_unreachable(error, host))
    return Check("network", "ok", f"connected to {host}")


def _rules(settings: Settings, folder: Path) -> Check:
    try:
        rule_set = read_rules(places(), project_root(folder), rule_tools(), folder)
    except NexusError as error:
        return Check("rules", "broken", error.message, error.hint)
    if rule_set.problems:
        hint = (
            "Until these rules are corrected, every command needs approval below level all" if rule_set.broken else ""
        )
        return Check("rules", "broken" if rule_set.broken else "note", "; ".join(rule_set.problems), hint)
    counts = {decision: sum(rule.decision == decision for rule in rule_set.rules) for decision in DECISIONS}
    rule_counts = ", ".join(f"{count} {decision}" for decision, count in counts.items() if count)
    return Check("rules", "ok", rule_counts or "none; `nexus rules add` adds a rule")


def _mcp(settings: Settings, folder: Path) -> Check:
    catalogue = Catalogue.read(folder)
    names, missing = ", ".join(catalogue.entries), find_spec("mcp") is None
    if catalogue.files.problems:
        return Check("mcp", "note", "; ".join(catalogue.files.problems), "`nexus docs mcp` describes the format")
    if names and missing:
        return Check("mcp", "broken", f"servers are configured: {names}", install_hint("mcp"))
    programs = {name: entry.command[0] for name, entry in catalogue.entries.items() if entry.command}
    lost = ", ".join(f"{program} ({name})" for name, program in programs.items() if _is_missing(program))
    if lost:
        return Check(
            "mcp", "note", f"{names}; program not found: {lost}", "Install the program, or correct the command"
        )
    unlisted = ", ".join(entry.name for entry in catalogue.unlisted)
    hint = f"`nexus mcp test {catalogue.unlisted[0].name}` lists the tools of this server" if unlisted else ""
    detail = f"{names}; tools not listed yet: {unlisted}" if unlisted else names
    return Check("mcp", "ok", detail or "no servers; `nexus mcp add` adds a server", hint)


def _is_missing(program: str) -> bool:
    """Return True if a program that the person named is nowhere."""
    try:
        return not os.path.exists(find_named_program(program))
    except ProgramRefused:
        return False
    except FileNotFoundError:
        return True


WALLS = {
    "work inside": "can write in the project",
    "read outside": "can read elsewhere (except in profile read)",
    "no write outside": "cannot write elsewhere",
    "no read of hidden": "cannot read credentials",
    "no sockets": "cannot open sockets",
    "no other process": "cannot reach other processes",
}
"""Texts for the restrictions that `sandbox.probe` checks, by their names there."""


def _sandbox_checks(sandbox: JsonObject, setting: str) -> Iterator[Check]:
    """Return the checks of the sandbox: the backend with its restrictions, then each profile."""
    if sandbox["backend"] == "none":
        status = "broken" if setting == "required" else "note"
        consequence = (
            "no session can start"
            if setting == "required"
            else "every command needs approval (except with --allow all)"
        )
        yield Check("sandbox", status, f"none ({sandbox['why']}); {consequence}", _sandbox_hint(setting))
        return
    plain = sandbox["profiles"]["none"]["start_ms"]
    version = f" version {sandbox['abi']}" if sandbox["abi"] else ""
    better = f"; {sandbox['why']}" if sandbox["why"] else ""
    hidden = f"{plural(len(sandbox['profiles']['write']['hides']), 'private place')} hidden"
    tried = ", ".join(WALLS.get(wall, wall) for wall in sandbox["walls"])
    walls = f"{sandbox['backend']}{version}; checked: a command {tried}; {hidden}{better}"
    yield Check("sandbox", "ok", walls)
    for name, profile in sandbox["profiles"].items():
        if name == "none":
            continue
        writes = ", ".join(map(with_tilde, profile["writes"]))
        description = "like profile write, with network" if name == "net" else f"writes {writes}; no network"
        description += "; reads only the project, the system and tools" if name == "read" else ""
        if profile["problem"]:
            yield Check(f"profile {name}", "broken", f"{description}; the profile does not start: {profile['problem']}")
            continue
        cost = f"starts in {profile['start_ms']:.1f} ms" + (f" ({plain:.1f} ms without the sandbox)" if plain else "")
        notes = "; ".join(profile["notes"])
        yield Check(f"profile {name}", "note" if notes else "ok", f"{description}; {cost}", notes)


def _sandbox_hint(setting: str) -> str:
    if setting == "off":
        return "`nexus config set sandbox.backend auto` enables the sandbox"
    if not sys.platform.startswith("linux"):
        return ""
    needed = "The sandbox needs bubblewrap (apt install bubblewrap, ...) and permission for user namespaces"
    return f"{needed}, or a kernel with Landlock: 5.13 or newer, with landlock in its lsm= list"


def _terminal(settings: Settings) -> Check:
    kinds = [name for number, name in enumerate(("stdin", "stdout", "stderr")) if os.isatty(number)]
    term = os.environ.get("TERM", "")
    return Check("terminal", "ok", f"{term or 'TERM is not set'}; terminal streams: {', '.join(kinds) or 'none'}")


CHECKS: tuple[Callable[..., Check], ...] = (
    _python,
    _nexus,
    _path,
    _litellm,
    _tiktoken,
    _config,
    _rules,
    _mcp,
    _ledger,
    _undo,
    _keys,
    _model,
    _local,
    _network,
    _terminal,
)
OF_MODEL, OF_FOLDER = (_model, _network), (_rules, _mcp)
"""Checks that take the model or the folder too; all others take the settings alone."""

PROGRAMS = {"git": "Without git, .gitignore files have no effect", "rg": "Searching is slower without ripgrep"}
"""Programs that nexus uses, and what is so without them."""


def _is_denied(settings: Settings, folder: Path) -> Callable[[Path], bool]:
    """Return the test of a session for files that a deny rule keeps from its imports."""
    return CallPermission(folder, project_root(folder), sandbox=settings.sandbox).is_denied


def _instructions(settings: Settings, folder: Path) -> Check:
    try:
        layers = instruction_layers(folder, _is_denied(settings, folder))
    except NexusError as error:
        return Check("instructions", "broken", error.message, error.hint)
    hint = "`nexus doctor --instructions` shows the costs and repetitions of instruction files"
    notices = [layer.notice for layer in layers if layer.notice]
    summary = "; ".join([plural(len([layer for layer in layers if layer.text]), "file"), *notices])
    return Check("instructions", "note" if notices else "ok", summary, hint)


def price_instructions(folder: Path, model: str) -> InstructionsReport:
    """Return the report on the instruction files of a working folder, for `model` or the default one."""
    settings = own_settings()
    try:
        info = model_info(choose_model(model, settings, servers=tuple).model, settings.models)
    except NexusError:
        info = None
    count = TiktokenCounter(info.encoding if info else "o200k_base").count
    return instructions_report(folder, info, count, _is_denied(settings, folder))


def check_environment(folder: Path, model: str = "", waiting: Iterable[tuple[str, str]] = ()) -> DoctorReport:
    """Return the result of every check for work in a folder, with `model` or the default one. `waiting` are
    other programs and their files that could be imported."""
    checks: list[Check] = []
    try:
        settings = own_settings()
    except NexusError as error:
        settings = build_settings(DEFAULTS)  # for the other checks
        checks.append(Check("settings", "broken", error.message, error.hint))
    left_out = _config if checks else None
    for check in CHECKS:
        if check is not left_out:
            further = [model] * (check in OF_MODEL) + [folder] * (check in OF_FOLDER)
            checks.append(check(settings, *further))
    for name, without in PROGRAMS.items():
        path = find_program(name)
        checks.append(Check(name, "ok", path) if path else Check(name, "note", "not found on the PATH", without))
    project = project_root(folder)
    checks += [Check("project", "note", line) for line in list_gaps(project)]
    checks.append(_instructions(settings, folder))
    hint = "`nexus import {}` shows the changes and asks before it writes them"
    checks += [Check(program, "note", f"not imported: {files}", hint.format(program)) for program, files in waiting]
    if off := [hook.describe_broken() for hook in list_hooks(folder, settings.hook) if hook.is_broken]:
        checks.append(Check("hooks", "note", "; ".join(off), "`nexus hooks` lists all hooks"))
    try:
        check_tables = settings_in(folder).check
    except NexusError:  # `settings` has the error
        check_tables = settings.check
    if edit_checks := list_checks(project, check_tables, runs_project=False):
        names = ", ".join(f"`{edit_check.name}`" for edit_check in edit_checks)
        checks.append(Check("checks", "ok", f"after edits: {names}"))
    walls = inspect_sandbox(settings.sandbox, places(), project, folder)
    checks += _sandbox_checks(walls, settings.sandbox.backend)
    return {
        "version": 1,
        "ok": all(check.status != "broken" for check in checks),
        "model": next((check.detail for check in checks if check.name == "model" and check.status == "ok"), None),
        "sandbox": walls,
        "checks": to_json_value(checks),
    }
