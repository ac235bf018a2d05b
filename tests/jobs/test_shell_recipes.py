"""The recipes of `nexus docs shell`, each run as the page has it: in a repository of its own, with a scripted model."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.nursery import launcher
from program.stage import MODEL, NEXUS, Done, Stage, stage
from programs import need
from search import sample

from nexus_cli.cli.doc_pages import page_text

DRAFT = "Round prices up\n\nCents were lost."


def recipe(title: str, number: int = 0) -> str:
    """The code below a heading of the page."""
    part = page_text("shell").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return str(re.findall(r"^```\w+\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)[number])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        identity = {
            f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        made.environment |= identity | {"GIT_EDITOR": "true"}
        git(made, "init", "-q", "-b", "main")
        (made.folder / "price.py").write_text("price = 1\n")
        git(made, "add", ".")
        git(made, "commit", "-qm", "A shop")
        yield made


def git(place: Stage, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place.folder, env=with_nexus(place), capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.strip()


def with_nexus(place: Stage) -> dict[str, str]:
    return place.env({"PATH": f"{launcher().parent}{os.pathsep}{place.environment['PATH']}"})


def run(place: Stage, script: str) -> Done:
    """A script of the page, run by sh, which has no options of bash."""
    done = subprocess.run(["sh", "-c", script], cwd=place.folder, env=with_nexus(place), capture_output=True)
    return Done(done.returncode, done.stdout, done.stderr)


def asked(place: Stage) -> str:
    return str(place.server.requests[-1].body["messages"][-1]["content"])


def commit_with_hook(place: Stage, *words: str) -> str:
    hook = place.folder / ".git" / "hooks" / "prepare-commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(recipe("A draft of the commit message"))
    hook.chmod(0o755)
    (place.folder / "price.py").write_text("price = 2\n")
    git(place, "commit", "-qa", *words)
    return git(place, "log", "-1", "--format=%B")


def test_a_commit_begins_with_a_draft_of_its_message(place: Stage) -> None:
    place.script([{"text": DRAFT}])
    assert commit_with_hook(place) == DRAFT
    assert "+price = 2" in asked(place) and git(place, "status", "--short") == ""


def test_a_message_of_the_person_costs_no_request(place: Stage) -> None:
    assert commit_with_hook(place, "-m", "Mine") == "Mine" and not place.server.requests


def test_a_commit_works_without_network(place: Stage) -> None:
    place.settings("[provider]\nretries = 0\n")
    place.environment |= {"OPENAI_API_BASE": "http://127.0.0.1:9/v1", "GIT_EDITOR": "echo 'By hand' >"}
    assert commit_with_hook(place) == "By hand" and not place.server.requests


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    sample(
        [
            ('{"serious": []}', 0, ""),
            ('{"serious": ["price.py:1: doubled"]}', 1, "price.py:1: doubled\n"),
            ("fine", 3, ""),
        ],
        3,
        1,
    ),
)
def test_a_review_fails_the_build_for_a_finding_and_for_no_review(
    place: Stage, answer: str, status: int, told: str
) -> None:
    need("jq")
    place.script({"default": {"text": answer}})
    git(place, "switch", "-qc", "change")
    script = recipe("A review that fails a build")
    done = run(place, script)
    assert (done.status, done.stdout) == (0, b"") and not place.server.requests
    (place.folder / "price.py").write_text("price = 2\n")
    git(place, "commit", "-qam", "Double it")
    done = run(place, script)
    assert (done.status, done.text) == (status, told), done
    assert "+price = 2" in str(place.server.requests[0].body["messages"][-1]["content"])


def test_a_log_is_asked_about(place: Stage) -> None:
    (place.folder / "app.log").write_text("03:14 ERROR disk full\n" * 3)
    place.script([{"text": "03:14 ERROR disk full"}])
    done = run(place, recipe("Triage of a log"))
    assert (done.status, done.text, done.stderr) == (0, "03:14 ERROR disk full\n", b"")
    assert "<stdin>\n03:14 ERROR disk full" in asked(place)


def test_jq_reads_the_answer_its_cost_and_the_data(place: Stage) -> None:
    need("jq")
    (place.folder / "README.md").write_text("# A shop\n")
    place.script([{"text": "None."}, {"text": '{"title": "A shop"}'}])
    answer, cost = run(place, recipe("JSON for jq")).text.splitlines()
    assert answer == "None." and float(cost) > 0
    assert run(place, recipe("JSON for jq", 1)).text == "A shop\n"


def test_many_files_are_each_asked_about_once(place: Stage) -> None:
    need("jq")
    (place.folder / "src").mkdir()
    for name in ("a", "b", "c"):
        (place.folder / "src" / f"{name}.py").write_text(f"# the file {name}\n")

    def answer(body: Any) -> dict[str, Any]:
        return {"text": f"It is {re.findall(r'# the file (.)', str(body['messages']))[-1]}."}

    place.script(answer)
    lines = "src/a.py: It is a.\nsrc/b.py: It is b.\nsrc/c.py: It is c.\n"
    for _ in range(2):
        done = run(place, recipe("Many files"))
        assert (done.status, done.text) == (0, lines), done
        assert len(place.server.requests) == 3


def test_make_makes_a_summary_and_leaves_none_behind_a_failure(place: Stage) -> None:
    need("make")
    (place.folder / "Makefile").write_text(recipe("A rule of a Makefile"))
    (place.folder / "README.md").write_text("# A shop\n")
    place.script([{"fault": {"kind": "status", "status": 401}}, {"text": "Five lines."}])
    place.settings("[provider]\nretries = 0\n")
    assert run(place, "make README.summary").status == 2
    assert not (place.folder / "README.summary").exists()
    done = run(place, "make README.summary")
    assert done.status == 0 and (place.folder / "README.summary").read_text() == "Five lines.\n", done
    assert b"up to date" in run(place, "make README.summary").stdout


def test_a_line_of_cron_works_in_the_environment_of_cron(place: Stage) -> None:
    place.script([{"text": "Nothing."}])
    (place.home / ".local" / "bin").mkdir(parents=True)
    (place.home / ".local" / "bin" / "nexus").symlink_to(NEXUS)
    (place.home / "project").symlink_to(place.folder)
    minute, _, _, _, _, command = recipe("A line of a crontab").strip().split(" ", 5)
    assert minute == "0" and "%" not in command
    set_by_cron = {"HOME": str(place.home), "LOGNAME": "ana", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    reach = {name: place.environment[name] for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "NO_PROXY")}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=place.home,
        env={**set_by_cron, **reach, "NEXUS_MODEL": MODEL},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (place.home / "changes.txt").read_text() == "Nothing.\n" and "+price = 1" in asked(place)
    assert json.dumps(asked(place)).count("<stdin>") == 1
