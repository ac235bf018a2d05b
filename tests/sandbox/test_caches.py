"""Caches of build tools: what runs later in another project is never written; builds go on with what is cached."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from programs import need
from sandbox.scene import ONE_EACH, Ground, Scene, in_scene
from search import sample

from nexus_cli.sandbox.profile import ProfileName, make_profile
from nexus_cli.sandbox.sandbox_environment import sandbox_environment

once_each = pytest.mark.parametrize("ground", sample(ONE_EACH, 2, 1), ids=lambda ground: ground.name, indirect=True)
SHARED = (
    ".cache/pypoetry/virtualenvs/x/bin/python",
    ".cache/pypoetry/artifacts/x.whl",
    ".cache/uv/environments-v2/x/bin/p",
    ".cache/uv/archive-v0/x/p.py",
    ".cache/uv/wheels-v5/x",
    ".cache/pip/wheels/x.whl",
    ".cache/pip/http-v2/x",
    ".cache/pdm/packages/x/p.py",
    ".cache/go-build/00/x-d",
    ".cache/golangci-lint/x",
    ".cache/yarn/v6/x/index.js",
    ".cache/pnpm/dlx/x/index.js",
    ".cache/node-gyp/18/include/node.h",
    ".cache/deno/deps/x",
    ".cache/ccache/x",
    ".cache/sccache/x",
    ".cache/zig/o/x",
    ".cache/composer/files/x.zip",
    ".cache/pre-commit/repo/bin/x",
    "go/pkg/mod/example.org/lib@v0/lib.go",
    "go/pkg/mod/cache/download/x.zip",
    "go/bin/x",
    ".cargo/registry/src/x/lib.rs",
    ".cargo/registry/cache/x.crate",
    ".cargo/registry/index/x",
    ".cargo/git/db/x",
    ".cargo/bin/x",
    ".cargo/env",
    ".rustup/settings.toml",
    ".rustup/toolchains/x/bin/rustc",
    ".npm/_cacache/content-v2/x",
    ".npm/_npx/x/index.js",
    ".m2/repository/a/b.jar",
    ".gradle/caches/modules-2/x.jar",
    ".gradle/wrapper/dists/x",
    ".gradle/daemon/registry.bin",
    ".ivy2/cache/x.jar",
    ".sbt/boot/x.jar",
    ".nuget/packages/x.dll",
    ".local/share/pnpm/store/v3/files/x",
    ".local/bin/x",
    ".local/share/uv/tools/x",
    "Library/Caches/pip/x",
)


def fill(scene: Scene) -> None:
    for name in SHARED:
        (scene.home / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.home / name).write_text("theirs\n")


@pytest.mark.matrix
def test_no_cache_that_other_projects_use_is_written(ground: Ground) -> None:
    names = " ".join(f"'{name}'" for name in SHARED)
    tries = '(echo evil >> "$HOME/$f") 2>&-; (echo evil > "$HOME/$f.new") 2>&-; cat "$HOME/$f"'
    words = f"for f in {names}; do {tries}; done"

    def act(scene: Scene) -> list[str]:
        fill(scene)
        profiles: tuple[ProfileName, ...] = ("write", "net")
        read = [scene.text(words, scene.profile(name)) for name in profiles]
        assert set("".join(read).split()) <= {"theirs"} and "theirs" in read[0]
        return [
            name
            for name in SHARED
            if (scene.home / name).read_text() != "theirs\n" or (scene.home / f"{name}.new").exists()
        ]

    assert in_scene(ground, act) == []


@pytest.mark.matrix
@once_each
def test_a_cache_of_the_project_is_kept_and_no_other_project_writes_it(ground: Ground) -> None:
    """What a command with network has loaded is there for those without."""

    def act(scene: Scene) -> list[str]:
        other = scene.base / "other"
        other.mkdir()
        (scene.home / ".cargo").mkdir()
        fill = "mkdir -p $CARGO_HOME/registry && echo mine > $CARGO_HOME/registry/x; echo $CARGO_HOME"
        first = scene.text("echo ${CARGO_HOME-none}").strip()
        place = scene.text(fill, scene.profile("net")).strip()
        later = scene.text("echo $CARGO_HOME; cat $CARGO_HOME/registry/x").split()
        theirs = scene.profile(project=other)
        tried = scene.text(f"echo evil > {place}/registry/x; echo ${{CARGO_HOME-none}}", theirs)
        assert (Path(place) / "registry/x").read_text() == "mine\n" and tried.endswith("none\n")
        assert later == [place, "mine"] and Path(place).is_relative_to(scene.own.cache)
        return [first]

    assert in_scene(ground, act) == ["none"]


def test_caches_are_moved_by_variables_and_those_the_person_opened_stay(tmp_path: Path) -> None:
    own = Scene(ONE_EACH[0], tmp_path).own
    (tmp_path / "home/.cargo").mkdir(parents=True)
    (tmp_path / "home/.gradle/caches").mkdir(parents=True)
    (tmp_path / "home/.m2/repository").mkdir(parents=True)
    (tmp_path / "home/.npm").mkdir(parents=True)
    environ = {"HOME": str(tmp_path / "home"), "NPM_CONFIG_CACHE": "/theirs", "MAVEN_OPTS": "-Xmx1g", "GOCACHE": "/x"}

    def env(name: ProfileName, project: str = "p", write: tuple[str, ...] = ()) -> dict[str, str]:
        (tmp_path / project).mkdir(exist_ok=True)
        made = make_profile(
            name,
            project=tmp_path / project,
            cwd=tmp_path / project,
            own=own,
            temp=tmp_path / "t",
            environ=environ,
            write=write,
        )
        return sandbox_environment(made, environ)[0]

    always = {"GOCACHE", "UV_CACHE_DIR", "PIP_CACHE_DIR", "GRADLE_USER_HOME"}
    offline, online = env("write"), env("net")
    base = Path(offline["GOCACHE"]).parent.parent
    assert offline["NUGET_PACKAGES"] == str(base / ".nuget/packages"), "there is none to be read"
    assert always <= offline.keys() and "CARGO_HOME" not in offline and offline["MAVEN_OPTS"] == "-Xmx1g"
    assert offline["NPM_CONFIG_CACHE"] == "/theirs" and offline["GRADLE_RO_DEP_CACHE"].endswith("home/.gradle/caches")
    assert online["CARGO_HOME"] == str(base / ".cargo") and online["npm_config_cache"] == str(base / ".npm")
    assert "NPM_CONFIG_CACHE" not in online
    assert online["npm_config_store_dir"] == online["pnpm_config_store_dir"] == f"{base}/.local/share/pnpm/store"
    assert "npm_config_devdir" in online and "npm_config_devdir" not in offline
    (tmp_path / "p/package-lock.json").touch()
    assert "npm_config_store_dir" not in env("net")
    (tmp_path / "p/pnpm-lock.yaml").touch()
    assert "npm_config_store_dir" in env("net")
    assert online["MAVEN_OPTS"] == f"-Xmx1g -Dmaven.repo.local={base}/.m2/repository"
    assert env("net", write=("~/.cargo",)).get("CARGO_HOME") is None
    assert env("net", "q")["CARGO_HOME"] != online["CARGO_HOME"]
    assert env("none")["GOCACHE"] == "/x" and "CARGO_HOME" not in env("none")
    assert os.stat(base).st_mode & 0o777 == 0o700 and sorted(os.listdir(base)) == []


def test_hooks_that_the_person_has_installed_are_known_to_pre_commit_in_the_sandbox(tmp_path: Path) -> None:
    own, environ = Scene(ONE_EACH[0], tmp_path).own, {"HOME": str(tmp_path / "home")}
    theirs = tmp_path / "home/.cache/pre-commit/db.db"
    theirs.parent.mkdir(parents=True)

    def profile() -> Path:
        made = make_profile("write", project=tmp_path, cwd=tmp_path, own=own, temp=tmp_path / "t", environ=environ)
        return Path(sandbox_environment(made, environ)[0]["PRE_COMMIT_HOME"]) / "db.db"

    assert not profile().exists()
    theirs.write_text("one")
    os.utime(theirs, (1, 1))
    copy = profile()
    assert copy.read_text() == "one" and copy.parent != theirs.parent
    copy.write_text("of the sandbox")
    assert profile().read_text() == "of the sandbox"
    theirs.write_text("two")
    os.utime(theirs, (2**32, 2**32))
    assert profile().read_text() == "two"
    copy.unlink()
    copy.parent.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy.parent.symlink_to(elsewhere)  # as a command of the sandbox may
    profile()
    assert os.listdir(elsewhere) == []


def test_a_cache_below_the_folder_of_caches_that_the_person_opened_is_not_moved(tmp_path: Path) -> None:
    own, caches = Scene(ONE_EACH[0], tmp_path).own, tmp_path / "caches"
    caches.mkdir()
    environ = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(caches)}
    profiles = [
        make_profile("write", project=tmp_path, cwd=tmp_path, own=own, temp=None, environ=environ, write=write)
        for write in ((), (str(caches),))
    ]
    assert [("PRE_COMMIT_HOME" in dict(made.caches), "GOPATH" in dict(made.caches)) for made in profiles] == [
        (True, True),
        (False, True),
    ]


def test_worktrees_of_a_repository_have_one_cache(tmp_path: Path) -> None:
    """Else each worker would compile everything anew."""
    project = tmp_path / "p"
    commit = ["-c", "user.name=A", "-c", "user.email=a@x.org", "commit", "-q", "--allow-empty", "-m", "x"]
    for words in (["init", "-q", "."], commit, ["worktree", "add", "-q", "../w"]):
        project.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)
    own = Scene(ONE_EACH[0], tmp_path).own
    found = {
        make_profile("write", project=one, cwd=one, own=own, temp=None, environ={"HOME": "/nowhere"}).caches
        for one in (project, tmp_path / "w")
    }
    assert len(found) == 1 and found != {()}


GO = {
    "go.mod": "module p\n\ngo 1.19\n\nrequire example.org/lib v0.1.0\n",
    "m.go": 'package main\n\nimport "example.org/lib"\n\nfunc main() { println(lib.N()) }\n',
}


def warm_go(scene: Scene) -> None:
    """Let go load a module into the home folder, as a person does."""
    at = scene.base / "proxy/example.org/lib/@v"
    at.mkdir(parents=True)
    (at / "list").write_text("v0.1.0\n")
    (at / "v0.1.0.info").write_text('{"Version":"v0.1.0"}')
    (at / "v0.1.0.mod").write_text("module example.org/lib\n")
    with zipfile.ZipFile(at / "v0.1.0.zip", "w") as made:
        made.writestr("example.org/lib@v0.1.0/go.mod", "module example.org/lib\n")
        made.writestr("example.org/lib@v0.1.0/lib.go", "package lib\n\nfunc N() int { return 3 }\n")
    for name, text in GO.items():
        (scene.project / name).write_text(text)
    env = scene.environ | {"GOPROXY": f"file://{scene.base}/proxy", "GOSUMDB": "off", "GOFLAGS": "-modcacherw"}
    subprocess.run(["go", "mod", "tidy"], cwd=scene.project, env=env, check=True, capture_output=True)


@once_each
def test_go_builds_offline_with_modules_of_the_home_folder(ground: Ground) -> None:
    need("go", "/usr/local/bin:/usr/bin:/bin")

    def act(scene: Scene) -> list[str]:
        warm_go(scene)
        return [scene.text("go build -o m . && ./m && go vet ./...") for _ in range(2)]

    assert in_scene(ground, act) == ["3\n", "3\n"]


@pytest.mark.matrix
@once_each
def test_npm_installs_offline_from_the_cache_of_the_home_folder(ground: Ground) -> None:
    need("npm", "/usr/local/bin:/usr/bin:/bin")

    def act(scene: Scene) -> str:
        (scene.base / "q").mkdir()
        (scene.base / "q/package.json").write_text('{"name": "q", "version": "1.0.0"}')
        (scene.project / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
        for words, cwd in ((["pack"], scene.base / "q"), (["install", "--offline", "../q/q-1.0.0.tgz"], scene.project)):
            subprocess.run(["npm", *words], cwd=cwd, env=scene.environ, check=True, capture_output=True)
        shutil.rmtree(scene.project / "node_modules")
        return scene.text("npm ci --silent --offline >&2 && ls node_modules")

    assert in_scene(ground, act) == "q\n"


@contextmanager
def registry(crate: bytes) -> Iterator[str]:
    """Serve one crate on loopback as a registry of cargo."""
    entry = {
        "name": "warmlib",
        "vers": "0.1.0",
        "deps": [],
        "cksum": hashlib.sha256(crate).hexdigest(),
        "features": {},
        "yanked": False,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there = {
                "/config.json": json.dumps({"dl": f"{base}/dl"}).encode(),
                "/dl/warmlib/0.1.0/download": crate,
                "/wa/rm/warmlib": json.dumps(entry).encode() + b"\n",
            }
            body = there.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        base = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield base
        server.shutdown()
        thread.join()


@pytest.mark.matrix
@pytest.mark.parametrize("ground", sample(ONE_EACH, 2, 1), ids=lambda ground: ground.name, indirect=True)
def test_cargo_builds_offline_with_crates_of_the_home_folder(ground: Ground) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    is_ours = ground.user == ("ordinary" if os.getuid() else "root")
    if not is_ours or not (home / ".rustup").is_dir():
        pytest.skip("cargo is not installed for this user")
    need("cargo", RUSTUP_HOME=str(home / ".rustup"))

    def act(scene: Scene) -> str:
        scene.environ |= {"RUSTUP_HOME": str(home / ".rustup"), "PATH": f"{scene.environ['PATH']}:{home}/.cargo/bin"}
        (scene.base / "lib/src").mkdir(parents=True)
        (scene.project / "src").mkdir()
        (scene.project / ".cargo").mkdir()
        about = 'version = "0.1.0"\nedition = "2021"\ndescription = "x"\nlicense = "MIT"\n'
        (scene.base / "lib/Cargo.toml").write_text(f'[package]\nname = "warmlib"\n{about}')
        (scene.base / "lib/src/lib.rs").write_text("pub fn n() -> i32 { 3 }\n")
        (scene.project / "Cargo.toml").write_text(f'[package]\nname = "p"\n{about}[dependencies]\nwarmlib = "0.1"\n')
        (scene.project / "src/main.rs").write_text('fn main() { println!("{}", warmlib::n()) }\n')

        def cargo(cwd: Path, *words: str) -> None:
            subprocess.run(["cargo", *words], cwd=cwd, env=scene.environ, check=True, capture_output=True)

        cargo(scene.base / "lib", "package", "--offline", "--no-verify")
        with registry((scene.base / "lib/target/package/warmlib-0.1.0.crate").read_bytes()) as base:
            (scene.project / ".cargo/config.toml").write_text(
                f'[source.crates-io]\nreplace-with = "one"\n[source.one]\nregistry = "sparse+{base}/"\n'
            )
            cargo(scene.project, "fetch")
        return scene.text("cargo run -q")

    assert in_scene(ground, act) == "3\n"


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
