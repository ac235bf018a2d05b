"""What the head of a window says of messages in which the person said nothing."""

from __future__ import annotations

from datetime import datetime

import pytest

from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.own_words import Quote
from nexus_cli.conversation.compaction.summary_head import NOTHING, NOTHING_ELSE, PERSON_WORDS_TITLE, Additions, head
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.message import Message, Role

RULE = Quote(2, "never touch main")


@pytest.mark.parametrize(
    ("quotes", "rules", "said"), [((), (), NOTHING), ((), (RULE,), NOTHING_ELSE), ((RULE,), (), NOTHING_ELSE)]
)
def test_without_words_of_the_person_it_says_so_under_no_title(
    quotes: tuple[Quote, ...], rules: tuple[Quote, ...], said: str
) -> None:
    gone = WindowItem(2, ItemForm.FULL, Message(Role.ASSISTANT, "done"))
    plan = CompactionPlan(((gone,),), (), quotes, 100, 0, 0)
    more = Additions(rules=rules)
    items = head(plan, "s", "d1", clock=lambda: datetime(2026, 1, 1), measure=lambda message, _: 1, more=more)
    text = items[0].message.content
    assert said in text and (PERSON_WORDS_TITLE in text) == (said == NOTHING_ELSE)


@pytest.mark.parametrize(
    ("staying", "unseen", "named"),
    [
        ((1,), (), "2 to 9"),
        ((1, 2, 9), (), "3 to 8"),
        ((1, 2, 5), (), "3 to 9 without 5"),
        ((1, 4), ((2, 3),), "5 to 9"),
        ((3, 5), ((5, 9),), "1 to 4 without 3"),
        ((4,), ((2, 3), (5, 8)), "1 and 9"),
    ],
)
def test_a_message_that_stays_at_the_end_of_a_range_is_left_out_of_the_range(
    staying: tuple[int, ...], unseen: tuple[tuple[int, int], ...], named: str
) -> None:
    first, *kept = [WindowItem(entry, ItemForm.FULL, Message(Role.USER, "x")) for entry in (1, *staying)]
    last = WindowItem(9, ItemForm.FULL, Message(Role.ASSISTANT, "done"))
    assert CompactionPlan(((first,), (last,)), tuple(kept), (), 100, 0, 0).named_but(unseen) == named
