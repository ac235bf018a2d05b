"""Commands in walls behave as others: they end, with all they started; tools work; odd projects are told."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import need
from project_files import write_files
from sandbox.scene import ONE_EACH, Ground, Scene, in_scene
from search import sample

from nexus_cli.config.paths import Places
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.profile import ProfileName, TempFolder, make_profile
from nexus_cli.sandbox.sandbox_environment import is_secret, sandbox_environment
from nexus_cli.sandbox.seatbelt import seatbelt_arguments
from nexus_cli.tools import process
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.pipe_statuses import record_pipe_statuses
from nexus_cli.tools.process import run_process
from nexus_cli.tools.process_tree import find_group

once_each = pytest.mark.parametrize("ground", sample(ONE_EACH, 2), ids=lambda ground: ground.name, indirect=True)
"""For what is the same for each user."""


def running(mark: str) -> int:
    """The number of processes with `mark` in their command line."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += mark.encode() in path.read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.matrix
def test_daemons_stay_in_the_walls_and_end_with_the_command(ground: Ground) -> None:
    """Walls 47 and 52."""
    mark = f"61{os.getpid()}"

    def act(scene: Scene) -> tuple[int, int, bool]:
        done = scene.run(
            f"(setsid sh -c 'sleep 0.1; echo x > $OUT/daemon; exec sleep {mark}' >&- 2>&- &) ; "
            f"for i in $(seq 50); do sleep {mark} & done; sleep 0.3"
        )
        return done.killed, running(mark), (scene.out / "daemon").exists()

    left, still, escaped = in_scene(ground, act)
    assert left >= 50 and not still and not escaped


@pytest.mark.parametrize(
    "ground", [one for one in ONE_EACH if one.backend is Backend.BWRAP], ids=lambda ground: ground.name, indirect=True
)
def test_a_list_of_processes_inside_shows_the_command_and_not_its_walls(ground: Ground) -> None:
    def act(scene: Scene) -> list[str]:
        return scene.text(f"cat /proc/1/cmdline | tr '\\0' ' '; echo; ls -l /proc/$$/fd; : {mark}").splitlines()

    mark = f"mine {'x' * 40}"
    listed, *handles = in_scene(ground, act)
    assert "bwrap --args" in listed and listed.endswith(f"ls -l /proc/$$/fd; : {mark} ")
    assert "--ro-bind" not in listed and len(listed) < 300
    assert handles and not [one for one in handles if "memfd" in one], "bwrap has closed what it read"


@pytest.mark.matrix
def test_the_exit_statuses_of_a_pipe_come_out_of_the_walls(ground: Ground) -> None:
    def act(scene: Scene) -> tuple[tuple[int, ...], bytes]:
        env, words = dict(scene.environ), "echo 1 failed | (cat; exit 3) | cat"
        confinement = Confinement(scene.profile(), ground.probe)
        try:
            with record_pipe_statuses("/bin/bash", words, env) as statuses:
                done = run_process(
                    ["/bin/bash", "-c", words],
                    cwd=scene.project,
                    env={**env, **statuses.variables},
                    stop=StopFlag(),
                    seconds=60,
                    confinement=confinement,
                    pass_fds=statuses.pass_fds,
                )
                return statuses.read(), done.output
        finally:
            confinement.close()

    assert in_scene(ground, act) == ((0, 3, 0), b"1 failed\n")


def test_not_even_who_hides_outlives_the_command(ground: Ground) -> None:
    """No environment, no parent, a session of its own: unknown to the process tree."""
    mark = f"63{os.getpid()}"

    def act(scene: Scene) -> int:
        hiding = f"(/bin/sleep {mark} & /bin/sleep {mark}; /bin/sleep {mark}) >/dev/null 2>&1 &"
        scene.run(f"(env -i setsid /bin/sh -c '{hiding}' &); sleep 0.2")
        return running(mark)

    assert in_scene(ground, act) == 0


FORKS = """
import os, time
os.setsid()
limit = time.time() + 300
while not os.path.exists("ended") and time.time() < limit:
    if os.fork():
        os._exit(0)
open("escaped", "w").close()
"""


@pytest.mark.matrix
def test_not_even_a_chain_of_forks_outlives_the_command(ground: Ground) -> None:
    """Each process lives for less than a look at all of them takes."""

    def act(scene: Scene) -> tuple[str, bool]:
        if not scene.environ["PYTHON"]:
            pytest.skip("no Python that this user may run")
        (scene.base / "forks.py").write_text(FORKS)
        for _ in range(3):
            text = scene.text('(env -i "$PYTHON" -I -S $BASE/forks.py >&- 2>&- <&- &); sleep 0.3; echo done')
        (scene.project / "ended").touch()
        time.sleep(0.5)
        return text, (scene.project / "escaped").exists()

    assert in_scene(ground, act) == ("done\n", False)


