"""Folders that somebody downloads: what a repository may hold to reach a file of the person, to run a program, to wait.

Each trap changes a plain repository in place. Around it are a home folder with secrets and a marker that no program of
the trap may make. `Download` opens the folder with every command and says what harm was done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from program.stage import PRICED, QUICK, Done, Stage, calls, end, stage
from project_files import write_files

SECRET = "sekrit-"
"""What every secret of the person contains."""
SECRETS = {
    ".ssh/id_rsa": "-----BEGIN PRIVATE KEY-----\nPRIVATE sekrit-ssh\n",
    ".netrc": "machine x password sekrit-netrc\n",
    ".pypirc": "[pypi]\n\tusername = __token__\n\tpassword = sekrit-pypi\n",
    "nexus/data/keys/openai": "sk-sekrit-openai-0123456789\n",
}
MARKER = "ran"
"""The file in the home folder that a program of a trap makes. Inside the walls it cannot."""
MANY = 205
"""Tracked files that a turn touches: after more than 200 git looks at all of them again."""
SECONDS = 300.0
"""A command of ours that takes so long hangs. Commands of the model have 120 s, and may themselves wait for a pipe."""
FILE_BYTES, ADDRESS_BYTES = 64 << 20, 6 << 30
"""Limits of a run, so that a failing test fills neither the disk nor the memory."""
MAX_DISK, MAX_MEMORY = 32, 4500
"""MiB that a run may leave in a folder, and that a child of it may have in memory."""
GIT_OF_TESTS = "NEXUS_TEST_GIT"
"""The variable that names a git to run all of this with, for example a newer one."""

LIMITED = f"""
import os, resource, signal
def note(text):
    with open(os.environ["NOTED"], "a") as file:
        file.write(text + chr(10))
def leave_noted(status):
    note("a child had %d MiB in memory" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10))
    leave(status)
resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_BYTES}, {FILE_BYTES}))
resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_BYTES}, {ADDRESS_BYTES}))
signal.signal(signal.SIGXFSZ, lambda *_: note("a file reached the limit"))
leave, os._exit = os._exit, leave_noted
"""
"""Limits a run, and has it note the memory of its largest child and that it wrote a file up to the limit."""

STATUS = "ulimit -v 2097152; timeout 20 git status"
"""What a command of the model takes and waits for in its own walls is not what nexus takes: it has its own bounds."""
LOOK = f"timeout 60 grep -RahoE --devices=skip 'sekri[t]-[a-z]*' . .git 2>&1 | sort -u | head -50; {STATUS} 2>&1 | tail"
READ = (".git/info/exclude", ".git/packed-refs", ".git/config", ".git/HEAD", ".gitattributes", "many/0")
LOOKS = calls(("bash", {"command": LOOK}), *(("read_file", {"path": name}) for name in READ))
EDITS = calls(
    *(("read_file", {"path": name}) for name in READ),
    ("edit_file", {"path": "many/1", "edits": [{"old": "1\n", "new": "one\n"}]}),
    ("write_file", {"path": "made.txt", "content": "made\n"}),
)
TOUCHES = calls(("bash", {"command": "for file in many/*; do echo more >> $file; done"}))
HANDS_OVER = calls(("agent", {"task": "LOOK around", "worktree": True}))
Steps = Sequence[dict[str, Any]]
STEPS: dict[str, Steps] = {"LOOK": [LOOKS], "EDIT": [EDITS], "TOUCH": [TOUCHES], "HAND OVER": [HANDS_OVER]}


def answer(body: Any, words: Mapping[str, Steps] = STEPS) -> dict[str, Any]:
    """Play the model: one step after the other of the word in the last sentence of the person, then an end."""
    messages = body["messages"]
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    text = str(messages[last]["content"]).rpartition("# Task")[2]
    steps = next((steps for word, steps in words.items() if word in text), ())
    done = sum(message["role"] == "assistant" for message in messages[last:])
    return steps[done] if done < len(steps) else {"text": "Done."}


ASK, AUTO = ("ask", "--allow", "ask"), ("ask", "--allow", "auto")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("doctor",),
    ("context",),
    ("sessions", "list"),
    ("diff",),
    ("worktree", "list"),
    (*ASK, "LOOK"),
    ("ask", "--allow", "edit", "-w", "fix", "EDIT"),
    ("worktree", "list"),
    ("worktree", "diff", "fix"),
    ("worktree", "apply", "fix"),
    ("worktree", "remove", "--force", "fix"),
    (*ASK, "HAND OVER"),
    (*AUTO, "HAND OVER"),
    (*AUTO, "TOUCH"),
    ("diff",),
    ("undo",),
    (*AUTO, "-c", "LOOK"),
)
"""Every command that touches the repository of the folder in which it is typed."""


class HangsError(Exception):
    """A command did not end; the text is the command."""


@dataclass
class Download:
    """A folder that somebody downloaded, on a stage of its own, and what was seen there."""

    place: Stage
    harm: list[str] = field(default_factory=list)
    done: list[tuple[str, Done]] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.place.folder

    @property
    def git(self) -> Path:
        return self.project / ".git"

    @property
    def home(self) -> Path:
        return self.place.home

    @property
    def noted(self) -> Path:
        """Where a run notes what it used."""
        return self.home.parent / "noted"

    def run(self, *arguments: str) -> Done:
        """Run a command of nexus to its end; note the harm that it did. Raises `HangsError`."""
        child = self.place.begin(
            *arguments, bug=LIMITED, env={"NOTED": str(self.noted)}, session=True, cwd=self.project
        )
        words = "nexus " + " ".join(arguments)
        guard = threading.Timer(2 * SECONDS, partial(self._kill, child.pid))  # one that prints without an end
        guard.start()
        try:
            stdout, stderr = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self._kill(child.pid)
            raise HangsError(words) from None
        finally:
            guard.cancel()
            end(child)
        done = Done(child.returncode, stdout, stderr)
        self.done.append((words, done))
        if b"Traceback" in stderr or not -1 < done.status < 128 or done.status == 97:
            self.harm.append(f"{words}: ended with {done.status}: {stderr.decode(errors='replace')[-2000:]}")
        self.find_harm(words)
        return done

    def _kill(self, leader: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        release_pipes(self.project)

    def open_everywhere(self, commands: Iterable[Sequence[str]] = COMMANDS) -> list[str]:
        """Run every command, or up to the first one that hangs; return the harm."""
        try:
            for arguments in commands:
                self.run(*arguments)
        except HangsError as error:
            self.harm.append(f"{error}: hangs")
        return self.harm

    def find_harm(self, words: str) -> None:
        """Note what a command did that no command may do."""
        found = [f"{name} in the home folder was changed" for name in self._changed_at_home()]
        for request in self.place.server.requests:
            if SECRET in (text := json.dumps(request.body)):
                at = text.index(SECRET)
                found.append(f"a request has {text[max(0, at - 60) : at + 20]!r}")
                break
        if any(SECRET.encode() in done.stdout + done.stderr for _, done in self.done[-1:]):
            found.append(f"the output has {SECRET}")
        found += [f"{path} has {SECRET}" for path in self._files_with_secrets()]
        for folder in (self.project, self.place.nexus_home):
            if (mebibytes := disk_bytes(folder) >> 20) > MAX_DISK:
                found.append(f"{folder.name} has {mebibytes} MiB")
        with suppress(FileNotFoundError):
            for line in self.noted.read_text().splitlines():
                size = re.search(r"(\d+) MiB", line)
                found += [line] if not size or int(size[1]) > MAX_MEMORY else []
            self.noted.unlink()
        known = {line.partition(": ")[2] for line in self.harm}
        self.harm += [f"{words}: {one}" for one in found if one not in known]

    def _changed_at_home(self) -> list[str]:
        now = {
            str(path.relative_to(self.home)): path.read_text() if path.is_file() else ""
            for path in self.home.rglob("*")
            if path.relative_to(self.home).parts[0] != "nexus"
        }
        expected = {name: text for name, text in SECRETS.items() if not name.startswith("nexus/")} | {".ssh": ""}
        return sorted(name for name in {*now, *expected} if now.get(name) != expected.get(name))

    def _files_with_secrets(self) -> Iterator[Path]:
        """Return the files with a secret that nexus or its children made, git's compressed objects too."""
        for folder in (self.project, self.place.nexus_home):
            for place, folders, names in os.walk(folder):
                folders[:] = [name for name in folders if Path(place, name) != self.place.nexus_home / "data/keys"]
                for path in (Path(place, name) for name in names):
                    with suppress(FileNotFoundError):
                        about = path.lstat()
                        if stat.S_ISREG(about.st_mode) and SECRET.encode() in read_plain(path):
                            yield path.relative_to(self.home.parent)


