"""Send one model request: record it before the first byte, stream and fold the reply, record it as one entry.

The text of an unfinished answer is kept with a mark for the model, and the matching error is raised;
`engine.partial_reply` has the text without the mark. If the stream was cut, the request is sent once more: no call
of the reply has run, and its text goes to a memo `CUT_ANSWER` instead of the window. Both requests are recorded.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.sent_requests import SentRequest
from nexus_cli.core import event
from nexus_cli.core.entry import Cause, Kind, Manifest
from nexus_cli.core.errors import PARTIAL_KEPT, NexusError, ProviderError
from nexus_cli.core.event import CacheResult
from nexus_cli.core.memo_kinds import CUT_ANSWER, SERVER_CUT, THINKING
from nexus_cli.core.message import Message, Role
from nexus_cli.core.price import with_cost
from nexus_cli.core.request import Request, RetryDelta, TextDelta, ThinkingDelta, close_if_closable
from nexus_cli.core.rewrite_cost import miss_cost
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.readings import Preamble
from nexus_cli.provider.model_table import NO_TOOLS_HINT, window_command
from nexus_cli.provider.prompt_cache import cache_life_of
from nexus_cli.provider.reply import Reply, ReplyFold

INTERRUPTED = "[interrupted]"
BROKEN_OFF = "[the reply broke off here]"
CUT_OFF = "[cut off: the output limit was reached]"
WRITTEN_CALL = re.compile(
    r"(?:"
    r'(?:\A|<tool_call>|```(?:json)?)\s*\{\s*"name":\s*"(?P<json>\w+)",\s*"(?:arguments|parameters)":.*\}\s*(?:```)?'
    r"|<function=(?P<xml>\w+)>.*</function>"
    r")\s*(?:</tool_call>)?\s*\Z",
    re.DOTALL,
)
"""A call as chat templates write it, at the end of a text: what is left where a server does not parse its calls."""
ARGUMENTS = ("model", "max_output", "effort", "tool_choice", "cache_key", "previous_end")
"""Arguments of a request, besides its messages and tools, that its manifest records."""
MIN_REPORT = 0.05
"""Share of our count below which a report is ignored: some servers report 0 or 1 for any request."""


async def call_model(engine: Engine, plan: RequestPlan, most: int | None = None, *, main: bool = True) -> Reply:
    """Send the window, of which `plan` is the request, and record the reply of at most `most` tokens.

    Raises `ProviderError`, or `NexusError` of kind `provider`, `length` or `refused`, after recording partial text.
    Without `main` (side conversations) no text is emitted, no step of the turn is counted, and a cut answer is not
    retried. A retry belongs to the same step, and is not sent if it would exceed a limit.
    """
    may_repeat = main and bool(getattr(engine.provider, "asks_again", False))
    cap = engine.answer_cap(plan)
    cap = min(cap, most or cap)
    try:
        return await _request_reply(engine, plan, cap, main, may_repeat)
    except _ReplyCutError as error:
        cut = error
    engine.spending.steps -= 1
    plan = engine.window_request()
    cap = min(cap, engine.answer_cap(plan))
    engine.control.emit(event.Retry(1, 0.0, cut.why, cut=True))
    return await _request_reply(engine, plan, cap, main, may_repeat=False, before=cut.text)


class _ReplyCutError(Exception):
    """The stream of a reply was cut. Its request is recorded; `text`, the part received, is not in the window."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(why)
        self.why = why
        self.text = text


