"""A machine in small for the tests of walls: home, project, strangers; and commands run in it as another user."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import platform
import pty
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from programs import why_no_bwrap

from nexus_cli.config.paths import Places
from nexus_cli.rules.read_only_environment import read_only_environment
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bwrap import find_bwrap
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.landlock import landlock_abi
from nexus_cli.sandbox.profile import ProfileName, SandboxProfile, make_profile
from nexus_cli.sandbox.sandbox_environment import sandbox_environment
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import ProcessResult, run_process

_T = TypeVar("_T")
HERE = Path(__file__).resolve().parent
ATTEMPTS = HERE / "attempts.py"
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


@dataclass(frozen=True, slots=True)
class Ground:
    """Who runs commands, inside what."""

    user: str
    """`root` or `ordinary`."""
    backend: Backend
    abi: int = 0

    @property
    def name(self) -> str:
        return f"{self.user}-{self.backend}" + (str(self.abi) if self.abi else "")

    @property
    def probe(self) -> BackendProbe:
        return BackendProbe(self.backend, abi=self.abi, program=find_bwrap(None))

    @property
    def missing(self) -> str:
        """Why commands cannot be run so here, "" if they can."""
        if sys.platform != "linux":
            return "needs Linux"
        if self.user == "root" and os.getuid():
            return "needs root"
        if self.backend is Backend.BWRAP and (why := why_no_bwrap(self.user == "ordinary")):
            return why
        if self.backend is Backend.LANDLOCK and landlock_abi() < self.abi:
            return f"the kernel has no Landlock {self.abi}"
        return ""


GROUNDS = [
    Ground("root", Backend.BWRAP),
    Ground("ordinary", Backend.BWRAP),
    Ground("root", Backend.LANDLOCK, 7),
    *(Ground("ordinary", Backend.LANDLOCK, abi) for abi in range(7, 0, -1)),
]
ONE_EACH = [Ground("ordinary", Backend.BWRAP), Ground("ordinary" if os.getuid() else "root", Backend.LANDLOCK, 7)]
"""Each backend and each user once."""


def in_user(user: str, act: Callable[[], _T]) -> _T:
    """Return what `act` returns in a forked process of `user`; a root of tests becomes `nobody` for an ordinary one."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            signal.set_wakeup_fd(-1)
            os.umask(0o022)
            if user == "ordinary" and os.getuid() == 0:
                nobody = pwd.getpwnam("nobody")
                os.setgroups([])
                os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
                os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
            with open(writing, "wb") as out:
                pickle.dump(act(), out)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as answer:
        data = answer.read()
    assert os.waitpid(child, 0)[1] == 0, f"the process of {user} failed"
    return pickle.loads(data)  # type: ignore[no-any-return]


def python_of_user() -> str:
    """Return an interpreter that the current user may run, "" if there is none."""
    if os.access(sys.executable, os.X_OK) and os.access(os.__file__, os.R_OK):
        return sys.executable
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""


@dataclass
class Scene:
    """Folders of one user, and what is around them."""

    ground: Ground
    base: Path
    environ: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def out(self) -> Path:
        return self.base / "out"

    @property
    def own(self) -> Places:
        return Places(*(self.base / "nexus" / name for name in ("config", "data", "cache", "log")))

    def profile(self, name: ProfileName = "write", **options: Any) -> SandboxProfile:
        options.setdefault("project", self.project)
        options.setdefault("cwd", options["project"])
        return make_profile(name, own=self.own, temp=self.base / "temp", environ=self.environ, **options)

    def run(self, words: str, profile: SandboxProfile | None = None, seconds: float = 60) -> ProcessResult:
        """Run a line of bash inside the walls."""
        profile = profile or self.profile()
        env, _ = sandbox_environment(profile, self.environ)
        env = read_only_environment(env) if profile.name == "read" else env
        confinement = Confinement(profile, self.ground.probe)
        argv = ["bash", "-c", words]
        try:
            return run_process(
                argv, cwd=profile.cwd, env=env, stop=StopFlag(), seconds=seconds, confinement=confinement
            )
        finally:
            confinement.close()

    def text(self, words: str, profile: SandboxProfile | None = None) -> str:
        return self.run(words, profile).output.decode("utf-8", "replace")

    def start(self, words: str, confinement: Confinement) -> tuple[tuple[str, ...], str]:
        """Run a line of bash to its end; return what was put back, and what it printed. Cheaper than `run`."""
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with confinement.watch_command() as told:
            child = confinement.start(["bash", "-c", words], cwd=self.project, env=self.environ, **options)
            text = child.communicate()[0].decode("utf-8", "replace")
        return tuple(told), text

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *words], cwd=cwd or self.project, env=self.environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def open_scene(ground: Ground) -> Iterator[Scene]:
    """Make the folders as the current user; what listens and what is a stranger's ends with the scene."""
    base = Path(tempfile.mkdtemp(prefix="nexus-walls-", dir="/tmp"))
    scene = Scene(ground, base)
    for name in ("project/sub", "home/.ssh", "home/.config/gh", "out/folder", "nexus/data", "nexus/log", "temp"):
        (base / name).mkdir(parents=True)
    for name, text in {
        "home/.ssh/id_rsa": "SECRET",
        "home/.config/gh/hosts.yml": "SECRET",
        "home/.netrc": "SECRET",
        "home/.bashrc": "# mine\n",
        "home/plain": "plain",
        "nexus/data/ledger.db": "SECRET",
        "out/file": "text\n",
        "out/long": "0123456789",
    }.items():
        (base / name).write_text(text)
    os.mkfifo(base / "out/fifo")
    with scene.stack:
        _surround(scene)
        try:
            yield scene
        finally:
            shutil.rmtree(base, ignore_errors=True)


