"""litellm with its light import is litellm as it is imported plainly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from provider import imported_litellm, reexports
from server.play import ScriptedServer

from nexus_cli.provider import light_import
from nexus_cli.provider.litellm_backend import litellm

MODELS = {
    "openai/gpt-4o": "chat",
    "hosted_vllm/m": "chat",
    "lm_studio/m": "chat",
    "llamafile/m": "chat",
    "deepseek/deepseek-chat": "chat",
    "xai/grok-4": "chat",
    "openrouter/a/m": "chat",
    "mistral/mistral-large-latest": "chat",
    "anthropic/claude-sonnet-4-5": "anthropic",
    "gemini/gemini-2.5-pro": "gemini",
    "ollama_chat/llama3": "ollama",
}
"""A model of each provider that the scripted server can play, with its wire form."""


def imported(how: str) -> dict[str, Any]:
    """What a process has after importing litellm in this way, and the bodies that it sent."""
    with ScriptedServer(["hello"] * len(MODELS)) as server:
        calls = {model: server.base(form) for model, form in MODELS.items()}
        done = subprocess.run(
            [sys.executable, imported_litellm.__file__, how, json.dumps(calls)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        noted: dict[str, Any] = json.loads(done.stdout)
        noted["bodies"] = [one.raw.decode() for one in server.requests]
        return noted


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return imported("plain")


@pytest.fixture(scope="module")
def light() -> dict[str, Any]:
    return imported("light")


def differences(plain: dict[str, Any], light: dict[str, Any]) -> dict[str, Any]:
    """What differs between the values that both have."""
    return {name: (plain[name], light[name]) for name in plain.keys() & light.keys() if plain[name] != light[name]}


@pytest.mark.matrix
def test_the_list_is_that_of_the_installed_versions() -> None:
    assert light_import.TABLE.read_text() == reexports.table(), "run: python tests/provider/reexports.py"


@pytest.mark.matrix
def test_calls_of_every_provider_are_the_same(plain: dict[str, Any], light: dict[str, Any]) -> None:
    assert light["replies"] == dict.fromkeys(MODELS, "hello")
    assert light["bodies"] == plain["bodies"]
    assert len(light["bodies"]) == len(MODELS)


@pytest.mark.matrix
def test_every_reexported_name_leads_to_the_same_object(plain: dict[str, Any], light: dict[str, Any]) -> None:
    assert len(light["names"]) > 2000
    assert light["names"] == plain["names"]


@pytest.mark.matrix
def test_every_model_can_be_built_and_has_the_same_fields(plain: dict[str, Any], light: dict[str, Any]) -> None:
    assert len(light["models"]) > 2000
    assert not differences(plain["models"], light["models"])
    assert not {name for name in light["models"].keys() - plain["models"].keys() if not light["models"][name][0]}


@pytest.mark.matrix
def test_only_models_of_the_libraries_wait_for_their_first_use(plain: dict[str, Any], light: dict[str, Any]) -> None:
    waiting = {name for name, built in light["lazy"].items() if plain["lazy"].get(name) and not built}
    assert len(waiting) > 500
    assert not differences(plain["elsewhere"], light["elsewhere"])


def test_classes_of_others_are_built_at_once_within_and_after_the_block() -> None:
    from pydantic import BaseModel

    litellm()
    names: dict[str, Any] = {"__name__": "litellm.made_up", "BaseModel": BaseModel}
    with light_import._defer_model_building():
        exec("class Late(BaseModel):\n    a: int", names)
        within = type("Within", (names["Late"],), {"__module__": "elsewhere"})
    after = type("After", (names["Late"],), {"__module__": "litellm.elsewhere"})
    assert [vars(model)["__pydantic_complete__"] for model in (names["Late"], within, after)] == [False, True, True]
    assert names["Late"](a="1").a == 1
    assert names["Late"].model_config == {}


def test_another_version_is_imported_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic._internal._config import ConfigWrapper

    monkeypatch.setattr(light_import, "installed_version", lambda name: "1.100.4")
    finders, for_model = list(sys.meta_path), vars(ConfigWrapper)["for_model"]
    with light_import.light_imports():
        assert sys.meta_path == finders
        assert vars(ConfigWrapper)["for_model"] is for_model


def test_a_package_that_is_not_installed_is_imported_plainly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "reexports.txt"
    table.write_text("no-such-distribution 1.0\nopenai.types\n")
    monkeypatch.setattr(light_import, "TABLE", table)
    finders = list(sys.meta_path)
    with light_import.light_imports():
        assert sys.meta_path == finders


@pytest.mark.matrix
def test_the_tokenizer_is_loaded_at_its_first_use_and_leaves_no_variable() -> None:
    code = """
import os, sys
from nexus_cli.provider.litellm_backend import litellm
library = litellm()
from litellm.litellm_core_utils.default_encoding import encoding
import tiktoken
late = tiktoken.get_encoding("cl100k_base")
print(late is encoding, late.encode("hello world"), tiktoken.get_encoding("cl100k_base") is late)
print(os.environ.get("TIKTOKEN_CACHE_DIR"))
print(library.token_counter(model="m", text="hello world"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True [15339, 1917] False", "None", "2"], done.stderr
