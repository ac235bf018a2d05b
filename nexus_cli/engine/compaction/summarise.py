"""Request a summary in a side conversation: as a fork of the conversation, or from a plain transcript, in pieces if it
is long.

A summary is checked only for its form: text under the requested headings, of any length. `summary_source` chooses the
source, `summary_request` writes the request, `compact` cuts a summary that is too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nexus_cli.config.prompts import load_prompt
from nexus_cli.context.compaction import transcript_lines
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.message import Message
from nexus_cli.core.request import Model
from nexus_cli.engine.compaction.summary_headings import find_headings, headings, read_rules
from nexus_cli.engine.compaction.summary_request import current_request, fork_instruction, transcript_request
from nexus_cli.engine.compaction.summary_source import SummarySource, find_acts, fork_fits, room_for, with_acts
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.model_call import CUT_OFF, call_model
from nexus_cli.text.untrusted_text import neutralize

MAX_PAID_REQUESTS = 2
"""Most requests of one attempt. Only a transcript in pieces may take more, if it is tried first; nothing is tried after
it then."""
MIN_PIECE = 500
"""Least tokens of a piece of a transcript: less is not worth the overhead of a request."""
MAX_PIECES = 24
MIN_HEADINGS = 2
"""A text with fewer of the requested headings is rejected."""


class SummaryError(Exception):
    """The summary failed or was rejected; the text is the reason."""


class SummaryPrevented(SummaryError):
    """A hook refuses the compaction. Nothing was requested."""


class SummaryTimeout(SummaryError):
    """No summary arrived in time. Not retried: another try would take as long."""


class SummaryOverflow(SummaryError):
    """The provider refused the request as too long. A fork is not retried: the next one would be refused too."""

    def __init__(self, error: ProviderError, counted: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.counted = counted
        """Tokens of the refused request by our count."""


@dataclass(slots=True)
class _PaidRequests:
    """Counts the requests of one attempt."""

    requests: int = 0
    ends: list[str] = field(default_factory=list)
    """Ends cut from the summaries of earlier pieces, for lack of room in the next request."""


async def summarise(
    engine: Engine, plan: CompactionPlan, choice: SummarySource, instructions: str
) -> tuple[str, str, str]:
    """Request a summary from each source in turn until one succeeds.

    Returns the text, its source (as in `SummarySource`) and the ends cut from summaries of earlier pieces. Raises
    `SummaryError` with the last reason after at most `MAX_PAID_REQUESTS` failed requests.
    """
    reasons: list[str] = []
    paid = _PaidRequests()
    for source, answer in _ask_sources(engine, plan, choice, instructions, paid):
        paid.ends.clear()
        try:
            return await answer, source, "\n\n".join(paid.ends)
        except (SummaryOverflow, SummaryTimeout):
            raise
        except SummaryError as reason:
            reasons.append(str(reason))
        if paid.requests >= MAX_PAID_REQUESTS:
            break
    earlier = f" (previous attempt failed: {reasons[-2]})" if len(reasons) > 1 and reasons[-2] != reasons[-1] else ""
    raise SummaryError(f"{reasons[-1] if reasons else 'no model was able to write a summary'}{earlier}")


def _ask_sources(
    engine: Engine, plan: CompactionPlan, choice: SummarySource, instructions: str, paid: _PaidRequests
) -> Iterator[tuple[str, Awaitable[str]]]:
    """Yield the sources to try, in order, each with the answer to await: the next one is tried if that fails."""
    if choice.source == "originals":
        yield "originals", _from_transcript(engine, plan, choice.model, choice.originals, instructions, paid)
    if choice.forks and fork_fits(engine.context, plan, instructions):
        text = fork_instruction(plan, instructions)
        yield "window", _answer(engine.fork("compact", text), plan.summary_cap, paid)
    if choice.source != "originals" or not choice.forks:
        acts = find_acts(engine.conversation)
        removed = [with_acts(item.message, item.preamble, acts) for item in plan.removed]
        yield "transcript", _from_transcript(engine, plan, choice.model, removed, instructions, paid)


async def ask_for_rules(begin: Callable[[str], Engine], cap: int, sentences: Iterable[str]) -> list[str]:
    """Ask once more which sentences of the person are rules, in the side conversation that `begin` makes of the
    request, and return the quotations of the answer; [] if it fails."""
    text = load_prompt("missed_rules", sentences="\n".join(f'"{sentence}"' for sentence in sentences))
    try:
        return read_rules(await _answer(begin(text), cap, _PaidRequests(), least=0))
    except SummaryError:
        return []


async def _answer(side: Engine, cap: int, paid: _PaidRequests, least: int = MIN_HEADINGS) -> str:
    """Request a summary in a side conversation and check its form: at least so many headings. It may exceed `cap`.
    Raises `SummaryError`."""
    seconds = side.settings.compact.seconds
    paid.requests += 1
    try:
        cap_tokens = max(2 * cap, side.context.budget.reserve_reply)
        async with asyncio.timeout(seconds):
            reply = await call_model(side, side.window_request(), cap_tokens, main=False)
        text = reply.message.content.strip()
    except TimeoutError:
        raise SummaryTimeout(f"the model sent no summary within {seconds:g} s") from None
    except NexusError as error:
        if isinstance(error, ProviderError) and error.kind == "overflow":
            raise SummaryOverflow(error, side.conversation.counted) from None
        if error.kind != "length":
            raise SummaryError(error.message) from None
        text, reply = f"{side.partial_reply.strip()}\n{CUT_OFF}", None  # cut at the output cap, but paid for
    if reply and reply.message.tool_calls:
        raise SummaryError("the model answered with a tool call")
    if not neutralize(text).strip():
        raise SummaryError("the summary was empty")
    if len(find_headings(text)) < least:
        raise SummaryError(f"the summary has fewer than {least} of the headings {', '.join(headings())}")
    return text


async def _from_transcript(
    engine: Engine,
    plan: CompactionPlan,
    model: Model,
    messages: Sequence[Message],
    instructions: str,
    paid: _PaidRequests,
) -> str:
    """Summarize a plain transcript, piece by piece, each with the summary so far. Raises `SummaryError`."""
    summary, count = "", engine.context.count
    room = room_for(engine.context, plan, model)
    request = current_request(plan, engine.conversation.run, room // 4, count)
    room -= count(request)
    if room < MIN_PIECE:
        raise SummaryError(f"the window of {model.info.name} is too small to write a summary")
    # in a thread: redacting and counting a long history takes seconds and would delay Ctrl+C
    pieces = await asyncio.to_thread(lambda: list(_pieces(transcript_lines(messages), room, engine.context)))
    if len(pieces) > MAX_PIECES:
        raise SummaryError(f"{model.info.name} would need {len(pieces)} requests for the summary")
    if paid.requests and len(pieces) > MAX_PAID_REQUESTS - paid.requests:
        raise SummaryError(f"summarizing a transcript would take {len(pieces)} more requests")
    for piece in pieces:
        summary, end = engine.compactor.split_summary(plan, summary)  # the cap is reserved in `room`
        paid.ends += [end] if end else []
        text = transcript_request(
            plan, piece, request=request, earlier=summary, headings=", ".join(headings()), instructions=instructions
        )
        try:
            summary = await _answer(engine.separate("compact", model, text), plan.summary_cap, paid)
        except SummaryOverflow as reason:  # says nothing about the session's own window
            raise SummaryError(str(reason)) from None
    return summary


def _pieces(text: str, room: int, context: ContextManager) -> Iterator[str]:
    """Split `text` into pieces of about `room` tokens at most, at line ends if possible."""
    tokens = context.counter.count(text)
    if tokens <= room:
        yield text
        return
    length = max(200, int(len(text) * max(1, room) / max(1, tokens) * 0.9))
    start = 0
    while start < len(text):
        end = min(len(text), start + length)
        if end < len(text):
            end = text.rfind("\n", start + length // 2, end) + 1 or end
        yield text[start:end]
        start = end