def _surround(scene: Scene) -> None:
    stack, out = scene.stack, scene.out
    victim = stack.enter_context(subprocess.Popen(["sleep", "600"], cwd=out, env={"PARENT_KEY": "SECRET"}))
    stack.callback(victim.kill)
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = tcp.getsockname()[1]
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", port))
    udp.setblocking(False)
    with suppress(OSError):
        stack.enter_context(socket.create_server(("::1", port), family=socket.AF_INET6))
    abstract = f"nexus-walls-{os.getpid()}"
    for kind, address in (
        (socket.SOCK_STREAM, str(out / "socket")),
        (socket.SOCK_DGRAM, str(out / "datagrams")),
        (socket.SOCK_STREAM, f"\0{abstract}"),
    ):
        one = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        one.bind(address)
        if kind == socket.SOCK_STREAM:
            one.listen()
    master, slave = pty.openpty()
    inherited = os.open(out / "file", os.O_WRONLY | os.O_APPEND)
    os.set_inheritable(inherited, True)
    for handle in (master, slave, inherited):
        stack.callback(os.close, handle)
    scene.environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(scene.home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(scene.base / "temp"),
        "OUT": str(out),
        "NEXUS": str(scene.base / "nexus"),
        "BASE": str(scene.base),
        "VICTIM": str(victim.pid),
        "PORT": str(port),
        "ABSTRACT": abstract,
        "TTY": os.ttyname(slave),
        "INHERITED": str(inherited),
        "PYTHON": python_of_user(),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    scene.environ |= _shared_with_others(stack)
    scene.git("init", "-q", "-b", "main")
    (scene.project / "tracked").write_text("1\n")
    scene.git("add", "tracked")
    scene.git("commit", "-qm", "first")
    scene.environ["UDP"] = str(udp.fileno())


def _shared_with_others(stack: ExitStack) -> dict[str, str]:
    """Make a segment and a queue of System V, and a queue with a name; return where they are."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment, messages = libc.shmget(0, 4096, 0o600 | 0o1000), libc.msgget(0, 0o600 | 0o1000)
    stack.callback(libc.shmctl, segment, 0, None)
    stack.callback(libc.msgctl, messages, 0, None)
    queue = f"nexus-walls-{os.getpid()}"
    make, remove = (240, 241) if platform.machine() == "x86_64" else (180, 181)
    handle = libc.syscall(make, queue.encode(), os.O_RDWR | os.O_CREAT, 0o600, None)
    assert min(segment, messages, handle) >= 0, os.strerror(ctypes.get_errno())
    os.close(handle)
    stack.callback(libc.syscall, remove, queue.encode())
    return {"SEGMENT": str(segment), "MESSAGES": str(messages), "QUEUE": queue}


def in_scene(ground: Ground, act: Callable[[Scene], Any]) -> Any:
    """Return what `act` returns of a scene, both as the user of `ground`."""

    def run() -> Any:
        with open_scene(ground) as scene:
            return act(scene)

    return in_user(ground.user, run)


def attempt_all(scene: Scene, profile: SandboxProfile, shell: Mapping[str, str]) -> dict[str, str]:
    """Return for each line of bash in `shell`, and each attempt of `attempts.py`, "" or why it failed.

    All run in one confined process.
    """
    lines = [
        f"(eval {shlex.quote(words)}) </dev/null >&2; echo {shlex.quote(name)}=$?" for name, words in shell.items()
    ]
    if scene.environ["PYTHON"]:
        # As an argument: in `read` the folder of the scene cannot be seen.
        lines.append(f'"$PYTHON" -I -S -c {shlex.quote(ATTEMPTS.read_text())} </dev/null')
    done = scene.run("exec 2>$TMPDIR/errors\n" + "\n".join(lines), profile)
    text = done.output.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
        else:
            name, _, status = line.rpartition("=")
            found[name] = "" if status == "0" else f"status {status}"
    found |= {} if scene.environ["PYTHON"] else {"no Python": ""}
    with socket.socket(fileno=os.dup(int(scene.environ["UDP"]))) as udp:
        try:
            udp.recv(1)
        except BlockingIOError:
            found["udp"] = found.get("udp") or "did not arrive"
    return found
