"""The first start in a terminal: ask for a model and a permission level, and write both to the settings.

If no model is usable, a key is asked for first and stored at once; `config.toml` is written after the last answer.
`commands/model.py` finds the usable models; `run_repl` starts the REPL afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nexus_cli.cli.confirm import read_hidden_line
from nexus_cli.cli.setup.offer_login import store_typed_key
from nexus_cli.commands.model import FIGURES, models_report
from nexus_cli.config.paths import Places, places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.config.settings_file import write_setting
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import ALL, ASK, AUTO, EDIT, LEVELS, parse_level
from nexus_cli.core.redact_secrets import redact
from nexus_cli.provider.available_models import keys_present, named_model, resolve_alias
from nexus_cli.provider.endpoint import address_from_env, key_variable, resolve_endpoint
from nexus_cli.provider.key_shapes import SHAPES, find_provider
from nexus_cli.provider.local_servers import LocalServer, local_servers
from nexus_cli.provider.model_table import check_model
from nexus_cli.reports.text.blocks import Drawn, Paragraph, ReportBlock, Table, lay_out, paragraphs
from nexus_cli.reports.text.lines import cut_line
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Writable

TRIES = 3
"""Invalid answers to one question before the setup is cancelled."""
MAX_COLUMNS = 88
MAX_MODELS = 20
"""Most models listed: a server may have hundreds, and any name can be typed."""
LONGEST = 200
"""Most characters of a model's name."""
MEANINGS = {
    ASK: "reading inside the project, and commands that only read; the rest needs approval",
    EDIT: "also edits inside the project",
    AUTO: "also any command in a sandbox: writes only in the project, no network",
    ALL: "everything, without a sandbox",
}
"""The calls that each level runs without asking, for a person."""

ReadLine = Callable[[str], str]
"""Writes a prompt and returns the typed line, "" at Esc or the end of input."""
Parse = Callable[[str], str]
"""Parses a typed answer; raises `NexusError` if it is invalid."""


def is_first_run(own_places: Places) -> bool:
    """True if there are no personal settings yet."""
    return not own_places.settings.exists()


