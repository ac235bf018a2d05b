"""The window of a lane: its messages, model, budget and token estimate.

Learns the context window and the tokenizer of a model from reported usage and overflow errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation, Notes
from nexus_cli.conversation.epoch_draft import EpochDraft
from nexus_cli.conversation.request_plan import NextRequest, unreported_estimator
from nexus_cli.conversation.section_rows import Sections
from nexus_cli.conversation.sent_requests import EarlierRequests
from nexus_cli.conversation.tokens.content_kinds import WindowContents
from nexus_cli.conversation.tokens.estimator import Anchor, TokenEstimator
from nexus_cli.conversation.tokens.refusal import REFUSED_WINDOW, is_believable
from nexus_cli.core.budget import LEAST_OUTPUT, REQUEST_FLOOR, TokenBudget, left_over
from nexus_cli.core.entry import Drop, Epoch, ItemForm, WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Notice
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Calibrations
from nexus_cli.provider.model_table import window_command

LEAST_STORED = 4_096
"""A smaller window, which may leave no room for any request, is not stored: one wrong word of a provider must not end
later sessions."""


@dataclass
class Model:
    """A model with its provider and request settings."""

    info: ModelInfo
    provider: Provider
    effort: str = ""
    cache_key: str = ""
    stall_seconds: float = 120.0


@dataclass
class LaneWindow:
    """The messages of a lane and their size limits."""

    context: ContextManager
    model: Model
    budget: TokenBudget
    estimator: TokenEstimator
    calibrations: Calibrations | None = None
    """Store of tokenizer calibrations; None: they are lost with the lane."""
    cut_run: int = -1
    """The run in which the person was last told that the server cut a request."""

    def __post_init__(self) -> None:
        self.context.resize(self.budget)
        self.estimator.contents = WindowContents(lambda: (self.conversation.epoch, self.conversation.items))

    def count(self, text: str) -> int:
        """Return the tokens of a text by our count."""
        return self.context.counter.count(text)

    @property
    def conversation(self) -> Conversation:
        """The lane of `context`."""
        return self.context.conversation

    @property
    def least_output(self) -> int:
        """Least room for an answer in tokens, without which no request is sent."""
        return min(LEAST_OUTPUT, self.budget.reserve_reply)

    @property
    def room(self) -> int:
        """Most tokens of a request: the budget, or less if the least answer needs more room."""
        return min(self.budget.available, left_over(self.model.info, self.least_output))

    def begin_epoch(
        self, head: Sequence[WindowItem], cause: str, planned: EpochDraft, drops: Sequence[Drop], notes: Notes | None
    ) -> None:
        """Begin an epoch with `head` and the `planned` frame, recorded in one commit with the `drops` of both. Resets
        the estimate, because nothing of the new window is reported yet."""

        def noted(epoch: Epoch) -> Iterator[tuple[str, Mapping[str, Any]]]:
            yield from (one.note for one in planned.left)
            yield from notes(epoch) if notes else ()

        self.conversation.rewrite(head, cause, drops, planned.frame, noted)
        self.estimator.forget()

    def learn_from_overflow(self, counted: int, error: ProviderError) -> Notice | None:
        """Learn the window from the error about a request of `counted` tokens (our count), and return a notice, if any.

        A plausible window of at least `LEAST_STORED` is stored for all sessions, a smaller one applies to this session.
        So does an implausible one that leaves room to continue; any other is ignored.
        """
        believed, limit = is_believable(error, counted), error.limit or 0
        for_all = believed and limit >= LEAST_STORED
        self.estimator.learn_from_overflow(counted, error.counted, limit if for_all else None)
        self._store_calibration()
        if 0 < limit < self.budget.window and (believed or self._leaves_room(limit)):
            return self._take_window(limit, for_all=for_all)
        return None

    def _leaves_room(self, limit: int) -> bool:
        """Return True if `REQUEST_FLOOR` of the budget of a window stays free."""
        most = self.estimator.countable(TokenBudget.of(limit, self.model.info.max_output).available)
        return sum(self.fixed_parts().values()) <= (1 - REQUEST_FLOOR) * most

    def _take_window(self, limit: int, *, for_all: bool) -> Notice:
        """Use the window named in an overflow error; return a notice about it."""
        listed = self.model.info.listed_window or self.model.info.window
        self.set_window(limit)
        told = f"{self.model.info.served_name} reports a context window of {limit:,} tokens"
        if self.model.info.window_key:
            self._keep_window(limit)
            line = f"{told}, the settings say {listed:,}: using {limit:,} in this session. Correct the setting"
            return Notice(f"{line}: {window_command(self.model.info, limit)}")
        if not for_all:
            self._keep_window(limit)
            return Notice(f"{told}: using that in this session only", warning=False)
        return Notice(f"{told}: using that from now on", warning=False)

    def _keep_window(self, window: int) -> None:
        """Record a window with the session, valid until the listed window changes; 0 removes it."""
        info = self.model.info
        value = {"model": info.served_name, "window": window, "listed": info.listed_window or info.window}
        self.conversation.memo(REFUSED_WINDOW, value)

    def size_for(self, info: ModelInfo) -> None:
        """Use these facts of the model."""
        self.model = replace(self.model, info=info)
        self.budget = TokenBudget.of(info.window, info.max_output)
        self.context.resize(self.budget)

    def set_window(self, window: int) -> None:
        """Use the window that the provider named."""
        info = self.model.info
        listed = info.listed_window or info.window
        self.size_for(replace(info, window=window, window_refused=True, listed_window=listed))

    def _restore_window(self) -> None:
        info = self.model.info
        self.size_for(replace(info, window=info.listed_window, window_refused=False))

    def fixed_parts(self) -> dict[str, int]:
        """Return the tokens of the parts that every request contains, by section name."""
        epoch = self.conversation.epoch
        sections = {str(section["id"]): int(section["tokens"]) for section in json.loads(epoch.sections)}
        rest = epoch.system_tokens - sum(sections.values())
        name = "what joins them" if sections else "system text"
        return {**sections, name: rest, "tool schemas": epoch.tools_tokens}

    def learn(self, counted: int, reported: int) -> None:
        """Learn from the input tokens reported for the newest request. With images it does not calibrate our count."""
        images, info = any(item.message.parts for item in self.conversation.items), self.model.info
        if info.window_refused and info.window < reported <= info.listed_window:
            self._restore_window()
            self._keep_window(0)
        if 0 < self.estimator.calibration.window < reported:
            self.estimator.forget_window()
            self._store_calibration()
        if self.estimator.learn(self.conversation.cursor, counted, reported, teaches=not images):
            self._store_calibration()

    def _store_calibration(self) -> None:
        if self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, self.estimator.calibration)


def project(
    window: LaneWindow,
    earlier: EarlierRequests | None = None,
    *,
    epoch: Epoch | None = None,
    told: Sections = (),
    preamble: int = 0,
    texts: Sequence[str] = (),
) -> NextRequest:
    """Return the next request of `window`, or the first one of a drafted `epoch` with its items.

    `texts` wait for the person's next message; `told` and `preamble` as for `NextRequest.of`.
    """
    conversation, count = window.conversation, window.count
    number = conversation.last + 1
    return NextRequest.of(
        unreported_estimator(window.estimator, epoch, conversation.items) if epoch else window.estimator,
        epoch or conversation.epoch,
        conversation.items,
        window.budget,
        waiting=[WindowItem(number, ItemForm.FULL, Message(Role.USER, text), tokens=count(text)) for text in texts],
        sent=-1 if epoch else conversation.last_sent,
        told=told,
        preamble=preamble,
        room=window.room,
        earlier=earlier,
    )


def rewritten_request(
    window: LaneWindow, epoch: Epoch, items: Sequence[WindowItem], anchor: Anchor | None = None
) -> NextRequest:
    """Return the request of another window: `items` under `epoch`; `anchor` is the last report on it."""
    estimator = unreported_estimator(window.estimator, epoch, items, anchor)
    return NextRequest.of(estimator, epoch, items, window.budget, room=window.room)


def unreported_tokens(window: LaneWindow) -> int:
    """Estimate the window's tokens without any report on it, to compare it with one that was just rewritten."""
    return round(window.estimator.estimate_without_anchor(window.conversation.counted))


def most_with(window: LaneWindow, added: int) -> int:
    """Return the upper bound for the window's tokens with one more message of `added` counted tokens."""
    return window.estimator.upper(window.conversation.counted + added)
