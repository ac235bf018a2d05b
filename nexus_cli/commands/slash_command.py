"""Make the slash command of a noun: read its line, run the verb, show the report."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any, get_args

from nexus_cli.commands.arguments import read_source, show_report, wait_settled, warn_if_stale
from nexus_cli.commands.command import Choice, Command, CommandContext, usage_error
from nexus_cli.commands.verb import LISTS, TEXTS, Authority, Noun, Report, Source, Verb, VerbParameter
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import MAX_INT

_WORD = re.compile(r"""\s*("[^"]*"(?=\s|$)|'[^']*'(?=\s|$)|\S+)""")
_INTEGER = re.compile(r"[#-]?[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    """Without the quotes around it."""
    line: str
    start: int
    """Its place in the line."""
    is_quoted: bool

    @property
    def rest(self) -> str:
        """The line from this word on."""
        return self.line[self.start :]

    @property
    def is_option(self) -> bool:
        return self.text.startswith("--") and len(self.text) > 2 and not self.is_quoted


def make_slash_command(noun: Noun) -> Command:
    """Return the slash command of a noun."""
    verbs = noun.list_verbs("slash")

    async def run(context: CommandContext, rest: str) -> None:
        verb, line = find_verb(noun, rest)
        given = read_arguments(noun.name, verb, line)
        if verb.is_live:
            await verb.run(context, **given)
            return
        if verb.of_session:
            warn_if_stale(context)
        source, what = read_source(context), f"/{noun.name} {verb.name}".rstrip()
        writes_more = verb.opens in ("write", "create") and not verb.of_session
        if writes_more and not (source.ledger.is_kept and source.ledger.writes):
            raise NexusError("usage", what, "this session is not saved", f"Use nexus {noun.name} in a shell")
        await _run_verb(context, source, what, verb, given)

    run.__doc__ = _describe(noun, verbs)
    only_permits = {verb.authority for verb in verbs} == {Authority.PERMITS}
    takes_words = len(verbs) > 1 or bool(verbs[0].parameters)
    return Command(
        noun.name,
        noun.group,
        run,
        _usage(verbs),
        idle=noun.is_idle,
        at_once=lambda rest: _reads(noun, rest),
        complete=(lambda context: _complete(noun, context)) if takes_words else None,
        aliases=noun.aliases,
        is_first=noun.is_first,
        is_local=all(verb.is_local or verb.authority is Authority.PERMITS for verb in verbs),
        verbs=verbs,
        authority=Authority.PERMITS if only_permits else lambda context, rest: _authority(noun, rest),
    )


async def _run_verb(context: CommandContext, source: Source, what: str, verb: Verb, given: dict[str, Any]) -> None:
    """Run a verb in a thread, which may ask the person, and show its report."""
    loop = asyncio.get_running_loop()

    async def choose(question: str) -> bool:
        about, _, asks = question.rpartition(". ")
        if about:
            context.say(f"{about}.")
        chosen = await context.choose(asks, [Choice("", "no"), Choice("yes", "yes")])
        if chosen is None:
            raise NexusError("usage", what, "cancelled", "Nothing was changed")
        return bool(chosen)

    def confirm(question: str) -> bool:
        return asyncio.run_coroutine_threadsafe(choose(question), loop).result()

    def say(line: str) -> None:
        loop.call_soon_threadsafe(source.say, line)

    def run() -> Report[Any] | str:
        result = verb.run(replace(source, confirm=confirm if context.can_choose else None, say=say), **given)
        return result if isinstance(result, Report) else "".join(result or ())

    async def work() -> None:
        running = asyncio.to_thread(run)
        result = await (wait_settled(running) if verb.busy else running)
        if isinstance(result, Report):
            show_report(context, result)
        elif result:
            context.show("text", {"text": result})

    await (context.busy(verb.busy, work()) if verb.busy else work())
    if verb.then:
        await verb.then(context)


def find_verb(noun: Noun, rest: str) -> tuple[Verb, str]:
    """Return the verb that a line begins with, and the line behind it: without one, what the noun alone does."""
    verbs = noun.list_verbs("slash")
    word, _, line = rest.partition(" ")
    named = next((verb for verb in verbs if verb.name and verb.name == word.casefold()), None)
    if named is not None:
        return named, line.strip()
    first = verbs[0]
    if rest and first.name and not word.startswith("--"):
        hint = f"In a shell: nexus {noun.name} {word}" if word.casefold() in noun.in_shell else ""
        raise usage_error(noun.name, rest, f"expected one of {', '.join(verb.name for verb in verbs)}", hint)
    return first, rest


def _reads(noun: Noun, rest: str) -> bool:
    """True if a line reads, and so need not wait for a turn."""
    return _authority(noun, rest) is Authority.READS and not find_verb(noun, rest)[0].is_live


def _authority(noun: Noun, rest: str) -> Authority:
    """Return the authority of a line; an invalid one reads nothing and is refused where it runs."""
    try:
        verb, line = find_verb(noun, rest)
        if verb.is_local or verb.authority is Authority.PERMITS:
            return Authority.PERMITS
        given = read_arguments(noun.name, verb, line)
        return next(
            (Authority.PERMITS for one in verb.parameters if one.option.permits and one.name in given), verb.authority
        )
    except NexusError:
        return Authority.READS


def read_arguments(name: str, verb: Verb, line: str) -> dict[str, Any]:
    """Read the arguments and options of a verb; raise `NexusError("usage", ...)` for others.

    Options may stand anywhere, except behind the beginning of a text. The last argument takes all words that are left,
    and a word that is the name of a flag without its dashes sets it.
    """
    options = {flag: one for one in verb.parameters for flag in one.flags}
    arguments = [one for one in verb.parameters if one.option.is_argument]
    given: dict[str, Any] = {}
    left: list[_Word] = []
    words = _split(line)
    for word in words:
        is_text = bool(arguments) and arguments[-1].option.is_text and len(left) >= len(arguments) - 1
        flag, sign, value = word.text.partition("=")
        if not word.is_option or (is_text and len(left) >= len(arguments)):
            left.append(word)
            continue
        if flag not in options:
            known = ", ".join(options) or "none"
            raise usage_error(name, f"{verb.name} {flag}".strip(), f"there is no option {flag}", f"Options: {known}")
        chosen = options[flag]
        if chosen.kind is not bool and not sign:
            value = next((one.text for one in words), "")
        _take(name, verb, given, chosen, value)
    _take_words(name, verb, given, arguments, left)
    missing = [one for one in arguments if one.default is Parameter.empty and one.name not in given]
    if missing:
        about = missing[0].option.help.rstrip(".")
        why = f"the argument is missing: {missing[0].flag}, {about[:1].lower()}{about[1:]}"
        raise usage_error(name, f"{verb.name} {line}".strip(), why, f"/{name} {verb.usage}")
    return given


def _split(line: str) -> Iterator[_Word]:
    for found in _WORD.finditer(line):
        text = found[1]
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
        yield _Word(text[1:-1] if quoted else text, line, found.start(1), quoted)


def _take(name: str, verb: Verb, given: dict[str, Any], chosen: VerbParameter, text: str) -> None:
    """Read the value of a parameter, and add it to `given`."""
    if chosen.kind is bool:
        if text:
            raise usage_error(name, f"{verb.name} {chosen.flag}={text}".strip(), "it takes no value", chosen.flag)
        given[chosen.name] = True
        return
    label = chosen.flag
    if not text.strip() and chosen.option.least:
        raise usage_error(name, f"{verb.name} {label}".strip(), "its value is missing", f"/{name} {verb.usage}")
    if chosen.kind in TEXTS:
        given[chosen.name] = [*given.get(chosen.name, ()), text] if chosen.kind in LISTS else text
        return
    kind = next((one for one in get_args(chosen.kind) if one is not type(None)), chosen.kind)
    is_number, text = _INTEGER.fullmatch(text), text.removeprefix("#")
    least = chosen.option.least
    is_whole = kind is int and is_number and least <= int(text) <= MAX_INT
    if not (is_whole or (kind is float and _is_amount(text))):
        bound = f" from {least} on" if least >= 0 else ""
        what = f"a whole number{bound}" if kind is int else "a number above 0"
        raise usage_error(name, f"{verb.name} {text}".strip(), f"{label} has to be {what}", f"/{name} {verb.usage}")
    given[chosen.name] = kind(text)


def _is_amount(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _take_words(
    name: str, verb: Verb, given: dict[str, Any], arguments: Sequence[VerbParameter], left: list[_Word]
) -> None:
    """Give the words that are no options to a positional number, the arguments, a positional text, then to flags."""
    positional = [one for one in verb.parameters if one.option.is_positional]
    number = next((one for one in positional if one.kind is not str and one.name not in given), None)
    text = next((one for one in positional if one.kind is str), None)
    if number and left and _INTEGER.fullmatch(left[0].text):
        _take(name, verb, given, number, left.pop(0).text)
    for place, one in enumerate(arguments, 1):
        if not left:
            break
        if place == len(arguments) and one.kind in TEXTS and text is None:
            if one.kind in LISTS and not one.option.is_text:
                given[one.name] = [word.text for word in left]
                return
            every = left[0].rest if one.option.is_text else " ".join(word.text for word in left)
            _take(name, verb, given, one, left[0].text if len(left) == 1 else every)
            return
        _take(name, verb, given, one, left.pop(0).text)
    for word in left:
        flags = [one for one in verb.parameters if one.kind is bool and one.name not in given]
        flag = next((one for one in flags if one.flag == f"--{word.text.casefold()}"), None)
        chosen = flag or (text if text and text.name not in given else None)
        if chosen is None:
            hint = f"/{name} {verb.usage}" if verb.usage else ""
            raise usage_error(name, word.rest, "unexpected argument", hint)
        _take(name, verb, given, chosen, "" if flag else word.text)


def _usage(verbs: Sequence[Verb]) -> str:
    """Return the arguments of a command in the form of `/help`."""
    named = [verb for verb in verbs if verb.name]
    if not named:
        return verbs[0].usage
    alone = [one.shown.strip("[]") for one in verbs[0].parameters if one.option.is_argument and not verbs[0].name]
    words = "|".join(verb.name for verb in named)
    forms = [" ".join(alone)] if alone else []
    return f"[{' | '.join([*forms, words if len(named) > 1 or forms else named[0].usage])}]"


def _describe(noun: Noun, verbs: Sequence[Verb]) -> str:
    """Return the help of a command: its summary, each verb with the first paragraph of its help, further paragraphs."""
    parts = [noun.summary]
    for verb in verbs:
        text = verb.help if len(verbs) == 1 else verb.help.partition("\n\n")[0]
        parts.append(f"{verb.name}: {text}" if verb.name else text)
    more = f"/help {noun.name} VERB explains a verb with its options." if len(verbs) > 1 else ""
    return "\n\n".join(filter(None, (*parts, noun.details, more)))


def _complete(noun: Noun, context: CommandContext) -> Sequence[str]:
    """Return the verbs, their flags, and possible values of their first arguments."""
    found: list[str] = []
    flags: list[str] = []
    try:
        source = read_source(context)
    except NexusError:
        source = None
    for verb in noun.list_verbs("slash"):
        values = verb.complete(source) if verb.complete and source is not None else ()
        found += filter(None, (verb.name, *(f"{verb.name} {value}".strip() for value in values)))
        flags += [f"{verb.name} {one.flag}".strip() for one in verb.parameters if not one.option.is_argument]
    return [*found, *flags]
