"""Homes, settings and working folders that are missing, broken, odd or vanish."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from program.stage import QUICK, Done, Seen, calls, clean, play, stage
from server.received import tool_results

HIDDEN = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
HOSTILE = f"<|endoftext|> \x1b[31mred\x1b]0;title\x07 \x9b2J {HIDDEN} \u202etxt"
NAME = "od\x1b[2Jd.txt"


def no_home(root: Path) -> tuple[Done, Done, list[str]]:
    with stage(root) as place:
        none: dict[str, str | None] = {"HOME": None, "NEXUS_HOME": None}
        xdg = {f"XDG_{name}_HOME": str(place.home / name) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        done = place.ask("hi", env={**none, **xdg})
        return done, place.run("doctor", env={**none, **xdg}), sorted(p.name for p in place.folder.iterdir())


def home_that_is_no_folder(root: Path) -> list[Done]:
    with stage(root) as place:
        env: dict[str, str | None] = {"HOME": os.devnull, "NEXUS_HOME": f"{os.devnull}/nexus"}
        return [place.ask("hi", env=env), place.ask("--require-save", "hi", env=env), place.run("doctor", env=env)]


def home_that_is_read_only(root: Path) -> Done:
    with stage(root) as place:
        place.settings(QUICK)
        (place.nexus_home / "data" / "ledger.db").mkdir(parents=True)  # root may write everywhere, but not here
        (place.nexus_home / "data").chmod(0o500)
        return place.ask("hi")


def broken_settings(root: Path) -> dict[str, Done]:
    texts = {
        "syntax": b'model = "x"\nallow = \n',
        "value": b'\n[limits]\nmax_steps = "many"\n',
        "key": b"[compact]\nat = 0.8\n\n[provider]\nretrys = 3\n",
        "table": b"[limit]\nmax_steps = 3\n",
        "bytes": b'model = "x"\n# \xff\n',
    }
    with stage(root) as place:
        path = place.settings("")
        told = {}
        for name, text in texts.items():
            path.write_bytes(text)
            told[name] = place.ask("hi")
        path.unlink()
        path.mkdir()
        told["folder"] = place.ask("hi")
        return told


def hostile_text(root: Path) -> dict[str, Any]:
    script: list[Any] = [
        calls(("bash", {"command": "printf '%s' \"$(cat *.txt)\"; ls"}), ("read_file", {"path": NAME})),
        {"text": f"answer {HOSTILE}", "chunk": 1},
    ]
    with stage(root, script) as place:
        (place.folder / NAME).write_text(f"in a file: {HOSTILE}\n")
        done = place.ask("--allow", "all", "-v", f"ask {HOSTILE}", stdin=HOSTILE.encode())
        bodies = [request.body for request in place.server.requests]
        return {"done": done, "bodies": bodies, "replay": place.run("replay"), "show": place.run("sessions", "list")}


def gone_meanwhile(root: Path) -> dict[str, Any]:
    script: list[Any] = [
        calls(("bash", {"command": 'rm -rf "$PWD"'})),
        calls(("bash", {"command": "echo here"}), ("glob", {"pattern": "*"}), ("read_file", {"path": "a.txt"})),
        calls(("write_file", {"path": "b.txt", "content": "b"})),
        "it is gone",
    ]
    with stage(root, script) as place:
        (place.folder / "a.txt").write_text("a")
        done = place.ask("--json", "--allow", "all", "hi")
        return {"done": done, "messages": place.server.requests[-1].body["messages"]}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenes = (
        no_home,
        home_that_is_no_folder,
        home_that_is_read_only,
        broken_settings,
        hostile_text,
        gone_meanwhile,
    )
    return play(tmp_path_factory.mktemp, *scenes)


def test_without_a_home_it_works(seen: Seen) -> None:
    done, doctor, left = seen["no_home"]
    assert (done.status, done.stdout, doctor.status) == (0, b"answer (1)\n", 0) and clean(done)
    assert left == []


def test_where_no_home_can_be_made_the_answer_still_comes(seen: Seen) -> None:
    done, required, doctor = seen["home_that_is_no_folder"]
    assert (done.status, done.stdout) == (0, b"answer (1)\n")
    assert clean(done) and ["kept in memory" in line for line in done.told] == [True, False], done.told
    assert required.status == 1 and clean(required) and len(required.told) == 1
    assert b"Traceback" not in doctor.stderr


def test_a_ledger_that_cannot_be_opened_costs_one_warning(seen: Seen) -> None:
    done = seen["home_that_is_read_only"]
    assert (done.status, done.stdout) == (0, b"answer (1)\n")
    assert clean(done) and sum("kept in memory" in line for line in done.told) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("syntax", ("config.toml, line 2", "not valid TOML")),
        ("value", ("config.toml, line 3", 'limits.max_steps is "many"', "whole number")),
        ("key", ("config.toml, line 5", "unknown setting provider.retrys", "Did you mean provider.retries?")),
        ("table", ("config.toml, line 1", "limit", "Did you mean limits?")),
        ("bytes", ("config.toml, line 2", "not UTF-8")),
        ("folder", ("config.toml", "not a file")),
    ],
)
def test_broken_settings_name_file_line_and_key(seen: Seen, name: str, says: tuple[str, ...]) -> None:
    done = seen["broken_settings"][name]
    assert done.status == 2 and clean(done) and len(done.told) == 1
    assert all(word in done.told[0] for word in says), done.told


@pytest.mark.matrix
def test_special_tokens_escapes_and_tags_reach_the_model_as_they_are(seen: Seen) -> None:
    first, second = seen["hostile_text"]["bodies"]
    assert first["messages"][-1]["content"].count(HOSTILE) == 2
    results = tool_results(second)
    without_colour = HOSTILE.replace("\x1b[31m", "")
    assert without_colour in results[0] and "colour codes left out" in results[0], results
    assert HOSTILE in results[1], results
    assert seen["hostile_text"]["replay"].status == 0


@pytest.mark.matrix
def test_a_folder_that_vanishes_meanwhile_is_the_models_to_hear(seen: Seen) -> None:
    done = seen["gone_meanwhile"]["done"]
    assert done.status == 0 and done.result["text"] == "it is gone" and clean(done)
    results = [m["content"] for m in seen["gone_meanwhile"]["messages"] if m["role"] == "tool"]
    assert len(results) == 5 and "Traceback" not in json.dumps(results), results
