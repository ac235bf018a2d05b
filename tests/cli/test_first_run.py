"""The first start: what is found, what is asked, what is written, and how it is left."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest.mock import patch

import pytest

from nexus_cli.cli.command_options import SharedOptions
from nexus_cli.cli.run import first_run as module
from nexus_cli.cli.run import run_repl
from nexus_cli.cli.run.first_run import FirstRun, is_first_run
from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import places
from nexus_cli.config.stored_keys import stored_key, stored_names
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.local_servers import LocalServer
from nexus_cli.sandbox import probe
from nexus_cli.sandbox.backend import Backend, BackendProbe

ONE = {"ANTHROPIC_API_KEY": "sk-1", "PATH": os.environ["PATH"], "TERM": "xterm"}
TWO = {**ONE, "OPENAI_API_KEY": "sk-2"}
NONE = {"PATH": "", "TERM": "dumb"}


@dataclass
class Person:
    """Types `answers`, then ends the input; reads what is printed."""

    answers: list[str]
    columns: int = 80
    terminal: bool = True
    colour: bool = False
    seen: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Columns."""
        return self.columns

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(self.seen)

    @property
    def asked(self) -> int:
        """How many lines were asked for with their default."""
        return self.text.count("]: ")

    def write(self, text: str) -> None:
        """Print."""
        self.seen.append(text)

    def read(self, prompt: str) -> str:
        """One line."""
        self.write(prompt)
        return self.answers.pop(0) + "\n" if self.answers else ""

    def read_key(self, prompt: str) -> str:
        """One line that is not shown."""
        return self.read(prompt)

    def start(self, environ: Mapping[str, str]) -> None:
        """The first start."""
        own = {name: os.environ[name] for name in ("HOME", "NEXUS_HOME") if name in os.environ}
        with patch.dict(os.environ, {**environ, **own}, clear=True):
            loaded = load_settings(places())
            FirstRun(loaded.settings, self, self.read, self.read_key).run()


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "local_servers", list)
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda *asked: ("", ""))