async def _request_reply(
    engine: Engine, plan: RequestPlan, cap: int, main: bool, may_repeat: bool, before: str = ""
) -> Reply:
    """Send one request behind the cut reply `before`; if it `may_repeat`, raise `_ReplyCutError` for another one."""
    request = _send(engine, plan, cap, main)
    info = engine.model.info
    first = engine.conversation.last + 1
    fold = ReplyFold(lambda number: f"c{first}{_letters(number)}", info.provider, info.name)
    stream = engine.provider.stream(request)
    began, problem = False, ""
    engine.control.problem = ""
    try:
        await engine.conversation.log.save()
        async for delta in stream:
            fold.feed(delta)
            began = began or not isinstance(delta, RetryDelta)
            match delta:
                case TextDelta(text) if main:
                    engine.control.emit(event.Text(text))
                case ThinkingDelta(text) if main:
                    engine.control.emit(event.Thinking(text))
                case RetryDelta(attempt, wait, why):
                    problem = why
                    engine.control.emit(event.Retry(attempt, wait, why))
                case _:
                    pass
    except asyncio.CancelledError:
        engine.control.problem = "" if began else problem
        is_paid = began or request.sending.is_sent
        _keep_partial(engine, fold, INTERRUPTED, "interrupted", plan if is_paid else None, before, main)
        raise
    except ProviderError as error:
        if may_repeat and error.cut:
            raise _keep_cut(engine, fold, error.kind, error.why, plan) from error
        _keep_partial(engine, fold, BROKEN_OFF, error.kind, plan if began or error.cut else None, before, main)
        raise
    except NexusError as error:  # it could not be saved, and was not sent
        _keep_partial(engine, fold, BROKEN_OFF, error.kind, None, before, main)
        raise
    finally:
        await close_if_closable(stream)
    reply = fold.finish()
    if may_repeat and reply.is_cut:
        raise _keep_cut(engine, fold, "none", reply.problem, plan, reply.usage)
    accepted = _accept_reply(engine, reply, main, plan, before, fold)
    await engine.conversation.log.save()
    return accepted


def _send(engine: Engine, plan: RequestPlan, cap: int, main: bool) -> Request:
    conversation, ahead = engine.conversation, plan.outlook
    engine.partial_reply = ""
    sealed = conversation.freeze_request(plan)
    previous_end = sealed.previous_end or ahead.messages
    engine.step += 1
    engine.spending.steps += main
    request = Request(
        engine.model.info.name,
        sealed.wire.messages,
        plan.epoch.tools,
        cap,
        plan.epoch.effort,
        plan.epoch.tool_choice,
        engine.model.cache_key,
        previous_end,
        engine.model.stall_seconds,
        engine.response_format,
    )
    arguments = {name: getattr(request, name) for name in ARGUMENTS}
    arguments |= {"response_format": request.response_format} if request.response_format else {}
    manifest = Manifest(
        engine.step,
        conversation.epoch.id,
        conversation.cursor,
        arguments,
        sealed.wire.sha256,
        plan.tokens,
        conversation.now(),
        ahead.tokens,
    )
    conversation.log.record_request(manifest, sealed.fixed, sealed.head_lines, sealed.changed_head)
    engine.readings.preamble = Preamble()
    if main:
        engine.control.emit(event.StepStart(engine.step))
        engine.control.emit(event.CacheExpectation(manifest.cached))
    return request


def _accept_reply(engine: Engine, reply: Reply, main: bool, plan: RequestPlan, before: str, fold: ReplyFold) -> Reply:
    """Account for a streamed reply and record it, with the text `before` if it is empty. Raises if unfinished."""
    conversation = engine.conversation
    usage, cached, is_reported = _spend(engine, plan, reply.message, reply.usage)
    if reply.usage and reply.usage.input:
        notice = _report_cut(engine.context, engine.control, engine.step, plan, reply.usage.input)
        if notice:  # in the ledger, because another process may send the next request
            conversation.memo(SERVER_CUT, {"told": notice})
        engine.context.learn(plan.counted.total, reply.usage.input)
    message = reply.message
    if before and not message.content and reply.finish in ("none", "empty"):
        message = Message(Role.ASSISTANT, before)
    engine.partial_reply = content = message.content
    if reply.finish == "length" and not message.tool_calls:
        message = _with_mark(message, CUT_OFF)
    elif reply.finish in ("none", "refused") or message is not reply.message:
        message = _with_mark(Message(Role.ASSISTANT, message.content), BROKEN_OFF)
    outcome = engine.step, usage, reply.finish, is_reported, reply.sent_body
    if message.tool_calls or content:
        conversation.append(Kind.ASSISTANT, message, "agent", outcome=outcome)
    else:
        conversation.log.record_reply(None, *outcome)
    if main:
        _keep_thinking(engine.conversation, fold, message)
        engine.conversation.sent.last_usage = usage
        engine.control.emit(cached)
        engine.control.emit(event.StepEnd(engine.step, reply.finish, usage))
    _raise_unless_finished(reply)
    if main:
        _raise_if_call_is_text(reply, plan)
    return reply


