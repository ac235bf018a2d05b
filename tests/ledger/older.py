"""Ledgers with the tables of a former version, made of ledgers of the present one."""

from __future__ import annotations

import sqlite3
from itertools import chain
from pathlib import Path

from ledger.postgres import Server

from nexus_cli.ledger import schema


def taken_back(steps: int) -> list[str]:
    """Return the statements that remove the tables, indexes and columns which come behind the first `steps`."""
    statements = list(chain.from_iterable(schema.STEPS[steps:]))
    return [undo for statement in reversed(statements) if (undo := _undo(statement))]


def _undo(statement: str) -> str:
    match statement.split():
        case ["ALTER", "TABLE", table, "ADD", "COLUMN", column, *_]:
            return f"ALTER TABLE {table} DROP COLUMN {column}"
        case ["CREATE", "TABLE", table, *_]:
            return f"DROP TABLE {table}"
        case ["CREATE", "INDEX", name, *_] | ["CREATE", "UNIQUE", "INDEX", name, *_]:
            return f"DROP INDEX {name}"
    return ""


def make_older(path: Path, steps: int) -> None:
    """Make the ledger at `path` one that has taken the first `steps` alone."""
    with sqlite3.connect(path) as connection:
        for statement in taken_back(steps):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {steps}")
    connection.close()


def describe_tables(server: Server, database: str) -> set[str]:
    """Return what a server says of the columns, constraints, indexes, policies, rights and triggers of a ledger."""
    return {
        row
        for query in (
            "SELECT table_name, column_name, data_type, collation_name, column_default, is_nullable, is_identity"
            " FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0",
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
            "SELECT tablename, policyname, permissive, cmd, qual, with_check FROM pg_policies",
            "SELECT relname, relrowsecurity FROM pg_class WHERE relnamespace = 'public'::regnamespace",
            "SELECT table_name, column_name, privilege_type FROM information_schema.column_privileges"
            " WHERE grantee = 'PUBLIC' AND table_schema = 'public'",
            "SELECT table_name, privilege_type FROM information_schema.table_privileges"
            " WHERE grantee = 'PUBLIC' AND table_schema = 'public'",
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
            "SELECT proname, prosrc, proconfig FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
            "SELECT * FROM schema_version",
        )
        for row in map(repr, server.sql(query, database=database))
    }
