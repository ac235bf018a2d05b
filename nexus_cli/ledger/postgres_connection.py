"""Connections to the server of a ledger: opening, type conversions, and errors as messages for people."""

from __future__ import annotations

import logging
import os
import re
import time
from functools import lru_cache
from hashlib import sha256
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import NumericBinaryLoader
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader

from nexus_cli.config.database_url import hide_password
from nexus_cli.core.errors import FORK, LedgerAwayError, NexusError
from nexus_cli.ledger import schema
from nexus_cli.ledger.database import Row

OLDEST = 13
"""The oldest supported server version: older ones cannot report the outcome of a transaction."""
CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30
PAUSE = 5.0
"""Seconds after a failed connection before the next attempt."""
_CONNECTION: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "nexus",
    "client_encoding": "utf8",
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Connection options that the address may override."""
# With the last three, the server notices within a minute that a machine has vanished, and frees its locks.
_SETTINGS = (
    f"SET statement_timeout = '{STATEMENT_SECONDS}s'; SET idle_in_transaction_session_timeout = '120s';"
    " SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning'; SET work_mem = '64MB';"
    " SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)

APPLICATION = "nexus"
"""Of the row with the number of the ledger's schema."""
_STEPS = f"(SELECT steps FROM schema_version WHERE application = '{APPLICATION}')"
_STATE = (
    "SELECT NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off', {}, pid,"
    " backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
"""Whether a connection may write, the steps that the schema has taken, then number and start of its process in the
server."""

_IDENTITY_OPTIONS = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
}
"""The options that tell databases and roles apart, each with the variable that libpq reads if it is missing."""

_ESCAPE = "\U0010ffff"
"""First character of the escapes for NUL, which a server cannot store, and for itself. It belongs to no script."""

KEYS = {
    match[1]: match[2]
    for statement in schema.STEPS[0]
    if (match := re.match(r"CREATE TABLE (\w+) \(\s*(\w+) INTEGER PRIMARY KEY", statement))
}
"""By table: the column whose number the server assigns."""
_PLACEHOLDER = re.compile(r"\?(\d*)")

_WHY = {
    "23503": ("another process deleted or changed the session", "Start a new session"),
    "23505": ("another process continued the session", FORK),
    "25006": ("the server is read-only", "Use the primary server"),
    "40P01": ("another process was using the same rows", "Try again"),
    "42501": ("your database role lacks the permission", "Ask the server's administrator"),
    "53100": ("the server's disk is full", "Free some space on the server"),
    "55P03": ("another process held the lock too long", "Try again"),
    "57014": (
        f"the server cancelled the statement, perhaps after its time limit of {STATEMENT_SECONDS} s",
        "Try again",
    ),
}
"""SQLSTATE to the reason and a hint."""


_NO_PLACE = "Try again, or raise the connection limit of the server, the database or the role"
_HINTS = {
    "too many c": _NO_PLACE,
    "connection slots": _NO_PLACE,
    "the database system is": "Try again, or use the primary server",
    '" does not exist': "Create the database (createdb NAME) or the role (createuser NAME)",
    "no password supplied": "Put the password into ~/.pgpass",
    "password authentication failed": "Correct the password in ~/.pgpass or ledger.url",
}
"""Part of a server's refusal to a hint."""
_AWAY = ("08", "25006", "40", "53", "55", "57", "58")
"""Beginnings of the SQLSTATE of what passes by itself or by an administrator."""
_REFUSED, _FOR_NOW = (
    "FATAL: ",
    ("starting up", "shutting down", "accepting connections", "recovery", "too many", "slots"),
)
"""What begins a server's refusal of a connection, and parts of one that will pass."""


