"""Read-only commands, run: under strace none writes outside the temporary folder or connects anywhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from time import thread_time

import pytest
from rules.rows import decide, read_rows

from nexus_cli.rules.bash_syntax import read_command_line
from nexus_cli.rules.read_only_table import ENVIRONMENT, UNSET
from nexus_cli.rules.rule_set import RuleSet
from nexus_cli.sandbox.git_repository import MOST_CONFIGURATION

OPENED = re.compile(r'open(?:at)?\((?:[^,"]+, )?"([^"]*)", ([A-Z_|0-9]+)')
CHANGED = re.compile(
    r"^\d+ +(unlink|rename|mkdir|rmdir|link|symlink|chmod|fchmodat|chown|truncate|utime|mknod)\w*\((.*)"
)
NAME_SERVICE = ("/var/run/nscd/", "/run/systemd/", "/run/nscd/")
"""Sockets that the C library asks for names of users, by itself; closed in the profile `read`."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with the files that the rows name."""
    folder = tmp_path / "project"
    for name in ("src", "tests", "src/pkg"):
        (folder / name).mkdir(parents=True)
    for name in ("README.md", "src/a.py", "tests/a.py", "names.txt", "a.txt", "b.txt", "setup.py", "f"):
        (folder / name).write_text("def main():\nfoo,1\nreturn\n")
    (folder / "package.json").write_text('{"name": "x", "env": 1, "scripts": {"a": "b"}}')
    hostile = folder / "evil"
    hostile.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-$$\ncat\n")
    hostile.chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder)]
    script = ["init -q -b main", "add .", "commit -q -m x", "tag v1"]
    for words in script:
        subprocess.run([*git, *words.split()], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    with (folder / ".git" / "config").open("a") as config:
        config.write(f"[core]\n fsmonitor = {hostile}\n pager = {hostile}\n")
        config.write(f'[log]\n showSignature = true\n[gpg]\n program = {hostile}\n[remote "origin"]\n url = x\n')
    (folder / "src" / "a.py").write_text("def main():\n    pass\n")
    return folder


def read_only_environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, **ENVIRONMENT, "TMPDIR": str(folder), "GIT_CONFIG_GLOBAL": os.devnull}


def find_breaches(trace: str, inside: str) -> list[str]:
    """Return the lines of a trace that write outside of `inside` or the project's own descriptors, or connect."""
    found = []
    for line in trace.splitlines():
        opened = OPENED.search(line)
        if opened is not None and re.search(r"O_WRONLY|O_RDWR|O_CREAT", opened[2]):
            if not opened[1].startswith((inside, "/dev/null", "/dev/tty")):
                found.append(line)
        elif (CHANGED.match(line) and inside not in line) or (
            " connect(" in line and not any(socket in line for socket in NAME_SERVICE)
        ):
            found.append(line)
    return found


def has_programs(command: str) -> bool:
    names = {one.words[0].text for one in read_command_line(command).commands if one.words}
    builtin = {"cd", "echo", "printf", "test", "[", "pwd", "type", "command", "true", "false", ":", "time"}
    return all(shutil.which(name) for name in names - builtin)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_no_free_command_writes_or_connects(project: Path, tmp_path: Path) -> None:
    names = ("rules.tsv", "further.tsv", "hostile.tsv")
    rows = [row[0] for name in names for row in read_rows(name) if row[1] == "allow"]
    rows += [row[0] for row in read_rows("corpus.tsv") if decide(row[0], project, "read", RuleSet()).profile == "read"]
    # A toolchain makes its own settings where it finds none; in the walls it cannot.
    left_out = {"sleep", "cargo", "rustc"}
    rows = [row for row in dict.fromkeys(rows) if has_programs(row) and not set(row.split()) & left_out]
    assert len(rows) > 120
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = {path: path.stat().st_mtime_ns for path in sorted(project.rglob("*"))}
    script = tmp_path / "all.sh"
    script.write_text("".join(f"( {shlex.join(['eval', row])} ) </dev/null >/dev/null 2>&1\n" for row in rows))
    trace = tmp_path / "trace"
    calls = "trace=open,openat,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,"
    calls += "symlinkat,chmod,fchmodat,chown,fchownat,truncate,utimensat,mknod,mknodat,connect"
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "4096", "-e", calls, "-o", str(trace), "bash", str(script)]
    done = subprocess.run(command, cwd=project, env=read_only_environment(temporary), capture_output=True, timeout=120)
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    breaches = find_breaches(trace.read_text(errors="replace"), str(temporary))
    assert not breaches, "\n".join(breaches[:20])
    assert {path: path.stat().st_mtime_ns for path in sorted(project.rglob("*"))} == before
    assert not list(tmp_path.glob("ran-*")), "a program that the repository names was run"


