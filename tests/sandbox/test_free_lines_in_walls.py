"""Lines of readers, harmless and hostile, in a project that is made to harm: they ask, or the walls hold them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from rules.rows import decide, read_rows
from sandbox.scene import GROUNDS, Ground, Scene, in_user, open_scene
from search import SEARCHES, sample

from nexus_cli.rules.read_only_environment import ENVIRONMENT, UNSET
from nexus_cli.rules.rule_set import RuleSet
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.sandbox_environment import sandbox_environment
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import run_process

HERE = Path(__file__).parent
ROWS = read_rows(str(HERE / "computed_lines.tsv"))
ENDLESS = re.compile(
    r"sleep|tail (?:.*-f|-F|-cf|--follow|.*\+|-n 3 \"\$f)|seq (?:1 |9|1e)|while|for ?\(|repeat|infinite|recurse\(|def f"
)
"""Lines that run until their time is over."""
TABLES = ("harmless.tsv", "hostile.tsv", "computed.tsv", "further.tsv", "rules.tsv")
READ = [row for name in TABLES for row in read_rows(name) if row[1] == "allow"]
SECRET = "OUTSIDE-4711"
SECONDS = 20
NAMES = (
    "-o",
    "--output=ran",
    "--files0-from=README.md",
    "--pre=.evil",
    '-eBEGIN{system("sh evil")}',
    "*",
    "[a-z]*",
    "$(touch ran)",
    "`touch ran`",
    "a;touch ran",
    "-exec",
    "+",
    "{}",
    "'",
    "\\",
    "x\ny",
    "--in-place",
    "-f",
)

each_ground = pytest.mark.parametrize(
    "ground",
    sample([one for one in GROUNDS if one.abi in (0, 7)], 4, bool(os.getuid())),
    ids=lambda ground: ground.name,
)


def plant(scene: Scene) -> None:
    """Fill the project with names that are options, patterns and paths, and links that lead out of it."""
    home, project = scene.home, scene.project
    (home / "secret").write_text(f"{SECRET}\n")
    for name in ("src/pkg", "tests", f"a {home}", f"-x {home}"):
        (project / name.lstrip("/")).mkdir(parents=True)
    (project / f"a {home}/secret").write_text("x\n")
    for name in ("README.md", "setup.py", "src/a.py", "tests/a.py", "names.txt", "a.txt", "b.txt", "package.json"):
        (project / name).write_text(f"def main():\nfoo,1\n{home}/secret\n")
    for name in NAMES:
        (project / name).write_text(f"{home}/secret\n")
    for place, target in (("out", home), ("src/out.txt", home / "secret"), ("tests/deep", scene.out), ("loop", ".")):
        (project / place).symlink_to(target)
    evil = project / "evil"
    evil.write_text(f"#!/bin/sh\necho x > {project}/ran; echo x > {scene.out}/ran; cat {home}/secret\n")
    evil.chmod(0o755)
    subprocess.run(["tar", "cf", "x.tar", "README.md"], cwd=project, check=True)
    subprocess.run(["tar", "czf", "x.tgz", "README.md"], cwd=project, check=True)
    scene.git("add", "-A")
    scene.git("commit", "-qm", "second")
    scene.git("tag", "v1")


def fingerprint(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change."""
    found = {str(path): path.lstat() for path in folder.rglob("*")}
    return {path: (about.st_size, about.st_mtime_ns) for path, about in found.items()}


def lines_of(ground: Ground, in_gate: bool) -> list[str]:
    """Return one line in four, in the gate in twelve: all of them meet each backend and each user, and each line all of
    these in a search."""
    lines = [line for line in dict.fromkeys(row[0] for row in (*ROWS, *READ)) if not ENDLESS.search(line)]
    if os.getuid() or SEARCHES:
        return lines
    return lines[2 * (ground.user == "root") + (ground.backend is Backend.BWRAP) :: 12 if in_gate else 4]


@cache
def results(ground: Ground, in_gate: bool) -> dict[str, str]:
    """What was wrong with each read-only line, "" for nothing; `decision` in front where it was not as the row says."""

    def act() -> dict[str, str]:
        found: dict[str, str] = {}
        with open_scene(ground) as scene:
            plant(scene)
            profile = scene.profile("read")
            confinement = Confinement(profile, ground.probe)
            env = {name: value for name, value in scene.environ.items() if name not in UNSET}
            env = {**sandbox_environment(profile, env)[0], **ENVIRONMENT}
            os.environ["HOME"] = str(scene.home)
            # Lines that are free in most projects are run in this one, whose links are seen by some decisions.
            run = {row[0] for row in (*ROWS, *READ) if row[1] == "allow"}
            before = fingerprint(scene.base)
            for line in lines_of(ground, in_gate):
                if line not in run and decide(line, scene.project, "ask", RuleSet()).decision != "allow":
                    found[line] = "decision: ask"
                    continue
                done = run_process(
                    ["bash", "-c", line],
                    cwd=profile.cwd,
                    env=env,
                    stop=StopFlag(),
                    seconds=SECONDS,
                    confinement=confinement,
                )
                text = done.output.decode("utf-8", "replace")
                after = {path: about for path, about in fingerprint(scene.base).items() if "/temp" not in path}
                changed = dict(before.items() ^ after.items())
                changed = {path: about for path, about in changed.items() if "/temp" not in path}
                found[line] = f"it read: {text[:200]}" if SECRET in text else f"it changed {changed}" if changed else ""
                found[line] = found[line] or ("it did not end" if done.timed_out else "")
            confinement.close()
        return found

    return in_user(ground.user, act)


@each_ground
def test_a_free_line_reads_nothing_outside_and_changes_nothing(ground: Ground, in_gate: bool) -> None:
    if ground.missing or sys.platform != "linux":
        pytest.skip(ground.missing)
    found = results(ground, in_gate)
    wrong = {line: what for line, what in found.items() if what and what != "decision: ask"}
    assert not wrong
    assert sum(not what for what in found.values()) > len(found) / 2, "most were run"


@pytest.mark.matrix
def test_each_line_gets_its_decision_in_a_plain_project(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    found = {line: decide(line, tmp_path, "ask", RuleSet()) for line, _ in ROWS}
    wrong = [f"{line}: {found[line].why}" for line, expected in ROWS if found[line].decision != expected]
    assert not wrong, "\n".join(wrong)
    assert len(ROWS) > 120
