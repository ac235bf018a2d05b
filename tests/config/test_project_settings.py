"""What a project's config.toml may say: it tightens, names what it cannot, and never ends anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from search import sample

from nexus_cli.config import trust
from nexus_cli.config.load_settings import LoadedSettings, build_settings, load_settings
from nexus_cli.config.paths import places
from nexus_cli.config.project_settings import apply_project, load_settings_in, read_project
from nexus_cli.config.setting_tables import FIXED_TABLES
from nexus_cli.config.settings import Settings
from nexus_cli.core.limits import LEVELS, MODES, Limits, compose_limits


def personal(text: str = "") -> None:
    places().config.mkdir(parents=True, exist_ok=True)
    places().settings.write_text(text)


def load(folder: Path) -> LoadedSettings:
    return load_settings_in(folder)


def project(folder: Path, text: str | bytes, *, trusted: bool = True) -> LoadedSettings:
    (folder / ".nexus").mkdir(exist_ok=True)
    (folder / ".nexus" / "config.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    if trusted:
        trust.trust(folder)
    return load(folder)


def notice(loaded: LoadedSettings) -> str:
    (line,) = loaded.settings.notices
    assert "\n" not in line and len(line) < 600
    return line


def test_without_a_project_folder_nothing_is_different(tmp_path: Path) -> None:
    assert load(tmp_path) == load_settings(places())


def test_what_is_not_trusted_is_not_in_effect_and_said_once(tmp_path: Path) -> None:
    loaded = project(tmp_path, 'allow = "read"\n[limits]\nmax_steps = 1\n', trusted=False)
    assert notice(loaded) == "this project has .nexus/config.toml, which is not in effect; run `nexus trust`"
    assert loaded.settings.limits == Settings().limits and loaded.settings.project == Limits()
    trust.trust(tmp_path)
    assert load(tmp_path).settings.project == Limits(max_steps=1, allow="ask")
    (tmp_path / ".nexus" / "config.toml").write_text("[limits]\nmax_steps = 100000\n")
    loaded = load(tmp_path)
    assert "changed since you trusted it" in notice(loaded) and loaded.settings.project == Limits()


def test_a_project_adds_checks_unless_the_person_has_none_at_all(tmp_path: Path) -> None:
    its = '[[check]]\nglob = "*.py"\ncommand = "true"\n[worktree]\ninclude = ["data"]\n'
    checks = project(tmp_path, its).settings.check
    assert checks and [check.command for check in checks] == ["true"]
    personal("check = []\n")
    loaded = load(tmp_path).settings
    assert loaded.check == () and loaded.worktree.include == ("data",)


def test_a_project_adds_rules_to_those_of_a_person_who_has_none() -> None:
    assert FIXED_TABLES["rules"]["deny"].combine("deny", (), ("bash(git push *)",)) == ("bash(git push *)",)


def test_a_project_cannot_set_what_runs_beside_the_screen(tmp_path: Path) -> None:
    loaded = project(
        tmp_path,
        '[ui]\nstyle = "x"\nstatus_command = "touch x"\nnotify_command = "touch x"\n[bindings]\nc-y = "stop"\n',
    )
    assert loaded.settings.ui == Settings().ui and not loaded.settings.bindings
    assert "cannot set ui, bindings: a project can only tighten" in notice(loaded)


def test_limits_are_met_and_the_others_come_before_the_persons(tmp_path: Path) -> None:
    personal('allow = "edit"\n[limits]\nmax_steps = 50\nconfirm = true\n[compact]\nat = 0.8\n')
    loaded = project(
        tmp_path,
        'allow = "all"\n[limits]\nmax_steps = 20\ntimeout = 60\nconfirm = false\n'
        '[compact]\nat = 0.7\n[truncation]\nstrategy = "middle_out"\n',
    )
    here = str(tmp_path / ".nexus" / "config.toml")
    assert not loaded.settings.notices
    values = loaded.values
    assert (values["allow"], values["limits.max_steps"], values["limits.timeout"]) == ("edit", 20, 60.0)
    assert (values["limits.confirm"], values["compact.at"]) == (True, 0.7)
    assert (loaded.settings.compact.at, loaded.settings.truncation.strategy) == (0.7, "middle_out")
    assert (loaded.settings.allow, loaded.settings.limits.max_steps) == ("edit", 50), "the project's stand apart"
    origins = {key: loaded.origins[key] for key in ("allow", "limits.confirm", "limits.max_steps", "compact.at")}
    assert origins == {
        "allow": str(places().settings),
        "limits.confirm": str(places().settings),
        "limits.max_steps": here,
        "compact.at": here,
    }


@pytest.mark.matrix
@pytest.mark.parametrize(
    "text",
    [
        'model = "openai/evil"',
        'effort = "high"',
        '[alias]\nfast = "openai/evil"',
        '[models."openai/x"]\nwindow = 900000',
        '[keys]\nOPENAI_API_KEY = "openai/evil"',
        "[provider]\nretries = 0",
        '[ui]\ntheme = "dark"',
        '[compact]\nmodel = "openai/evil"',
    ],
)
def test_what_is_not_a_projects_to_set_is_named_and_has_no_effect(tmp_path: Path, text: str) -> None:
    clean = load(tmp_path)
    loaded = project(tmp_path, text + "\n")
    key = text.strip("[").replace("]\n", ".").partition(" = ")[0].partition(".")[0]
    assert f"cannot set {key}" in notice(loaded)
    assert (loaded.values, loaded.origins) == (clean.values, clean.origins)
    both = project(
        tmp_path,
        "[limits]\nmax_steps = 9\n" + text.replace("[compact]\n", "[compact]\nat = 0.8\n") + "\n"
        if text.startswith("[")
        else text + "\n[limits]\nmax_steps = 9\n",
    )
    assert both.settings.project.max_steps == 9, "the rest is in effect"


def test_a_project_switches_extraction_off_and_never_on(tmp_path: Path) -> None:
    assert not project(tmp_path, "[compact]\nextract = true\n").settings.compact.extract
    personal("[compact]\nextract = true\n")
    assert load(tmp_path).settings.compact.extract
    assert not project(tmp_path, "[compact]\nextract = false\n").settings.compact.extract


@pytest.mark.parametrize(
    ("text", "why"),
    sample(
        [
            ("modle = 1\n", "unknown setting modle"),
            ("[limits]\nmax_step = 1\n", "unknown setting limits.max_step"),
            ("[limits]\nmax_steps = 0\n", "limits.max_steps is 0"),
            ("[limits.deep]\nx = 1\n", "unknown setting limits.deep"),
            ("limits = 3\n", ""),
            ('[rules."/src"]\nallow = ["bash"]\n', 'cannot set rules."/src".allow'),
            (f"[limits]\nmax_cost = 1{'0' * 400}\n", "limits.max_cost is a value of 401 characters"),
            (f"[[check]]\nglob = '*'\ncommand = 'x'\nseconds = 1{'0' * 400}\n", "`seconds` is not a positive number"),
            (f"[limits]\nmax_steps = 0x{'f' * 9000}\n", "not valid TOML: exceeds the limit"),
            (f"[limits.max_steps.{'a.' * 4000}a]\n", "not valid TOML: nested too deeply"),
            ("allow = 'root'\n", "allow is"),
            ("[limits]\nmax_steps = 5\nmax_steps = 6\n", "not valid TOML"),
            ("a = " + "[" * 20_000, "not valid TOML"),
            (b"\xff\xfe\x00", "not UTF-8"),
            ("#" * 70_000, "larger than 64 KiB"),
            ("[compact]\nat = 0.3\n", "compact.at cannot be set: compact.at (0.3) must be above"),
            ('"\\u001b[2J" = 1\n', 'unknown setting "?[2J"'),
            ("[alias]\n" + "".join(f"a{n} = 'b'\n" for n in range(6000)), ""),
        ],
        5,
    ),
)
def test_a_broken_file_is_one_notice_and_nothing_of_it_is_in_effect(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    clean = load(tmp_path)
    loaded = project(tmp_path, text)
    told = notice(loaded)
    assert why in told and str(tmp_path / ".nexus" / "config.toml") in told and told.isprintable()
    assert loaded.values == clean.values and loaded.settings.project == Limits()


@pytest.mark.parametrize(
    ("window", "at", "to", "why"),
    [
        ("at = 0.3\nto = 0.6", 0.85, 0.6, "compact.at cannot be set: compact.at (0.3) must be above"),
        ("at = 0.3\nto = 0.2\noverflow_to = 0.1", 0.3, 0.2, ""),
        ("at = 0.5\nto = 0.6", 0.5, 0.35, "compact.to cannot be set: compact.at (0.5) must be above"),
        ("at = 0.7\nto = 0.9", 0.7, 0.35, "compact.to is 0.9"),
        ("at = 1.7", 0.85, 0.35, "compact.at is 1.7"),
        ("att = 0.7", 0.85, 0.35, "unknown setting compact.att"),
    ],
)
def test_each_key_counts_by_itself_and_what_does_not_is_named(
    tmp_path: Path, window: str, at: float, to: float, why: str
) -> None:
    loaded = project(tmp_path, f"[compact]\n{window}\nprune = false\n[limits]\nmax_steps = 7\n")
    assert (loaded.settings.compact.at, loaded.settings.compact.to) == (at, to)
    assert not loaded.settings.compact.prune and loaded.settings.project.max_steps == 7
    assert (why in notice(loaded) and notice(loaded).endswith("the rest is in effect")) if why else True
    assert bool(loaded.settings.notices) is bool(why)


@pytest.mark.matrix
def test_many_problems_are_counted(tmp_path: Path) -> None:
    told = notice(project(tmp_path, "allow = 'read'\n" + "".join(f"a{n} = 1\n" for n in range(4000))))
    assert told.count("unknown setting") == 3 and "3997 more like these; the rest is in effect" in told


def test_files_that_lead_out_of_the_project_or_are_huge_are_one_notice(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for folder in (one, two, three):
        (folder / ".nexus").mkdir(parents=True)
    (tmp_path / "evil.toml").write_text('allow = "all"\n')
    (one / ".nexus" / "config.toml").symlink_to(tmp_path / "evil.toml")
    (two / ".nexus" / "config.toml").write_bytes(b"#" * 10_000_000)
    os.mkfifo(three / ".nexus" / "config.toml")
    clean = load(tmp_path)
    for folder, why in (
        (one, "links to a place outside"),
        (two, "larger than 4 MiB"),
        (three, "not a regular file"),
    ):
        loaded = load(folder)
        assert why in notice(loaded) and loaded.values == clean.values


limits = st.fixed_dictionaries(
    {},
    optional={
        "allow": st.sampled_from(LEVELS),
        "limits.max_steps": st.integers(1, 400),
        "limits.max_cost": st.floats(0.01, 10),
        "limits.mode": st.sampled_from(MODES),
        "limits.confirm": st.booleans(),
        "limits.multi_tool": st.booleans(),
    },
)


def toml(values: dict[str, Any]) -> str:
    said = {key: str(value).lower() if isinstance(value, bool) else repr(value) for key, value in values.items()}
    rows = [f"{key.rpartition('.')[2]} = {value}" for key, value in said.items()]
    own = [row for key, row in zip(values, rows, strict=True) if key == "allow"]
    return "\n".join([*own, "[limits]", *(row for row in rows if row not in own)])


@pytest.mark.matrix
@given(limits, limits)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_project_says_what_is_in_force_is_never_looser(mine: dict[str, Any], its: dict[str, Any]) -> None:
    base = load_settings(places())
    values = {**base.values, **mine}
    before = LoadedSettings(build_settings(values), {**base.origins, **dict.fromkeys(mine, "personal")}, values)
    after = apply_project(before, read_project(toml(its).encode(), "x"), "x")
    names = [key for key in {**mine, **its} if key != "allow"]
    for loose, tight in (
        (Limits(allow=str(before.values["allow"])), Limits(allow=str(after.values["allow"]))),
        *(
            (Limits(**{n.partition(".")[2]: before.values.get(n)}), Limits(**{n.partition(".")[2]: after.values[n]}))  # type: ignore[arg-type]
            for n in names
        ),
    ):
        assert tight <= loose
    in_force, _ = compose_limits([("settings", after.settings.limits), ("project", after.settings.project)])
    assert in_force <= before.settings.limits
