"""Which model is used, and that no provider gets anything by accident."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.play import ScriptedServer
from surroundings import with_variables

from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import Places, defaults_dir
from nexus_cli.config.settings import Settings
from nexus_cli.config.stored_keys import store_key
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.provider.local_servers import LocalServer
from nexus_cli.provider.model_names import refuse_key
from nexus_cli.provider.model_table import check_model

Run = Callable[..., subprocess.CompletedProcess[bytes]]


KEYS = load_settings(Places(*[defaults_dir() / "nowhere"] * 4)).settings.default_models


def none() -> list[LocalServer]:
    return []


@given(
    flag=st.sampled_from(["", "flag", "short"]),
    variable=st.sampled_from(["", " ", "env", "short"]),
    setting=st.sampled_from(["", "set", "short"]),
    present=st.sets(st.sampled_from(sorted(KEYS))),
)
def test_the_first_of_flag_environment_settings_and_a_single_key_wins(
    flag: str, variable: str, setting: str, present: set[str]
) -> None:
    settings = Settings(model=setting, default_models=KEYS, alias={"short": "openai/long"})
    environ = {"NEXUS_MODEL": variable, **dict.fromkeys(present, "secret")}
    named = flag or variable.strip() or setting
    if named or len(present) == 1:
        chosen = with_variables(environ, choose_model, flag, settings, servers=none)
        assert chosen.model == (settings.alias.get(named, named) if named else KEYS[next(iter(present))])
        assert bool(chosen.announce) == (not named) and "secret" not in chosen.announce
    else:
        with pytest.raises(NexusError) as caught:
            with_variables(environ, choose_model, flag, settings, servers=none)
        assert caught.value.exit_status == 2 and "secret" not in caught.value.line
        assert all(name in caught.value.line for name in present)


def test_other_variables_that_look_like_keys_do_not_count() -> None:
    with pytest.raises(NexusError, match="no model"):
        with_variables(
            {"GROQ_API_KEY": "x", "OPENAI_API_KEY": " ", "AWS_SECRET_ACCESS_KEY": "y"},
            choose_model,
            "",
            Settings(default_models=KEYS),
            servers=none,
        )


def test_a_local_server_is_offered_and_never_taken() -> None:
    with pytest.raises(NexusError) as caught:
        choose_model(
            "",
            Settings(default_models=KEYS),
            servers=lambda: [LocalServer("Ollama", "http://127.0.0.1:11434", "ollama_chat/")],
        )
    assert "Ollama at http://127.0.0.1:11434" in caught.value.line and "--model ollama_chat/NAME" in caught.value.line


def test_nobody_looks_for_servers_when_something_is_configured() -> None:
    def never() -> list[LocalServer]:
        raise AssertionError

    assert choose_model("m", Settings(), servers=never).model == "m"
    assert (
        with_variables({"XAI_API_KEY": "k"}, choose_model, "", Settings(default_models=KEYS), servers=never).model
        == KEYS["XAI_API_KEY"]
    )


def test_a_resumed_session_keeps_its_model_unless_one_is_named_for_this_run() -> None:
    settings = Settings(model="set", default_models=KEYS)
    assert with_variables({"XAI_API_KEY": "k"}, choose_model, "", settings, resumes=True, servers=none).model == ""
    assert with_variables({"NEXUS_MODEL": "env"}, choose_model, "", settings, resumes=True, servers=none).model == "env"
    assert choose_model("flag", settings, resumes=True, servers=none).model == "flag"


def test_the_announcement_says_whether_the_key_is_set_or_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    store_key("OPENAI_API_KEY", "correct-horse-battery")
    settings = Settings(default_models=KEYS)
    stored = choose_model("", settings, servers=none)
    assert "because OPENAI_API_KEY is stored;" in stored.announce
    assert "is set;" in with_variables({"OPENAI_API_KEY": "x"}, choose_model, "", settings, servers=none).announce


@pytest.mark.matrix
def test_a_single_key_is_announced_on_stderr(engine: Run) -> None:
    done = engine("said", "ask", "hi", env={"NEXUS_MODEL": "", "DEEPSEEK_API_KEY": "sk-1"})
    assert b"model='deepseek/" in done.stdout and b"because DEEPSEEK_API_KEY is set" in done.stderr
    assert b"because" not in engine("said", "ask", "-q", "hi", env={"NEXUS_MODEL": "", "DEEPSEEK_API_KEY": "k"}).stderr


def test_model_list_has_what_is_usable_now_with_its_prices(nexus: Run, config: Path) -> None:
    import json

    config.write_text('[alias]\nfast = "openai/gpt-5.4-mini"\n')
    value = json.loads(nexus("model", "list", "--json", env={"ANTHROPIC_API_KEY": "sk-1"}).stdout)
    rows = {row["name"]: row for row in value["models"]}
    assert value["chosen"] == KEYS["ANTHROPIC_API_KEY"] and set(rows) >= {value["chosen"], "openai/gpt-5.4-mini"}
    row = rows[value["chosen"]]
    assert row["cache"] and row["input_price"] > 0 and "ANTHROPIC_API_KEY" in row["because"]
    assert "alias fast" in rows["openai/gpt-5.4-mini"]["because"]
    assert b"gpt-5.4-mini" in nexus("model", "list", env={"ANTHROPIC_API_KEY": "sk-1"}).stdout


def test_a_key_in_the_place_of_a_model_is_not_listed(nexus: Run, config: Path) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    config.write_text(f'[default_models]\nOPENAI_API_KEY = "{key}"\n')
    for options in ((), ("--json",)):
        listed = nexus("model", "list", *options, env={"OPENAI_API_KEY": "x"}).stdout
        assert key.encode() not in listed and b"[redacted]" in listed


def test_a_key_in_the_place_of_a_model_is_refused_and_not_shown(nexus: Run, config: Path) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    config.write_text(f'model = "openai/{key}"\n')
    for words in (("context", "--json"), ("context",), ("ask", "--price", "hi"), ("ask", "--json", "hi")):
        shown = nexus(*words)
        assert shown.returncode == 2 and b"model name: it contains an API key" in shown.stderr, words
        assert key.encode() not in shown.stdout + shown.stderr, words
    brief = nexus("status", "--brief")
    assert key.encode() not in brief.stdout and b"[redacted]" in brief.stdout
    with pytest.raises(NexusError, match="model name"):
        check_model(key)


def test_a_name_of_words_is_no_key() -> None:
    for name in (
        "azure/global-gpt-4o-mini",
        "azure/sk-gpt-4o-mini",
        "azure/xai-grok-3-mini",
        "huggingface/glaiveai/glaive-function-calling-v1",
        "openai/ft:gpt-4o-mini-2024-07-18:global-industries::AbCd1234",
    ):
        refuse_key(name)


def test_a_local_server_that_does_not_answer_as_expected_is_no_error() -> None:
    from nexus_cli.provider.served_models import list_served

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert list_served("hosted_vllm", f"http://127.0.0.1:{port}/v1") == []


@pytest.mark.matrix
def test_the_models_of_a_gateway_stand_in_place_of_those_of_the_public_host(nexus: Run) -> None:
    import json

    row = {"context_length": 50_000, "pricing": {"prompt": "0.000001", "completion": "0.000002"}}
    listed = {"data": [*({"id": f"team/model-{number}", **row} for number in range(400)), {"id": "gpt-4o"}]}
    with ScriptedServer(answers={("GET", "/gate/v1/models"): listed}) as server:
        env = {
            "OPENAI_API_BASE": f"{server.url}/gate/v1",
            "OPENAI_API_KEY": "sk-1",
            "NEXUS_MODEL": "openai/team/model-7",
        }
        value = json.loads(nexus("model", "list", "--json", env=env).stdout)
        rows = {row["name"]: row for row in value["models"]}
        assert len(rows) == 401 and "openai/gpt-5.6" not in rows
        assert (rows["openai/team/model-7"]["window"], rows["openai/team/model-7"]["output_price"]) == (50_000, 2.0)
        assert not rows["openai/team/model-7"]["list_price"] and rows["openai/gpt-4o"]["list_price"]
        shown = " ".join(nexus("model", "show", "openai/gpt-4o", env=env).stdout.decode().split())
        assert "2.5 per million tokens (list price of openai/gpt-4o; this server may differ)" in shown
        assert f"an OpenAI-compatible server at {server.url}/gate/v1" in shown, "it said no reason"
        assert "differ" not in nexus("model", "show", "openai/team/model-7", env=env).stdout.decode()
        assert {one.headers.get("authorization") for one in server.others} == {"Bearer sk-1"}
        assert len(server.others) == 3


@pytest.mark.matrix
def test_a_server_at_a_documented_address_counts_like_one_on_its_usual_port(nexus: Run) -> None:
    import json

    answers = {("GET", path): {"data": [{"id": "near:7b"}]} for path in ("/v1/models", "/far/v1/models")}
    with ScriptedServer(answers=answers) as server:
        bases = {
            "OLLAMA_API_BASE": (server.url, "ollama_chat"),
            "HOSTED_VLLM_API_BASE": (f"{server.url}/far/v1", "hosted_vllm"),
            "LM_STUDIO_API_BASE": (f"{server.url}/v1", "lm_studio"),
        }
        for variable, (base, provider) in bases.items():
            listed = json.loads(nexus("model", "list", "--json", env={variable: base}).stdout)["models"]
            assert any(row["name"] == f"{provider}/near:7b" and base in row["because"][0] for row in listed)
            (check,) = (
                one
                for one in json.loads(nexus("doctor", "--json", env={variable: base}).stdout)["checks"]
                if one["name"] == "model servers"
            )
            assert base in check["detail"]
            refused = nexus("ask", "hi", env={variable: base}).stderr.decode()
            assert f"--model {provider}/NAME" in refused and "a local server answered" in refused


@pytest.mark.matrix
def test_doctor_names_a_server_that_refuses_its_list_of_models(nexus: Run) -> None:
    import json
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    asked = list[str]()

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(401)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {"OPENAI_API_BASE": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "sk-1"}
        checks = json.loads(nexus("doctor", "--json", env=env).stdout)["checks"]
        server.shutdown()
    (check,) = (one for one in checks if one["name"] == "model servers")
    assert check["status"] == "note" and "HTTP status 401" in check["detail"] and "key" in check["hint"]
    assert asked == ["/v1/models"], "that of the choice of a model; doctor itself asks nothing"


@pytest.mark.matrix
def test_an_unknown_window_is_told_once_a_day_with_the_line_that_sets_it(nexus: Run) -> None:
    from nexus_cli.config.paths import places

    with ScriptedServer(["one", "two", "three", "four"]) as server:
        env = {"OPENAI_API_BASE": f"{server.url}/v1", "NEXUS_MODEL": "openai/new"}
        line = b"To set it: nexus config set 'models.\"openai/new\".window' 128000"
        first, second = (nexus("ask", "hi", env=env) for _ in range(2))
        assert line in first.stderr and b"unknown context window" not in second.stderr and second.returncode == 0
        (mark,) = (places().cache / "notices").iterdir()
        os.utime(mark, (0, 0))
        assert line in nexus("ask", "hi", env=env).stderr


def test_model_show_tells_all_that_is_known(nexus: Run, config: Path) -> None:
    import json

    config.write_text('[alias]\nfast = "openai/gpt-5.4-mini"\n')
    value = json.loads(nexus("model", "show", "fast", "--json").stdout)
    assert value["name"] == "openai/gpt-5.4-mini" and value["provider"] == "openai"
    assert value["because"] == ["alias fast"]
    assert value["known"] and value["window"] > 100_000 and value["input_price"] > 0
    shown = nexus("model", "show", "anthropic/claude-sonnet-5").stdout.decode()
    assert "provider" in shown and "anthropic" in shown and "per million tokens" in shown
    unknown = nexus("model", "show", "openai/not-in-any-table").stdout.decode()
    assert "128,000?" in unknown and "unknown" in unknown
    in_use = json.loads(nexus("model", "show", "--json", env={"NEXUS_MODEL": "fast"}).stdout)
    assert in_use["name"] == value["name"]
    unset = nexus("model", "show")
    assert unset.returncode == 2 and b"no model is set" in unset.stderr
    nobody = nexus("model", "show", "not-a-model-at-all")
    assert nobody.returncode == 2 and b"is not from a known provider" in nobody.stderr


def test_model_use_writes_the_personal_setting(nexus: Run, config: Path) -> None:
    config.write_text('# mine\n[alias]\nfast = "openai/gpt-5.4-mini"\n')
    assert nexus("model", "use", "fast").returncode == 0
    assert nexus("config", "get", "model").stdout == b"fast\n" and "# mine" in config.read_text()
    told = nexus("model", "use", "openai/not-in-any-table", env={"NEXUS_MODEL": "other/one"})
    assert (
        told.returncode == 0
        and b"unknown context window" in told.stderr
        and b".window' 128000" in told.stderr
        and b"NEXUS_MODEL is set" in told.stderr
    )
    before = config.read_bytes()
    for name in ("not-a-model-at-all", "openai/", "", "[/bold]"):
        assert nexus("model", "use", name).returncode == 2
    assert config.read_bytes() == before


def test_a_gateway_that_lacks_the_usual_model_gives_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, environ = Settings(default_models=KEYS), {"OPENAI_API_KEY": "secret"}
    with ScriptedServer() as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.base("chat"))
        chosen = with_variables(environ, choose_model, "", settings, servers=none)
    assert chosen.model == "openai/scripted" and "openai/scripted" in chosen.announce


@pytest.mark.parametrize(
    ("listed", "model"),
    [
        (["openai/embed-3", "openai/acme/gpt-5.6", "openai/llama"], "openai/acme/gpt-5.6"),
        (["openai/acme/gpt-5.6", KEYS["OPENAI_API_KEY"]], KEYS["OPENAI_API_KEY"]),
        (["openai/embed-3", "openai/llama"], KEYS["OPENAI_API_KEY"]),
        ([], KEYS["OPENAI_API_KEY"]),
    ],
)
def test_of_several_models_of_a_gateway_the_nearest_name_is_taken(
    monkeypatch: pytest.MonkeyPatch, listed: list[str], model: str
) -> None:
    monkeypatch.setattr("nexus_cli.provider.served_models.list_served", lambda provider: listed)
    settings = Settings(default_models=KEYS)
    assert with_variables({"OPENAI_API_KEY": "secret"}, choose_model, "", settings, servers=none).model == model
    own = Settings(default_models=KEYS, key_name="work")
    named = with_variables({"OPENAI_API_KEY": "secret"}, choose_model, "", own, servers=none).model
    assert named == f"work:{KEYS['OPENAI_API_KEY']}", "the list is that of another key"