def read_plain(path: Path) -> bytes:
    """Return the bytes of a file, those of an object of git uncompressed."""
    data = path.read_bytes()
    if data[:1] == b"x":
        with suppress(zlib.error):
            return zlib.decompress(data)
    return data


def disk_bytes(folder: Path) -> int:
    """Return how many bytes the files in a folder take on the disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def release_pipes(folder: Path) -> None:
    """Let everybody go who waits for the other end of a pipe in `folder`."""
    for path in folder.rglob("*"):
        with suppress(OSError):
            if stat.S_ISFIFO(path.lstat().st_mode):
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


# -- the folder --------------------------------------------------------------------------------------------------------


def git_program() -> str:
    """Return the git that the tests run with, "" if there is none."""
    return os.environ.get(GIT_OF_TESTS) or shutil.which("git") or ""


@cache
def git_version() -> tuple[int, ...]:
    """Return the version of that git."""
    text = subprocess.run([git_program(), "--version"], capture_output=True, text=True).stdout.split()
    return tuple(int(part) for part in text[2].split(".")[:2]) if len(text) > 2 else (0, 0)


def run_git(folder: Path, *words: str) -> str:
    """Run git as the author of a repository. Maintenance in the background would be at work while a trap is set."""
    own = "user.name=A", "user.email=a@example.org", "protocol.file.allow=always", "maintenance.auto=false"
    options = [word for setting in own for word in ("-c", setting)]
    done = subprocess.run([git_program(), *options, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_repository(folder: Path) -> None:
    """Make a repository of two commits in which nothing is wrong."""
    run_git(folder, "init", "-q", "-b", "main")
    (folder / "many").mkdir()
    for number in range(MANY):
        (folder / f"many/{number}").write_text(f"{number}\n")
    (folder / "evil.sh").write_text("#!/bin/sh\n")
    (folder / "evil.sh").chmod(0o755)
    (folder / ".gitattributes").write_text("")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "first")
    (folder / "later").write_text("later\n")
    run_git(folder, "add", "later")
    run_git(folder, "commit", "-qm", "second")


@contextmanager
def download(root: Path, backend: str) -> Iterator[Download]:
    """A stage with a downloaded folder, not yet a trap, at `root`, in which nothing else is."""
    with stage(root, answer) as place:
        place.settings(f'{QUICK}{PRICED}[sandbox]\nbackend = "{backend}"\n')
        place.environment["PATH"] = f"{Path(git_program()).parent}{os.pathsep}{place.environment['PATH']}"
        write_files(place.home, SECRETS)
        (place.nexus_home / "data").chmod(0o700)
        make_repository(place.folder)
        (place.folder / "evil.sh").write_text(
            f"#!/bin/sh\n: > '{place.home}/{MARKER}'\n"
            f"cat '{place.home}'/.ssh/id_rsa '{place.home}'/.netrc > '{place.folder}/leaked' 2>/dev/null\n"
        )
        yield Download(place)


# -- the traps ---------------------------------------------------------------------------------------------------------

Trap = Callable[[Download], None]
KEY, ENDLESS, PIPE = ".ssh/id_rsa", "/dev/zero", "a pipe"
TARGETS = (KEY, ".netrc", "nexus/data/keys/openai", ".pypirc", ENDLESS, PIPE, "itself")
LED = (
    "info/exclude",
    "index",
    "packed-refs",
    "objects/info/alternates",
    "shallow",
    "refs/heads/x",
    "refs/heads/main",
    "HEAD",
    "config",
    "config.worktree",
    "commondir",
    "logs/HEAD",
    "info/attributes",
    "info/sparse-checkout",
    "worktrees/x/HEAD",
    "worktrees/x/gitdir",
    "worktrees/x/commondir",
    "modules/sub/config",
    "modules/sub/HEAD",
    "lfs/objects/x",
    "rebase-merge/git-rebase-todo",
    "MERGE_HEAD",
    "hooks/pre-commit",
    "../.git",
    "../.gitattributes",
    "../.gitignore",
    "../.gitmodules",
)
"""Places in a git folder that lead to a target instead of being a file."""
LED_FOLDERS = ("info", "logs", "refs", "refs/heads", "objects", "objects/pack", "lfs", "hooks", "worktrees", "modules")
"""Folders that lead to the folder of the person's keys."""


