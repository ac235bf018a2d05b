"""The git that nexus runs itself: what it cannot do, whoever wrote the repository's files."""

from __future__ import annotations

import os
import pwd
import textwrap
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from project_files import write_files
from search import sample
from worktrees.repository import git

from nexus_cli.config.paths import places
from nexus_cli.config.programs import ProgramRefused
from nexus_cli.core.errors import NexusError
from nexus_cli.sandbox import git_walls, own_git, walls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.confined_launch import SandboxError
from nexus_cli.sandbox.git_settings import MAX_NAMED, find_named
from nexus_cli.sandbox.landlock import NEWEST_ABI, landlock_abi
from nexus_cli.sandbox.own_git import Git, GitError, find_git
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.worktrees.worktrees import enter_worktree

SECRET = "machine-x-password-sekrit"


@pytest.fixture(params=["landlock", "bwrap"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    probe = BackendProbe(Backend.LANDLOCK, abi=min(landlock_abi(), NEWEST_ABI))
    if request.param == "bwrap":
        probe = find_backend("bwrap", own=places(), keep=False)
    if probe.backend is Backend.NONE or (probe.backend is Backend.LANDLOCK and not probe.abi):
        pytest.skip(f"this system has no {request.param}")
    monkeypatch.setattr(walls, "own_backend", lambda: probe)
    monkeypatch.setattr(git_walls, "own_backend", lambda: probe)
    return probe.backend


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = Path(os.path.realpath(tmp_path)) / "project"
    write_files(made, {"file": "text\n"})
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        git(made, *words)
    (made.parent / "secret").write_text(f"{SECRET}\n")
    return made


def own(project: Path) -> Git:
    found = find_git(project)
    assert found is not None
    return found


def fake(folder: Path, body: str) -> str:
    """Make a program `git` that is Python, in a folder of its own outside the project."""
    place = folder / "programs/bin/git"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/usr/bin/python3 -IS\n" + textwrap.dedent(body))
    place.chmod(0o755)
    return str(place)


ATTEMPTS = """
    import os, resource, socket, sys, time
    project, private, secret = os.environ["A_PROJECT"], os.environ["A_PRIVATE"], os.environ["A_SECRET"]
    def attempt(name, act):
        try:
            act()
            print(name, flush=True)
        except (OSError, MemoryError):
            pass
    attempt("read the project", lambda: open(project + "/file").read())
    attempt("write the private folder", lambda: open(private + "/made", "w").write("x"))
    attempt("read a secret", lambda: open(secret).read())
    attempt("list a folder outside", lambda: os.listdir(os.path.dirname(secret)) and os.listdir("/root"))
    attempt("write the project", lambda: open(project + "/made", "w"))
    attempt("write .git", lambda: open(project + "/.git/made", "w"))
    attempt("change a mode", lambda: os.chmod(project + "/file", 0o777))
    attempt("write outside", lambda: open(secret, "a"))
    attempt("write /tmp", lambda: open("/tmp/nexus-own-git", "w"))
    attempt("inet socket", lambda: socket.socket(socket.AF_INET))
    attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
    attempt("read /dev/zero", lambda: open("/dev/zero", "rb").read(1))
    ends = time.monotonic() + 60
    while resource.getrlimit(resource.RLIMIT_AS)[0] < 0 and time.monotonic() < ends:
        time.sleep(0.01)
    attempt("allocate 8 GB", lambda: bytearray(8 << 30))
    attempt("read another process", lambda: open("/proc/%d/environ" % os.getppid()).read() or 1 / 0)
    print(*(name for name in os.environ if "KEY" in name or "TOKEN" in name))
"""


@pytest.mark.matrix
def test_git_can_read_its_project_and_write_its_private_folder_and_nothing_else(
    backend: Backend, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key")
    private = project.parent / "private"
    private.mkdir()
    variables = {"A_PROJECT": str(project), "A_PRIVATE": str(private), "A_SECRET": str(project.parent / "secret")}
    run = Git(fake(tmp_path, ATTEMPTS), project, variables, writes=(private,))
    done = [line for line in run.run("status").decode().splitlines() if line]
    assert done == ["read the project", "write the private folder"]


def test_git_that_does_not_end_is_ended_with_what_it_started(backend: Backend, project: Path, tmp_path: Path) -> None:
    body = """
        import os, subprocess, time
        subprocess.Popen(["sleep", "60"])
        time.sleep(60)
    """
    with pytest.raises(GitError, match="took longer"):
        Git(fake(tmp_path, body), project, seconds=1.0).run("status")


def test_a_pipe_that_git_waits_for_is_named(backend: Backend, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_git, "_PATIENCE", 1.0)
    (project / "sub").mkdir()
    os.mkfifo(project / "sub/.gitignore")
    with pytest.raises(GitError, match=r"sub/\.gitignore is a named pipe, which would block git: remove it"):
        replace(own(project), seconds=60.0).run("ls-files", "-o", "--exclude-standard")
    (project / "sub/.gitignore").unlink()
    slow = fake(project.parent, "import time; time.sleep(2); print('done')")
    assert Git(slow, project).line("status") == "done"


@pytest.mark.matrix
def test_what_git_prints_as_an_error_is_told_to_nobody(backend: Backend, project: Path, tmp_path: Path) -> None:
    body = f"""
        import sys
        sys.exit(sys.stderr.write("fatal: unexpected line: {SECRET}") and 128)
    """
    with pytest.raises(GitError) as raised:
        Git(fake(tmp_path, body), project).run("status")
    assert str(raised.value) == "git status exited with status 128"


def link_packed_refs(project: Path) -> None:
    (project / ".git/packed-refs").symlink_to(project.parent / "secret")


def link_objects(project: Path) -> None:
    (project / ".git/objects").rename(project.parent / "objects")
    (project / ".git/objects").symlink_to(project.parent / "objects")


def link_refs(project: Path) -> None:
    (project / ".git/refs").rename(project.parent / "refs")
    (project / ".git/refs").symlink_to(project.parent / "refs")


def link_alternates(project: Path) -> None:
    (project / ".git/objects/info/alternates").symlink_to("/dev/zero")


def name_alternates(project: Path) -> None:
    (project / ".git/objects/info/alternates").write_text(f"{project.parent / 'secret'}\n")


def include_settings(project: Path) -> None:
    with (project / ".git/config").open("a") as file:
        file.write(f"[include]\n path = {project.parent / 'secret'}\n")


def move_repository(project: Path) -> None:
    evil = project.parent / "evil"
    (project / ".git").rename(evil)
    write_files(project, {".git/HEAD": (evil / "HEAD").read_bytes(), ".git/commondir": f"{evil}\n"})


TRAPS = (
    link_packed_refs,
    link_objects,
    link_refs,
    link_alternates,
    name_alternates,
    include_settings,
    move_repository,
)


@pytest.mark.matrix
@pytest.mark.parametrize("trap", sample(TRAPS, 4))
def test_a_repository_that_leads_elsewhere_gives_a_worktree_without_it_or_none(
    backend: Backend, project: Path, trap: Callable[[Path], None]
) -> None:
    trap(project)
    try:
        stay = enter_worktree(project, "one")
    except NexusError as error:
        assert "sekrit" not in f"{error} {error.message} {error.hint}"
        return
    files = [path for path in stay.record.home.parent.rglob("*") if path.is_file()]
    found = [path for path in files if SECRET.encode() in path.read_bytes()]
    stay.leave()
    assert not found


NAMED = {
    "core.fsmonitor": "{}",
    "core.hooksPath": "{folder}",
    "core.sshCommand": "{}",
    "core.pager": "{}",
    "core.alternateRefsCommand": "{}",
    "diff.external": "{}",
    "diff.any.textconv": "{}",
    "filter.any.clean": "{}",
    "filter.any.process": "{}",
    "gpg.program": "{}",
    "credential.helper": "{}",
    "merge.any.driver": "{}",
    "alias.ls-files": "!{}",
    "alias.rev-parse": "!{}",
    "hook.any.command": "{}",
}
"""Settings of a repository that name a program."""
EVENTS = ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc")


def test_a_program_that_a_repository_names_changes_nothing_outside_a_private_folder(
    backend: Backend, project: Path
) -> None:
    mark = project.parent / "mark"
    script = project / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark} {project}/mark {project}/.git/mark\ncat\n")
    script.chmod(0o755)
    for name in EVENTS:
        (project / name).symlink_to(script)
        git(project, "config", "--add", "hook.any.event", name)
    for name, value in NAMED.items():
        git(project, "config", name, value.format(script, folder=project))
    (project / ".gitattributes").write_text("* diff=any filter=any merge=any\n")
    run = own(project)
    for words in (("status",), ("diff",), ("ls-files", "-o"), ("log", "-p"), ("rev-parse", "HEAD"), ("gc",)):
        run.try_run(*words)
    stay = enter_worktree(project, "one")
    (stay.record.folder / "file").write_text("changed\n")
    stay.leave()
    assert not any(path.exists() for path in (mark, project / "mark", project / ".git/mark"))


@pytest.mark.matrix
def test_folders_that_git_writes_are_not_followed_through_links(backend: Backend, project: Path) -> None:
    (project.parent / "other").mkdir()
    link = project / ".git/link"
    link.symlink_to(project.parent / "other")
    with pytest.raises(GitError):
        replace(own(project), writes=(link,)).run("status")


def test_folders_that_become_links_before_the_start_are_not_read(backend: Backend, project: Path) -> None:
    read = project.parent / "read"
    for folder in (read, project.parent / "keys"):
        write_files(folder, {"key": f"{SECRET}\n"})
    inside = walls.Walls([str(read)], system=["/bin/cat"])
    read.rename(project.parent / "moved")
    read.symlink_to(project.parent / "keys")
    with pytest.raises(SandboxError, match="link"):
        inside.start(["/bin/cat", str(read / "key")], cwd="/")


def test_without_a_sandbox_git_runs_in_a_plain_repository_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (walls, git_walls):
        monkeypatch.setattr(module, "own_backend", lambda: BackendProbe(Backend.NONE))
    assert own(project).line("ls-files") == "file"
    git(project, "config", "hook.any.command", "true")
    with pytest.raises(ProgramRefused, match=r"sets hook\.command"):
        own(project).start("ls-files")
    with pytest.raises(GitError, match="without a sandbox, nexus does not run git here"):
        own(project).run("ls-files")
    with pytest.raises(NexusError, match="worktree"):
        enter_worktree(project, "one")


@pytest.mark.matrix
def test_a_submodule_and_a_linked_worktree_have_their_git_folders(
    backend: Backend, project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert own(tmp_path / "linked").line("ls-files") == "file"
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project), "inner")
    assert own(project / "inner").line("ls-files") == "file"
    write_files(tmp_path, {"thief/.git": f"gitdir: {project}/.git\n"})
    with pytest.raises(GitError):
        own(tmp_path / "thief").run("ls-files")


@pytest.mark.matrix
def test_several_threads_run_git_at_once(backend: Backend, project: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(own(project).line("ls-files"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["file"] * 6


@pytest.mark.matrix
def test_bounds_are_set(backend: Backend, project: Path, tmp_path: Path) -> None:
    body = """
        import resource, time
        limits = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)
        ends = time.monotonic() + 60  # they are set from outside, right after the start
        while resource.RLIM_INFINITY in map(lambda one: resource.getrlimit(one)[0], limits) and time.monotonic() < ends:
            time.sleep(0.01)
        print(*(resource.getrlimit(one)[0] for one in limits))
    """
    assert Git(fake(tmp_path, body), project).line("status") == f"{4 << 30} 900 0 {64 << 30}"


@pytest.mark.matrix
def test_git_of_one_process_follows_the_variables_of_its_settings(
    backend: Backend, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, place in (("HOME", ".gitconfig"), ("XDG_CONFIG_HOME", "git/config"), ("GIT_CONFIG_GLOBAL", "")):
        for value in ("one", "two", "one"):
            file = project.parent / name / value / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"[user]\n\tname = {name} {value}\n")
            monkeypatch.setenv(name, str(project.parent / name / value))
            assert own(project).line("config", "user.name") == f"{name} {value}"
        if name == "HOME":
            (project.parent / name / "one" / place).unlink()


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name", sample([".git/index", ".git/refs/heads/x", ".git/worktrees/x/gitdir", "a/.gitignore"], 3)
)
def test_git_waits_for_no_pipe(backend: Backend, project: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_git, "_PATIENCE", 0.1)
    os.mkfifo(project / "pipe")
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(project / "pipe")
    for _ in ("a link to a pipe", "a pipe"):
        with pytest.raises(GitError, match=f"{name} is a named pipe"):
            own(project).run("hash-object", "--no-filters", name)
        with pytest.raises(ProgramRefused, match=f"{name} is a named pipe"):
            own(project).start("cat-file", "--batch")
        assert git_walls.find_pipe(project / name.split("/")[0]) == str(path)
        path.unlink()
        os.mkfifo(path)
    path.unlink()
    assert own(project).run("hash-object", "--no-filters", "file") and not git_walls.find_pipe(project)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "settings",
    sample(
        [
            "[include]\n\tpath = ../pipe",
            '[core] excludesFile = "pi"pe # quoted in part',
            "[include]\n\tpath = ../shared",
            "[core]\n\tattributesFile = \\\n{project}/pipe",
        ],
        3,
    ),
)
def test_git_waits_for_no_pipe_that_the_repository_names(
    backend: Backend, project: Path, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_git, "_PATIENCE", 0.1)
    os.mkfifo(project / "pipe")
    (project / "shared").write_text("[core]\n\texcludesFile = pipe\n")
    (project / "file").write_text("next\n")  # of the same size: git has to read it, by its attributes
    with (project / ".git/config").open("a") as file:
        file.write(f"{settings.format(project=project)}\n")
    with pytest.raises(GitError, match="pipe is a named pipe"):
        replace(own(project), seconds=60.0).run("status", "--porcelain")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("setting", "named"),
    sample(
        [
            ("include.path", "pipe"),
            ("include.path", "shared"),
            ("includeIf.gitdir:/**.path", "pipe"),
            ("core.excludesFile", "pipe"),
            ("core.attributesFile", "pipe"),
        ],
        3,
    ),
)
def test_git_goes_without_settings_of_the_person_that_lead_to_a_pipe_in_the_project(
    backend: Backend, project: Path, setting: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(project.parent))
    git(project, "config", "--global", setting, str(project / named))
    (project / "shared").write_text("[include]\n\tpath = pipe\n")
    os.mkfifo(project / "pipe")
    assert own(project).run("status", "--porcelain") == b"?? shared\n"


@pytest.mark.matrix
def test_git_runs_without_settings_of_the_person_that_hold_a_password(
    backend: Backend, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(project.parent))
    git(project, "config", "--global", "github.token", "ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    git(project, "config", "--global", "safe.directory", "/elsewhere")
    assert own(project).run("config", "--list").count(b"safe.directory=/elsewhere") == 1
    assert own(project).run("status", "--porcelain") == b""


@pytest.mark.matrix
def test_git_runs_in_a_repository_of_another_user(backend: Backend, project: Path) -> None:
    """As root of a container does in the project of a user: the walls hold for any repository."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    for path in (project, *project.rglob("*")):
        os.chown(path, 54321, 54321, follow_symlinks=False)
    assert own(project).run("status", "--porcelain") == b""
    assert own(project).start("cat-file", "--batch").communicate(b"HEAD:file\n")[0].endswith(b"text\n\n")


def test_of_many_users_that_a_configuration_names_few_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    def find_nobody(name: str) -> NoReturn:
        looked_for.append(name)
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", find_nobody)
    (tmp_path / "named").write_text("[x]\n" + "".join(f"a = ~n{n}/f\n" for n in range(300)))
    (tmp_path / "config").write_text("[x]\n" + "".join(f"a = ~u{n}/f\n" for n in range(300)) + "a = named\n")
    assert [*find_named([tmp_path / "config"])] == [tmp_path / "named"]
    assert len(looked_for) == MAX_NAMED
