"""The authors and the rights of rows in a shared project: the statements of one step of `postgres_schema`.

Row-level security lets colleagues write rows of a shared project. A message is by the role that writes it, or by an
agent that this role made; the agent `nexus` speaks for everybody. Only its owner lets an agent into a space. A run has
the rights of its `principal`, a signal is by its `author`. No role chooses these: they are the role that writes the
row. A run that a message starts for an agent of its space has that agent's owner for a principal, and the options that
the owner gave the agent, if that owner shares the space's project with the role that writes the row. Colleagues may
end a run, or delete it with its session, and change nothing else of it.
"""

from __future__ import annotations

_OWN_AGENT = "(e.made_by = current_user OR e.folded = 'nexus')"
_FOLDED = 'lower(normalize({} COLLATE "default", NFKC))'
_OWN_NAME = f"{_FOLDED.format('e.name')} = {_FOLDED.format('current_user::text')}"
_SPEAKS_FOR = f"CASE e.kind WHEN 'agent' THEN {_OWN_AGENT} ELSE {_OWN_NAME} END"
_IS_SENDER = f"(EXISTS (SELECT 1 FROM entities e WHERE e.key = sender AND {_SPEAKS_FOR}))"
_MAY_JOIN = f"(EXISTS (SELECT 1 FROM entities e WHERE e.key = entity AND (e.kind <> 'agent' OR {_OWN_AGENT})))"


def _limit_updates(table: str, columns: str) -> tuple[str, ...]:
    return f"REVOKE UPDATE ON {table} FROM PUBLIC", f"GRANT UPDATE ({columns}) ON {table} TO PUBLIC"


_SET_PRINCIPAL = f"""CREATE FUNCTION set_principal() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_bound boolean := row_security_active(TG_RELID);
    agent record;
BEGIN
    IF is_bound THEN
        NEW.principal := current_user;
    END IF;
    SELECT made_by, options INTO agent FROM entities
        WHERE key = NEW.entity AND NEW.principal = current_user AND made_by <> current_user AND folded <> 'nexus';
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    PERFORM FROM messages m JOIN members i ON i.space = m.space JOIN entities e ON e.key = m.sender
        WHERE m.key = NEW.message AND m.space = NEW.space AND i.entity = NEW.entity AND {_SPEAKS_FOR}
        AND (NEW.type, NEW.state, NEW.session, NEW.waits) = ('space_message', 'queued', '', '')
        AND NEW.run_trigger::jsonb ->> 'message' = m.text
        AND NEW.run_trigger::jsonb -> 'sender'
            = jsonb_build_object('id', 'ent-' || e.key, 'name', e.name, 'type', e.kind)
        AND NEW.cause LIKE '%msg-' || m.key || ' ent-' || NEW.entity
        AND EXISTS (SELECT FROM project_members p JOIN pg_roles r ON r.rolname = p.role
            WHERE (p.project, p.owner) = (NEW.project, agent.made_by) AND pg_has_role(r.oid, 'USAGE'));
    IF FOUND THEN
        NEW.principal := agent.made_by;
        NEW.options := agent.options;
        NEW.plan := NULL;
    ELSIF is_bound THEN
        RAISE insufficient_privilege USING MESSAGE = 'the agent of another role starts by a message in its spaces';
    END IF;
    RETURN NEW;
END $$"""

_KEEP_PRINCIPAL = """CREATE FUNCTION keep_principal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF row_security_active(TG_RELID) AND OLD.principal NOT IN ('', current_user) AND (
        (NEW.options, NEW.report, NEW.error, NEW.resumes) <> (OLD.options, OLD.report, OLD.error, OLD.resumes)
        OR NEW.state NOT IN (OLD.state, 'cancelled') OR NEW.session NOT IN (OLD.session, '')
        OR (NEW.cost IS DISTINCT FROM OLD.cost AND (OLD.cost IS NOT NULL OR NEW.cost < 0))
        OR ((NEW.fence, NEW.waits, NEW.wake_at, NEW.owner, NEW.lease)
            IS DISTINCT FROM (OLD.fence, OLD.waits, OLD.wake_at, OLD.owner, OLD.lease)
            AND (NEW.state NOT IN ('done', 'failed', 'cancelled') OR NEW.fence <> OLD.fence + 1
                OR NEW.waits <> '' OR NEW.wake_at IS NOT NULL OR NEW.owner <> '' OR NEW.lease IS NOT NULL))
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = 'it is a run of another role';
    END IF;
    RETURN NEW;
END $$"""

# A role can make temporary tables and functions, which hide ours from a trigger unless its path says otherwise.
FIXED_PATHS = """DO $$ DECLARE name text; BEGIN
    FOREACH name IN ARRAY ARRAY['own_session', 'own_part', 'own_run', 'set_principal', 'keep_principal', 'keep_maker']
    LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', name, current_schema());
    END LOOP;
END $$"""
"""Follows the statements that make the functions."""

RIGHTS: tuple[str, ...] = (
    # A name stands for one row, whatever its folded form says, and for good.
    "CREATE UNIQUE INDEX entities_name ON entities (lower(name))",
    *_limit_updates("entities", "options"),
    f"CREATE POLICY messages_sent ON messages AS RESTRICTIVE FOR INSERT WITH CHECK {_IS_SENDER}",
    f"CREATE POLICY messages_kept ON messages AS RESTRICTIVE FOR UPDATE USING {_IS_SENDER} WITH CHECK {_IS_SENDER}",
    *_limit_updates("messages", "origin"),
    f"CREATE POLICY members_joined ON members AS RESTRICTIVE FOR INSERT WITH CHECK {_MAY_JOIN}",
    *_limit_updates("members", "seen"),
    "ALTER TABLE signals ADD COLUMN author TEXT COLLATE \"C\" NOT NULL DEFAULT ''",
    "ALTER TABLE signals ALTER COLUMN author SET DEFAULT current_user",
    "CREATE POLICY signals_author ON signals AS RESTRICTIVE FOR INSERT WITH CHECK (author = current_user)",
    *_limit_updates("signals", "taken"),
    "ALTER TABLE runs ADD COLUMN principal TEXT COLLATE \"C\" NOT NULL DEFAULT ''",
    # Nobody else could write an older row of no project.
    "UPDATE runs SET principal = made_by WHERE project = ''",
    "ALTER TABLE runs ALTER COLUMN principal SET DEFAULT current_user",
    *_limit_updates(
        "runs",
        "state, options, session, waits, wake_at, owner, lease, fence, resumes, report, error, cost, updated",
    ),
    _SET_PRINCIPAL,
    _KEEP_PRINCIPAL,
    # Another role's row prevents none of one's own.
    "DROP INDEX runs_cause",
    "CREATE UNIQUE INDEX runs_cause ON runs (cause, principal) WHERE cause <> ''",
    # By the order of names after own_run, which sets the project.
    "CREATE TRIGGER set_principal BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION set_principal()",
    "CREATE TRIGGER keep_principal BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION keep_principal()",
)
"""Statements for tables that the role which runs them owns. Rows without a principal or author are older ones."""