def lead(made: Download, name: str, target: str) -> None:
    """Put a link to a target of the person, or a pipe, in the place of a file or folder of git."""
    path = Path(os.path.normpath(made.git / name))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if target == PIPE:
        os.mkfifo(path)
    else:
        path.symlink_to({ENDLESS: ENDLESS, "itself": path.name}.get(target, made.home / target))


def configure(made: Download, text: str) -> None:
    """Add to the configuration of the repository; `{evil}` is a command, `{file}` the path of a program."""
    path = made.git / "config"
    path.write_text(f"{path.read_text()}{fill(made, text)}")


def name_pipe(made: Download, setting: str) -> None:
    """Let the configuration of the repository name a pipe of the project."""
    os.mkfifo(made.project / "pipe")
    configure(made, setting)


def fill(made: Download, text: str) -> str:
    """Put the names of this folder in a text."""
    words = {
        "{evil}": f"{made.project}/evil.sh #",
        "{file}": f"{made.project}/evil.sh",
        "{home}": made.home,
        "{project}": made.project,
    }
    for name, value in words.items():
        text = text.replace(name, str(value))
    return text


def configure_with_attributes(made: Download, text: str, attributes: str, place: str = ".gitattributes") -> None:
    """Configure programs that attributes of all files name."""
    (made.project / place).parent.mkdir(exist_ok=True)
    (made.project / place).write_text(f"* {attributes}\n")
    if place == ".gitattributes":
        run_git(made.project, "add", place)
        run_git(made.project, "commit", "-qm", "attributes")
    configure(made, text)


def put_hooks(made: Download) -> None:
    """Put a program in the place of every hook."""
    names = "post-checkout post-commit post-index-change pre-commit reference-transaction post-merge fsmonitor-watchman"
    for name in names.split():
        (made.git / "hooks").mkdir(exist_ok=True)
        shutil.copy2(made.project / "evil.sh", made.git / "hooks" / name)


def put_hooks_elsewhere(made: Download) -> None:
    """Name a folder of the project as that of the hooks."""
    put_hooks(made)
    shutil.move(made.git / "hooks", made.project / "tools")
    configure(made, "[core]\n\thooksPath = tools\n")


