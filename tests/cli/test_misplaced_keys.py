"""A key in the place of a model's name: refused or named, said where keys go, and shown nowhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from search import sample

from nexus_cli.config.misplaced_keys import looks_like_key

Run = Callable[..., subprocess.CompletedProcess[bytes]]

KEY = "sk-proj-Ab12Cd34Ef56Gh78"
KEYS = [KEY, "sk-nobody", "gsk_abcdefghij0123456789", "0123456789abcdef0123456789abcdef", "Zx81QwErTy72UiOpAs63DfGh"]


@pytest.mark.parametrize("key", [*KEYS, "550e8400-e29b-41d4-a716-446655440000", "AIzaSyA1234567890abcdefghijklmno"])
def test_a_key_is_told_from_a_name(key: str) -> None:
    assert looks_like_key(key, {}) and looks_like_key(f" {key}\n", {})


@pytest.mark.parametrize(
    "name",
    [
        "01M82JSCDVQ33SCJMRT0542FFD",
        "gpt-5.6",
        "claude-opus-4-1-20250805",
        "openrouter/anthropic/claude-sonnet-4.6",
        "ollama_chat/llama3.2:70b-q4_K_M",
        "ft:gpt-4o-mini-2024-07-18:org::9AbCdEfG",
        "gpt-4o-mini-audio-preview-2024-12-17",
        "fast",
        "OPENAI_API_KEY",
        "bedrock/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcdefghij12",
        "azure/my-gpt5",
        "replicate/meta/llama-2-70b-chat:02e509c789964a7ea8736978a43525956ef40397be9033abf9fd2badfe68c9e3",
        "",
        "hosted_vllm/Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
        "bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0",
    ],
)
def test_a_name_is_no_key(name: str) -> None:
    assert not looks_like_key(name, {})


def test_what_a_key_variable_holds_is_a_key_whatever_its_form() -> None:
    assert looks_like_key("correcthorse", {"MY_API_KEY": "correcthorse"})
    assert not looks_like_key("correcthorse", {"MY_MODEL": "correcthorse"})


REFUSED = [
    ("config", "set", "keys.OPENAI_API_KEY", "{}"),
    ("config", "set", "default_models.OPENAI_API_KEY", "{}"),
    ("config", "set", "OPENAI_API_KEY", "{}"),
    ("config", "set", "model", "{}"),
    ("config", "set", "alias.fast", "{}"),
    ("config", "set", "allow", "{}"),
    ("config", "set", "alias.{}", "openai/gpt-5.6"),
    ("config", "set", "default_models.{}", "openai/gpt-5.6"),
    ("config", "set", "{}", "x"),
    ("config", "get", "{}"),
    ("model", "use", "{}"),
    ("model", "show", "{}"),
    ("ask", "-m", "{}", "hello"),
    ("ask", "--json", "--model={}", "hello"),
    ("context", "--model", "{}"),
    ("{}",),
]


@pytest.mark.parametrize("key", sample([KEY, KEYS[3]], 2))
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_key_that_is_given_is_refused_in_one_line_and_printed_nowhere(
    nexus: Run, config: Path, words: tuple[str, ...], key: str
) -> None:
    done = nexus(*(word.format(key) for word in words), env={"OPENAI_API_KEY": "sk-nobody"})
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert key.encode() not in done.stdout + done.stderr and not config.exists()
    if words not in (("{}",), ("config", "get", "{}"), ("config", "set", "{}", "x")):
        assert b"environment" in done.stderr and b"export OPENAI_API_KEY=..." in done.stderr


@pytest.mark.matrix
def test_a_key_in_nexus_model_is_refused(nexus: Run) -> None:
    for words in (("ask", "hello"), ("ask", "--json", "hello"), ("context",)):
        done = nexus(*words, env={"NEXUS_MODEL": KEY})
        assert done.returncode == 2 and b"environment" in done.stderr and KEY.encode() not in done.stdout + done.stderr


FILES = {
    "default model": f'[default_models]\nOPENAI_API_KEY = "{KEY}"\n',
    "model": f'model = "{KEY}"\n',
    "alias": f'model = "fast"\n[alias]\nfast = "{KEY}"\n',
}
REPORTS = [
    ("config", "show"),
    ("config", "show", "--origin"),
    ("config", "show", "--json"),
    ("config", "get", "model"),
    ("config", "get", "default_models.OPENAI_API_KEY"),
    ("config", "get", "alias.fast"),
    ("model", "list"),
    ("model", "list", "--json"),
    ("status",),
    ("status", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("context",),
    ("context", "--json"),
    ("ask", "hi"),
    ("ask", "--json", "hi"),
    ("ask", "--stream-json", "hi"),
    ("sessions", "list"),
]


@pytest.mark.matrix
@pytest.mark.parametrize("text", sample(FILES.values(), 3), ids=FILES)
def test_a_key_that_is_in_the_file_is_shown_nowhere_and_never_used(nexus: Run, config: Path, text: str) -> None:
    config.write_text(text)
    done = {words: nexus(*words, env={"OPENAI_API_KEY": "sk-nobody"}) for words in REPORTS}
    for words, one in done.items():
        assert KEY.encode() not in one.stdout + one.stderr and b"Traceback" not in one.stderr, words
    for words in (("ask", "hi"), ("context",)):
        assert done[words].returncode == 2 and b"export OPENAI_API_KEY=..." in done[words].stderr, words
    assert b'= "[redacted]"' in done["config", "show"].stdout and b"--unset" in done["config", "show"].stderr
    settings = {check["name"]: check for check in json.loads(done["doctor", "--json"].stdout)["checks"]}["settings"]
    assert (done["doctor",].returncode, settings["status"]) == (1, "broken")
    assert "looks like a key" in settings["detail"]


@pytest.mark.matrix
@pytest.mark.parametrize("text", ['allow = "{}"\n', '"{}" = 1\n', '[limits]\n"{}" = 1\n', 'model = ["{}"]\n'])
def test_an_error_about_the_file_shows_no_key(nexus: Run, config: Path, text: str) -> None:
    config.write_text(text.format(KEY))
    done = nexus("config", "show")
    assert done.returncode == 2 and b"[redacted]" in done.stderr and KEY.encode() not in done.stderr


@pytest.mark.matrix
def test_a_key_where_it_is_not_used_hinders_nothing(nexus: Run, config: Path) -> None:
    config.write_text(f'[compact]\nmodel = "{KEY}"\n[models."{KEY}"]\nwindow = 9000\n')
    done = nexus("context", "--model", "openai/gpt-5.6")
    assert done.returncode == 0 and KEY.encode() not in nexus("config", "show").stdout + done.stdout


@pytest.mark.matrix
def test_a_key_in_the_file_can_be_taken_out(nexus: Run, config: Path) -> None:
    config.write_text(FILES["default model"] + '# mine\nMY_KEY = "openai/gpt-5.6"\n')
    assert nexus("config", "set", "--unset", "default_models.OPENAI_API_KEY").returncode == 0
    assert config.read_text() == '[default_models]\n# mine\nMY_KEY = "openai/gpt-5.6"\n'
    assert nexus("doctor").returncode == 0


def test_a_key_beside_its_variable_is_the_reason_that_there_is_no_model(nexus: Run, config: Path) -> None:
    config.write_text(FILES["default model"])
    done = nexus("ask", "hi")
    assert done.returncode == 2 and KEY.encode() not in done.stderr
    for told in (b"default_models.OPENAI_API_KEY", b"nexus login", b"config set --unset default_models.OPENAI_API_KEY"):
        assert told in done.stderr


def test_an_editor_cannot_leave_a_key_in_the_file(nexus: Run, config: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho \'model = "{KEY}"\' > "$1"\n')
    editor.chmod(0o755)
    done = nexus("config", "edit", env={"EDITOR": str(editor)})
    assert done.returncode == 2 and KEY.encode() not in done.stdout + done.stderr and not config.exists()