@pytest.mark.parametrize(
    "text",
    [
        "[diff]\n\texternal = ./evil",
        '[diff "x"] textconv=./evil',
        "[include]\n path = x",
        '[filter "x"]\n Clean = ./evil',
        '[filter "x"]\n process = y',
        '[includeIf "gitdir:x"]\n path = y',
    ],
)
def test_git_is_not_free_where_the_repository_names_a_program(text: str, project: Path) -> None:
    assert decide("git diff", project).decision == "allow"
    with (project / ".git" / "config").open("a") as config:
        config.write(text)
    assert decide("git diff", project).decision == "ask"


@pytest.mark.parametrize("name", [".git", ".git/config", ".git/config.worktree"])
def test_git_is_not_free_where_its_configuration_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert decide("git log", tmp_path).decision == "allow"
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if name == ".git":
        path.write_text("gitdir: g")
        path = tmp_path / "g" / "config"
        path.parent.mkdir()
    os.mkfifo(path)
    assert decide("git log", tmp_path).decision == "ask", "and nobody waits for it"
    path.unlink()
    path.write_text("\n" * MOST_CONFIGURATION + "[include]\npath = x\n")
    began = thread_time()
    assert decide("git log", tmp_path).decision == "ask", "what is beyond counts too"
    assert thread_time() - began < 20, "it takes a moment; what grows with the square takes minutes"


@pytest.mark.matrix
def test_the_globs_of_a_line_list_no_more_than_one_may(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"f{number}").touch()
    assert decide("ls f*; ls f*", tmp_path).decision == "allow"
    assert decide("ls f*; " * 6, tmp_path).decision == "ask"


@pytest.mark.matrix
def test_an_option_that_writes_runs_or_reads_elsewhere_asks(tmp_path: Path) -> None:
    letters = {
        "sort": "oST",
        "tree": "oRl",
        "file": "Cmfzp",
        "date": "sfr",
        "rg": "zfL",
        "grep": "fR",
        "tail": "fF",
        "xxd": "r",
        "ls": "LH",
        "du": "L",
        "git grep": "Of",
        "git diff": "O",
        "git log": "O",
        "sed": "if",
        "awk": "filo",
        "jq": "fL",
        "git branch": "dDmf",
        "git tag": "dafm",
        "fd": "xXlLC",
        "uniq": "o",
        "base64": "o",
        "printf": "v",
    }
    names = {
        "git diff": "output ext-diff textconv no-index outp ext",
        "git log": "show-signature remerge-diff paginate output",
        "git grep": "open-files-in-pager open",
        "git blame": "contents ignore-revs-file",
        "git branch": "delete move set-upstream-to edit-description del",
        "git tag": "sign force verify",
        "tree": "follow-link output",
        "sort": "output compress-program files0-from out comp",
        "rg": "pre search-zip hostname-bin follow",
        "fd": "exec exec-batch base-directory",
        "sed": "in-place file expr",
        "awk": "include load pretty-print dump-variables source",
        "jq": "slurpfile rawfile from-file argfile",
        "grep": "file dereference-recursive regex",
    }
    lines = [f"{name} -{letter} x y" for name, several in letters.items() for letter in several]
    lines += [f"{name} --{one}=x y" for name, several in names.items() for one in several.split()]
    del letters["tail"], letters["git log"]  # their -n has a value
    lines += [f"{name} -n{letter} x y" for name, several in letters.items() for letter in several]
    free = [line for line in lines if decide(line, tmp_path).decision != "ask"]
    assert not free
