"""`tests/check.py` runs what it says: the tests that a change needs, nearest first, and no others before them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import check
import pytest
from changes import MAX_OF_ROOM, RECORDINGS, TABLES, changed_files, choose_tests
from search import sample, variant


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(
        tmp_path,
        nexus_cli__core__noun="",
        nexus_cli__core__other="",
        nexus_cli__lane__verb="from nexus_cli.core.noun import (\n    Noun,  # a comment\n)\n",
        nexus_cli__session__act="def act():\n    from nexus_cli.lane import verb\n",
        tests__core__test_noun="from nexus_cli.core.noun import Noun\n",
        tests__core__test_other="import nexus_cli.core.other\n",
        tests__lane__test_verb="from nexus_cli.lane.verb import verb\n",
        tests__session__test_act="from session.stage import stage\n",
        tests__session__stage="from nexus_cli.session.act import act\n",
        tests__test_seeds="",
        tests__recorded__test_recorded="",
    )
    return tmp_path


def test_what_imports_a_change_runs_nearest_first_and_tables_before_what_is_far(tree: Path) -> None:
    chosen = choose_tests(["nexus_cli/core/noun.py"], tree)
    assert chosen == [
        "tests/core/test_noun.py",
        "tests/test_seeds.py",
        "tests/core/test_other.py",
        "tests/recorded/test_recorded.py",
        "tests/lane/test_verb.py",
        "tests/session/test_act.py",
    ], "some tests of the same room come before the recordings"
    write(tree, **{f"tests__core__test_other{number}": "" for number in range(MAX_OF_ROOM)})
    chosen = choose_tests(["nexus_cli/core/noun.py"], tree)
    assert chosen.index(RECORDINGS[0]) == 2 + MAX_OF_ROOM and len(chosen) == 6 + MAX_OF_ROOM


def test_a_changed_test_runs_first_and_a_shared_one_with_all_that_use_it(tree: Path) -> None:
    assert choose_tests(["tests/lane/test_verb.py"], tree) == [
        "tests/lane/test_verb.py",
        "tests/test_seeds.py",
        RECORDINGS[0],
    ]
    assert choose_tests(["tests/session/stage.py"], tree)[0] == "tests/session/test_act.py"
    for page in ("README.md", "tests/PROMISES.md", "nexus_cli/README.md"):
        assert choose_tests([page], tree) == ["tests/test_seeds.py", RECORDINGS[0]], page
    assert "tests/session/test_act.py" not in choose_tests(["nexus_cli/core/README.md"], tree), "a page is not imported"


def test_every_test_of_a_table_is_there() -> None:
    assert [name for name in (*TABLES, *RECORDINGS) if not (check.ROOT / name).is_file()] == []


def test_what_changed_is_committed_in_work_deleted_or_new(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("same", "gone", "in_work", "committed"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "work")
    (tmp_path / "committed").write_text("more")
    git("commit", "-am", "second")
    (tmp_path / "in_work").write_text("more")
    (tmp_path / "new").write_text("new")
    (tmp_path / "gone").unlink()
    assert changed_files(tmp_path) == ["committed", "gone", "in_work", "new"]


def test_the_gate_runs_a_row_in_so_many_and_the_matrix_all() -> None:
    rows = sample(["a", ("b", 1), pytest.param("c", id="see"), "d"], 2, 1)
    kept = [row for row in rows if not any(mark.name == "matrix" for mark in getattr(row, "marks", ()))]
    assert len(rows) == 4 and [row.values for row in kept] == [("b", 1), ("d",)]
    assert variant(("b", 1)).values == ("b", 1) and rows[2].id == "see"


def test_the_full_matrix_notes_when_it_passed_and_the_gate_says_how_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    monkeypatch.setattr(check, "README", readme)
    answers = {"rev-parse": "abc123", "rev-list": "51"}
    monkeypatch.setattr(check, "_git", lambda *words: answers[words[0]])
    readme.write_text("# Tests\n\nThe full matrix last passed on 2020-01-01 at commit 000000.\n\nMore.\n")
    assert "2020-01-01" in check.describe_age() and "51 commits ago" in check.describe_age()
    check.note_full_run()
    assert "at commit abc123.\n\nMore." in readme.read_text() and "2020" not in readme.read_text()
    answers["rev-list"] = "50"
    assert check.describe_age() == ""
    readme.write_text("The full matrix has not passed yet.\n")
    assert "not passed yet" in check.describe_age()
    check.note_full_run()
    assert check.describe_age() == ""


def test_every_recording_has_its_script() -> None:
    for name, (script, *_) in check.RECORDINGS.items():
        assert '__name__ == "__main__"' in (check.ROOT / script).read_text(encoding="utf-8"), name


def test_only_the_named_recordings_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def note(name: str, words: object) -> bool:
        begun.append(name)
        return True

    monkeypatch.setattr(check, "run", note)
    assert check.main(["renew", "budget", "start"]) == 0 and begun == ["start", "budget"]
    assert check.main(["renew"]) == 0 and begun[2:] == list(check.RECORDINGS)


def test_a_wrong_name_writes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "run", lambda *_: pytest.fail("nothing is written"))
    assert check.main(["renew", "outputs", "screens"]) == 2
    assert "screens is not a recording; there are: start" in capsys.readouterr().err


def test_the_notice_of_the_full_matrix_stands_in_our_readme() -> None:
    assert check.LAST_RUN.search(check.README.read_text(encoding="utf-8"))


PLAIN = """
import os
import pytest

@pytest.mark.parametrize("n", range(3))
def test_passes(n, tmp_path):
    (tmp_path / "file").touch()

def test_fails():
    assert 0, "as it should"
"""
CRASHES = """
import os

def test_ends_its_process():
    os._exit(3)

def test_after_it():
    pass

def test_needs_more():
    import pytest
    pytest.skip("nothing is not installed")
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "processes", "-p", "no:cacheprovider", *words]
    env = {**os.environ, "PYTHONPATH": str(check.ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_run_in_processes_reports_what_one_process_would(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(PLAIN)
    (tmp_path / "test_crashes.py").write_text(CRASHES)
    done = run_pytest(tmp_path, "--processes", "2", "-rA")
    assert done.returncode == 1 and "2 failed, 4 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "as it should" in done.stdout and "the process of this test ended with 3" in done.stdout