def promise(made: Download, url: str) -> None:
    """Leave out an object, to be fetched from a remote whose other end is a program."""
    oid = run_git(made.project, "rev-parse", "HEAD:many/7").strip()
    (made.git / "objects" / oid[:2] / oid[2:]).unlink()
    configure(
        made,
        '[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
        f'[remote "origin"]\n\turl = "{url}"\n\tuploadpack = "{{evil}}"\n\tpromisor = true\n'
        "\tpartialclonefilter = blob:none\n",
    )


def put_submodule(made: Download, inner: str) -> None:
    """Add a repository below, whose own configuration names programs; its git folder is at `inner`."""
    sub = made.project / "sub"
    sub.mkdir()
    run_git(sub, "init", "-q", "-b", "main")
    (sub / "file").write_text("x\n")
    run_git(sub, "add", "file")
    run_git(sub, "commit", "-qm", "sub")
    if inner != "sub/.git":
        (made.project / inner).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(sub / ".git", made.project / inner)
        (sub / ".git").write_text(f"gitdir: ../{inner}\n")
        configure(made, '[submodule "sub"]\n\turl = ./sub\n\tactive = true\n')
    (made.project / ".gitmodules").write_text(
        '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tupdate = !sh evil.sh\n'
    )
    run_git(made.project, "add", ".gitmodules", "sub")
    run_git(made.project, "commit", "-qm", "submodule")
    hostile = fill(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS)
    (made.project / inner / "config").write_text((made.project / inner / "config").read_text() + hostile)
    (sub / ".gitattributes").write_text("* filter=x\n")
    (sub / "file").write_text("y\n")


def put_git_file(made: Download, text: str) -> None:
    """Make `.git` a file that names another folder; the repository with programs is in `evil.git` of the project."""
    configure(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS)
    shutil.move(made.git, made.project / "evil.git")
    made.git.write_text(fill(made, text))


def put_linked_worktree(made: Download) -> None:
    """Make the project a linked worktree of a repository below it whose configuration names programs."""
    main = made.project / "main.git"
    shutil.move(made.git, main)
    own = main / "worktrees/x"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{made.git}\n")
    shutil.copy2(main / "index", own / "index")
    made.git.write_text(f"gitdir: {own}\n")
    with (main / "config").open("a") as file:
        file.write(fill(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS))


def put_common_folder(made: Download, text: str) -> None:
    """Name another folder as the one that worktrees share; one with programs is in `evil`."""
    shutil.copytree(made.git, made.project / "evil", symlinks=True)
    with (made.project / "evil/config").open("a") as file:
        file.write(fill(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS))
    (made.git / "commondir").write_text(fill(made, text))


def put_bare_folder(made: Download) -> None:
    """Make the project itself look like a git folder."""
    for path in made.git.iterdir():
        shutil.move(path, made.project / path.name)
    made.git.rmdir()
    with (made.project / "config").open("a") as file:
        file.write(fill(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS))


