"""Settings: where values come from, what is refused and how clearly, and that writing one keeps the rest."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
import subprocess
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample
from surroundings import with_variables

from nexus_cli.cli.setup.config import edit_settings
from nexus_cli.config import settings_file
from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.load_settings import (
    build_settings,
    load_settings,
    parse_values,
    quote_part,
    read_values,
    split_key,
)
from nexus_cli.config.paths import Places
from nexus_cli.config.setting_tables import DEFAULTS, NAMED_TABLES, SETTINGS
from nexus_cli.config.settings import Settings
from nexus_cli.config.settings_file import parse_value, write_setting
from nexus_cli.config.settings_text import settings_template, settings_text
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MAX_INT
from nexus_cli.provider.model_table import model_info

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def here(tmp_path: Path) -> Places:
    return Places(tmp_path / "config", tmp_path / "data", tmp_path / "cache", tmp_path / "log")


def load(places: Places, text: str = "", **environ: str) -> Settings:
    places.config.mkdir(exist_ok=True)
    places.settings.write_text(text)
    return with_variables(environ, load_settings, places).settings


def test_the_commented_file_and_the_classes_have_the_same_defaults() -> None:
    assert parse_values(settings_text(), Path("config.toml")) == DEFAULTS
    assert dataclasses.replace(build_settings(DEFAULTS), default_models={}) == Settings()


@pytest.mark.parametrize("value", ['"auto"', "0", "10"])
def test_a_table_of_earlier_versions_is_accepted_with_one_notice(here: Places, value: str) -> None:
    settings = load(here, f'effort = "high"\n\n[warm]\nminutes = {value}\n')
    assert settings.effort == "high"
    assert settings.notices == (f"{here.settings}, line 3: [warm] is no longer supported; remove it",)
    with pytest.raises(NexusError, match=r"warm\.minutes is no longer supported"):
        parse_value("warm.minutes", value)


def test_every_key_has_a_comment_in_the_packaged_file() -> None:
    lines = settings_text().splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith("#") and not line.split(" = ")[0].isupper():
            assert lines[number - 1].startswith("#"), line
    named = {line.lstrip("# ").split(" = ")[0] for line in lines if " = " in line}
    in_tables = {key for rules in NAMED_TABLES.values() for key in rules.settings}
    left = ({key.rpartition(".")[2] for key in SETTINGS if key not in ("check", "hook", "mcp")} | in_tables) - named
    assert not left, f"the commented file lacks: {sorted(left)}"
    assert "# [mcp.files]" in lines


def test_the_models_of_the_seven_keys_and_two_logins_are_known() -> None:
    models = load_settings(Places(*[Path("/nowhere")] * 4)).settings.default_models
    assert len(models) == 9
    for name, model in models.items():
        info = model_info(model)
        assert info.known and info.covered == name.endswith("_LOGIN"), model
        assert info.covered or (info.input_price and info.window >= 200_000), model


def test_personal_settings_win_over_defaults_and_the_environment_over_both(here: Places) -> None:
    settings = load(here, 'model = "mine"\n[limits]\nmax_steps = 7\n', NEXUS_MODEL="other")
    assert (settings.model, settings.limits.max_steps, settings.compact.at) == ("other", 7, 0.85)
    origins = with_variables({"NEXUS_MODEL": "other"}, load_settings, here).origins
    assert origins["model"] == "environment NEXUS_MODEL"
    assert origins["limits.max_steps"] == str(here.settings)
    assert origins["allow"] == "default"


def test_the_largest_whole_number_of_an_option_is_that_of_a_setting(here: Places) -> None:
    settings = load(here, f"[limits]\nmax_steps = {MAX_INT}\n[models.m]\nwindow = {MAX_INT}\n")
    assert settings.limits.max_steps == settings.models["m"]["window"] == MAX_INT


def test_a_name_with_dots_and_slashes_can_be_a_model(here: Places) -> None:
    settings = load(here, '[models."openai/x-1.5"]\nwindow = 9000\ninput_price = 1\n[alias]\n"a.b" = "m"\n')
    assert settings.models == {"openai/x-1.5": {"window": 9000, "input_price": 1.0}}
    assert settings.alias == {"a.b": "m"}


BROKEN = [
    ("model = \n", "line 1", "not valid TOML"),
    ("[limits]\nmax_steps = 1\nmax_steps = 2\n", "line 3", "not valid TOML"),
    ('model = "x', "line 1", "not valid TOML"),
    ('\nmodle = "x"\n', "line 2", "Did you mean model?"),
    ("[limits]\n\nmax_step = 3\n", "line 3", "Did you mean limits.max_steps?"),
    ('[limits]\nmax_steps = "3"\n', "line 2", 'limits.max_steps is "3", expected a whole number'),
    ("[limits]\nmax_steps = true\n", "line 2", "expected a whole number"),
    ('[[check]]\nglob = "*.py"\ncomand = "x"\n', "line 1: check", "unknown key `comand`"),
    ('[[check]]\nglob = "*"\ncommand = "x \\"{files}\\""\n', "check", "`command` has {files} in quotes"),
    ('[[hook]]\nevent = "Nope"\ncommand = "x"\n', "hook: `event` is", '"Nope", not one of SessionStart'),
    ('[[hook]]\nevent = "Stop"\ncommand = "x"\nrun = 1\n', "hook", "unknown key `run`"),
    ('[[hook]]\nevent = "Stop"\ntimeout = 0\ncommand = "x"\n', "hook", "`timeout` must be a number of seconds"),
    ("[limits]\nmax_steps = 0\n", "line 2", "from 1"),
    (f"[limits]\nmax_steps = {2**53 + 1}\n", "line 2", "from 1 to 9007199254740992"),
    (f"[limits]\nmax_total_tokens = {10**20}\n", "line 2", "from 1 to 9007199254740992"),
    (f"[models.m]\nwindow = {10**20}\n", "line 2", "from 1000 to 9007199254740992"),
    ("[limits]\nmax_cost = nan\n", "line 2", "dollars"),
    ('allow = "some"\n', "line 1", '"ask", "edit", "auto", "all"'),
    ("limits = 3\n", "line 1", "a table [limits]"),
    ("[compact]\nat = 3\n", "line 2", "0.3 to 0.95"),
    ("[compact]\nat = 0.3\n", "", "compact.at (0.3) must be above"),
    ('[models."a/b"]\nwindo = 1\n', "line 2", 'models."a/b".window'),
    ("[limits.deep]\nx = 1\n", "line 1", "limits.deep"),
    ('[sandbox]\nwrite = ["build"]\n', "line 2", "a list of absolute paths"),
    ("[sandbox]\nwrite = [1]\n", "line 2", "a list of absolute paths"),
    ('[sandbox]\nenv_pass = "A"\n', "line 2", "a list of variable names"),
    ('[sandbox]\nbackend = "on"\n', "line 2", '"landlock"'),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("text", "line", "why"), BROKEN)
def test_a_broken_file_is_told_with_its_line_and_what_is_wanted(here: Places, text: str, line: str, why: str) -> None:
    with pytest.raises(NexusError) as caught:
        load(here, text)
    assert caught.value.exit_status == 2
    for part in (str(here.settings), line, why):
        assert part in caught.value.line, caught.value.line


def test_a_file_that_is_none_is_told(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    here.settings.mkdir(parents=True)
    with pytest.raises(NexusError, match="is not a file"):
        read_values(here.settings)
    monkeypatch.setenv("NEXUS_HOME", str(here.config.parent))
    assert ledger_place() == here.ledger, "sessions can be read: a folder names no server"
    here.settings.rmdir()
    here.settings.write_text("# x\n" * 300_000)
    with pytest.raises(NexusError, match="has more than 1,048,576 bytes"):
        read_values(here.settings)
    here.settings.write_bytes(b'a = 1\nb = "\xff"\n')
    with pytest.raises(NexusError, match="line 2: is not UTF-8"):
        read_values(here.settings)


def test_a_pipe_in_place_of_the_file_is_told_and_never_opened(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(here.config.parent))
    here.config.mkdir()
    os.mkfifo(here.settings)
    for act in (lambda: read_values(here.settings), lambda: write_setting(here, "limits.max_steps", "5"), ledger_place):
        with pytest.raises(NexusError, match="is not a file"):
            act()


def test_no_file_is_no_error(here: Places) -> None:
    assert read_values(here.settings) == {}


@pytest.mark.matrix
@given(st.text(max_size=60))
def test_any_text_is_settings_or_a_config_error(text: str) -> None:
    try:
        values = parse_values(text, Path("config.toml"))
    except NexusError as error:
        assert error.kind == "config" and "config.toml" in error.line
    else:
        assert build_settings(values) is not None


@given(st.text(min_size=1))
def test_any_name_survives_quoting(name: str) -> None:
    assert split_key(f"alias.{quote_part(name)}") == ["alias", name]
    assert split_key(f"models.{quote_part(name)}.window") == ["models", name, "window"]


@pytest.mark.parametrize(("table", "last"), [("models", "window"), ("rules", "allow")])
def test_a_name_in_single_quotes_is_taken_word_for_word(table: str, last: str) -> None:
    assert split_key(rf"{table}.'/a.b\"c'.{last}") == [table, r"/a.b\"c", last]


def test_a_table_is_no_setting_and_its_keys_are_named(here: Places) -> None:
    with pytest.raises(NexusError, match="this is a table of settings") as raised:
        write_setting(here, "limits", "3")
    assert "limits.max_steps" in raised.value.hint
    with pytest.raises(NexusError, match="this is a table of settings") as raised:
        write_setting(here, 'models."openai/x"', "3")
    assert 'models."openai/x".window' in raised.value.hint


def test_setting_one_keeps_comments_and_is_private(here: Places) -> None:
    here.config.mkdir()
    here.settings.write_text('# mine\nmodel = "a"  # why\n\n[limits]\n# steps\nmax_steps = 5\n')
    write_setting(here, "limits.max_steps", "9")
    write_setting(here, "limits.max_cost", "2")
    text = here.settings.read_text()
    assert '# mine\nmodel = "a"  # why\n' in text and "# steps\nmax_steps = 9\n" in text
    assert tomllib.loads(text)["limits"] == {"max_steps": 9, "max_cost": 2.0}
    assert stat.S_IMODE(here.settings.stat().st_mode) == 0o600
    assert os.listdir(here.config) == ["config.toml"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'\xef\xbb\xbf# me\nmodel = "a"\n', b'\xef\xbb\xbf# me\nmodel = "b"\n\n[limits]\nmax_steps = 4\n'),
        (b'# me\r\nmodel = "a"\r\n', b'# me\r\nmodel = "b"\r\n\r\n[limits]\r\nmax_steps = 4\r\n'),
    ],
)
def test_setting_one_keeps_the_byte_order_mark_and_the_line_ends(here: Places, before: bytes, after: bytes) -> None:
    here.config.mkdir()
    here.settings.write_bytes(before)
    write_setting(here, "model", "b")
    write_setting(here, "limits.max_steps", "4")
    assert here.settings.read_bytes() == after


def test_what_another_program_wrote_meanwhile_stays(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    load(here, 'model = "a"\n')

    def synced(_: int) -> None:
        here.settings.write_text('model = "theirs"\n')

    monkeypatch.setattr(os, "fsync", synced)
    with pytest.raises(NexusError, match="the file has changed"):
        write_setting(here, "limits.max_steps", "4")
    assert here.settings.read_text() == 'model = "theirs"\n'
    assert os.listdir(here.config) == ["config.toml"]


def test_a_setting_waits_for_another_process_but_not_for_ever(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_file, "WAIT", 0.02)
    load(here, 'model = "a"\n')
    with FileLock.wait(here.config / ".config.toml.lock"), pytest.raises(NexusError) as told:
        write_setting(here, "model", "b")
    assert "locked by another process" in str(told.value) and "Try again" in told.value.hint
    write_setting(here, "model", "b")
    assert here.settings.read_text() == 'model = "b"\n'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", "openai/x"),
        ("provider.retries", "0"),
        ("compact.at", "0.9"),
        ("alias.fast", "openai/small"),
        ("alias.a.b", "m"),
        ("models.openai/x-1.5.window", "32000"),
        ('models."openai/x-1.5".images', "true"),
        ("default_models.MY_KEY", "mine/model"),
        ("sandbox.env_pass", "NPM_TOKEN, PGPASSWORD"),
        ("sandbox.write", ""),
        ("sandbox.unix_sockets", "true"),
    ],
)
def test_every_kind_of_key_can_be_set_and_unset(here: Places, key: str, value: str) -> None:
    write_setting(here, key, value)
    parts = split_key(key)
    name = ".".join(quote_part(part) for part in parts)
    assert read_values(here.settings) == {name: parse_value(key, value)}
    assert stat.S_IMODE(here.config.stat().st_mode) == 0o700
    write_setting(here, key, None)
    assert read_values(here.settings) == {}


@pytest.mark.parametrize("typed", ["run", "auto", "AUTO"])
def test_a_level_is_stored_by_its_present_name(here: Places, typed: str) -> None:
    write_setting(here, "allow", typed)
    assert 'allow = "auto"' in here.settings.read_text() and read_values(here.settings) == {"allow": "auto"}


@pytest.mark.parametrize(("key", "value"), [("compact.at", "0.31"), ("nope", "1"), ("allow", "x"), ("limits", "3")])
def test_a_wrong_value_leaves_the_file_alone(here: Places, key: str, value: str) -> None:
    write_setting(here, "effort", "low")
    before = here.settings.read_bytes()
    with pytest.raises(NexusError):
        write_setting(here, key, value)
    assert here.settings.read_bytes() == before and os.listdir(here.config) == ["config.toml"]


@pytest.mark.matrix
def test_settings_that_are_set_at_the_same_time_are_all_kept(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    written = settings_file.replace_settings

    def slowly(path: Path, text: str, before: str) -> None:
        time.sleep(0.05)
        written(path, text, before)

    monkeypatch.setattr(settings_file, "replace_settings", slowly)
    keys = [f"models.m{number}.window" for number in range(4)]
    with ThreadPoolExecutor(len(keys)) as threads:
        list(threads.map(lambda key: write_setting(here, key, "50000"), keys))
    assert read_values(here.settings) == dict.fromkeys(keys, 50_000) and os.listdir(here.config) == ["config.toml"]


@pytest.mark.parametrize(("number", "hint"), [(errno.ENOSPC, "Free some space"), (errno.EACCES, "permissions")])
def test_a_file_that_cannot_be_written_is_as_it_was_and_the_hint_says_what_helps(
    here: Places, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def refuses(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    write_setting(here, "effort", "low")
    monkeypatch.setattr(os, "fsync", refuses)
    with pytest.raises(NexusError) as caught:
        write_setting(here, "effort", "high")
    assert (caught.value.kind, hint in caught.value.hint) == ("internal", True)
    assert read_values(here.settings) == {"effort": "low"} and os.listdir(here.config) == ["config.toml"]


def test_the_word_none_is_a_value_like_others(here: Places) -> None:
    write_setting(here, "effort", "none")
    assert read_values(here.settings) == {"effort": "none"}


def test_set_needs_a_value(nexus: Run) -> None:
    done = nexus("config", "set", "limits.max_steps")
    assert done.returncode == 2 and b"VALUE" in done.stderr


@pytest.mark.matrix
def test_unset_removes_a_setting_and_its_default_applies_again(nexus: Run) -> None:
    assert nexus("config", "set", "limits.max_steps", "7").returncode == 0
    assert nexus("config", "unset", "limits.max_steps").returncode == 0
    assert nexus("config", "get", "limits.max_steps").stdout.strip() == b"200"
    again = nexus("config", "unset", "limits.max_steps")
    assert again.returncode == 0 and again.stderr.startswith(b"nexus: no value for limits.max_steps in ")
    assert json.loads(nexus("config", "unset", "limits.max_steps", "--json").stdout)["ids"] == []


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("rules.allow", '["bash(make *)", "(("]', b"`((` is not a rule"),
        ('rules."~/src".deny', "read_file(", b"`read_file(` is not a rule"),
        ('alias."x', "openai/y", b"quote in the key is not closed"),
        ("models.'foo.window", "5000", b"quote in the key is not closed"),
    ],
)
def test_a_wrong_rule_or_a_key_with_an_open_quote_is_not_stored(
    nexus: Run, here: Places, key: str, value: str, why: bytes
) -> None:
    done = nexus("config", "set", key, value)
    assert done.returncode == 2 and why in done.stderr and done.stderr.count(b"\n") == 1
    assert not here.settings.exists()


def test_an_effort_that_no_model_knows_is_refused_before_anything_is_sent(nexus: Run) -> None:
    for arguments in (["ask", "--effort", "silly", "hi"], ["config", "set", "effort", "silly"]):
        done = nexus(*arguments)
        assert done.returncode == 2 and b"silly" in done.stderr and b"xhigh" in done.stderr


def test_setting_writes_through_a_link(here: Places, tmp_path: Path) -> None:
    here.config.mkdir()
    (tmp_path / "dotfiles.toml").write_text("# kept\n")
    here.settings.symlink_to(tmp_path / "dotfiles.toml")
    write_setting(here, "effort", "low")
    assert here.settings.is_symlink() and "# kept" in (tmp_path / "dotfiles.toml").read_text()


def test_the_commands_show_get_set_and_path(nexus: Run) -> None:
    path = nexus("config", "path").stdout.decode().strip()
    assert path == os.environ["NEXUS_HOME"] + "/config/config.toml" and not Path(path).exists()
    assert nexus("config", "set", "limits.max_steps", "12").returncode == 0
    assert nexus("config", "get", "limits.max_steps").stdout == b"12\n"
    shown = nexus("config", "show", "--origin").stdout.decode()
    assert "limits.max_steps = 12" in shown and path in shown and "# default" in shown
    assert b"has no value" in nexus("config", "get", "limits.max_cost").stderr
    assert nexus("config", "set", "sandbox.env_pass", "A_TOKEN, B_KEY").returncode == 0
    assert nexus("config", "get", "sandbox.env_pass").stdout == b'["A_TOKEN", "B_KEY"]\n'
    shown = nexus("config", "show").stdout.decode()
    assert 'sandbox.env_pass = ["A_TOKEN", "B_KEY"]' in shown and "sandbox.write = []" in shown


@pytest.mark.matrix
def test_a_broken_file_stops_ask_and_is_found_by_doctor(nexus: Run, config: Path) -> None:
    config.write_text("model = \n")
    asked = nexus("ask", "hi")
    assert asked.returncode == 2 and b"line 1" in asked.stderr and str(config).encode() in asked.stderr
    looked = nexus("doctor")
    assert looked.returncode == 1 and b"BROKEN" in looked.stdout


def leaving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *texts: str) -> None:
    """Set an editor that leaves these texts, one at each start, and keeps what it was given."""
    for number, text in enumerate(texts):
        (tmp_path / f"leave{number}").write_text(text)
    script = tmp_path / "editor.sh"
    script.write_text(
        "here=${0%/*} number=0\n"
        'while [ -e "$here/given$number" ]; do number=$((number + 1)); done\n'
        'cat "$1" >"$here/given$number"\n'
        'cat "$here/leave$number" >"$1"\n'
    )
    monkeypatch.setenv("EDITOR", f"sh {script}")


def test_the_template_sets_nothing_and_names_every_key() -> None:
    text = settings_template()
    assert parse_values(text, Path("config.toml")) == {}
    named = {line.partition(" = ")[0].strip("# ") for line in text.splitlines() if " = " in line}
    assert {
        key.rpartition(".")[2] for key in SETTINGS if key not in ("check", "hook", "mcp")
    } <= named and "do not edit" not in text


def test_edit_offers_a_commented_file_and_writes_what_can_be_read(
    here: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving(monkeypatch, tmp_path, "[limits]\nmax_steps = 7  # mine\n\n\n")
    assert edit_settings(here, lambda error: False)
    assert (tmp_path / "given0").read_text() == settings_template()
    assert here.settings.read_text() == "[limits]\nmax_steps = 7  # mine\n"
    assert stat.S_IMODE(here.settings.stat().st_mode) == 0o600
    (tmp_path / "leave1").write_text(here.settings.read_text())
    assert not edit_settings(here, lambda error: False)


def test_edit_takes_nothing_away_that_was_set_meanwhile(
    here: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def edit(text: str, name: str) -> str:
        write_setting(here, "effort", "low")
        return 'model = "mine"'

    monkeypatch.setattr("nexus_cli.ui.input.editor.edit_text", edit)
    with pytest.raises(NexusError, match="the file has changed in the meantime") as caught:
        edit_settings(here, lambda error: True)
    kept = here.config / "config.toml.rejected"
    assert str(kept) in caught.value.hint and kept.read_text() == 'model = "mine"\n'
    assert read_values(here.settings) == {"effort": "low"}


def test_edit_of_nothing_makes_no_file(here: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving(monkeypatch, tmp_path, settings_template())
    assert not edit_settings(here, lambda error: False)
    assert not here.settings.exists()


@pytest.mark.matrix
@pytest.mark.parametrize("broken", sample([text for text, _, _ in BROKEN], 4))
def test_a_broken_edit_is_offered_again_and_never_takes_the_files_place(
    here: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    here.config.mkdir()
    here.settings.write_text('model = "old"\n')
    told: list[NexusError] = []
    leaving(monkeypatch, tmp_path, broken, broken + "# ", 'model = "new"\n')
    with pytest.raises(NexusError) as caught:
        edit_settings(here, lambda error: told.append(error) or len(told) < 2)  # type: ignore[func-returns-value]
    assert len(told) == 2 and str(here.settings) in caught.value.line and "unchanged" in caught.value.line
    assert here.settings.read_text() == 'model = "old"\n'
    kept = here.config / "config.toml.rejected"
    assert kept.read_text().strip() == (broken + "# ").strip() and str(kept) in caught.value.line
    assert (tmp_path / "given1").read_text().strip() == broken.strip(), "what was typed is not lost"
    assert edit_settings(here, lambda error: True)
    assert here.settings.read_text() == 'model = "new"\n'


def test_without_a_terminal_no_editor_is_guessed(nexus: Run) -> None:
    done = nexus("config", "edit", env={"VISUAL": "", "EDITOR": ""})
    assert done.returncode == 2 and b"no terminal" in done.stderr and done.stdout == b""
    done = nexus("config", "edit", "--json", env={"VISUAL": "cat"})
    assert json.loads(done.stdout)["ids"] == [] and b"#" in done.stderr, "what the editor prints is no result"


@pytest.mark.matrix
def test_an_editor_that_fails_is_one_line(nexus: Run) -> None:
    for editor, why in (("false", b"exit status 1"), ("/no/such/editor", b"cannot be started"), ("'", b"quoting")):
        done = nexus("config", "edit", env={"VISUAL": editor})
        assert done.returncode == 2 and why in done.stderr and done.stderr.count(b"\n") == 1
    done = nexus("config", "edit", env={"VISUAL": "true"})
    assert done.returncode == 0 and b"nothing was changed" in done.stderr
    assert not Path(os.environ["NEXUS_HOME"]).exists()
