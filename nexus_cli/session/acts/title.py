"""Give a session a title, written by the model of `ui.title_model` after the first turn.

Without such a model, or if it fails, the first words of the session are its title.
"""

from __future__ import annotations

from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.sections.find_recipe import own_recipe
from nexus_cli.session.acts.goal import strip_emphasis
from nexus_cli.session.acts.side_run import run_separately
from nexus_cli.session.base_session import Act, BaseSession
from nexus_cli.text.untrusted_text import neutralize

LONGEST_MESSAGE = 2_000
"""Most characters of the first message that are sent."""
LONGEST = 60
"""Most characters of a title."""


def find_title_act(session: BaseSession) -> Act | None:
    """Return the act in which a model names the session, if it has had one turn and has no name; else None."""
    if not session.engine.settings.ui.title_model or session.has_no_ledger:
        return None
    try:
        info = session.ledger.session(session.id)
    except NexusError:
        return None
    return make_title if info.turns == 1 and not info.name else None


async def make_title(session: BaseSession) -> None:
    """Name the session (an act); on failure emit a notice with the reason."""
    engine, conversation = session.engine, session.conversation
    *_, (_, first) = [(0, ""), *conversation.log.user_messages(conversation.last)]
    try:
        model = engine.other_model(engine.settings.ui.title_model)
        text = neutralize(split_attachments(first)[0][:LONGEST_MESSAGE])
        answer = await run_separately(engine, session.dispatcher, own_recipe("title"), text, model=model)
        if title := parse_title(answer):
            session.ledger.rename_session(session.id, title)
    except NexusError as error:
        engine.control.emit_notice(f"{engine.settings.ui.title_model} could not name the session: {error.message}")


def parse_title(answer: str) -> str:
    """Return the first line of an answer as a title, "" if it has none."""
    line = next((line for line in answer.splitlines() if line.strip()), "")
    title = " ".join(strip_emphasis(one_line(line)).strip("\"'`#“”« »").split()).rstrip(".")
    return title if len(title) <= LONGEST else title[: LONGEST - 1].rstrip() + "…"
