"""`nexus ledger copy | share | unshare`: copy a ledger to another place, and share projects of one on a server."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

from nexus_cli.commands.verb import Act, Authority, Noun, Source, Text, Verb, print_act, report_act, report_line
from nexus_cli.config.ledger_place import LedgerPlace, is_server, ledger_place, shown_place
from nexus_cli.core.elide import name_first, plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.option import Argument
from nexus_cli.core.progress import track
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.copying import CopyResult, copy_ledger
from nexus_cli.ledger.readonly_database import require_ledger
from nexus_cli.reports.check_replay import check

Project = Annotated[str, Argument("PROJECT", "A folder of the project, or the name of the project.", least=0)]
Role = Annotated[str, Argument("ROLE", "A database role: a person or a group.", least=0)]


def show(source: Source) -> Text:
    """Print the location of the ledger: a file, or a server URL without the password."""
    return report_line("ledger", shown_place(ledger_place()))


def copy(
    source: Source,
    original: Annotated[
        str,
        Argument(
            "FROM",
            "The source: a file, or postgresql://USER@HOST/NAME.",
            least=0,
        ),
    ],
    target: Annotated[
        str,
        Argument("TO", "The target, which must be empty: a file, or postgresql://USER@HOST/NAME.", least=0),
    ],
) -> Act:
    """Copy a whole ledger into an empty one and verify every session by rebuilding its requests. On an error, nothing
    is copied."""
    begun = time.monotonic()
    from_place, to_place = _place(original), _place(target)
    if isinstance(from_place, Path) and not from_place.is_file():
        raise UsageError(f"the ledger {original}", "there is no such file", "Give an existing file as FROM")
    for place in (from_place, to_place):
        if isinstance(place, Path) and place.is_file():
            require_ledger(place)
    with closing(Ledger.open_for_reading(from_place)) as old:
        if busy := old.locked_sessions():
            why = f"other processes have open sessions: {name_first(busy, 5)}"
            raise UsageError("the ledger cannot be copied", why, "Close these sessions first")
        with closing(Ledger.open(to_place)) as new:
            checked = _Checked(old)
            result = copy_ledger(old, new, checked.verify)
    places = f"{shown_place(from_place)} to {shown_place(to_place)}"
    line = f"Copied {places} in {time.monotonic() - begun:.1f} s: {_figures(result, checked)}."
    return print_act(line, shown_place(to_place))


class _Checked:
    """Replays every session of a copy, and counts the requests."""

    def __init__(self, source: Ledger) -> None:
        self._source = source
        self.requests = 0
        self.damaged: list[str] = []
        """Sessions that the source cannot rebuild either."""

    def verify(self, copied: Ledger) -> None:
        """Raise `NexusError("ledger", ...)` at the first session that the copy rebuilds differently from the source."""
        for (session,) in track(copied.db.all("SELECT id FROM sessions ORDER BY key")):
            checked = check(copied, session)
            self.requests += checked["requests"]
            if checked["ok"]:
                continue
            if check(self._source, session) != checked:
                why = f"session {session} was not rebuilt exactly as sent: {checked['first_difference']}"
                raise NexusError("ledger", "the copy failed; the target was left empty", why)
            self.damaged.append(session)


def _figures(result: CopyResult, checked: _Checked) -> str:
    rows = result.rows
    parts = [
        plural(rows["sessions"], "session"),
        plural(rows["entries"], "entry", "entries"),
        f"{plural(rows['blobs'], 'text')} ({result.bytes / 1e6:.1f} MB)",
        plural(rows["facts"], "fact"),
        f"{plural(checked.requests, 'request')} rebuilt",
    ]
    if checked.damaged:
        parts.append(f"not readable in either ledger: {', '.join(checked.damaged)}")
    return ", ".join(parts)


def _place(text: str) -> LedgerPlace:
    if not text or ("://" in text and not is_server(text)):
        why = "an argument is empty" if not text else f"{text} is neither a file nor a PostgreSQL database"
        raise UsageError("nexus ledger copy", why, "Give a file or postgresql://USER@HOST/NAME")
    return text if is_server(text) else Path(os.path.abspath(os.path.expanduser(text)))


def share(source: Source, project: Project, role: Role) -> Act:
    """Let a database role read, continue and delete your sessions, facts and runs in a project. You see the role's
    sessions once it shares them with you. An administrator shares in both directions, for everyone who has worked in
    the project."""
    with closing(_open_server()) as ledger:
        if not ledger.db.one("SELECT 1 FROM pg_roles WHERE rolname = ?", role):
            raise UsageError(f"role {role}", "there is no such role on the server", "Create the role with createuser")
        identity = _identity(project, ledger)
        share_rows = _share_all if ledger.db.is_administrator() else _share_rows
        line = share_rows(ledger, identity, role)
    return report_act(line, identity)


def _share_rows(ledger: Ledger, project: str, role: str) -> str:
    """Share a project's own rows of this role with another one, and return the line that says so."""
    own = ledger.spaces.own_role()
    if role == own:
        raise UsageError(f"role {role}", "this is your own role", "Name the role of another person")
    with ledger.db.write():
        _insert_share(ledger, project, role, own)
    if ledger.db.one("SELECT 1 FROM project_members WHERE (project, owner, role) = (?, ?, ?)", project, role, own):
        return f"{role} and you can now see each other's sessions of {project}."
    return f"{role} can now see your sessions of {project}. To see theirs, {role} runs: nexus ledger share . {own}"


