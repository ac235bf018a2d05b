"""The profile `read` and home folders as people have them: tokens in toolchains, links on the way, git."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from sandbox.scene import ONE_EACH, Ground, Scene
from sandbox.test_read_profile import each_ground, readable, run_in
from search import sample

from nexus_cli.config.paths import Places
from nexus_cli.sandbox import git_settings, tool_folders
from nexus_cli.sandbox.git_settings import read_git_settings
from nexus_cli.sandbox.profile import SandboxProfile, make_profile
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.sandbox.tool_folders import hidden_settings

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SETTINGS = tuple(
    """
    .nvm/.npmrc .nvm/versions/node/v20/etc/npmrc miniconda3/.condarc anaconda3/.condarc .pyenv/versions/3.12/pip.conf
    .volta/tools/image/node/20.0.0/etc/npmrc .local/share/mise/installs/node/20/etc/npmrc .local/lib/.netrc
    .local/share/fnm/node-versions/v20/installation/etc/npmrc miniconda3/envs/x/condarc.d/more.yml
    .local/share/uv/tools/x/credentials.json .asdf/installs/nodejs/20/.npm/etc/.npmrc
    """.split()
)


def write(path: Path, text: str = "x", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def write_tool(path: Path, text: str) -> Path:
    return write(path, f"#!/bin/sh\necho {text}\n", 0o755)


def link(path: Path, target: Path | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def use_own_git(scene: Scene, text: str) -> None:
    """Give git the settings `text` in the home folder, as far as the environment says."""
    for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        scene.environ.pop(variable, None)
    write(scene.home / ".gitconfig", text)


@pytest.mark.matrix
@each_ground
def test_settings_with_tokens_are_hidden_in_toolchains(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        hidden = [write(scene.home / name) for name in SETTINGS]
        tool = write_tool(scene.home / ".nvm/versions/node/v20/bin/node", "v20")
        beside = write(tool.parents[1] / "etc/other")
        library = write(scene.home / ".pyenv/versions/3.12/lib/python3.12/site-packages/botocore/credentials.json")
        for place, path in enumerate(hidden):
            (scene.project / f"link{place}").symlink_to(path)
        scene.environ["PATH"] = f"{tool.parent}:{scene.environ['PATH']}"
        profile = scene.profile("read")
        seen = readable(scene, profile, *hidden, beside, library)
        return seen, scene.text("cat link*; node", profile), [str(beside), str(library)]

    seen, text, expected = run_in(ground, act)
    assert seen == expected
    assert text.splitlines()[-1] == "v20" and "x" not in text.splitlines()


def test_settings_in_toolchains_are_hidden_on_macos_too(tmp_path: Path) -> None:
    names = [write(tmp_path / ".nvm/etc/npmrc"), tmp_path / ".nvm", tmp_path]
    profile = SandboxProfile("read", Path("/p"), Path("/p"), hidden=(names[2], names[0]), revealed=(names[1],))
    words = seatbelt_arguments(profile, ["true"], [])
    places = dict(word.split("=", 1) for word in words if word.startswith("P") and "=" in word)
    rules = [line for line in words[2].splitlines() if "subpath (param" in line]
    assert [(line[1:6].strip(), places[line.split('"')[1]]) for line in rules] == [
        ("deny", str(names[2])),
        ("allow", str(names[1])),
        ("deny", str(names[0])),
    ]


def test_a_toolchain_is_looked_at_again_where_it_changed(tmp_path: Path) -> None:
    chain = tmp_path / "chain"
    first = write(chain / "a/b/npmrc")
    assert list(hidden_settings([chain, chain / "a"])) == [first]
    os.utime(chain / "a", ns=(1, 1))
    second = write(chain / "a/.condarc")
    assert sorted(hidden_settings([chain])) == sorted([first, second])


@pytest.mark.matrix
@each_ground
def test_a_folder_on_the_path_that_is_not_of_programs_is_not_shown(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        home = scene.home
        notes = [write(home / name) for name in ("dot/notes", "dot2/notes", "work/other/notes", "plain")]
        link(home / "bin", "dot")
        link(home / ".local/bin", "../dot2")
        write_tool(home / "work/tools/bin/mine", "mine")
        write_tool(home / ".local/share/pnpm/pnpx", "pnpx")
        folders = ("work/other", "bin", ".local/bin", "work/tools/bin", ".local/share/pnpm")
        scene.environ["PATH"] = ":".join([*(str(home / name) for name in folders), scene.environ["PATH"]])
        profile = scene.profile("read")
        return readable(scene, profile, *notes), scene.text("mine; pnpx", profile)

    assert run_in(ground, act) == ([], "mine\npnpx\n")


@pytest.mark.matrix
@each_ground
def test_links_on_the_way_to_a_program_are_there(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        home, store = scene.home, scene.base / "out/store"
        write_tool(store / "env/bin/jqx", "nix")
        link(home / ".nix-profile", store / "env")
        fnm = home / ".local/share/fnm/node-versions/v20/installation"
        write_tool(fnm / "bin/node", "v20")
        link(scene.base / "out/multishells/123", fnm)
        write_tool(scene.base / "out/cargo/bin/rgx", "cargo")
        link(home / ".cargo", scene.base / "out/cargo")
        folders = (home / ".nix-profile/bin", scene.base / "out/multishells/123/bin", home / ".cargo/bin")
        scene.environ["PATH"] = ":".join([*map(str, folders), scene.environ["PATH"]])
        return scene.text("jqx; node; rgx; cat ~/plain", scene.profile("read"))

    text = run_in(ground, act)
    assert text.startswith("nix\nv20\ncargo\n") and "plain" not in text.splitlines()


@pytest.mark.matrix
@each_ground
def test_a_home_folder_may_be_a_link(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        link(scene.base / "out/me", scene.home)
        scene.environ["HOME"] = f"{scene.base}/out/me"
        write_tool(scene.home / ".cargo/bin/rgx", "cargo")
        scene.environ["PATH"] = f"{scene.environ['HOME']}/.cargo/bin:{scene.environ['PATH']}"
        write(scene.home / "dot/config/git/config", "[user]\n name = Me\n")
        (scene.home / ".config/gh/hosts.yml").unlink()
        (scene.home / ".config/gh").rmdir()
        (scene.home / ".config").rmdir()
        link(scene.home / ".config", "dot/config")
        for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            del scene.environ[variable]
        return scene.text("rgx; git config user.name; cat ~/plain", scene.profile("read"))

    text = run_in(ground, act)
    assert text.startswith("cargo\nMe\n") and "plain" not in text.splitlines()


@pytest.mark.matrix
@each_ground
def test_programs_that_links_on_the_path_lead_to_are_there(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        home = scene.home
        for name in ("share/pipx/venvs/a", "share/uv/tools/b"):
            link(home / ".local/bin" / name[-1], write_tool(home / ".local" / name / "bin/x", name[-1]))
        link(home / ".local/bin/c", write_tool(home / "tools/ripgrep-14/c", "c"))
        notes = [write(home / "tools/ripgrep-14/notes"), write(home / "notes")]
        link(home / ".local/bin/d", notes[1])
        scene.environ["PATH"] = f"{home}/.local/bin:{scene.environ['PATH']}"
        profile = scene.profile("read")
        return scene.text("a; b; c", profile), readable(scene, profile, *notes)

    assert run_in(ground, act) == ("a\nb\nc\n", [])


@pytest.mark.matrix
@pytest.mark.parametrize("ground", sample(ONE_EACH, 2), ids=lambda ground: ground.name)
def test_many_links_on_the_path_keep_commands_running(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        for place in range(1200):
            tool = write_tool(scene.home / f"tools/{place}/t{place}", str(place))
            link(scene.home / f"all/{place % 3}/bin/t{place}", tool)
        folders = [str(scene.home / f"all/{place}/bin") for place in range(3)]
        scene.environ["PATH"] = ":".join([*folders, scene.environ["PATH"]])
        return scene.text("t0; echo done", scene.profile("read"))

    assert run_in(ground, act) == "0\ndone\n"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("settings", "files"),
    sample(
        [
            ("[include]\n path = ~/a.inc # mine\n", {"a.inc": "[user]\n name = Me\n"}),
            ("[include] path = ~/a.inc\n", {"a.inc": "[user]\n name = Me\n"}),
            (
                "[include]\n path = a.inc\n",
                {"a.inc": "[include]\n path = b/b.inc\n", "b/b.inc": "[user]\n name = Me\n"},
            ),
            ("[user]\n name = Me\n[core]\n excludesFile = \\\n ~/my.ignore\n", {"my.ignore": "tracked\nx.o\n"}),
            ('[user]\n name = Me\n[core]\n attributesFile="~/at tr"\n', {"at tr": "*.x text\n"}),
            ("[user]\n name = Me\n[blame]\n ignoreRevsFile = ~/revs\n", {"revs": ""}),
            ("[user]\n name = Me\n[mailmap]\n file = ~/map\n", {"map": "B <a@example.org>\n"}),
            (
                '[includeIf "gitdir:/"]\n path = ~/a.inc\n',
                {"a.inc": "[include]\n path = b\n", "b": "[user]\n name = Me\n"},
            ),
        ],
        3,
    ),
)
def test_git_reads_what_its_settings_name(ground: Ground, settings: str, files: dict[str, str]) -> None:
    def act(scene: Scene) -> Any:
        use_own_git(scene, settings)
        for name, text in files.items():
            write(scene.home / name, text)
        write(scene.project / "x.o")
        profile = scene.profile("read")
        words = "git config user.name; git blame -s tracked; git log --format=%aN; git status --short; cat ~/plain"
        return scene.text(words, profile)

    lines = run_in(ground, act).splitlines()
    assert lines[0] == "Me" and lines[1].endswith(" 1") and lines[2] == ("B" if "map" in files else "A"), lines
    assert ("?? x.o" in lines) == ("my.ignore" not in files)
    assert not [line for line in lines if line.startswith(("warning", "fatal")) or line == "plain"], lines


@pytest.mark.matrix
@each_ground
def test_settings_that_name_other_files_do_not_show_them(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        use_own_git(scene, '[difftool "x"]\n path = ~/diary\n[commit]\n template = ~/diary\n')
        return readable(scene, scene.profile("read"), write(scene.home / "diary"))

    assert run_in(ground, act) == []


@pytest.mark.matrix
@each_ground
@pytest.mark.parametrize("place", sample([".gitconfig", "a.inc"], 3))
def test_with_a_password_in_git_settings_safe_folders_are_all_that_git_gets(ground: Ground, place: str) -> None:
    def act(scene: Scene) -> Any:
        use_own_git(
            scene, "[include]\n path = a.inc\n[safe]\n directory = /first\n directory = *\n[user]\n name = Me\n"
        )
        with open(scene.home / place, "a") as file:
            file.write(f"[github]\n token = {TOKEN}\n")
        if os.getuid() == 0:
            for folder, _, names in os.walk(scene.project):
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.chown(path, 1234, 1234, follow_symlinks=False)
        write(scene.home / ".config/git/ignore", "x.o\n")
        write(scene.project / "x.o")
        profile = scene.profile("read")
        scene.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.editor", "GIT_CONFIG_VALUE_0": "mine"}
        words = "git log --format=%s; git status --short; git config -l | grep -E '^(safe|user|github|core.editor)'"
        return scene.text(words, profile), readable(scene, profile, scene.home / ".gitconfig")

    text, seen = run_in(ground, act)
    assert text == "first\nsafe.barerepository=explicit\nsafe.directory=/first\nsafe.directory=*\n"
    assert seen == []


def test_files_that_git_settings_name_are_shown_unless_a_password_hides_the_settings(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    usual = write(tmp_path / ".config/git/ignore", "*.a\n")
    named, settings = write(tmp_path / "ignore", "*.o\n"), "[core]\n excludesFile = ~/ignore\n"
    own = write(tmp_path / ".gitconfig", settings)
    assert set(read_git_settings(environ).visible) == {own, usual, named}
    write(own, f"{settings}[github]\n token = {TOKEN}\n")
    assert read_git_settings(environ).visible == (usual,)


def test_git_settings_are_read_again_where_a_file_changed(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert read_git_settings(environ).visible == ()
    own = write(tmp_path / ".gitconfig", "[include]\n path = later\n")
    assert read_git_settings(environ).visible == (own,)
    later = write(tmp_path / "later", "[user]\n name = Me\n")
    assert read_git_settings(environ).visible == (own, later)
    write(later, f"[github]\n token = {TOKEN}\n")
    assert read_git_settings(environ).is_hidden
    write(later, "")
    write(own, "[broken\n")
    assert read_git_settings(environ).is_hidden


def test_a_setting_that_names_no_possible_file_is_left_out(tmp_path: Path) -> None:
    long = "a" * 300
    own = write(tmp_path / ".gitconfig", f"[include]\n path = {long}\n[core]\n excludesFile = {long}\n")
    assert read_git_settings({"HOME": str(tmp_path)}).visible == (own,)


def test_includes_of_any_condition_are_followed_and_a_safe_folder_counts_without_one(tmp_path: Path) -> None:
    text = '[include]\n path = a.inc\n[includeIf "gitdir:/x/"]\n path = ~/b.inc\n'
    first = write(tmp_path / ".config/git/config", text)
    inner = write(tmp_path / ".config/git/a.inc", "[safe]\n directory = /one\n[include]\n path = a.inc\n path = gone\n")
    other = write(tmp_path / "b.inc", f"[safe]\n directory = *\n[core]\n attributesFile = {tmp_path}/c\n")
    named = write(tmp_path / "c")
    settings = read_git_settings({"HOME": str(tmp_path)})
    assert settings.visible == (first, inner, other, named)
    assert settings.safe_directories == ("/one",)


@pytest.mark.matrix
@each_ground
def test_a_project_that_is_everything_has_the_programs_of_the_system(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        return scene.text("echo here", scene.profile("read", project=Path("/"), cwd=scene.project))

    assert run_in(ground, act) == "here\n"


def test_the_profile_is_made_from_what_did_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "home/.gitconfig", "[user]\n name = Me\n")
    write(tmp_path / "home/.nvm/etc/npmrc")
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))

    def make() -> SandboxProfile:
        return make_profile("read", project=tmp_path, cwd=tmp_path, own=own, temp=None, environ=environ)

    first = make()
    monkeypatch.delattr(git_settings, "read_file_settings")
    monkeypatch.delattr(tool_folders, "_scan")
    assert make() == first