EVENT_NAMES = (
    "post-index-change",
    "reference-transaction",
    "post-checkout",
    "post-commit",
    "pre-commit",
    "post-merge",
    "pre-auto-gc",
    "fsmonitor",
)
EVENTS = "".join(
    f'[hook "of-{name}"]\n\tcommand = "{{evil}}"\n\tevent = {name}\n\tenabled = true\n' for name in EVENT_NAMES
)
PROGRAMS = {
    "core.fsmonitor": '[core]\n\tfsmonitor = "{evil}"\n\tfsmonitorHookVersion = 1\n',
    "filter": '[filter "x"]\n\tclean = "{evil}"\n\tsmudge = "{evil}"\n\tprocess = "{evil}"\n\trequired = true\n',
    "filter with a comma": '[filter "x,y"]\n\tclean = "{evil}"\n\tsmudge = "{evil}"\n',
    "filter with an equals sign": '[filter "x=y"]\n\tclean = "{evil}"\n\tsmudge = "{evil}"\n',
    "diff.external": '[diff]\n\texternal = "{evil}"\n\ttool = x\n[difftool "x"]\n\tcmd = "{evil}"\n',
    "textconv": '[diff "x"]\n\ttextconv = "{evil}"\n\tcommand = "{evil}"\n\tcachetextconv = true\n',
    "core.sshCommand": '[core]\n\tsshCommand = "{evil}"\n\tgitProxy = "{file}"\n[remote "origin"]\n\turl = ssh://x/y\n'
    "\tpromisor = true\n",
    "gpg.program": '[gpg]\n\tprogram = "{file}"\n[gpg "ssh"]\n\tprogram = "{file}"\n\tdefaultKeyCommand = "{evil}"\n'
    "[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[tag]\n\tgpgSign = true\n",
    "core.editor": '[core]\n\teditor = "{evil}"\n[sequence]\n\teditor = "{evil}"\n',
}
"""Configurations whose programs git starts for everybody who works in the folder."""
MORE = {
    "merge.driver": '[merge "x"]\n\tdriver = "{evil}"\n\trecursive = x\n[merge]\n\tdefault = x\n',
    "credential.helper": '[credential]\n\thelper = "!{evil}"\n[core]\n\taskPass = "{file}"\n'
    '[remote "origin"]\n\turl = http://127.0.0.1:1/x\n',
    "alias": '[alias]\n\tstatus = "!{evil}"\n\trev-parse = "!{evil}"\n\tdiff = "!{evil}"\n\tls-files = "!{evil}"\n'
    '\tcat-file = "!{evil}"\n\tupdate-ref = "!{evil}"\n\tfor-each-ref = "!{evil}"\n\tls-tree = "!{evil}"\n',
    "core.pager": '[core]\n\tpager = "{evil}"\n[pager]\n\tdiff = "{evil}"\n\tstatus = "{evil}"\n\tlog = "{evil}"\n',
    "alternateRefsCommand": '[core]\n\talternateRefsCommand = "{evil}"\n[uploadpack]\n\tpackObjectsHook = "{evil}"\n',
    "trailer": '[trailer "x"]\n\tcommand = "{evil}"\n\tcmd = "{evil}"\n[interactive]\n\tdiffFilter = "{evil}"\n',
    "trace2": "[trace2]\n\teventTarget = {home}/ran\n\tnormalTarget = {home}/ran\n\tperfTarget = {home}/ran\n",
    "gc": '[gc]\n\tauto = 1\n\trecentObjectsHook = "{evil}"\n[maintenance]\n\tauto = true\n',
    "core.worktree": "[core]\n\tworktree = {home}\n",
    "core.worktree above": "[core]\n\tworktree = ../..\n",
    "core.attributesFile": "[core]\n\tattributesFile = {home}/.ssh/id_rsa\n\texcludesFile = {home}/.netrc\n",
    "endless files": "[core]\n\tattributesFile = /dev/zero\n\texcludesFile = /dev/zero\n",
    "include of a secret": "[include]\n\tpath = {home}/.netrc\n",
    "include of a valid secret": "[include]\n\tpath = {home}/.pypirc\n"
    '[includeIf "gitdir:/"]\n\tpath = {home}/.pypirc\n',
    "include without an end": "[include]\n\tpath = /dev/zero\n",
    "include of itself": "[include]\n\tpath = config\n",
    "skip list": "[fsck]\n\tskipList = {home}/.netrc\n[transfer]\n\tfsckObjects = true\n"
    "[receive]\n\tfsckObjects = true\n[fetch]\n\tfsckObjects = true\n",
    "mailmap and template": "[mailmap]\n\tfile = {home}/.netrc\n[commit]\n\ttemplate = {home}/.ssh/id_rsa\n"
    "[blame]\n\tignoreRevsFile = {home}/.netrc\n",
    "an odd format": "[core]\n\trepositoryFormatVersion = 99\n",
    "an unknown extension": "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tnoSuchThing = true\n",
    "no syntax": "[core\n\tx y z\n",
}
"""Configurations with programs that git starts seldom, with files of the person, and odd ones."""