def _spend(
    engine: Engine, plan: RequestPlan, message: Message, charged: Usage | None = None
) -> tuple[Usage, CacheResult, bool]:
    """Account for a request with the reply `message`, whole or partial. Return its usage, its cache result, and True if
    the usage is what the provider has `charged`; without a plausible report it is estimated by our count."""
    info = engine.model.info
    # A window from an overflow error may be wrong: a report beyond it is the correction.
    most = max(info.window, info.listed_window)
    # One that is possible but far off is still what the provider charges; the estimate decides on its effect.
    if charged and plan.counted.total * MIN_REPORT <= charged.input <= most:
        usage = reported = charged
    else:
        output = engine.context.measure(message, "") if message.content or message.tool_calls else 0
        usage, reported = with_cost(Usage(plan.tokens, output), info), Usage()
    engine.spending.add(usage, info.name)
    return usage, _track_cache_use(engine.context, plan, reported), usage is reported


def _track_cache_use(context: ContextManager, plan: RequestPlan, usage: Usage) -> CacheResult:
    """Keep the request, which reached the provider, for the comparison with later ones, and return its cache result by
    the reported `usage`, if any."""
    conversation, info, ahead = context.conversation, context.model.info, plan.outlook
    before = conversation.sent.last
    result = CacheResult(ahead.tokens, usage.cache_read, usage.cache_write)
    life, last = cache_life_of(info), conversation.cursor
    request = SentRequest(plan.epoch, conversation.tail, last, usage.input, life=life)
    now = conversation.sent.record(request, plan.counted.total, usage, ahead.at)
    if before is None or now is None:
        return result

    facts = now.compare(before, usage, shared=ahead.shared, age=ahead.age, proven=now.cached)
    verdict = facts.diagnose()
    if not verdict.missed:
        return replace(result, cost_usd=0.0)
    dollars = miss_cost(info, verdict.missed, usage)
    return replace(result, missed=verdict.missed, cost_usd=dollars, why=verdict.why, ours=verdict.ours)


def _report_cut(context: ContextManager, control: Control, step: int, plan: RequestPlan, reported: int) -> str:
    """Record a drop, tell the person and return the line for the model, once a run, if the server read far fewer tokens
    of the sent request than it has, as some do without an error; else return "". `reported` is the server's own
    count."""
    conversation = context.conversation
    # Images and the thinking of earlier turns are charged in other ways by each provider.
    unsure = sum(item.tokens for item in conversation.items if item.message.parts or item.message.opaque)
    if context.cut_run == conversation.run or not plan.is_cut_by(reported, unsure):
        return ""
    context.cut_run = conversation.run
    cut = plan.tokens - reported
    count = f"request {step}: the server counted {reported:,} of about {plan.tokens:,} tokens"
    span = min(plan.window.entries), max(plan.window.entries)
    drop = conversation.record_drop(f"part of {count}", cut, Cause.SERVER, entries=span)
    control.emit_drop(drop)
    info = context.model.info
    notice = f"{info.served_name} seems to have truncated {count}; usually the beginning is lost"
    how = f"Give the server a larger context window, or set its actual size: {window_command(info, reported)}"
    control.emit_notice(f"{notice}. {how}")
    return f"The server seems to have cut about {cut:,} tokens of the last request, usually its start: drop {drop.id}"


