"""`nexus doctor`: exit 0 where nexus can work, with or without a key; 1 only where something is broken."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from ledger.postgres import Server, sharing
from programs import need
from project_files import write_files
from server.firm_proxy import FirmProxy, make_ca
from server.play import ScriptedServer

from nexus_cli.config import trust
from nexus_cli.config.load_settings import build_settings
from nexus_cli.config.paths import places
from nexus_cli.config.setting_tables import DEFAULTS
from nexus_cli.conversation.tokens import counter
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import Ledger
from nexus_cli.reports import environment_checks as doctor
from nexus_cli.sandbox import probe

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def checks(done: subprocess.CompletedProcess[bytes]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_without_a_key_it_works_and_says_what_to_do(nexus: Run) -> None:
    done = nexus("doctor", "--json")
    found = checks(done)
    assert done.returncode == 0 and json.loads(done.stdout)["model"] is None
    assert found["litellm"]["status"] == found["token tables"]["status"] == found["ledger"]["status"] == "ok"
    assert found["keys"]["status"] == "note" and "OPENAI_API_KEY" in found["keys"]["hint"]
    text = nexus("doctor").stdout.decode()
    assert "nexus needs a model to work here" in text


@pytest.mark.matrix
def test_a_setup_of_another_program_that_was_not_imported_is_a_note(nexus: Run) -> None:
    home = Path(os.environ["HOME"])
    write_files(home, {".codex/AGENTS.md": "Use tabs.\n"})
    assert checks(nexus("doctor", "--json"))["codex"]["detail"].startswith("not imported: ")


@pytest.mark.matrix
def test_names_of_keys_are_shown_and_never_their_values(nexus: Run) -> None:
    done = nexus("doctor", env={"OPENAI_API_KEY": "sk-very-secret"})
    assert b"OPENAI_API_KEY" in done.stdout and b"secret" not in done.stdout + done.stderr
    assert b"nexus can work here." in done.stdout


@pytest.mark.matrix
def test_its_own_environment_on_the_path_is_a_note_and_none_of_it_is_none(nexus: Run, tmp_path: Path) -> None:
    own = os.path.join(sys.prefix, "bin")
    on_path = checks(nexus("doctor", "--json", env={"PATH": f"{own}/:{os.defpath}"}))["path"]
    assert on_path["status"] == "note" and f"{own}/" in on_path["detail"]
    assert f"ln -s {own}/nexus" in on_path["hint"]
    assert checks(nexus("doctor", "--json", env={"PATH": os.defpath}))["path"]["status"] == "ok"
    by_name = checks(nexus("doctor", "--json", env={"PATH": os.defpath, "VIRTUAL_ENV": sys.prefix}))["path"]
    assert by_name["status"] == "note" and "VIRTUAL_ENV" in by_name["detail"]


def test_an_environment_in_the_project_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = build_settings(DEFAULTS)
    monkeypatch.chdir(tmp_path)
    assert doctor._python(settings).status == "ok"
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    found = doctor._python(settings)
    assert found.status == "note" and "where the model's commands" in found.detail and "uv tool install" in found.hint


def test_a_token_table_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = build_settings(DEFAULTS)
    assert doctor._tiktoken(settings).status == "ok"
    monkeypatch.setattr(counter, "table", lambda name: None if name == "o200k_base" else Path(name))
    found = doctor._tiktoken(settings)
    assert found.status == "note" and found.detail == "tables are missing: o200k_base"


def test_the_sandbox_is_tried_and_each_profile_started(nexus: Run, tmp_path: Path) -> None:
    done = nexus("doctor", "--json")
    walls = json.loads(done.stdout)["sandbox"]
    if walls["backend"] == "none":
        pytest.skip(f"no sandbox here: {walls['why']}")
    assert "no write outside" in walls["walls"] and set(walls["profiles"]) == {"read", "write", "net", "none"}
    read, write, net = (walls["profiles"][name] for name in ("read", "write", "net"))
    assert read["writes"] == ["$TMPDIR"] and write["writes"][0] == str(tmp_path.resolve()) and write["start_ms"] > 0
    assert (read["network"], write["network"], net["network"]) == (False, False, True)
    found = checks(done)
    assert walls["backend"] in found["sandbox"]["detail"] and "ms" in found["profile write"]["detail"]


@pytest.mark.matrix
@pytest.mark.parametrize(("setting", "status", "code"), [("off", "note", 0), ("required", "broken", 1)])
def test_a_missing_sandbox_is_told_with_what_to_do(
    setting: str,
    status: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
) -> None:
    config.write_text(f'[sandbox]\nbackend = "{setting}"\n')
    monkeypatch.setattr(probe, "_candidates", lambda project, abi: [])
    value = doctor.check_environment(config.parent)
    assert value["ok"] is (code == 0)
    (found,) = (check for check in value["checks"] if check["name"] == "sandbox")
    assert found["status"] == status and value["sandbox"]["walls"] == [] and found["hint"]
    assert value["sandbox"]["backend"] == "none" and list(value["sandbox"]["profiles"]) == ["none"]
    assert ("bubblewrap" in found["hint"]) == (setting == "required" and sys.platform.startswith("linux"))


@pytest.mark.matrix
def test_rules_that_cannot_be_read_are_told_with_file_and_line(nexus: Run, config: Path) -> None:
    config.write_text('[rules]\nallow = ["bash(make *)", "bsh(ls)"]\n')
    found = nexus("doctor", "--json")
    assert found.returncode == 0 and checks(found)["rules"]["status"] == "note"
    assert "config.toml line 2" in checks(found)["rules"]["detail"]
    config.write_text('[rules]\ndeny = [\n"bsh(ls)"]\n')
    found = nexus("doctor", "--json")
    assert found.returncode == 1 and "config.toml line 3" in checks(found)["rules"]["detail"]
    config.write_text('[rules]\ndeny = ["bash(ls)"]\n')
    assert checks(nexus("doctor", "--json"))["rules"]["detail"] == "1 deny"


@pytest.mark.matrix
def test_checks_after_edits_are_those_of_a_trusted_project_too(nexus: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {".nexus/config.toml": '[[check]]\nglob = "*.md"\ncommand = "true"\n'})
    assert "checks" not in checks(nexus("doctor", "--json"))
    trust.trust(tmp_path)
    assert checks(nexus("doctor", "--json"))["checks"]["detail"] == "after edits: `true`"


def test_what_is_broken_is_exit_1(nexus: Run, config: Path) -> None:
    config.write_text("[limits]\nmax_steps = 0\n")
    done = nexus("doctor", "--json")
    assert done.returncode == 1 and "line 2" in checks(done)["settings"]["detail"]


@pytest.mark.matrix
def test_a_ledger_that_cannot_be_made_is_broken(nexus: Run) -> None:
    data = Path(os.environ["NEXUS_HOME"]) / "data"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text("a file where the folder should be")
    done = nexus("doctor", "--json")
    ledger = checks(done)["ledger"]
    assert (done.returncode, ledger["status"]) == (1, "broken") and str(data / "ledger.db") in ledger["detail"]
    assert b"cannot be opened" in b" ".join(nexus("status").stdout.split())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_ledger_that_has_no_place_to_be_made_in_is_broken(nexus: Run) -> None:
    home = Path(os.environ["NEXUS_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o500)
    try:
        done = nexus("doctor", "--json")
    finally:
        home.chmod(0o700)
    assert done.returncode == 1 and f"{home} cannot be written" in checks(done)["ledger"]["detail"]


def little_room() -> None:
    """No file of this process grows past 64 KiB: enough to open a ledger, too little to go on in one."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))


