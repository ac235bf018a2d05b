"""The keys of folders as nobody should be able to choose or see them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from program.stage import MODEL, PRICED, QUICK, Stage, calls, stage
from project_files import write_files
from search import sample

OWN, WORK = "sk-own-0123456789abcdef", "sk-work-0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.script(lambda body: {"text": "Done."})
        made.environment.pop("OPENAI_API_KEY", None)
        made.run("login", "openai", stdin=OWN.encode())
        made.run("login", "openai", "--as", "work", stdin=WORK.encode())
        yield made


def bearer(place: Stage) -> str:
    return place.server.requests[-1].headers["authorization"].removeprefix("Bearer ")


def keyed(place: Stage, **folders: str) -> None:
    lines = "".join(f"{json.dumps(folder)} = {json.dumps(name)}\n" for folder, name in folders.items())
    place.settings(f"[folder_keys]\n{lines}{PRICED}{QUICK}")


def test_a_folder_counts_by_its_real_path_and_no_link_or_neighbour_takes_its_key(place: Stage) -> None:
    clients = place.folder.parent / "clients"
    (clients / "one").mkdir(parents=True)
    (place.folder.parent / "clients2").mkdir()
    (place.folder.parent / "link").symlink_to(clients / "one")
    (clients / "out").symlink_to(place.folder)
    keyed(place, **{f"{place.folder}/../clients/": "work"})
    for folder, key in (
        (clients / "one", WORK),
        (place.folder.parent / "link", WORK),
        (clients / "one" / ".." / ".." / "clients2", OWN),
        (clients / "out", OWN),
        (place.folder.parent / "clients2", OWN),
    ):
        assert place.ask("hi", "-m", MODEL, "-C", str(folder)).status == 0 and bearer(place) == key, folder


@pytest.mark.parametrize("folder", sample(["", ".", "work", "../x", "~nobody/x"], 5, 3))
def test_a_folder_that_is_not_absolute_is_refused_in_one_line(place: Stage, folder: str) -> None:
    keyed(place, **{folder: "work"})
    done = place.ask("hi", "-m", MODEL)
    assert done.status == 2 and len(done.told) == 1 and "absolute" in done.told[0], done
    assert not place.server.requests


def test_a_worktree_and_a_worker_pay_with_the_key_of_their_project(place: Stage) -> None:
    keyed(place, **{str(place.folder): "work"})
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y.z"]
    for line in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run([*git, *line], cwd=place.folder, check=True)
    done = place.ask("hi", "-m", MODEL, "-w", "one")
    assert done.status == 0 and bearer(place) == WORK, done
    place.script([calls(("agent", {"task": "say hi"})), "Hi.", "Done."])
    assert place.ask("hi", "-m", MODEL).status == 0
    assert {one.headers["authorization"] for one in place.server.requests} == {f"Bearer {WORK}"}


def test_a_project_chooses_no_key_by_a_model_an_alias_or_a_recipe(place: Stage) -> None:
    name = f"work:{MODEL}"
    write_files(
        place.folder,
        {
            ".nexus/config.toml": f'model = "{name}"\n[folder_keys]\n"/" = "work"\n[alias]\n"{MODEL}" = "{name}"\n'
            f'[default_models]\nopenai = "{name}"\n',
            ".nexus/recipes/ask.toml": f'model = "{name}"\n',
            ".claude/skills/cut/SKILL.md": f"---\nname: cut\ndescription: x\nmodel: {name}\n---\nGo.",
        },
    )
    place.run("trust", stdin=b"y\n")
    assert place.ask("/cut", "-m", MODEL).status == 0 and bearer(place) == OWN


def test_a_key_that_a_provider_repeats_is_written_nowhere(place: Stage) -> None:
    """Neither to the screen, as JSON, into the timeline or an export, nor into the ledger's file."""
    keyed(place, **{str(place.folder): "work"})
    place.script([{"fault": {"status": 401, "message": f"Incorrect API key provided: {WORK}"}}, "Done."])
    seen = [place.ask("hi", "-m", MODEL, "--json"), place.ask("hi", "-m", MODEL, "--json")]
    assert [one.status == 0 for one in seen] == [False, True] and bearer(place) == WORK
    write_files(place.folder, {".nexus/config.toml": f'[folder_keys]\n"/" = "{WORK}"\n'})
    seen += [place.run("trust", stdin=b"y\n"), place.run("trust", "--json"), place.ask("hi", "-m", MODEL)]
    for one in seen[:2]:
        session = one.result["session"]
        seen += [place.run("timeline", "--session", session, *more) for more in ((), ("--json",))]
        seen += [place.run("sessions", "export", session, *more) for more in ((), ("--format", "jsonl"))]
    for words in ("context", "status", "usage", "doctor", "config show", "model list"):
        seen.append(place.run(*words.split(), "--json"))
    for one in seen:
        assert one.status != 2 or one is seen[0], one
        assert WORK not in one.stdout.decode() + one.stderr.decode(), one
    for path in place.nexus_home.rglob("*"):
        if path.is_file() and path.parent.name not in ("keys", "trusted"):
            assert WORK.encode() not in path.read_bytes(), path