def _share_all(ledger: Ledger, project: str, role: str) -> str:
    """Let a role and those who worked in a project so far see each other's rows, and return the line that says so."""
    rows = ledger.db.all(
        "SELECT made_by FROM sessions WHERE project = ?1 UNION SELECT made_by FROM spaces WHERE project = ?1"
        " UNION SELECT role FROM project_members WHERE project = ?1"
        " UNION SELECT owner FROM project_members WHERE project = ?1 ORDER BY 1",
        project,
    )
    peers = [str(row[0]) for row in rows if row[0] != role]
    with ledger.db.write():
        for role_name in (role, *peers):
            for owner in _people_of(ledger, role_name):
                for viewer in (role, *peers):
                    _insert_share(ledger, project, viewer, owner)
    if peers:
        return f"{', '.join((role, *peers[:-1]))} and {peers[-1]} can now see each other's sessions of {project}."
    if _people_of(ledger, role) == [role]:
        return f"Nothing was shared: nobody else has worked in {project}."
    return f"The members of {role} can now see each other's sessions of {project}."


def _people_of(ledger: Ledger, role: str) -> list[str]:
    """Return a role, and the people in it if it is a group: the server records rows by their names."""
    rows = ledger.db.all(
        "SELECT one.rolname::text FROM pg_roles one JOIN pg_roles named ON pg_has_role(one.oid, named.oid, 'MEMBER')"
        " WHERE named.rolname = ? AND one.rolcanlogin AND NOT one.rolsuper",
        role,
    )
    return list(dict.fromkeys((role, *(str(row[0]) for row in rows))))


def _insert_share(ledger: Ledger, project: str, role: str, owner: str) -> None:
    if role != owner:
        ledger.db.run(
            "INSERT INTO project_members (project, role, owner) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            project,
            role,
            owner,
        )


def unshare(source: Source, project: Project, role: Role) -> Act:
    """Stop sharing a project with a role, in both directions. For an administrator, this also ends the sharing between
    the role and everyone else."""
    with closing(_open_server()) as ledger:
        identity = _identity(project, ledger, must_exist=False)
        own_role = "" if ledger.db.is_administrator() else ledger.spaces.own_role()
        which = "project = ?1 AND ?2 IN (owner, role) AND (?3 = '' OR ?3 IN (owner, role))"
        with ledger.db.write():
            ended = ledger.db.all(f"DELETE FROM project_members WHERE {which} RETURNING 1", identity, role, own_role)
        if not ended:
            raise UsageError(identity, "the project is not shared with this role")
    line = f"Sessions of {identity} are no longer shared between {role} and you."
    alone = f"Sessions of {identity} are no longer shared with {role}, in either direction."
    return report_act(line if own_role else alone, identity)


def _open_server() -> Ledger:
    """Open the ledger on a server. Raises `UsageError` if it is a file."""
    place = ledger_place()
    if isinstance(place, Path):
        why, hint = "the ledger is a file", "Set a server: nexus config set ledger.url postgresql://USER@HOST/NAME"
        raise UsageError("a local ledger cannot be shared", why, hint)
    return Ledger.open(place)


def _identity(project: str, ledger: Ledger, *, must_exist: bool = True) -> str:
    """Return the project of a folder, else the text; raise `UsageError` if it `must_exist`."""
    folder = Path(os.path.expanduser(project))
    if folder.is_dir():
        return ledger.project_of(folder.absolute())
    if must_exist and not ledger.db.one("SELECT 1 FROM sessions WHERE project = ? LIMIT 1", project):
        why = "there is no such folder, and no session uses this project"
        raise UsageError(f"project {project}", why, "Give a folder, or a name as in `nexus sessions list --json`")
    return project


NOUN = Noun(
    "ledger",
    "run",
    (
        Verb(show, "show", opens="nothing"),
        Verb(copy, "copy", Authority.OPERATES, "nothing", busy="checking the copy"),
        Verb(share, "share", Authority.PERMITS, "nothing"),
        Verb(unshare, "unshare", Authority.PERMITS, "nothing"),
    ),
    "Copy the ledger, or share projects of a server ledger.",
)
