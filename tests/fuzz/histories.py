"""Play random turns that change files and git, then undo and redo them and compare each state byte by byte.

By hand: `python tests/fuzz/histories.py --seed 7 --times 20`. The signal that ends some of the turns arrives at a
random moment, so a seed repeats the changes, not always the fault. What undo leaves by decision is left out: new
repositories and worktrees stay, and a file whose time was set into the past is kept.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from fuzz.seeds import is_quiet, run_seeds  # noqa: E402  (found from tests/, as pytest finds it)
from program.stage import Stage, calls, end, stage, until  # noqa: E402
from undo.test_references import ACTS, fill, read, shell  # noqa: E402
from undo.world import Tree, tree  # noqa: E402

NAMES = ("a", "b", "docs/a", "docs/deep/b", "x y", "caf\u00e9", "-n", "out.log", "build/out.log", ".hidden", "empty")
SHELL = (
    "echo $RANDOM > {a}",
    "echo $RANDOM >> {a}",
    "mkdir -p $(dirname ./{a}); echo $RANDOM > ./{a}",
    "mkdir -p ./{a}",
    "rm -rf ./{a}",
    "rm -rf docs build",
    "mv ./{a} ./{b}",
    "mv ./{a} moved; mv ./{b} ./{a}; mv moved ./{b}",
    "cp -a ./{a} ./{b}",
    "ln -sfn {b} ./{a}",
    "ln -f ./{a} ./{b}",
    "chmod {mode} ./{a}",
    "truncate -s 0 ./{a}",
    "sed -i 's/1/one/' ./{a}",
    "head -c 3000000 /dev/urandom > ./{a}",
    "find . -name .git -prune -o -type f -print | head -3 | tr '\\n' '\\0' | xargs -0 rm -f",
    "tar cf all.tar docs; rm -rf docs; tar xf all.tar",
    "mkfifo ./{a}",
    "echo '*.log' >> .gitignore",
    "git clean -qfdx",
    "git add -A",
    "git rm -q --cached -r .",
    "git mv a moved",
    "git checkout -q -b b$RANDOM",
    "git switch -q -C feat",
    "git reset -q",
    "git commit -qam half; git reset -q --soft HEAD^",
    "git cherry-pick v1",
    "git revert --no-edit HEAD",
    "git config user.name $RANDOM",
    "git tag -a t$RANDOM -m x",
    "git stash -q -u",
    "git init -q new-repository",
    "git worktree add -q --detach new-worktree",
    "rm -rf .git/refs/heads",
    "sleep 0.3",
    "false",
)
NEW = ("new-repository", "new-worktree")
"""What stays by decision."""
LEFT_OUT = (*(f"? {name}" for name in NEW), "missing tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904")
"""Lines of git about them, and about the empty tree, which git has without an object."""
LEVELS = ("all", "all", "all", "run")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PERSON = {f"GIT_{who}_{what}": "n" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
UNFINISHED = "ls -d .git/*_HEAD .git/rebase-* .git/sequencer .git/*.lock 2>/dev/null | grep -v -e ORIG -e FETCH"
State = tuple[Tree, str]


def make_line(chance: random.Random) -> str:
    """Return a random line of one to three commands."""
    made = []
    for _ in range(chance.randint(1, 3)):
        line = chance.choice(SHELL + ACTS)
        a, b = (shlex.quote(name) for name in chance.sample(NAMES, 2))
        made.append(line.format(a=a, b=b, mode=chance.choice(("600", "755", "444", "2775"))) if "{" in line else line)
    return "; ".join(made)


def make_call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a random call of a tool that changes something."""
    name, text = chance.choice(NAMES), f"{chance.randint(1, 99)}\n" * chance.randint(0, 4)
    match chance.randint(0, 5):
        case 0:
            return "write_file", {"path": name, "content": text}
        case 1:
            return "edit_file", {"path": chance.choice("ab"), "edits": [{"old": "1", "new": text}]}
        case _:
            return "bash", {"command": make_line(chance), "timeout": 5}


def make_turn(chance: random.Random) -> list[Any]:
    """Return the replies of a model in one turn."""
    steps = [calls(*(make_call(chance) for _ in range(chance.randint(1, 3)))) for _ in range(chance.randint(1, 3))]
    return [*steps, "done"]


