"""The profile `read`: the project, the system and tools are seen, and nothing else of the person, by any path."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from project_files import write_files
from sandbox.scene import GROUNDS, Ground, Scene, in_user, open_scene
from search import sample

from nexus_cli.rules.read_only_environment import ENVIRONMENT
from nexus_cli.sandbox import bounds
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.profile import SandboxProfile, make_profile
from nexus_cli.sandbox.seatbelt import seatbelt_arguments

FIRST_USER = 500 if sys.platform == "darwin" else 1000
"""The lowest id of an account of a person; below it only the administrator has a home folder."""
_T = TypeVar("_T")
each_ground = pytest.mark.parametrize(
    "ground", sample([one for one in GROUNDS if one.abi in (0, 1, 7)], 3), ids=lambda ground: ground.name
)


def run_in(ground: Ground, act: Callable[[Scene], _T]) -> _T:
    if ground.missing:
        pytest.skip(ground.missing)

    def inside() -> _T:
        with open_scene(ground) as scene:
            return act(scene)

    return in_user(ground.user, inside)


def readable(scene: Scene, profile: SandboxProfile, *paths: Path) -> list[str]:
    """Return which of `paths` a command in the walls can read."""
    text = scene.text("; ".join(f"cat '{path}' >/dev/null 2>&1 && echo '{path}'" for path in paths), profile)
    return text.splitlines()


@pytest.mark.matrix
@each_ground
def test_nothing_of_the_person_is_seen_but_the_project(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        sibling = scene.base / "sibling" / "file"
        sibling.parent.mkdir()
        sibling.write_text("x")
        (scene.project / "link").symlink_to(sibling)
        homes = {one.pw_dir for one in pwd.getpwall() if one.pw_uid == 0 or one.pw_uid >= FIRST_USER}
        other = [Path(home, name) for home in sorted(homes) for name in (".bashrc", ".profile")]
        closed = [scene.home / "plain", sibling, scene.project / "link", scene.out / "file", *other]
        opened = [scene.project / "tracked", Path("/etc/passwd"), Path("/usr/bin/env")]
        before = readable(scene, scene.profile("write"), *closed[:4])
        return before, readable(scene, scene.profile("read"), *closed, *opened), list(map(str, (*closed, *opened)))

    before, seen, paths = run_in(ground, act)
    assert before == paths[:4], "the profile `write` sees what it saw"
    assert seen == paths[-3:]


@pytest.mark.matrix
@each_ground
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_secrets_of_the_system_are_hidden_from_root(ground: Ground) -> None:
    secrets = [Path(name) for name in ("/etc/shadow", "/etc/sudoers", "/etc/gshadow") if os.path.isfile(name)]
    assert secrets
    assert run_in(ground, lambda scene: readable(scene, scene.profile("read"), *secrets)) == []


@pytest.mark.matrix
@each_ground
@pytest.mark.parametrize("place", sample(["home/src/project", "home"], 3))
def test_a_project_in_the_home_folder_is_seen_without_credentials(ground: Ground, place: str) -> None:
    def act(scene: Scene) -> Any:
        project = scene.base / place
        write_files(project, {"sub/file": "x", ".env": "x"})
        profile = scene.profile("read", project=project, cwd=project / "sub", denied=(project / ".env",))
        paths = [project / "sub" / "file", scene.home / ".ssh/id_rsa", project / ".env", scene.home / ".netrc"]
        return readable(scene, profile, *paths), scene.text("cat file; pwd; echo x > new", profile), str(project)

    seen, text, project = run_in(ground, act)
    assert seen == [f"{project}/sub/file"]
    assert text.startswith(f"x{project}/sub\n") and ("denied" in text or "Read-only" in text)


@pytest.mark.matrix
@each_ground
def test_only_the_private_temporary_folder_is_written(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        lines = "echo x > $TMPDIR/own && cat $TMPDIR/own; echo x > /tmp/nexus-other-$$ && echo written; ls $TMPDIR"
        return scene.text(lines, scene.profile("read"))

    text = run_in(ground, act)
    assert isinstance(text, str) and text.startswith("x\n") and text.endswith("own\n") and "written" not in text


SETTINGS = """[user]
 name = A
[include]
 path = ~/more
[core]
 excludesFile = ~/.config/git/own-ignore
[alias]
 l = log --oneline