ATTRIBUTES = {
    "filter": "filter=x",
    "filter with a comma": "filter=x,y",
    "filter with an equals sign": "filter=x=y",
    "textconv": "diff=x",
    "merge.driver": "merge=x",
}
"""The attribute of all files that names the program of a configuration."""


def _include_outside(made: Download) -> None:
    """Include a file of the project, by its absolute path, that names programs."""
    (made.project / "more").write_text(fill(made, PROGRAMS["core.fsmonitor"] + PROGRAMS["filter"] + EVENTS))
    configure_with_attributes(made, "[include]\n\tpath = {project}/more\n", "filter=x")


@dataclass(frozen=True)
class Row:
    """A trap and its class: one row of each class is opened on every run, all of them in a search."""

    name: str
    kind: str
    set_up: Trap
    since: tuple[int, int] = (0, 0)
    """The version of git from which on the trap can spring."""
    springs: bool = False
    """True if it springs for everybody who works in the folder with git."""


def _rows() -> Iterator[Row]:
    for target in TARGETS:
        kind = "secret" if target in SECRETS else "odd file"
        for name in LED:
            yield Row(f"{name} -> {target}", kind, partial(lead, name=name, target=target))
    for name in LED_FOLDERS:
        yield Row(f"{name}/ -> .ssh", "secret", partial(lead, name=name, target=".ssh"))
    for setting in ("[include]\n\tpath = ../pipe\n", "[core]\n\texcludesFile = {project}/pipe\n"):
        yield Row(f"{setting.split()[0]} a pipe", "odd file", partial(name_pipe, setting=setting))
    without = EVENTS.replace("\tenabled = true\n", "")
    yield Row("hook.*.command", "event", partial(configure, text=EVENTS), (2, 54), springs=True)
    yield Row("hook.*.command without enabled", "event", partial(configure, text=without), (2, 54), springs=True)
    yield Row("hook.*.command included", "event", _include_outside, (2, 54), springs=True)
    for name, text in {**PROGRAMS, **MORE}.items():
        springs, attributes = name in PROGRAMS, ATTRIBUTES.get(name, "")
        if not attributes:
            yield Row(name, "program", partial(configure, text=text), springs=springs)
        for place in (".gitattributes", ".git/info/attributes") if attributes else ():
            trap = partial(configure_with_attributes, text=text, attributes=attributes, place=place)
            yield Row(f"{name} in {place}", "program", trap, springs=springs)
    yield Row("hooks", "program", put_hooks, springs=True)
    yield Row("core.hooksPath", "program", put_hooks_elsewhere, springs=True)
    for url in ("{project}/.git", "ext::sh {file}"):
        yield Row(f"a missing object of {url.split(':')[0]}", "program", partial(promise, url=url), springs=True)
    yield Row("a submodule", "elsewhere", partial(put_submodule, inner=".git/modules/sub"), springs=True)
    yield Row("a repository below", "elsewhere", partial(put_submodule, inner="sub/.git"), springs=True)
    for text in ("gitdir: evil.git\n", "gitdir: {home}/.ssh\n", "gitdir: /dev/zero\n", "gitdir: .git\n", "x" * 9000):
        name = text[:20].strip()
        yield Row(f".git file {name}", "elsewhere", partial(put_git_file, text=text), springs="evil" in text)
    for text in ("../evil\n", "{home}/.ssh\n", "../../..\n", "\n"):
        name = text.strip()
        yield Row(f"commondir {name}", "elsewhere", partial(put_common_folder, text=text), springs="evil" in text)
    yield Row("a linked worktree", "elsewhere", put_linked_worktree, springs=True)
    yield Row("a bare repository", "elsewhere", put_bare_folder, springs=True)


TRAPS = tuple(_rows())