@contextmanager
def serving(*names: str) -> Iterator[LocalServer]:
    """A server on loopback that lists models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": name} for name in names]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield LocalServer("Ollama", f"http://127.0.0.1:{server.server_port}", "ollama_chat/")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def written() -> dict[str, object]:
    values = load_settings(places())
    return {key: value for key, value in values.values.items() if values.origins[key] != "default"}


def test_it_is_first_until_there_are_settings() -> None:
    found = places()
    assert is_first_run(found)
    found.data.mkdir(parents=True)
    found.ledger.touch()
    assert is_first_run(found), "who has asked something before has not said yet how it shall work"
    found.config.mkdir(parents=True)
    found.settings.touch()
    assert not is_first_run(found)


def test_one_key_leaves_two_questions_and_enter_answers_them() -> None:
    person = Person(["", ""])
    person.start(ONE)
    assert person.asked == 2 and "ANTHROPIC_API_KEY" in person.text and "sk-1" not in person.text
    assert written() == {"model": "anthropic/claude-sonnet-5-5", "allow": "ask"}
    assert str(places().settings) in "".join(person.text.split())


def test_the_level_auto_is_offered_only_where_commands_can_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [BackendProbe(Backend.BWRAP), BackendProbe(Backend.NONE, "the kernel has no Landlock")]
    monkeypatch.setattr(probe, "find_backend", lambda *given, **more: found.pop(0))
    person = Person(["1", "auto"])
    person.start(TWO)
    assert 'allow = "auto"' in places().settings.read_text()
    assert written()["allow"] == "auto" and "writes only in the project, no network" in " ".join(person.text.split())
    places().settings.unlink()
    person = Person(["1", "run", "3"])
    person.start(TWO)
    said = " ".join(person.text.split())
    assert "must be one of ask, edit, all" in said and "no network" not in said
    assert "not available here: the kernel has no Landlock. `nexus doctor`" in said
    assert written()["allow"] == "all"


def test_only_a_private_file_in_a_private_folder_is_written() -> None:
    Person(["", ""]).start(ONE)
    found = places()
    home = Path(os.environ["NEXUS_HOME"])
    assert [path for path in home.rglob("*") if path.is_file()] == [found.settings]
    assert stat.S_IMODE(found.settings.stat().st_mode) == 0o600
    assert stat.S_IMODE(found.config.stat().st_mode) == 0o700


def test_several_keys_are_numbered_with_window_and_price() -> None:
    person = Person(["2", "edit"])
    person.start(TWO)
    assert person.asked == 2 and written() == {"model": "openai/gpt-5.6", "allow": "edit"}
    row = next(line for line in person.text.splitlines() if "anthropic/claude-sonnet-5-5" in line)
    assert row.split()[0] == "1" and "000" in row and "ANTHROPIC_API_KEY" in row


def test_enter_takes_the_first_of_several() -> None:
    Person(["", ""]).start(TWO)
    assert written() == {"model": "anthropic/claude-sonnet-5-5", "allow": "ask"}


def test_any_name_may_be_typed() -> None:
    Person(["openai/gpt-5.4-mini", "4"]).start(TWO)
    assert written() == {"model": "openai/gpt-5.4-mini", "allow": "all"}


def test_a_name_whose_key_is_missing_is_not_taken() -> None:
    person = Person(["mistral/mistral-medium-latest", "", ""])
    person.start(TWO)
    assert "MISTRAL_API_KEY is not set" in person.text
    assert written()["model"] == "anthropic/claude-sonnet-5-5"


def test_a_model_of_a_local_server_is_asked_about_even_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("qwen3:8b") as server:
        monkeypatch.setattr(module, "local_servers", lambda: [server])
        person = Person(["", ""])
        person.start(NONE)
    assert person.asked == 2 and server.url in person.text
    assert written()["model"] == "ollama_chat/qwen3:8b"


@pytest.mark.matrix
def test_keys_come_before_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(*(f"model-{number}" for number in range(40))) as server:
        monkeypatch.setattr(module, "local_servers", lambda: [server])
        person = Person(["", ""])
        person.start(ONE)
    assert written()["model"] == "anthropic/claude-sonnet-5-5" and "21 more" in person.text


def test_without_any_key_it_asks_for_one_stores_it_and_goes_on() -> None:
    person = Person(["sk-or-0123456789", "77", "2", "sk-ant-0123456789", '"sk-0123456789" ', "", "edit"])
    person.start(NONE)
    assert written() == {"model": "openai/gpt-5.6", "allow": "edit"} and stored_key("OPENAI_API_KEY") == "sk-0123456789"
    assert "unknown provider" in person.text and "not a number from 1 to 7" in person.text
    assert "nexus login anthropic" in " ".join(person.text.split()), "the key of another provider is not taken"
    assert "0123456789" not in person.text


def test_without_any_model_it_says_what_to_do_and_writes_nothing() -> None:
    person = Person(["", ""])
    with pytest.raises(NexusError) as caught:
        person.start(NONE)
    assert (caught.value.what, caught.value.exit_status) == ("no model", 2)
    assert "options above" in caught.value.hint and "export" in person.text, "what helps is told once"
    assert person.asked == 1 and is_first_run(places()) and not stored_names()


@pytest.mark.parametrize("answers", [[], ["2"]])
def test_the_end_of_input_leaves_without_writing(answers: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        Person(answers).start(TWO)
    assert caught.value.code == 0 and is_first_run(places())


def test_three_answers_that_mean_nothing_end_it() -> None:
    person = Person(["9", "no such model", "nowhere"])
    with pytest.raises(NexusError, match="none of 3 answers was valid"):
        person.start(TWO)
    assert person.text.count("Model [") == 3 and is_first_run(places())


def test_hostile_answers_are_harmless() -> None:
    person = Person(["\x1b[31m[/bold]{}%s\u202e", "0" * 5000, "", "\x9b1m"])
    with pytest.raises(SystemExit):
        person.start(TWO)
    assert not any(char in person.text for char in "\x1b\x9b\u202e")
    assert len(person.text) < 3000


def test_settings_that_cannot_be_written_are_told_and_no_error() -> None:
    Path(os.environ["NEXUS_HOME"]).write_text("in the way")
    person = Person(["", ""])
    person.start(ONE)
    assert "could not be saved" in person.text


@pytest.mark.matrix
@pytest.mark.parametrize("columns", [20, 40])
@pytest.mark.parametrize(("environ", "answers"), [(TWO, ("", "")), (NONE, ("", "sk-ant-0123456789", "", ""))])
def test_narrow_terminals_are_kept_to(columns: int, environ: Mapping[str, str], answers: tuple[str, ...]) -> None:
    person = Person(list(answers), columns)
    person.start(environ)
    wide = [line for line in person.text.splitlines() if len(line) > columns and "]: " not in line]
    assert not wide
    assert environ is TWO or "Anthropic" in person.text.partition("Other ways")[0], "the first of the table"


@pytest.mark.parametrize("key", ["sk-proj-Ab12Cd34Ef56Gh78", "sk-" + "a1" * 150])
def test_a_key_that_is_typed_as_a_model_is_not_repeated(key: str) -> None:
    person = Person([key, "1", "read"])
    person.start(TWO)
    assert key[:20] not in person.text and key not in places().settings.read_text()


def test_a_key_that_the_provider_refuses_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "sk-proj-0000000000000000"
    monkeypatch.setattr(
        "nexus_cli.provider.key_check.check_key", lambda name, key: ("unknown key" * (key == refused), "")
    )
    person = Person(["openai", refused, "sk-proj-1111111111111111", "openai/gpt-5.4-mini", ""])
    person.start({})
    assert "OpenAI rejected this key: unknown key" in person.text
    assert written()["model"] == "openai/gpt-5.4-mini", "the model is chosen there too"
    assert stored_key("OPENAI_API_KEY") == "sk-proj-1111111111111111"


def test_a_refused_key_that_is_given_again_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-0000000000000000"
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda *asked: ("no list of models here", ""))
    person = Person(["openai", key, key, "", ""])
    person.start({})
    assert "paste this one again to store it" in " ".join(person.text.split())
    assert stored_key("OPENAI_API_KEY") == key


def test_the_provider_whose_address_the_environment_names_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def accept(name: str, *rest: object) -> tuple[str, str]:
        tried.append(name)
        return "", "the host name was not found"

    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", accept)
    person = Person(["", "team-key-000000000000", "openai/team", ""])
    person.start({"OPENAI_API_BASE": "http://127.0.0.1:9/v1"})
    assert "1  OpenAI" in person.text and "Provider [openai]" in person.text
    first, second = [line for line in person.text.splitlines() if line.startswith(("  1  OpenAI", "  2  Anthropic"))]
    assert first.endswith("127.0.0.1:9") and "console.anthropic.com" in second
    assert "The key will be sent to 127.0.0.1:9" in person.text and "platform.openai.com" not in person.text
    assert tried == ["openai"] and stored_key("OPENAI_API_KEY") == "team-key-000000000000"
    assert "The key was not verified: the host name was not found." in " ".join(person.text.split())


@pytest.mark.parametrize(
    ("shared", "asks"),
    [
        (SharedOptions(), True),
        (SharedOptions(newest=True), False),
        (SharedOptions(resume="01X"), False),
        (SharedOptions(model="openai/gpt-5"), False),
    ],
)
def test_a_session_to_resume_has_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: SharedOptions, asks: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(FirstRun, "run", lambda self: asked.append(True))
    run_repl._load_settings(shared, tmp_path)
    assert bool(asked) is asks
