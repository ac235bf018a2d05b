"""Where the warm process listens, what asks for one, and what makes it outdated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus_cli.config.paths import places
from nexus_cli.warm import auto, place


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"NEXUS_HOME": "relative/home"},
        {"NEXUS_HOME": "~/home"},
        {"NEXUS_HOME": None},
        {"NEXUS_HOME": None, "XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/k"},
        {"NEXUS_HOME": "", "XDG_CONFIG_HOME": " ", "XDG_CACHE_HOME": ""},
    ],
)
def test_the_folders_are_those_of_all_other_commands(
    changes: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changes.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert place.own_folders() == (str(places().settings), str(places().cache / "warm"))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("", "auto"),
        ("[warm]\nminutes = 10\n", 10),
        ("\ufeffwarm.minutes = 5\n", 5),
        ("warm = { minutes = 7 }", 7),
        ("[warm]\nminutes = 0\n", 0),
        ("[warm]\nminutes = -1\n", 0),
        ("[warm]\nminutes = true\n", 0),
        ('[warm]\nminutes = "10"\n', 0),
        ('[warm]\nminutes = "auto"\n', "auto"),
        ("[warm]\n", "auto"),
        ("warm = 3\n", 0),
        ("[warm\n", 0),
        ("# warm\nmodel = 'x'\n", "auto"),
    ],
)
def test_only_auto_and_whole_minutes_above_zero_ask_for_a_warm_process(
    text: str, minutes: int | str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert place.wanted_minutes(str(path)) == ((10, True) if minutes == "auto" else (minutes, False))
    assert place.wanted_minutes(str(tmp_path / "none")) == place.wanted_minutes(str(tmp_path)) == (10, True)


@pytest.mark.parametrize(
    ("minutes", "switch", "wanted"), [(10, None, True), (10, "1", True), (10, "0", False), (0, None, False)]
)
def test_a_warm_process_is_wanted_by_the_settings_and_switched_off_by_a_variable(
    minutes: int, switch: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if switch:
        monkeypatch.setenv("NEXUS_WARM", switch)
    assert not auto.is_wanted(), "without a settings file, in CI"
    settings = Path(place.own_folders()[0])
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[warm]\nminutes = {minutes}\n")
    assert auto.is_wanted() is wanted


def test_a_folder_is_trusted_only_if_it_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "warm"
    with pytest.raises(FileNotFoundError):
        place.folder_problem(str(folder))
    folder.mkdir(mode=0o700)
    assert place.folder_problem(str(folder)) == ""
    for mode in (0o770, 0o701, 0o722):
        folder.chmod(mode)
        assert place.folder_problem(str(folder)) == "others can enter its folder"
    folder.chmod(0o700)
    (tmp_path / "file").touch(0o600)
    assert "not a folder" in place.folder_problem(str(tmp_path / "file"))
    monkeypatch.setattr(os, "getuid", lambda: 1234567)
    assert "another user" in place.folder_problem(str(folder))


def test_a_changed_file_or_an_installed_package_makes_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    package = packages / "nexus_cli" / "room"
    package.mkdir(parents=True)
    (package / "a.py").write_text("1\n")
    monkeypatch.setattr(place, "PACKAGE", str(packages / "nexus_cli"))
    monkeypatch.setattr("sys.path", [str(packages)])
    seen = {place.identity()}
    (package / "a.py").write_text("12\n")
    seen.add(place.identity())
    os.utime(package / "a.py", ns=(1, 1))
    seen.add(place.identity())
    (packages / "litellm-2.dist-info").mkdir()
    os.utime(packages, ns=(2, 2))
    seen.add(place.identity())
    assert len(seen) == 4 and place.identity() in seen
    (package / "__pycache__").mkdir()
    (package / "notes.txt").touch()
    assert place.identity() in seen