def look(folder: Path) -> State:
    """Return all that an undo has to bring back: files, folders, modes, links, and what git says."""
    kept = {name: about for name, about in tree(folder).items() if not name.startswith((".git/", *NEW))}
    said = "\n".join(line for line in read(folder).splitlines() if not line.startswith(LEFT_OUT))
    return kept, f"{said}\n{shell(folder, UNFINISHED)}"


def play_turn(here: Stage, chance: random.Random, number: int) -> str:
    """Run one turn, ended by a signal now and then; return a fault or ""."""
    asked = len(here.server.requests)
    here.script(make_turn(chance))
    more = ["-c"] if number > 1 else []
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    child = here.begin("ask", *more, "--allow", chance.choice(LEVELS), f"turn {number}", **streams)
    try:
        if chance.random() < 0.3 and until(lambda: len(here.server.requests) > asked, 60):
            time.sleep(chance.uniform(0, 1.0))
            child.send_signal(chance.choice(SIGNALS))
        _, told = child.communicate(timeout=120)
    finally:
        end(child)
    if not until(lambda: is_quiet(here.folder), 30):
        return f"turn {number}: a process is left"
    return f"turn {number}: {told.decode()}" if b"Traceback" in told else ""


def walk(here: Stage, states: list[State], verb: str, chance: random.Random) -> list[str]:
    """Undo or redo every turn and compare each state; return the faults."""
    faults: list[str] = []
    more = ("--all",) if verb == "undo" else ()
    for _ in states:
        if chance.random() < 0.1:
            child = here.begin(verb, *more, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.5))
            child.kill()
            end(child)
        done = here.run(verb, *more, "--json")
        if killed := re.search(rb"turn (\d+): nexus was killed in it", done.stderr):
            done = here.run(verb, *more, "--json", "--turn", killed[1].decode())
        if done.status not in (0, 1) or b"Traceback" in done.stderr:
            return [*faults, f"{verb}: exit {done.status}: {done.stderr.decode()[-2000:]}"]
        report = done.result
        if report["turn"] is None:
            break
        wanted = states[report["turn"] - (verb == "undo")]
        differences = compare(wanted, look(here.folder))
        if differences:
            faults.append(f"{verb} of turn {report['turn']}: {differences}\n    {report}")
            break
    return faults


def compare(wanted: State, found: State) -> list[str]:
    """Return how two states differ, one line each."""
    paths = {path for path in {*wanted[0], *found[0]} if wanted[0].get(path) != found[0].get(path)}
    lines = set(wanted[1].splitlines()) ^ set(found[1].splitlines())
    told = [f"{path!r} was {_brief(wanted[0].get(path))}, is {_brief(found[0].get(path))}" for path in sorted(paths)]
    return told + sorted(f"{'lost' if line in wanted[1] else 'new'}: {line}" for line in lines)


def _brief(about: tuple[Any, ...] | None) -> str:
    return f"{oct(about[1] or about[0])} {about[2][:40]!r}" if about else "absent"


def play(root: Path, seed: int, turns: int | None = None) -> list[str]:
    """Play the history of a seed in an empty folder; return its faults."""
    chance = random.Random(seed)
    os.environ.update(PERSON)
    with stage(root) as here:
        here.environment.update(PERSON)
        fill(here.folder)
        for name in NAMES[2:9]:
            here.folder.joinpath(name).parent.mkdir(exist_ok=True, parents=True)
            here.folder.joinpath(name).write_text(f"{name}\n1\n2\n3\n")
        (here.folder / "empty").mkdir()
        (here.folder / ".gitignore").write_text("*.log\n")
        states = [look(here.folder)]
        for number in range(1, 1 + (turns or chance.randint(2, 7))):
            if fault := play_turn(here, chance, number):
                return [fault]
            states.append(look(here.folder))
        faults: list[str] = []
        for verb in ("undo", "redo", "undo"):
            faults = faults or walk(here, states, verb, chance)
        if not faults and (left := compare(states[0], look(here.folder))):
            faults.append(f"after all: {left}")
        return faults


if __name__ == "__main__":
    sys.exit(run_seeds(play, "Play random turns, undo and redo them, and compare every state."))