@lru_cache(512)
def translate(sql: str) -> str:
    """Return a statement with PostgreSQL's placeholders."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${match[1] or count}"

    return _PLACEHOLDER.sub(number, sql)


class _TextDumper(StrDumperUnknown):
    """Writes NUL as a pair that can be stored."""

    def dump(self, obj: str) -> Any:
        if "\0" in obj or _ESCAPE in obj:
            obj = obj.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")
        return super().dump(obj)


class _TextLoader(TextBinaryLoader):
    """Reverses `_TextDumper`."""

    def load(self, data: Any) -> str:
        text = str(super().load(data))
        if _ESCAPE in text:
            text = text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)
        return text


class _NumberLoader(NumericBinaryLoader):
    """Reads sums of integers as integers."""

    def load(self, data: Any) -> Any:
        value = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


def server_error(error: BaseException, what: str, url: str) -> NexusError:
    """Return `error` as a `NexusError("ledger", ...)` with a hint for the person, without the password in `url`."""
    state = getattr(error, "sqlstate", None) or ""
    is_away = state.startswith(_AWAY) if state else isinstance(error, psycopg.OperationalError)
    explanation = _WHY.get(state)
    if explanation:
        return LedgerAwayError(what, *explanation) if is_away else NexusError("ledger", what, *explanation)
    lines = hide_password(str(error), url).splitlines() or [type(error).__name__]
    text = " ".join(lines[0].removeprefix("connection is bad: ").removeprefix("connection failed: ").split())
    hint = next((hint for part, hint in _HINTS.items() if part in text), "Check the server and ledger.url")
    if not is_away or (_REFUSED in text and not any(part in text for part in _FOR_NOW)):
        return NexusError("ledger", what, text[:300], hint)
    return LedgerAwayError(what, text[:300], hint)


# Else a pipeline that ends because its connection is lost prints a warning.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

RETRY_AT: dict[str, tuple[float, NexusError]] = {}
"""By address: the time before which no connection is attempted, and the error of the last attempt."""


def hash_address(url: str) -> str:
    """Return a hash of the database and the role that a URL means in this environment; the password is left out."""
    parameters = conninfo_to_dict(url)
    parts = {
        name: str(parameters.get(name) or os.environ.get(variable, "")) for name, variable in _IDENTITY_OPTIONS.items()
    }
    parts["port"] = parts["port"].strip(",") or "5432"
    parts["user"] = parts["user"] or f"uid {os.geteuid()}"
    return sha256(repr(sorted(parts.items())).encode()).hexdigest()[:32]


def open_connection(url: str) -> tuple[psycopg.Connection[Any], bool, object, Row]:
    """Return a connection, True if it may write, the steps that the schema has taken (None or 0: unknown), and number
    and start of its process in the server; raise `NexusError("ledger", ...)` if that fails."""
    what = f"the ledger {hide_password(url)} cannot be opened"
    if url in RETRY_AT and time.monotonic() < RETRY_AT[url][0]:
        raise RETRY_AT[url][1].with_traceback(None)
    try:
        parameters = conninfo_to_dict(url)
        connection = psycopg.connect(make_conninfo(**{**_CONNECTION, **parameters}), autocommit=True)
    except psycopg.Error as error:
        failure = server_error(error, what, url)
        RETRY_AT[url] = time.monotonic() + PAUSE, failure
        raise failure from error
    try:
        return connection, *_set_up(connection, what)
    except psycopg.Error as error:
        connection.close()
        raise server_error(error, what, url) from error
    except BaseException:
        connection.close()
        raise


def _set_up(connection: psycopg.Connection[Any], what: str) -> tuple[bool, object, Row]:
    """Set the limits and types of a connection, in one round trip; return as `open_connection`."""
    info, encoding = connection.info, connection.info.parameter_status("server_encoding")
    if info.server_version < OLDEST * 10_000:
        why = f"the server is PostgreSQL {info.server_version // 10_000}; {OLDEST} or newer is required"
        raise NexusError("ledger", what, why, "Upgrade the server")
    if encoding != "UTF8":
        raise NexusError(
            "ledger",
            what,
            f"the encoding of the database is {encoding}",
            "Create the database with: createdb -E UTF8 NAME",
        )
    for kind, loader in (("text", _TextLoader), ("numeric", _NumberLoader)):
        connection.adapters.register_loader(kind, loader)
    connection.adapters.register_dumper(str, _TextDumper)
    try:
        cursor = connection.execute(f"{_SETTINGS}; {_STATE.format(_STEPS)}")
    except psycopg.ProgrammingError:  # there are no tables yet, or they are those of another program
        cursor = connection.execute(f"{_SETTINGS}; {_STATE.format(0)}")
    while cursor.nextset():
        pass
    row = cursor.fetchone() or (False, 0)
    return bool(row[0]), row[1], row[2:]
