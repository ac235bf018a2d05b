"""A ledger whose place cannot be written is still read: as another user, on a full disk, beside who writes it."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger.conftest import on

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.readonly_database import ReadOnlyDatabase, open_readonly

NOBODY = 65534
OLD = Path(__file__).with_name("schema_2.db.gz")
AT = "2026-01-13T14:30:00.000Z"
Say = Callable[[str], None]


@pytest.fixture
def path() -> Iterator[Path]:
    """A ledger's place that another user can reach: pytest's own folders are closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder / "data" / "ledger.db"
    os.chmod(folder / "data", 0o700)
    shutil.rmtree(folder)


def filled(path: Path, make: SimpleNamespace) -> str:
    """A closed ledger with a session, an entry and a fact; the session's id."""
    ledger = Ledger.open(path)
    info = make.new(ledger)
    ledger.log(info.id).append(make.user(1))
    ledger.facts.add(MemorySlot.USER, "likes tabs", state=FactState.KEPT, at=AT, actor="person")
    ledger.close()
    return str(info.id)


def locked_out(path: Path) -> None:
    """From now on this process may read what is there, and write nothing. Only for a child."""
    path.chmod(0o444)
    for part in path.parent.glob("ledger.db-*"):
        part.chmod(0o444)
    path.parent.chmod(0o555)
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def refusal(path: Path, make: SimpleNamespace) -> str:
    """The line that one is told who may not write and cannot read."""

    def work(say: Say) -> None:
        locked_out(path)
        with pytest.raises(NexusError) as caught:
            Ledger.open_for_reading(path)
        say(caught.value.line)

    status, (line,) = make.in_child(work)
    assert status == 0
    return str(line)


def add_and_die(path: Path, session: str, make: SimpleNamespace) -> None:
    """Add an entry in a process that is killed then: it stands in the log of the file alone."""

    def work(say: Say) -> None:
        ledger = Ledger.open(path)
        ledger.log(session).append(make.user(2))
        os.kill(os.getpid(), signal.SIGKILL)

    assert make.in_child(work)[0] == -signal.SIGKILL


def seen(path: Path, session: str) -> str:
    """What a reader finds."""
    ledger = Ledger.open_for_reading(path)
    try:
        lane = ledger.session(session).main_lane
        texts = [entry.message.content for entry in on(ledger, lane).read(1, 9)]
        facts = [fact.text for fact in ledger.facts.search("tabs")]
        ledger.log(session).store_count("o200k_base", b"x", 3)
        return f"{len(ledger.sessions())} {texts} {facts}"
    finally:
        ledger.close()


@pytest.mark.matrix
def test_who_may_not_write_reads_all_of_it_and_leaves_no_trace(path: Path, make: SimpleNamespace) -> None:
    session = filled(path, make)
    before = path.read_bytes(), sorted(part.name for part in path.parent.iterdir())

    def work(say: Say) -> None:
        locked_out(path)
        with pytest.raises(NexusError):
            Ledger.open(path)
        say(seen(path, session))
        with pytest.raises(NexusError, match="could not be written"):
            Ledger.open_for_reading(path).rename_session(session, "other")

    assert make.in_child(work) == (0, ["1 ['words 1'] ['likes tabs']"])
    assert (path.read_bytes(), sorted(part.name for part in path.parent.iterdir())) == before


@pytest.mark.matrix
def test_what_stands_in_the_log_of_a_process_that_was_killed_is_read(path: Path, make: SimpleNamespace) -> None:
    session = filled(path, make)
    add_and_die(path, session, make)
    assert path.with_name("ledger.db-wal").stat().st_size

    def work(say: Say) -> None:
        locked_out(path)
        say(seen(path, session))

    assert make.in_child(work) == (0, ["1 ['words 1', 'words 2'] ['likes tabs']"])


@pytest.mark.matrix
def test_a_log_without_its_index_is_one_line_about_a_writable_folder(path: Path, make: SimpleNamespace) -> None:
    add_and_die(path, filled(path, make), make)
    path.with_name("ledger.db-shm").unlink()
    line = refusal(path, make)
    assert line.startswith(f"nexus: the ledger {path} cannot be read: ")
    assert "a write-ahead log only" in line and "writable" in line


@pytest.mark.matrix
def test_beside_one_who_writes_what_is_committed_is_read(path: Path, make: SimpleNamespace) -> None:
    session = filled(path, make)
    ledger = Ledger.open(path)
    ledger.log(session).append(make.user(2))

    def work(say: Say) -> None:
        locked_out(path)
        say(seen(path, session))

    assert make.in_child(work) == (0, ["1 ['words 1', 'words 2'] ['likes tabs']"])
    os.chmod(path.parent, 0o700)
    ledger.close()


@pytest.mark.matrix
def test_on_a_full_disk_it_is_read(path: Path, make: SimpleNamespace) -> None:
    session = filled(path, make)

    def work(say: Say) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with pytest.raises(NexusError):
            Ledger.open(path)
        say(seen(path, session))

    assert make.in_child(work) == (0, ["1 ['words 1'] ['likes tabs']"])


@pytest.mark.matrix
def test_one_that_has_to_be_brought_forward_says_that_this_takes_a_writable_folder(
    path: Path, make: SimpleNamespace
) -> None:
    path.parent.mkdir()
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    line = refusal(path, make)
    assert "the schema is too old" in line and "requires a writable folder" in line
    assert "\n" not in line and "NEXUS_HOME" in line


def test_what_is_written_meanwhile_is_never_half_read(path: Path, make: SimpleNamespace) -> None:
    session = filled(path, make)
    database = open_readonly(path)
    assert database.one("SELECT count(*) FROM entries") == (1,)
    writer = Ledger.open(path)
    writer.log(session).append(make.user(2))
    assert database.one("SELECT count(*) FROM entries") == (1,), "it stands in the log alone"
    writer.close()
    with pytest.raises(NexusError, match="another process changed the file meanwhile"):
        database.all("SELECT count(*) FROM entries")
    database.close()


@pytest.mark.parametrize(("content", "told"), [(b"no database at all " * 99, "cannot be"), (b"", "the file is empty")])
def test_a_file_that_is_none_is_one_clear_error(path: Path, make: SimpleNamespace, content: bytes, told: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    line = refusal(path, make)
    assert line.startswith(f"nexus: the ledger {path} cannot be ") and told in line, line
    assert "too old" not in line and ("Free some space" in line) is (not content)
    with pytest.raises(NexusError, match="cannot be read"):
        ReadOnlyDatabase(path.with_name("nothing.db"))