@pytest.mark.matrix
def test_a_ledger_that_can_be_opened_and_cannot_grow_is_broken(nexus: Run) -> None:
    Ledger.open(places().ledger).close()
    before = sorted(places().data.rglob("*"))
    done = nexus("doctor", "--json", preexec_fn=little_room)
    ledger = checks(done)["ledger"]
    assert (done.returncode, ledger["status"]) == (1, "broken")
    assert f"{places().data} cannot be written" in ledger["detail"] and ledger["hint"]
    assert sorted(places().data.rglob("*")) == before
    assert checks(nexus("doctor", "--json"))["ledger"]["status"] == "ok"
    assert sorted(places().data.rglob("*")) == before


@pytest.mark.matrix
def test_where_no_ledger_was_begun_room_is_looked_for_and_nothing_made(nexus: Run) -> None:
    done = nexus("doctor", "--json", preexec_fn=little_room)
    assert (done.returncode, checks(done)["ledger"]["status"]) == (1, "broken")
    assert nexus("doctor").returncode == 0 and not Path(os.environ["NEXUS_HOME"]).exists()


def test_a_full_disk_is_told_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    check = doctor._unwritable(tmp_path / "data" / "ledger.db")
    assert check is not None and (check.status, check.hint) == ("broken", "Free some space")
    assert os.listdir(tmp_path) == []