def _raise_unless_finished(reply: Reply) -> None:
    """Raise the `NexusError` of an unfinished reply, of kind `provider`, `refused` or `length`."""
    match reply.finish:
        case "empty":
            why = "the reply had neither text nor tool calls"
            raise NexusError("provider", "the model gave no answer", why, "Try again, or choose another model")
        case "none":
            raise NexusError(
                "provider", "the reply ended early", reply.problem, f"{PARTIAL_KEPT}; ask the model to continue"
            )
        case "refused":
            raise NexusError("refused", "the model refused", reply.problem, "Rephrase the request")
        case "length" if not reply.message.tool_calls:
            raise NexusError(
                "length",
                "the answer was cut off",
                "the output limit was reached",
                f"{PARTIAL_KEPT}; ask the model to continue",
            )


def _raise_if_call_is_text(reply: Reply, plan: RequestPlan) -> None:
    """Raise `NexusError` if the answer ends with the text of a call to a tool of the request: no tool has run."""
    call = WRITTEN_CALL.search(reply.message.content) if reply.finish == "stop" else None
    name = call["json"] or call["xml"] if call else ""
    if any(tool["function"]["name"] == name for tool in plan.epoch.tools):
        why = f"{name} was not called: this model, or its server as it was started, supports no tool calls"
        raise NexusError("provider", "the model wrote a tool call as text", why, NO_TOOLS_HINT)


def _keep_partial(
    engine: Engine, fold: ReplyFold, mark: str, why: str, paid: RequestPlan | None, before: str, main: bool
) -> None:
    """Record the text received (or `before` if there is none) without incomplete calls. `paid` is the request, None if
    the provider did not process it."""
    message = fold.partial()
    engine.partial_reply = message.content
    if paid:
        usage, _, _ = _spend(engine, paid, message)
    else:
        usage = with_cost(Usage(), engine.model.info)
        engine.spending.add(usage, engine.model.info.name)
    if before and not message.content:
        message = Message(Role.ASSISTANT, before)
        engine.partial_reply = before
    outcome = engine.step, usage, why, False, ""
    if message.content:
        message = _with_mark(message, mark)
        engine.conversation.append(Kind.ASSISTANT, message, "agent", outcome=outcome)
    else:
        engine.conversation.log.record_reply(None, *outcome)
    if main:
        _keep_thinking(engine.conversation, fold, message)
        engine.control.emit(event.StepEnd(engine.step, why, usage))


def _keep_cut(
    engine: Engine, fold: ReplyFold, finish: str, why: str, plan: RequestPlan, reported: Usage | None = None
) -> _ReplyCutError:
    """Record a request whose answer was cut, and its text as a memo outside the window; return the error to raise."""
    message, conversation = fold.partial(), engine.conversation
    engine.partial_reply = message.content
    usage, _, is_reported = _spend(engine, plan, message, reported)
    _keep_thinking(engine.conversation, fold, message)
    conversation.memo(CUT_ANSWER, {"text": message.content, "step": engine.step, "why": why})
    conversation.log.record_reply(None, engine.step, usage, finish, is_reported)
    engine.control.emit(event.StepEnd(engine.step, "cut", usage))
    return _ReplyCutError(why, message.content)


def _keep_thinking(conversation: Conversation, fold: ReplyFold, message: Message) -> None:
    """Record the thinking of the reply `message`, for a replay: the window has only what is sent back."""
    has_entry = any(item.message is message for item in conversation.tail[-1:])
    if note := fold.shown_thinking.note(message.opaque if has_entry else None):
        conversation.memo(THINKING, note if has_entry else {**note, "alone": True})


def _with_mark(message: Message, mark: str) -> Message:
    text = f"{message.content}\n\n{mark}" if message.content else mark
    return Message(Role.ASSISTANT, text)


def _letters(number: int) -> str:
    """Format 0 as `a`, 25 as `z`, 26 as `ba`: some providers require alphanumeric call ids."""
    text = chr(ord("a") + number % 26)
    return _letters(number // 26) + text if number >= 26 else text