"""


@pytest.mark.matrix
@each_ground
@pytest.mark.parametrize("is_worktree", sample([False, True], 3))
def test_git_reads_with_the_settings_of_the_person(ground: Ground, is_worktree: bool) -> None:
    def act(scene: Scene) -> Any:
        for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            del scene.environ[variable]
        (scene.home / ".config/git").mkdir(parents=True)
        (scene.home / "more").write_text("[user]\n email = a@example.org\n")
        (scene.home / ".config/git/own-ignore").write_text("*.ignored\n")
        (scene.home / ".gitconfig").write_text(SETTINGS)
        folder = scene.home / "tree" if is_worktree else scene.project
        if is_worktree:
            scene.git("worktree", "add", "-q", str(folder))
        (folder / "tracked").write_text("2\n")
        (folder / "x.ignored").touch()
        scene.environ |= ENVIRONMENT
        words = "git status --short && git log --format=%s && git diff --stat && git config user.email && git l"
        return scene.text(words, scene.profile("read", project=folder))

    text = run_in(ground, act)
    assert isinstance(text, str)
    assert text.splitlines()[:2] == [" M tracked", "first"] and "a@example.org" in text and "warning" not in text


@pytest.mark.matrix
@each_ground
def test_programs_of_the_person_say_their_version(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        tools = scene.home / ".local/bin"
        tools.mkdir(parents=True)
        write_files(scene.home, {".cargo/bin/real": "#!/bin/sh\necho mine 1.0\n"})
        (scene.home / ".cargo/bin/real").chmod(0o755)
        (tools / "mine").symlink_to(scene.home / ".cargo/bin/real")
        scene.environ["PATH"] = f"{tools}:{scene.home}:{scene.environ['PATH']}"
        names = ("rg", "fd", "python3", "git", "jq")
        found = [name for name in names if shutil.which(name, path=scene.environ["PATH"])]
        profile = scene.profile("read")
        lines = "; ".join(f"{name} --version >/dev/null 2>&1 && echo {name}" for name in found)
        return found, scene.text(lines, profile).split(), scene.text("mine --version; cat ~/plain", profile)

    found, worked, text = run_in(ground, act)
    assert worked == found
    assert text.startswith("mine 1.0\n") and "plain" not in text.partition("\n")[2].splitlines()


@pytest.mark.matrix
def test_tools_of_nexus_itself_are_seen_and_the_rest_of_home_is_not(tmp_path: Path) -> None:
    for ground in (one for one in GROUNDS if one.user == ("ordinary" if os.getuid() else "root")):
        if ground.missing or ground.abi not in (0, 7):
            continue
        with open_scene(ground) as scene:
            environ = {**os.environ, "HOME": str(scene.home), "NEXUS_HOME": str(tmp_path)}
            profile = make_profile(
                "read",
                project=scene.project,
                cwd=scene.project,
                own=scene.own,
                temp=scene.base / "temp",
                environ=environ,
            )
            scene.environ = {**scene.environ, "PROGRAM": str(Path(sys.prefix, "bin", "nexus"))}
            text = scene.text('"$PROGRAM" skill list; echo "status $?"', profile)
            assert text.endswith("status 0\n"), text


def count_calls(act: Callable[[], object]) -> int:
    """Return how many functions `act` calls in this thread, those of C too."""
    calls = 0

    def note(frame: object, event: str, value: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def start_true(scene: Scene, confinement: Confinement) -> None:
    confinement.start(["true"], cwd=scene.project, env={"PATH": os.defpath}).wait()


@pytest.mark.matrix
@pytest.mark.skipif(not any(not one.missing for one in GROUNDS), reason="no walls here")
def test_a_start_in_the_profile_read_costs_little() -> None:
    """The rules of Landlock are kept; mounts of bubblewrap are a few dozen."""
    for ground in (one for one in GROUNDS if one.user == ("ordinary" if os.getuid() else "root")):
        if ground.missing or ground.abi not in (0, 7):
            continue
        with open_scene(ground) as scene:
            profile = make_profile(
                "read",
                project=scene.project,
                cwd=scene.project,
                own=scene.own,
                temp=scene.base / "temp",
                environ=os.environ,
            )
            confinement = Confinement(profile, ground.probe)
            calls = [count_calls(partial(start_true, scene, confinement)) for _ in range(2)][-1]
            confinement.close()
            assert calls < (1_000 if ground.backend is Backend.LANDLOCK else 20_000), ground.name


@each_ground
def test_memory_files_and_processes_of_a_reader_are_bounded(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_MORE_PROCESSES", 20)
    forks = "import os,time\ntry:\n for n in range(9999): os.fork() or (time.sleep(9), os._exit(0))\n"
    forks += "except BlockingIOError: print('refused')"

    def act(scene: Scene) -> Any:
        lines = ["truncate -s 2G $TMPDIR/x || echo refused", "python3 -c 'bytearray(9 << 30)' 2>&1 | tail -1"]
        if os.getuid():  # for root the kernel counts no processes
            lines.append(f'python3 -c "{forks}"')
        return [scene.text(line, scene.profile("read")) for line in lines]

    file, memory, *processes = run_in(ground, act)
    assert "refused" in file and "MemoryError" in memory
    assert all("refused" in text for text in processes)


@pytest.mark.matrix
@each_ground
def test_a_reader_has_a_temporary_folder_of_its_own_that_is_thrown_away(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        profile = scene.profile("read")
        first, second = (scene.text("echo x > $TMPDIR/a && ls $TMPDIR && echo $TMPDIR", profile) for _ in range(2))
        return first.split(), second.split(), os.listdir(profile.temp or "")

    first, second, left = run_in(ground, act)
    assert first[0] == second[0] == "a" and first[1] != second[1]
    assert Path(first[1]).name not in left and Path(second[1]).name not in left


@pytest.mark.matrix
@each_ground
def test_command_lines_of_other_processes_are_not_seen(ground: Ground) -> None:
    def act(scene: Scene) -> Any:
        words = "cat /proc/$VICTIM/cmdline; cat /proc/[0-9]*/cmdline; nproc; ls /proc"
        return scene.text(words, scene.profile("read"))

    text = run_in(ground, act)
    assert "sleep" not in text and "cpuinfo" in text


def test_the_policy_of_macos_hides_what_is_hidden_in_a_shown_place() -> None:
    project, key = Path("/home/a/project"), Path("/home/a/project/.env")
    profile = SandboxProfile("read", project, project, hidden=(key, Path("/home")), revealed=(project,))
    words = seatbelt_arguments(profile, ["true"], [])
    places = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "-D"]
    names = {name: path for name, _, path in places}
    rules = [line for line in words[2].splitlines() if "subpath (param" in line]
    found = [(line[1:6].strip(), names[line.split('"')[1]]) for line in rules]
    assert found == [("deny", "/home"), ("allow", str(project)), ("deny", str(key))]