@pytest.mark.matrix
def test_broken_settings_hide_no_key_that_is_set(nexus: Run, config: Path) -> None:
    config.write_text("bad = \n")
    found = checks(nexus("doctor", "--json", env={"OPENAI_API_KEY": "x"}))
    assert found["settings"]["status"] == "broken"
    assert (found["keys"]["status"], found["keys"]["detail"]) == ("ok", "OPENAI_API_KEY")
    assert "OPENAI_API_KEY" in checks(nexus("doctor", "--json"))["keys"]["hint"]


@pytest.mark.matrix
def test_a_ledger_on_a_server_is_looked_at(nexus: Run, postgres: Server) -> None:
    url = postgres.new_database()
    nexus("config", "set", "ledger.url", url.replace("nexus@", "nexus:s3cr3t@"))
    done = nexus("doctor", "--json")
    ledger = checks(done)["ledger"]
    assert ledger["status"] == "note" and "fsync is off on the server" in ledger["hint"], (
        "the tests' server waits for no disk"
    )
    assert "sees everything" in ledger["detail"] and "latency" in ledger["detail"]
    postgres.sql(sharing("/p", "nobody", "ana"), database=url.split("/")[3].split("?")[0])
    assert "use a role that" in checks(nexus("doctor", "--json"))["ledger"]["hint"]
    postgres.drop(url)
    gone = nexus("doctor", "--json")
    ledger = checks(gone)["ledger"]
    assert (gone.returncode, ledger["status"]) == (1, "broken") and "does not exist" in ledger["detail"]
    assert b"s3cr3t" not in done.stdout + gone.stdout + gone.stderr and not places().data.exists()


@pytest.mark.matrix
def test_a_ledger_that_was_replaced_is_named_by_each_command_that_misses_its_sessions(nexus: Run) -> None:
    Ledger.open(places().ledger).close()
    assert checks(nexus("doctor", "--json"))["ledger"]["status"] == "ok"
    places().ledger.write_bytes(b"garbage " * 99)
    missing = nexus("ask", "-m", "openai/m", "-r", "SZ2T11", "hi")
    assert missing.returncode == 2 and b"there is no such session" in missing.stderr
    (aside,) = places().data.glob("ledger.db.broken-*")
    assert f"nexus moved it to {aside}".encode() in missing.stderr
    done = nexus("doctor", "--json")
    ledger = checks(done)["ledger"]
    assert (done.returncode, ledger["status"]) == (0, "note") and str(aside) in ledger["detail"]
    assert ".recover" in ledger["hint"]
    listed = nexus("sessions", "list")
    assert listed.returncode == 0 and b"A damaged ledger was replaced: see `nexus doctor`" in listed.stderr
    aside.unlink()
    assert checks(nexus("doctor", "--json"))["ledger"]["status"] == "ok"
    assert b"damaged" not in nexus("sessions", "list").stderr