@pytest.mark.matrix
@once_each
def test_a_neighbour_is_not_ended_with_the_strays_of_a_command(ground: Ground) -> None:
    """Neither a process of ours nor another command that runs at the same time."""

    def act(scene: Scene) -> tuple[int | None, str]:
        with subprocess.Popen(["sleep", "600"]) as ours:
            found: list[str] = []
            runner = threading.Thread(target=lambda: found.append(scene.text("sleep 1; echo done")))
            runner.start()
            for _ in range(3):
                scene.run("(setsid sleep 600 &)")
            runner.join()
            status = ours.poll()
            ours.kill()
        return status, found[0]

    assert in_scene(ground, act) == (None, "done\n")


@once_each
def test_the_time_limit_gives_a_command_time_to_end(ground: Ground) -> None:
    """Wall 60: SIGTERM first, as without walls. The time is over once the command has begun."""

    def act(scene: Scene) -> tuple[bool, str, bool]:
        looks: list[float] = []

        def clock() -> float:
            """Put forward from the second look on: the first one is the beginning."""
            looks.append(time.monotonic() + 1000.0 * (bool(looks) and (scene.project / "began").exists()))
            return looks[-1]

        vars(process)["time"] = SimpleNamespace(monotonic=clock, sleep=time.sleep)
        done = scene.run("trap 'echo cleaned; touch cleaned; exit 3' TERM; echo begun; touch began; sleep 50 & wait")
        return done.timed_out, done.output.decode(), (scene.project / "cleaned").exists()

    timed_out, text, cleaned = in_scene(ground, act)
    assert timed_out and text.startswith("begun\ncleaned\n") and cleaned


@pytest.mark.matrix
@once_each
def test_much_output_is_counted_and_statuses_come_through(ground: Ground) -> None:
    def act(scene: Scene) -> tuple[int, int, int, int]:
        done = scene.run("head -c 20000000 /dev/zero; exit 7")
        return len(done.output), done.status, scene.run("kill -9 $$").status, scene.run("nowhere-such 2>&-").status

    assert in_scene(ground, act) == (20_000_000, 7, 137, 127)


@pytest.mark.parametrize("hides", ["", "(env -i setsid /bin/sh -c 'trap \"\" TERM; /bin/sleep MARK; true' &) ; "])
def test_a_killed_nexus_leaves_nothing_running_and_no_ghost_files(ground: Ground, hides: str) -> None:
    """Wall 29; also what has no environment, no parent and a session of its own."""
    mark = f"62{os.getpid()}"

    def act(scene: Scene) -> tuple[int, list[str], list[str]]:
        before = sorted(map(str, scene.project.rglob("*")))
        child = os.fork()
        if child == 0:
            scene.run(f"{hides}sleep {mark}".replace("MARK", mark))
            os._exit(0)
        limit = time.monotonic() + 120
        while running(mark) < (3 if hides else 1) and time.monotonic() < limit:
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while (left := running(mark)) and time.monotonic() < limit:
            time.sleep(0.02)
        return left, before, sorted(map(str, scene.project.rglob("*")))

    left, before, after = in_scene(ground, act)
    assert not left and before == after


@pytest.mark.matrix
def test_files_are_linked_and_moved_between_folders_of_the_project(ground: Ground) -> None:
    """`mv` copies where it cannot rename; git and build tools do not."""
    words = 'mkdir x; echo 1 > x/a; ln x/a sub/b && perl -e \'rename "x", "sub/y" or die $!\' && ls sub sub/y'

    def act(scene: Scene) -> tuple[str, str]:
        scene.git("init", "-q", "--bare", "mirror")
        return scene.text(words), scene.text("git push -q mirror main; git -C mirror log --oneline main | wc -l")

    assert in_scene(ground, act) == ("sub:\nb\ny\n\nsub/y:\na\n", "1\n")


