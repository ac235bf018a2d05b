"""`nexus login` and `nexus logout`: a key from a pipe is stored, counts everywhere, and is printed nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus_cli.cli.setup.offer_login import lacks_key
from nexus_cli.config.paths import places

Run = Callable[..., subprocess.CompletedProcess[bytes]]
KEY = "sk-0123456789abcdef"
HOME = "NEXUS_HOME"


def test_a_key_that_is_piped_in_counts_until_it_is_removed(nexus: Run) -> None:
    done = nexus("login", "openai", stdin=f"{KEY}\n".encode())
    path = Path(os.environ[HOME]) / "data" / "keys" / "OPENAI_API_KEY"
    assert done.returncode == 0 and path.read_text() == KEY and path.stat().st_mode & 0o777 == 0o600
    assert str(path).encode() in done.stdout and b"openai/gpt" in done.stdout
    reports = {words[0]: nexus(*words) for words in REPORTS}
    assert all(one.returncode == 0 for one in reports.values())
    assert json.loads(reports["status"].stdout)["credentials"] == ["OPENAI_API_KEY"]
    assert json.loads(reports["model"].stdout)["chosen"].startswith("openai/")
    row = {"name": "OPENAI_API_KEY", "key_name": "", "place": str(path)}
    assert json.loads(reports["key"].stdout) == {"version": 1, "keys": [row]}
    assert b"OPENAI_API_KEY" not in nexus("status", "--brief").stdout, "commands of the model do not have it"
    checks = {check["name"]: check for check in json.loads(reports["doctor"].stdout)["checks"]}
    assert checks["keys"]["status"] == "ok" and str(path) in checks["keys"]["detail"]
    assert checks["model"]["status"] == "ok"
    assert json.loads(reports["context"].stdout)["model"].startswith("openai/")
    gone = nexus("logout", "OPENAI_API_KEY", "--json")
    assert json.loads(gone.stdout)["ids"] == ["OPENAI_API_KEY"]
    assert gone.returncode == 0 and not path.exists() and nexus("ask", "hi").returncode == 2
    for one in (done, gone, *reports.values()):
        assert KEY.encode() not in one.stdout + one.stderr


REPORTS = [
    ("key", "--json"),
    ("status", "--json"),
    ("model", "list", "--json"),
    ("doctor", "--json"),
    ("context", "--json"),
    ("config", "show"),
]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("login",), KEY),
        (("login", "openai"), ""),
        (("login", "openai"), f"{KEY}\n{KEY}\n"),
        (("login", "openai"), "sk-ant-0123456789"),
        (("login", "openai", KEY), ""),
        (("login", KEY), ""),
        (("login", "nowhere"), KEY),
        (("logout", "openai"), ""),
    ],
)
def test_what_cannot_be_stored_or_removed_is_refused_in_one_line(
    nexus: Run, words: tuple[str, ...], stdin: str
) -> None:
    done = nexus(*words, stdin=stdin.encode())
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1
    assert KEY.encode() not in done.stderr and not (Path(os.environ[HOME]) / "data" / "keys").exists()


@pytest.mark.matrix
def test_a_key_that_settings_name_is_stored_by_its_name_and_hidden_everywhere(nexus: Run) -> None:
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    done = nexus("login", "HOOK_SECRET", stdin=f"{secret}\n".encode())
    assert done.returncode == 0 and b"HOOK_SECRET is stored" in done.stdout and secret.encode() not in done.stdout
    for none in (b"\n", b"a\0b", b"a" * 70_000):
        assert nexus("login", "HOOK_SECRET", stdin=none).returncode == 2
    assert nexus("config", "set", "services.ci.secret", secret).returncode == 2
    assert nexus("config", "set", "services.ci.secret", "HOOK_SECRET").returncode == 0
    assert nexus("logout", "HOOK_SECRET").returncode == 0 and nexus("logout", "HOOK_SECRET").returncode == 2


def test_no_other_key_is_asked_for_while_the_keyring_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert not lacks_key("openai/m")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert lacks_key("openai/m")
    places().keys.mkdir(parents=True)
    (places().keys / "OPENAI_API_KEY").touch()
    assert not lacks_key("openai/m")


def test_a_key_in_the_environment_wins_and_is_named(nexus: Run) -> None:
    env = {"GOOGLE_API_KEY": "another-key"}
    stored = nexus("login", "gemini", stdin=b"AIza0123456789", env=env)
    assert b"GOOGLE_API_KEY is set in the environment and takes precedence" in stored.stdout
    assert b"GOOGLE_API_KEY is still set" in nexus("logout", "gemini", env=env).stdout


@pytest.mark.matrix
def test_the_only_key_in_the_environment_gives_the_model_whatever_is_stored(nexus: Run) -> None:
    nexus("login", "anthropic", stdin=b"sk-ant-0123456789")
    nexus("login", "openai", stdin=KEY.encode())
    assert b"several keys are available: ANTHROPIC_API_KEY" in nexus("ask", "hi").stderr
    shown = nexus("status", "--json", env={"GEMINI_API_KEY": "AIza0123456789"})
    assert json.loads(shown.stdout)["model"].startswith("gemini/")