@pytest.mark.matrix
def test_damage_inside_the_ledger_is_found_and_errors_name_the_file(
    nexus: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places().ledger
    with closing(Ledger.open(path)) as ledger:
        pages = ledger.db.all("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'entries' AND rootpage > 0")
    with path.open("r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * 8192)
            file.write(b"\xff" * 150)
    done = nexus("doctor", "--json")
    found = checks(done)["ledger"]
    assert (done.returncode, found["status"]) == (1, "broken") and f"{path} is damaged: " in found["detail"]
    with closing(Ledger.open(path)) as ledger, pytest.raises(NexusError) as caught:
        ledger.db.all("SELECT count(*) FROM entries")
    assert caught.value.line.startswith(f"nexus: the ledger {path} could not be read: the file is damaged. ")
    monkeypatch.setattr(doctor, "CHECKED_BYTES", 0)
    large = doctor._ledger(build_settings(DEFAULTS))
    assert large.status == "ok" and "not checked for damage" in large.detail


@pytest.mark.matrix
def test_the_network_is_listed_and_tried_up_to_the_certificate(nexus: Run, tmp_path: Path) -> None:
    need("openssl")
    ca = make_ca(tmp_path)
    with ScriptedServer() as server, FirmProxy(server.port, ca, "me:secret") as proxy:
        behind = {
            "OPENAI_API_BASE": "https://models.firm.example/v1",
            "OPENAI_API_KEY": "sk-1",
            "NEXUS_MODEL": "openai/firm",
            "HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy.port}",
        }
        shown = f"HTTPS_PROXY=http://127.0.0.1:{proxy.port}"
        done = nexus("doctor", "--json", env=behind)
        refused = checks(done)["network"]
        assert done.returncode == 1 and refused["status"] == "broken" and shown in refused["detail"]
        assert "the certificate of models.firm.example is not trusted" in refused["detail"]
        assert "SSL_CERT_FILE=" in refused["hint"] and b"secret" not in done.stdout
        trusted = checks(nexus("doctor", "--json", env={**behind, "SSL_CERT_FILE": str(ca)}))["network"]
        assert trusted["status"] == "ok" and trusted["detail"].endswith("connected to models.firm.example")
        assert f"SSL_CERT_FILE={ca}" in trusted["detail"]
        wrong = checks(nexus("doctor", "--json", env={**behind, "HTTPS_PROXY": proxy.url}))["network"]
        assert wrong["status"] == "broken" and "HTTP status 407" in wrong["detail"]
        lost = checks(nexus("doctor", "--json", env={**behind, "SSL_CERT_FILE": str(tmp_path / "gone.pem")}))["network"]
        assert lost["status"] == "broken" and "gone.pem is not a file" in lost["hint"], "it was a note: all works"
        odd = nexus("doctor", "--json", env={**behind, "HTTPS_PROXY": "http://me:sec/ret@127.0.0.1:9"})
        assert "not of the form http://HOST:PORT" in checks(odd)["network"]["detail"] and b"sec/ret" not in odd.stdout
    away = checks(nexus("doctor", "--json", env=behind))["network"]
    assert away["status"] == "note" and "refused" in away["detail"]
    assert server.requests == server.others == []


def test_a_server_whose_program_is_missing_is_a_note(nexus: Run) -> None:
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[mcp.lost]\ncommand = ["/no/such/program"]\n[mcp.there]\ncommand = ["sh"]\n')
    settings = build_settings(DEFAULTS)
    found = doctor._mcp(settings, Path.cwd())
    assert found.status == "note" and "program not found: /no/such/program (lost)" in found.detail


def test_the_address_that_a_variable_sets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("OPENAI_API_BASE", "http://me:secret@127.0.0.1:9/v1")
    found = doctor._network(build_settings(DEFAULTS), "openai/any")
    assert found.status == "note" and "refused" in found.detail
    assert "OPENAI_API_BASE=http://127.0.0.1:9/v1" in found.detail and "secret" not in found.detail