@pytest.mark.matrix
@once_each
def test_a_hidden_file_that_is_made_later_is_hidden_from_the_next_command(ground: Ground) -> None:
    """Wall 31; by a rule set that was already built, too."""

    def act(scene: Scene) -> tuple[str, str, str]:
        from nexus_cli.sandbox.confinement import Confinement
        from nexus_cli.tools.cancellable_thread import StopFlag
        from nexus_cli.tools.process import run_process

        confinement = Confinement(scene.profile("write"), scene.ground.probe)

        def cat(path: Path) -> str:
            argv, env = ["cat", str(path)], scene.environ
            done = run_process(argv, cwd=scene.project, env=env, stop=StopFlag(), seconds=9, confinement=confinement)
            return done.output.decode()

        (scene.home / "one").write_text("plain")
        first = cat(scene.home / "one")
        write_files(scene.home, {".aws/credentials": "SECRET", "two": "plain"})
        return first, cat(scene.home / ".aws/credentials"), cat(scene.home / "two")

    first, hidden, later = in_scene(ground, act)
    assert first == later == "plain" and "SECRET" not in hidden


@pytest.mark.matrix
@once_each
def test_a_hidden_folder_in_shared_memory_is_hidden_as_any_other(ground: Ground) -> None:
    def act(scene: Scene) -> tuple[str, bool]:
        folder = Path(tempfile.mkdtemp(prefix="nexus-walls-", dir="/dev/shm"))
        try:
            (folder / "ledger").write_text("SECRET")
            own = Places(scene.own.config, folder, scene.own.cache, scene.own.log)
            profile = make_profile(
                "write", project=scene.project, cwd=scene.project, own=own, temp=None, environ=scene.environ
            )
            return scene.text(f"cat {folder}/ledger; echo x > {folder}/made", profile), (folder / "made").exists()
        finally:
            shutil.rmtree(folder)

    text, made = in_scene(ground, act)
    assert "SECRET" not in text and not made


