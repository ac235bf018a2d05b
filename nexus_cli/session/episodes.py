"""Which past sessions of a project matter for what the person just said (seed E's episodic memory).

Looks at titles alone, of the newest sessions: however much was said in them, it takes no longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Episode
from nexus_cli.core.words import Topic, own_words
from nexus_cli.ledger import Ledger


def relevant_episodes(ledger: Ledger, project: str, session: str, about: str) -> Sequence[Episode]:
    """The past sessions whose name or first words fit `about`, the best first, of equal ones the newest.

    Never `session` itself or what it was forked from. Raises nothing.
    """
    said = own_words(about)
    if not said.strip():
        return ()
    topic = Topic(said)
    try:
        known = ledger.episodes(project, session)
    except NexusError:
        return ()
    first = {episode.title.casefold(): episode for episode in reversed(known)}
    scored = [(topic.score(episode.title), episode) for episode in known if first[episode.title.casefold()] is episode]
    fitting = [(score, episode) for score, episode in scored if score]
    fitting.sort(key=lambda one: -one[0])
    return [episode for _, episode in fitting]
