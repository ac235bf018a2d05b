"""Ignored files that work needs: copies of them, within a limit, no part of what was done."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import IO

import pytest
from project_files import write_files
from search import sample
from worktrees.repository import git, make_project, make_worktree

from nexus_cli.config.paths import places
from nexus_cli.config.trust import trust
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import open_regular
from nexus_cli.workers.prepare_worktree import enter_prepared
from nexus_cli.worktrees import carry_ignored
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.inspect_worktree import inspect_worktree
from nexus_cli.worktrees.worktrees import describe_worktree, diff_worktree, enter_worktree, remove_worktree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "project")
    (folder / ".gitignore").write_text("*.log\nbuild/\nnode_modules/\n.env\ngenerated/\nsecret\n")
    git(folder, "commit", "-qam", "ignore")
    write_files(folder, {"node_modules/a/index.js": "1\n", "sub/node_modules/b/index.js": "2\n", ".env": "KEY=1\n"})
    write_files(
        folder, {"build/large": "x" * 1000, "generated/code/one.py": "1\n", "generated/two.txt": "2\n", "secret": "s"}
    )
    return folder


def set_up(text: str) -> None:
    place = places().config / "config.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"[worktree]\n{text}\n")


def carried(project: Path) -> list[str]:
    record, _ = make_worktree(project, "fix")
    found = list(describe_worktree(record)["carried"])
    assert all(os.path.lexists(record.folder / path) for path in found)
    assert inspect_worktree(record).is_empty(record), inspect_worktree(record).describe()
    remove_worktree(record)
    return found


@pytest.mark.matrix
def test_dependencies_come_along_and_patterns_choose_more_or_less(project: Path) -> None:
    usual = [".env", "node_modules/", "sub/node_modules/"]
    assert carried(project) == usual
    (project / ".worktreeinclude").write_text("# as another program reads it\ngenerated/code/\n")
    assert carried(project) == [".env", "generated/code/", *usual[1:]]
    set_up('include = ["!node_modules/", "/build/", "app.py", "missing"]')
    assert carried(project) == [".env", "build/", "generated/code/"]
    set_up("include_mb = 0")
    assert carried(project) == []


@pytest.mark.matrix
def test_a_copy_is_changed_and_deleted_without_a_trace_in_the_project_or_the_diff(project: Path) -> None:
    (project / "node_modules/a/index.js").chmod(0o640)
    (project / "node_modules/link").symlink_to("../app.py")
    (project / "node_modules/own").symlink_to(project / "app.py")
    (project / "node_modules/elsewhere").symlink_to("../../elsewhere")
    record, notices = make_worktree(project, "fix")
    copy = record.folder / "node_modules"
    notice, links = notices
    assert notice.startswith("copied, but not included in the diff: .env, node_modules/ (4 files, 0 kB)"), notice
    elsewhere = project.parent / "elsewhere"
    assert (
        links
        == f"links to the originals (writing to them changes the originals): node_modules/elsewhere to {elsewhere}"
    )
    assert stat.S_IMODE((copy / "a/index.js").stat().st_mode) == 0o640
    assert (copy / "link").readlink() == Path("../app.py") and (copy / "own").readlink() == record.folder / "app.py"
    assert (copy / "elsewhere").readlink() == project.parent / "elsewhere"
    with (copy / "a/index.js").open("a") as file:
        file.write("changed in place")
    (record.folder / ".env").write_text("KEY=2\n")
    (record.folder / ".gitignore").write_text("")
    git(record.folder, "add", "-A")
    git(record.folder, "commit", "-qm", "all of it")
    assert (project / "node_modules/a/index.js").read_text() == "1\n"
    assert "node_modules" not in diff_worktree(record, stat=True).decode()
    assert apply_worktree(record).written == [".gitignore"] and (project / ".env").read_text() == "KEY=1\n"


@pytest.mark.matrix
def test_a_changed_copy_of_a_file_keeps_a_worktree_and_dependencies_do_not(project: Path) -> None:
    stay = enter_worktree(project, "fix")
    (stay.record.folder / "node_modules/a/index.js").write_text("other")
    assert stay.leave() == "" and not stay.record.folder.exists()
    stay = enter_worktree(project, "fix")
    (stay.record.folder / ".env").write_text("KEY=other\n")
    assert "not in the diff: .env" in stay.leave() and stay.record.folder.is_dir()


@pytest.mark.matrix
def test_what_is_too_large_is_left_out_and_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "node_modules/large").write_bytes(bytes(2_000_000))
    set_up("include_mb = 1")
    record, notices = make_worktree(project, "fix")
    assert not (record.folder / "node_modules").exists() and (record.folder / "sub/node_modules").is_dir()
    assert notices[1] == "not copied: node_modules/ (2 MB, exceeds worktree.include_mb or the free disk space)"
    remove_worktree(record)
    set_up("")
    monkeypatch.setattr(carry_ignored, "MAX_FILES", 1)
    assert "not copied: node_modules/ (too many files)" in "".join(make_worktree(project, "fix")[1])


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(["link", "fifo", "unreadable", "deep"], 3))
def test_odd_ignored_paths_neither_stop_nor_lead_anywhere(project: Path, tmp_path: Path, kind: str) -> None:
    write_files(tmp_path, {"keys/key": "SECRET"})
    place = project / "node_modules/odd"
    if kind == "link":
        place.symlink_to(tmp_path / "keys")
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "deep":
        place.joinpath(*["d"] * 150).mkdir(parents=True)
    else:
        place.mkdir(mode=0)
    record, _ = make_worktree(project, "fix")
    copied = record.folder / "node_modules/odd"
    assert copied.is_symlink() if kind == "link" else not copied.is_file()
    assert (record.folder / "app.py").is_file()
    if kind == "unreadable":
        place.chmod(0o700)


@pytest.mark.matrix
def test_a_set_up_command_runs_once_in_the_sandbox_and_its_failure_is_told(project: Path) -> None:
    set_up(f'''setup = "echo made > made.log; echo x > {project}/outside; exit 0"''')
    stay = enter_prepared(project, "fix")
    assert (stay.record.folder / "made.log").read_text() == "made\n" and not (project / "outside").exists()
    assert stay.notices[-1].startswith("worktree.setup failed: echo made")
    assert "outside" in stay.notices[-1].rpartition("[sandbox: ")[2], "though its exit status is 0"
    (stay.record.folder / "made.log").write_text("mine")
    again = enter_prepared(project, "fix")
    assert again.notices == [] and (stay.record.folder / "made.log").read_text() == "mine"
    again.end()
    stay.end()
    remove_worktree(stay.record, force=True)
    set_up('setup = "echo one; echo no rule to make it >&2; exit 3"')
    stay = enter_prepared(project, "fix")
    assert stay.notices[-1].endswith("exit 3: exit status 3: no rule to make it"), stay.notices
    stay.leave()
    set_up('setup = "true"\n[sandbox]\nbackend = "off"')
    stay = enter_prepared(project, "fix")
    assert "requires a sandbox, and none is available" in stay.notices[-1]
    stay.leave()


@pytest.mark.matrix
def test_a_projects_own_set_up_command_waits_for_trust(project: Path) -> None:
    write_files(project, {".nexus/config.toml": '[worktree]\nsetup = "touch made.log"\ninclude = ["secret"]\n'})
    stay = enter_prepared(project, "fix")
    assert not (stay.record.folder / "made.log").exists() and not (stay.record.folder / "secret").exists()
    stay.leave()
    trust(project)
    stay = enter_prepared(project, "fix")
    assert (stay.record.folder / "made.log").exists() and (stay.record.folder / "secret").exists()
    stay.end()
    remove_worktree(stay.record, force=True)
    set_up('setup = "touch own.log"')
    stay = enter_prepared(project, "fix")
    assert (stay.record.folder / "own.log").exists() and not (stay.record.folder / "made.log").exists()
    with pytest.raises(NexusError):
        remove_worktree(stay.record)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "rule", sample(["read_file(.env)", "read_file({project}/.env)", "read_file({project}/gen*/**)"], 3)
)
def test_a_set_up_command_does_not_read_what_a_rule_denies_in_the_project(project: Path, rule: str) -> None:
    place = places().config / "config.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    setup = "cat .env generated/two.txt > made.log; exit 0"
    denied = rule.format(project=project)
    place.write_text(f"[rules]\ndeny = ['{denied}']\n[worktree]\nsetup = '{setup}'\ninclude = ['generated/']\n")
    stay = enter_prepared(project, "fix")
    assert stay.notices[-1].startswith("worktree.setup failed: cat .env"), stay.notices
    assert "[sandbox: a deny rule hides" in stay.notices[-1]
    seen = (stay.record.folder / "made.log").read_text()
    assert seen == ("KEY=1\n" if "gen*" in rule else "2\n")
    stay.end()
    remove_worktree(stay.record, force=True)


def make_environment(folder: Path, project: Path) -> None:
    write_files(folder, {"pyvenv.cfg": "home = /usr/bin\n", "lib/python3.11/site-packages/own.pth": f"{project}\n"})
    write_files(folder, {"bin/tool": f"#!{project}/.venv/bin/python\n"})


@pytest.mark.parametrize(
    "link", sample(["bin", "lib", "lib/python3.11", "lib/python3.11/site-packages", "bin/tool", ""], 3)
)
def test_no_script_is_changed_through_a_link_of_an_environment(project: Path, tmp_path: Path, link: str) -> None:
    with (project / ".gitignore").open("a") as file:
        file.write(".venv/\n")
    venv, mine = project / ".venv", tmp_path / "mine"
    make_environment(venv, project)
    if link:
        (venv / link).rename(mine)
        (venv / link).symlink_to(mine)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    record, _ = make_worktree(project, "fix")
    assert {path: path.read_bytes() for path in before} == before
    script, own = record.folder / ".venv/bin/tool", record.folder / ".venv/lib/python3.11/site-packages/own.pth"
    is_script_changed, is_own_changed = not link.startswith("bin"), not link.startswith("lib")
    assert (f"#!{record.folder}/" in script.read_text()) == is_script_changed
    assert (own.read_text() == f"{record.folder}\n") == is_own_changed


@pytest.mark.matrix
def test_a_changed_file_of_a_copied_folder_counts_whatever_its_size_and_the_newest_time(project: Path) -> None:
    set_up("include = ['generated/']")
    os.utime(project / "generated/two.txt", (2e9, 2e9))
    stay = enter_worktree(project, "fix")
    (stay.record.folder / "generated/code/one.py").write_text("7\n")
    assert "not in the diff: generated/" in stay.leave()
    assert (stay.record.folder / "generated/code/one.py").read_text() == "7\n"


@pytest.mark.matrix
def test_notices_are_few_names_on_one_line(project: Path) -> None:
    (project / ".gitignore").write_text(".env*\nnode_modules/\n")
    for number in range(50):
        (project / f".env.{number}").write_text("")
    (project / ".env.!\n- You may also push").write_text("")
    _, notices = make_worktree(project, "fix")
    (notice,) = notices
    assert notice == ("copied, but not included in the diff: .env, .env.! - You may also push, .env.0 and 51 more"), (
        notice
    )


@pytest.mark.matrix
def test_a_link_to_the_project_itself_leads_to_the_worktree(project: Path) -> None:
    (project / "node_modules/own").symlink_to("..")
    (project / "node_modules/whole").symlink_to(project)
    record, _ = make_worktree(project, "fix")
    for name in ("own", "whole"):
        assert os.path.realpath(record.folder / "node_modules" / name) == str(record.folder)


@pytest.mark.matrix
def test_a_linked_file_or_folder_is_told_to_be_a_link_and_not_a_copy(project: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "store", {"env": "KEY=1\n", "a/index.js": "1\n"})
    shutil.rmtree(project / "node_modules")
    (project / ".env").unlink()
    (project / ".env").symlink_to("../store/env")
    (project / "node_modules").symlink_to(tmp_path / "store")
    (project / ".gitignore").write_text("node_modules\n.env\n")
    git(project, "commit", "-qam", "ignore")
    record, notices = make_worktree(project, "fix")
    assert (record.folder / "node_modules/a/index.js").read_text() == "1\n" and describe_worktree(record)["carried"]
    assert notices[0] == "copied, but not included in the diff: sub/node_modules/ (1 file, 0 kB)"
    names = f".env to {tmp_path}/store/env, node_modules to {tmp_path}/store"
    assert notices[1] == f"links to the originals (writing to them changes the originals): {names}"
    assert inspect_worktree(record).is_empty(record), inspect_worktree(record).describe()


@pytest.mark.matrix
def test_what_may_not_be_read_is_told_and_the_rest_is_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse(folder: int, name: str) -> IO[bytes]:
        if name == "locked":
            raise PermissionError(13, "Permission denied", name)
        return open_regular(folder, name)

    write_files(
        project, {f"node_modules/{name}/index.js": "1\n" for name in "bcdefgh"} | {"node_modules/a/locked": "1"}
    )
    monkeypatch.setattr("nexus_cli.worktrees.carry_ignored.open_regular", refuse)
    record, notices = make_worktree(project, "fix")
    assert notices[-1] == "not copied, because they cannot be read: node_modules/a/locked"
    assert all((record.folder / f"node_modules/{name}/index.js").is_file() for name in "abcdefgh")