@pytest.mark.matrix
@once_each
def test_skills_can_be_read_in_every_profile_and_nothing_else_of_our_own_folders(ground: Ground) -> None:
    def act(scene: Scene) -> list[str]:
        own = scene.own
        for path, text in (
            (own.config / "skills/deploy/SKILL.md", "GUIDE"),
            (own.data / "trust.json", "RECORD"),
            (own.config / "config.toml", "SECRET"),
            (own.data / "ledger.db", "SECRET"),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        words = f"cat {own.config}/skills/*/SKILL.md {own.data}/trust.json; cat {own.config}/*.toml {own.data}/*.db"
        words += f"; echo FORGED > {own.config}/skills/deploy/SKILL.md; echo FORGED > {own.data}/trust.json"
        names: tuple[ProfileName, ...] = ("read", "write", "net")
        return [scene.text(words, scene.profile(name)) for name in names] + [(own.data / "trust.json").read_text()]

    *texts, record = in_scene(ground, act)
    assert all("GUIDE" in text and "RECORD" in text and "SECRET" not in text for text in texts)
    assert record == "RECORD"


@pytest.mark.matrix
def test_a_project_that_is_or_holds_the_home_folder_is_not_writable(ground: Ground) -> None:
    """Wall 59."""

    def act(scene: Scene) -> list[tuple[tuple[str, ...], str]]:
        found = []
        for project in (scene.home, scene.base, Path("/")):
            profile = scene.profile(project=project)
            found.append((profile.notes, scene.text(f"cd; echo x > {scene.home}/new; mktemp >&-", profile)))
        return found

    for notes, text in in_scene(ground, act):
        assert "home folder" in notes[0] and ("denied" in text or "Read-only" in text)


@pytest.mark.matrix
@once_each
def test_the_network_profile_reaches_a_server_and_still_no_unix_socket(ground: Ground) -> None:
    program = "import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ['OUT'] + '/socket')"
    words = f'exec 9<>/dev/tcp/127.0.0.1/$PORT && echo reached; "$PYTHON" -c "{program}" 2>&- && echo local'

    def act(scene: Scene) -> list[str]:
        asked = [scene.profile("net"), scene.profile("write"), scene.profile("write", unix_sockets=True)]
        return [scene.text(words, profile) for profile in asked]

    net, write, local = in_scene(ground, act)
    assert net == "reached\n" and "reached" not in write and "local" not in write
    assert local.endswith("local\n") and "reached" not in local


BUILDS = {
    "npm": "npm pack --silent",
    "node": 'node -e \'require("fs").writeFileSync("made", "x")\' && cat made',
    "gcc": "printf 'int main(){return 0;}' > a.c && gcc -pipe a.c -o a && ./a",
    "make": "printf 'all:\\n\\techo built\\n' > Makefile && make -s",
    "go": "echo module x > go.mod && printf 'package main\\nfunc main(){}\\n' > m.go && go build -o m . && ./m",
}


@pytest.mark.matrix
@pytest.mark.parametrize("tool", sample(BUILDS, 3))
@once_each
def test_build_tools_work_with_what_is_there_and_no_network(ground: Ground, tool: str) -> None:
    """Wall 62, with the tools that are installed for everybody, each in a project of its own."""
    need(tool, "/usr/local/bin:/usr/bin:/bin")

    def act(scene: Scene) -> tuple[int, str]:
        (scene.project / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
        done = scene.run(BUILDS[tool], seconds=250)
        return done.status, done.output.decode()

    status, output = in_scene(ground, act)
    assert status == 0, output


@pytest.mark.matrix
@once_each
def test_personal_skills_are_shown_and_nothing_else_of_our_own_folders(ground: Ground) -> None:
    def act(scene: Scene) -> list[str]:
        skills = scene.own.config / "skills"
        write_files(skills, {"deploy/SKILL.md": "the guide\n"})
        (scene.own.config / "mcp.json").write_text("SECRET")
        write_files(scene.home, {"linked/SKILL.md": "linked\n"})
        (skills / "linked").symlink_to(scene.home / "linked")
        (skills / "evil").symlink_to(scene.home / ".ssh")
        (scene.own.data / "trust.json").write_text("1\n")
        look = "cd $NEXUS; cat config/skills/*/SKILL.md data/trust.json config/mcp.json data/l* config/skills/evil/*"
        first = scene.text(f"({look}) 2>/dev/null; touch $NEXUS/config/skills/x $NEXUS/data/x 2>/dev/null || echo kept")
        (scene.own.data / "new").write_text("2\n")
        (scene.own.data / "new").replace(scene.own.data / "trust.json")
        shutil.move(skills, scene.home / "skills")
        skills.symlink_to(scene.home / "skills")
        return [first, scene.text(f"({look}) 2>/dev/null", scene.profile("read"))]

    first, second = in_scene(ground, act)
    assert first == "the guide\nlinked\n1\nkept\n" and second == "the guide\nlinked\n2\n"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("ANTHROPIC_AUTH_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("PGPASSWORD", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("npm_token", True),
        ("CLIENT_SECRET", True),
        ("DB_PASSWORD_FILE", True),
        ("SECRET_KEY_BASE", True),
        ("MYSQL_PWD", True),
        ("OPENAI_APIKEY", True),
        ("API_KEY_2", True),
        ("AUTHTOKEN", True),
        ("npm_config__auth", True),
        ("COMPOSER_AUTH", True),
        ("BW_SESSION", True),
        ("OP_SESSION_my", True),
        ("PWD", False),
        ("OLDPWD", False),
        ("SESSION_MANAGER", False),
        ("XAUTHORITY", False),
        ("PATH", False),
        ("KEYBOARD", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("SSH_AUTH_SOCK", False),
        ("GIT_ASKPASS", False),
        ("MONKEY", False),
        ("COMPASS", False),
    ],
)
def test_variables_are_secrets_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name, "x") is secret and not is_secret(name, "")


def test_secrets_are_taken_out_of_every_environment_unless_they_are_passed(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    environ = {"PATH": "/bin", "A_TOKEN": "x", "B_KEY": "y", "EMPTY_KEY": ""}
    for name in ("read", "write", "net", "none"):
        profile = make_profile(name, project=tmp_path, cwd=tmp_path, own=own, temp=tmp_path)
        env, taken = sandbox_environment(profile, environ, ["B_KEY"])
        assert taken == ("A_TOKEN",) and env["B_KEY"] == "y" and "A_TOKEN" not in env
        assert (env.get("TMPDIR") == str(tmp_path)) is (name != "none")


def test_java_which_reads_no_tmpdir_is_told_the_private_folder_beside_the_persons_options(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    profile = make_profile("write", project=tmp_path, cwd=tmp_path, own=own, temp=tmp_path)
    for given, expected in (("", ""), ("-Xmx2g", "-Xmx2g ")):
        env, _ = sandbox_environment(profile, {"PATH": "/bin", "JAVA_TOOL_OPTIONS": given})
        assert env["JAVA_TOOL_OPTIONS"] == f"{expected}-Djava.io.tmpdir={tmp_path}"


def test_without_network_build_tools_use_what_is_cached_and_do_not_try_again(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    environ = {"HOME": str(tmp_path), "UV_OFFLINE": "0"}
    envs = {}
    for name in ("read", "write", "net", "none"):
        profile = make_profile(
            name, project=tmp_path / "p", cwd=tmp_path, own=own, temp=tmp_path / "t", environ=environ
        )
        envs[name], _ = sandbox_environment(profile, environ)
    assert [envs[name].get("CARGO_NET_OFFLINE") for name in envs] == ["true", "true", None, None]
    assert envs["write"]["npm_config_offline"] == "true" and envs["write"]["UV_OFFLINE"] == "0"
    assert "GOCACHE" not in envs["none"] and envs["read"]["GOCACHE"] == str(tmp_path / "t/go-build")


@pytest.mark.matrix
def test_the_folder_for_temporary_files_is_private_and_does_not_outlive_its_session(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    one, two = TempFolder(own), TempFolder(own)
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o700 and one.path != two.path
    code = (
        "import sys, os, signal; from pathlib import Path; from nexus_cli.config.paths import Places;"
        "from nexus_cli.sandbox.profile import TempFolder; t = TempFolder(Places(*[Path(sys.argv[1])] * 4));"
        "print(t.path, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    left = Path(killed.stdout.strip())
    assert left.is_dir()
    three = TempFolder(own)
    assert not left.exists() and one.path.exists()
    for folder in (one, two, three, three):
        folder.close()
        assert not folder.path.exists()


@pytest.mark.matrix
def test_the_policy_for_macos_denies_last_and_takes_paths_as_parameters(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    project = tmp_path / 'a "b" (c)'
    (project / ".git").mkdir(parents=True)
    profile = make_profile("write", project=project, cwd=project, own=own, temp=tmp_path, environ={"HOME": "/nowhere"})
    line = seatbelt_arguments(profile, ["true", "-x"], [project / ".git/hooks"])
    policy = line[line.index("-p") + 1]
    assert line[0] == "/usr/bin/sandbox-exec" and line[-3:] == ["--", "true", "-x"]
    assert "(deny default)" in policy and "network" not in policy and str(project) not in policy
    values = dict(word.split("=", 1) for word in line if word.startswith("P") and "=" in word)
    rules = [rule for rule in policy.splitlines() if "param" in rule]
    shown = [rule.replace(f'(param "{key}")', values[key]) for rule in rules for key in values if f'"{key}"' in rule]
    assert shown[0] == f"(allow file-write* (subpath {os.path.realpath(project)}))"
    hooks = shown.index(f"(deny file-write* (subpath {project}/.git/hooks))")
    assert f"(deny file-write-unlink (literal {project}/.git))" in shown[hooks:]
    assert f"(deny file-read* file-write* (subpath {own.data}))" in shown[1:hooks]
    reading = make_profile("read", project=project, cwd=project, own=own, temp=None)
    assert "allow file-write* (subpath" not in seatbelt_arguments(reading, ["x"], [])[2]
    net = make_profile("net", project=project, cwd=project, own=own, temp=None)
    assert "(allow network*)" in seatbelt_arguments(net, ["x"], [])[2]


@pytest.mark.matrix
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_no_walls_means_the_command_as_it_is() -> None:
    ground = Ground("root" if os.getuid() == 0 else "ordinary", Backend.NONE)
    text = in_scene(ground, lambda scene: scene.text("echo $0; cat $HOME/.netrc", scene.profile("none")))
    assert text == "bash\nSECRET"


@pytest.mark.matrix
@once_each
def test_what_a_session_starts_leaves_no_group_and_no_descriptor(ground: Ground) -> None:
    def act(scene: Scene) -> tuple[int, int]:
        scene.run("true")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            scene.run("true")
        return before, len(os.listdir("/proc/self/fd"))

    before, after = in_scene(ground, act)
    assert before == after and not find_group(99999999)


@pytest.mark.matrix
def test_what_deny_rules_hide_is_not_read_and_the_folder_around_it_can_be_worked_in(ground: Ground) -> None:
    def act(scene: Scene) -> tuple[str, str, str]:
        (scene.project / ".env").write_text("hunter2\n")
        (scene.project / "sub" / "open").write_text("open\n")
        write_files(scene.project, {"secret/key": "hunter2\n"})
        profile = scene.profile(denied=(scene.project / ".env", scene.project / "secret"))
        tries = "cat .env secret/key; cat sub/open; mv .env sub/x; ln .env sub/y; cat sub/x sub/y; grep -rs hunter2 .;"
        first = scene.text(f"{tries} echo made > new; rm tracked; mkdir folder && echo deep > folder/deep", profile)
        return first, scene.text("cat new folder/deep; git status --short; rm new", profile), scene.text("ls", profile)

    first, second, third = in_scene(ground, act)
    assert "hunter2" not in first and "open\n" in first
    assert second.startswith("made\ndeep\n") and " D tracked" in second
    assert "new" not in third.split() and "folder" in third.split()
