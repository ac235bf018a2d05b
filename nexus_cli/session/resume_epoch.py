"""Begin the epoch of a run that resumes after a wait: its head is one item, a recap of everything so far.

Messages that leave the window become a drop, named in the recap (`conversation/compaction/recap.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nexus_cli.conversation.compaction.recap import recap_text
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.attachment import RESUME
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem, sum_tokens
from nexus_cli.core.memo_kinds import RECAP
from nexus_cli.core.message import Message, Role
from nexus_cli.engine.requests.engine import Engine


async def begin_resume_epoch(engine: Engine, subjects: Mapping[str, str], came: Iterable[str]) -> None:
    """Begin the epoch; the recap ends in the lines of `came`. `subjects` are the main arguments by tool."""
    conversation = engine.conversation
    last = conversation.last
    if not last:
        return
    await engine.read_work()
    earlier_drop = _recap_in_force(engine.conversation)
    drop_id = earlier_drop or conversation.log.next_drop()
    message = Message(Role.USER, recap_text(engine.compactor, subjects, list(came), drop_id))
    item = WindowItem(last, ItemForm.SUMMARY, message, tokens=engine.context.measure(message, ""))
    replaced_tokens = sum_tokens(conversation.items)
    what = f"messages 1 to {last} of the conversation, replaced by a timeline"
    drops = (
        [] if earlier_drop else [Drop(drop_id, what, replaced_tokens, Cause.COMPACTION, conversation.now(), (1, last))]
    )
    planned = await engine.prompt.draft_epoch(engine.context)
    epoch = conversation.make_epoch([item], RESUME, planned.epoch)
    note = RECAP, {"epoch": epoch.id, "drop": drop_id}
    engine.begin_epoch(engine.draft_rewrite(epoch, planned, drops, [note]))
    engine.readings.epoch_cause = ""


def _recap_in_force(conversation: Conversation) -> str:
    """Return the drop of a recap that an earlier process began but never sent, "" if there is none."""
    if (
        conversation.epoch.cause != RESUME
        or conversation.tail
        or conversation.last_sent >= 0
        or len(conversation.epoch.head) != 1
    ):
        return ""
    memos = conversation.memos(RECAP)
    return next((str(memo.value["drop"]) for memo in memos if memo.value["epoch"] == conversation.epoch.id), "")