class FirstRun:
    """Asks a person for the first settings, or for a key if no model is usable.

    Raises `NexusError("config", ...)` if no key is given and no model is usable, `UsageError` after
    three invalid answers, and `SystemExit(0)` at Esc or the end of input. Nothing more is written then.
    """

    def __init__(
        self,
        settings: Settings,
        stream: Writable,
        read_line: ReadLine,
        read_key: ReadLine = read_hidden_line,
    ) -> None:
        self._settings = settings
        self._stream = stream
        self._read_line = read_line
        self._read_key = read_key
        self._width = min(stream.width, MAX_COLUMNS)

    def run(self) -> None:
        """Print the findings, ask for a model and a permission level, and write both to the settings.

        If no model is usable, first ask for a provider and its key, and store the key.

        Enter selects the first answer. Settings that cannot be written are reported, not raised.
        """
        servers = local_servers()
        self._print("Welcome to nexus. Found on this machine:")
        self._print_local_servers(servers)
        models = self._usable(servers)
        if not models and not named_model(self._settings):
            self.log_in()
            models = self._usable(servers)
        self._write({"model": self._model(models), "allow": self._ask_level()})

    def _usable(self, servers: Sequence[LocalServer]) -> Sequence[JsonObject]:
        return models_report(self._settings, servers)["models"]

    def log_in(self) -> None:
        """Ask for a provider and its key, and store the key; without a key raise `NexusError("config", ...)`.

        A provider whose address the environment names is the first one, with that address.
        """
        usable = [name for name in SHAPES if key_variable(name) in self._settings.default_models]
        addresses = {name: address_from_env(f"{name}/") for name in usable}
        providers = sorted(usable, key=lambda name: not addresses[name])
        self._print("nexus found no usable model. Which provider do you have an API key for?")
        rows = [
            (str(place), SHAPES[name].title, addresses[name] or SHAPES[name].page)
            for place, name in enumerate(providers, 1)
        ]
        self._put_table(Table({"": 0, " ": 1, "  ": 2}, rows, headed=False))
        self._print("Other ways:")
        alternatives = [
            "use a GitHub Copilot or ChatGPT subscription: nexus login github-copilot, or nexus login chatgpt",
            "start a local server, such as Ollama, with a model",
            f"set a key in the environment: export {key_variable(providers[0])}=...",
            "start with any other model supported by litellm: nexus --model PROVIDER/NAME",
        ]
        self._put(*paragraphs(alternatives, "    ", "  - "))
        name = self._ask("Provider", providers[0], lambda text: _parse_provider(text, providers))
        if not store_typed_key(name, self._ask_hidden, self._print):
            raise NexusError("config", "no model", "no valid key was given", "Use one of the options above")

    def _ask_hidden(self, text: str, prompt: str) -> str:
        self._put(text)
        return self._read_key(f"{prompt} (not shown): ")

    def _print_local_servers(self, servers: Sequence[LocalServer]) -> None:
        keys = ", ".join(keys_present(self._settings)) or "none"
        reached = ", ".join(f"{server.name} at {server.url}" for server in servers) or "none reachable"
        self._put(*paragraphs((f"keys: {keys}", f"model servers: {reached}"), "    ", "  "))

    def _model(self, models: Sequence[JsonObject]) -> str:
        self._print("Which model? Type a number or any model name. Prices are in $ per million tokens.")
        columns = {
            "": "place",
            "model": lambda model: cut_line(sanitize(model["name"]), 60),
            **FIGURES,
            "source": lambda model: sanitize(", ".join(model["because"])),
        }
        rows = [{**model, "place": str(place)} for place, model in enumerate(models[:MAX_MODELS], 1)]
        self._put_table(Table(columns, rows))
        if len(models) > MAX_MODELS:
            self._put(Paragraph(f"and {len(models) - MAX_MODELS} more: `nexus model list`", "  "))
        return self._ask("Model", str(models[0]["name"]), lambda text: self._resolve_name(text, models))

    def _resolve_name(self, text: str, models: Sequence[JsonObject]) -> str:
        if numbered := _numbered(text, [str(model["name"]) for model in models]):
            return numbered
        name = resolve_alias(text, self._settings)
        if len(text) > LONGEST or not name.isprintable() or any(char.isspace() for char in name):
            subject = repr(cut_line(text, 20))
            raise UsageError(subject, "not a valid model name", "Use the form PROVIDER/MODEL")
        matching = [str(model["name"]) for model in models if name.casefold() in str(model["name"]).casefold()]
        if len(matching) == 1:
            return matching[0]
        try:
            check_model(name)
            resolve_endpoint(name)
        except NexusError as error:
            raise NexusError(error.kind, name, error.why, error.hint) from None
        return name

    def _ask_level(self) -> str:
        """Ask for the permission level. `auto` is offered only if commands can be confined."""
        from nexus_cli.sandbox.probe import find_backend  # noqa: PLC0415  (on the first start only)

        self._print("What may run without asking you? /permissions changes the level for one session.")
        walls = self._settings.sandbox.backend
        probe = find_backend(walls, own=places(), project=project_root(Path.cwd()), keep=False)
        has_sandbox = probe.backend != "none"
        levels = [level for level in LEVELS if has_sandbox or level != AUTO]
        meanings = MEANINGS if has_sandbox else {**MEANINGS, ASK: "reading inside the project; the rest needs approval"}
        for place, level in enumerate(levels, 1):
            self._put(Paragraph(meanings[level], " " * 11, f"  {place}  {level:<4}  "))
        if not has_sandbox:
            why = f"Level auto (sandboxed commands) is not available here: {probe.why}. `nexus doctor` has details."
            self._put(Paragraph(why, "  "))
        return self._ask("Permission level", levels[0], lambda text: _parse_level(text, levels))

    def _ask(self, label: str, default: str, parse: Parse) -> str:
        """Ask one question and return the parsed answer; Enter selects `default`."""
        for _ in range(TRIES):
            try:
                line = self._read_line(f"{label} [{sanitize(default)}]: ")
            except UnicodeDecodeError:
                line = "\ufffd\n"
            if not line:
                self._put("Cancelled.")
                raise SystemExit(0)
            try:
                return parse(line.strip()) if line.strip() else default
            except NexusError as error:
                self._put(Paragraph(redact(error.sentences), "  "))
        hint = "Start nexus again, or skip the setup with --model NAME"
        raise UsageError("the setup was cancelled", f"none of {TRIES} answers was valid", hint)

    def _write(self, answers: Mapping[str, str]) -> None:
        own_places = places()
        try:
            for key, text in answers.items():
                write_setting(own_places, key, text)
        except (NexusError, OSError) as error:
            why = error.message if isinstance(error, NexusError) else str(error)
            self._print(f"The model or permission level could not be saved: {why}. Save them with `nexus config set`.")
            return
        self._print(
            f"Settings written to {own_places.settings}. Change them with `nexus config set` or `nexus config edit`."
        )

    def _print(self, text: str) -> None:
        self._put("", text)

    def _put(self, *blocks: str | ReportBlock) -> None:
        self._stream.write("".join(f"{line}\n" for line in lay_out(blocks, self._width)))

    def _put_table(self, table: Table) -> None:
        self._put(*(Drawn(f"  {line}") for line in table.lines(self._width - 2)))


def _numbered(text: str, items: Sequence[str]) -> str:
    """Return the item with this number, "" for any other text. Raises `UsageError`."""
    if not (text.isascii() and text.isdigit()):
        return ""
    if 1 <= int(text[:6]) <= len(items):
        return items[int(text[:6]) - 1]
    raise UsageError(text[:20], f"not a number from 1 to {len(items)}", "Type one of the numbers, or a name")


def _parse_provider(text: str, providers: Sequence[str]) -> str:
    """Parse an answer as the number or a name of a provider. Raises `UsageError`."""
    if numbered := _numbered(text, providers):
        return numbered
    try:
        return find_provider(text)
    except NexusError as error:
        hint = f"Type a number from 1 to {len(providers)}, or a name: {', '.join(providers)}"
        raise UsageError(error.what, error.why, hint) from None


def _parse_level(text: str, levels: Sequence[str]) -> str:
    """Parse an answer as one of `levels`: its number, name or former name."""
    if numbered := _numbered(text, levels):
        return numbered
    level = parse_level(text)
    if level not in levels:
        raise UsageError(repr(text[:20]), f"must be one of {', '.join(levels)}", "Type a level or its number")
    return level
