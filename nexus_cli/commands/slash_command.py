"""Make the slash command of a noun: read its line, run the verb, show the report."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import cache
from inspect import Parameter
from typing import Any, get_args

from nexus_cli.commands.arguments import SessionSource, show_report, warn_if_stale
from nexus_cli.commands.command import YES_OR_NO, Choice, Command, CommandContext, usage_error
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import LISTS, TEXTS, VerbParameter
from nexus_cli.core.shared_types import T, TakeText
from nexus_cli.core.shielded_work import wait_uncancelled

_INTEGER = re.compile(r"[#-]?[0-9]{1,15}")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\[\s\S])*)\"""")
_WORD = re.compile(rf"(?:{_QUOTED.pattern})(?=\s|$)|(\S+)")


def make_slash_command(noun: Noun) -> Command:
    """Return the slash command of a noun."""
    verbs = noun.list_verbs("slash")

    async def run(context: CommandContext, arguments: str) -> None:
        verb, line = find_verb(noun, arguments)
        values = read_arguments(noun.name, verb, line)
        if verb.is_live:
            report = await verb.run(context, **values)
            if report is not None:
                show_report(context, report)
        else:
            report = await _run_in_thread(context, noun, verb, values)
        if report is not None and report.changed:
            context.note_act(f"/{noun.name} {arguments}".rstrip())

    run.__doc__ = _describe(noun, verbs)
    takes_text_alone = not verbs[-1].name and all(parameter.option.is_text for parameter in verbs[0].parameters)
    return Command(
        noun.name,
        noun.group,
        run,
        _usage(verbs),
        idle=noun.is_idle,
        at_once=lambda arguments: (
            _find_authority(noun, arguments) is Authority.READS or not find_verb(noun, arguments)[0].waits
        ),
        complete=None if takes_text_alone else lambda context: _complete(verbs, context),
        aliases=noun.aliases,
        is_first=noun.is_first,
        verbs=verbs,
        authority_of=lambda arguments: _find_authority(noun, arguments),
    )


class AskingSource(SessionSource):
    """The open session of a verb that runs in a thread, which may ask the person."""

    def __init__(self, context: CommandContext, subject: str) -> None:
        """`subject` names the command in an error."""
        super().__init__(context)
        self._subject, self._loop = subject, asyncio.get_running_loop()
        self._waits: set[asyncio.Future[Any]] = set()
        self._is_over = False
        self.confirm = self._confirm if context.can_choose else None

    def say(self, line: str) -> None:
        self._loop.call_soon_threadsafe(super().say, line)

    def show(self, report: Report[Any]) -> None:
        self._loop.call_soon_threadsafe(show_report, self._context, report)

    def _confirm(self, question: str) -> bool:
        statement, _, asks = question.rpartition(". ")
        if statement:
            self.say(f"{statement}.")
        chosen = self.wait(self._context.choose(asks, YES_OR_NO))
        if chosen is None:
            raise UsageError(self._subject, "cancelled", "Nothing was changed")
        return bool(chosen)

    def choose(self, title: str, rows: Sequence[tuple[str, str, str]]) -> str:
        return self.wait(self._context.choose(title, [Choice(*row) for row in rows])) or ""

    def ask_hidden(self, text: str, prompt: str) -> str:
        if text:
            self._loop.call_soon_threadsafe(self._context.say, text)
        return self.wait(self._context.ask_hidden(f"{prompt} (not shown, Esc cancels)")) or ""

    def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        return self.wait(self._context.save(name, default, pieces))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(self._follow(work), self._loop).result()

    async def _follow(self, work: Coroutine[Any, Any, T]) -> T:
        self._waits.add(task := asyncio.ensure_future(work))
        if self._is_over:
            task.cancel()
        return await task

    def run_in_background(self, work: Callable[[TakeText], Coroutine[Any, Any, None]]) -> None:
        self._loop.call_soon_threadsafe(lambda: self._context.run_in_background(work(self._context.say)))

    def end(self) -> None:
        """Withdraw a question that is open once the command is stopped, or is asked after it."""
        self._is_over = True
        for waiting in self._waits:
            waiting.cancel()


async def _run_in_thread(context: CommandContext, noun: Noun, verb: Verb, values: JsonObject) -> Report[Any]:
    """Run a verb in a thread, which may ask the person; show its report and return it."""
    if verb.of_session and verb.authority is Authority.READS:
        warn_if_stale(context)
    source = AskingSource(context, subject := f"/{noun.name} {verb.name}".rstrip())
    writes_more = verb.opens in ("write", "create") and verb.authority is not Authority.ACTS
    if writes_more and not (source.ledger.is_kept and source.ledger.writes):
        raise UsageError(subject, "changes to this session are not saved", f"Use `nexus {noun.name}` in a shell")
    reports = list[Report[Any]]()

    async def work() -> None:
        running = asyncio.to_thread(verb.run, source, **values)
        try:
            reports.append(await (wait_uncancelled(running) if verb.busy else running))
            show_report(context, reports[0])
        finally:
            source.end()

    await (context.busy(verb.busy, work()) if verb.busy else work())
    if verb.then:
        await verb.then(context)
    return reports[0]


def find_verb(noun: Noun, arguments: str) -> tuple[Verb, str]:
    """Return the verb that a line begins with, and the line behind it. Without one it is what the noun alone does, or
    words for its verb `show`."""
    verbs = noun.list_verbs("slash")
    word, _, line = arguments.partition(" ")
    for verb in reversed(verbs):
        words = line.strip() if verb.name else arguments
        if verb.name in ("", word.casefold()) and not (verb.is_alone and words):
            return verb, words
    if arguments and not word.startswith("--"):
        if default := _find_default(verbs):
            return default, arguments
        hint = f"In a shell: nexus {noun.name} {word}" if word.casefold() in noun.in_shell else ""
        raise usage_error(noun.name, arguments, f"must be one of {', '.join(verb.name for verb in verbs)}", hint)
    return verbs[0], arguments


def _find_default(verbs: Sequence[Verb]) -> Verb | None:
    """Return the verb that takes words without the name of one: what the noun alone does, or `show`."""
    takes_words = (verb for verb in verbs if verb.name == "show" or (not verb.name and verb.parameters))
    return min(takes_words, key=lambda verb: verb.name, default=None)


def _find_authority(noun: Noun, arguments: str) -> Authority:
    """Return the authority of a line; an invalid one reads nothing and is refused where it runs."""
    try:
        verb, line = find_verb(noun, arguments)
        if not verb.is_served:
            return Authority.PERMITS
        values = read_arguments(noun.name, verb, line)
        permits = any(parameter.option.permits and parameter.name in values for parameter in verb.parameters)
        return Authority.PERMITS if permits else verb.authority
    except NexusError:
        return Authority.READS


class _WrongWords(Exception):
    """Words that a verb does not take, the reason, and perhaps a hint."""


def read_arguments(name: str, verb: Verb, line: str) -> JsonObject:
    """Read the arguments and options of a verb of the noun `name`; raise `UsageError` for others."""
    try:
        return _read_line(verb, line)
    except _WrongWords as error:
        words, why, *hint = error.args
        usage = verb.usage and f"/{name} {verb.usage}"
        raise usage_error(name, f"{verb.name} {words}".strip(), why, *hint or [usage]) from None


def _read_line(verb: Verb, line: str) -> JsonObject:
    """Return the arguments and options in a line.

    Options may stand anywhere, except behind the beginning of a text; that may begin with what looks like an option
    where the verb has none. The last argument takes all words that are left, and a word that is the name of a flag
    without its dashes sets it.
    """
    options = {flag: parameter for parameter in verb.parameters for flag in parameter.flags}
    arguments = [parameter for parameter in verb.parameters if parameter.option.is_argument]
    before = len(arguments) - (not options)
    takes_text = bool(arguments) and arguments[-1].option.is_text
    values: dict[str, Any] = {}
    free_words: list[re.Match[str]] = []
    words = _WORD.finditer(_extract_text_option(verb, values, line))
    for word in words:
        flag, sign, value = _unquote(word).partition("=")
        is_option = word[3] and (flag in options or (flag.startswith("--") and word[3] != "--"))
        if not is_option or (takes_text and len(free_words) >= before):
            free_words.append(word)
            continue
        flag = flag if flag in options else flag.casefold()
        if flag not in options:
            raise _WrongWords(flag, "there is no such option", f"Options: {', '.join(options) or 'none'}")
        chosen = options[flag]
        if chosen.kind is not bool and not sign:
            following = next(words, None)
            if following is None:
                raise _WrongWords(flag, "the value is missing")
            value = _unquote(following)
        _assign_value(values, chosen, value)
    _assign_words(verb, values, arguments, free_words)
    missing = [
        argument for argument in arguments if argument.default is Parameter.empty and argument.name not in values
    ]
    if missing:
        help_text = missing[0].option.help.rstrip(".")
        about = f"{missing[0].flag}, {help_text[:1].lower()}{help_text[1:]}"
        raise _WrongWords(line, f"the argument is missing: {about}")
    return values


def _extract_text_option(verb: Verb, values: dict[str, Any], line: str) -> str:
    """Add the option whose value is a text to `values`; return the line without it."""
    chosen = next(
        (parameter for parameter in verb.parameters if parameter.option.is_text and not parameter.option.is_argument),
        None,
    )
    match = re.search(rf"(?:^|\s){chosen.flag}(?:=|\s|$)", line) if chosen else None
    if chosen is None or match is None:
        return line
    before, text = line[: match.start()].strip(), line[match.end() :].strip()
    quoted = _QUOTED.match(text)
    behind = text[quoted.end() :].strip() if quoted else ""
    if before and behind.startswith("-"):
        why = f"{behind.split()[0]} follows the quoted text"
        raise _WrongWords(line, why, f"If it belongs to the value of {chosen.flag}, quote the whole value")
    if quoted and not (before and behind):
        before = before or behind
        text = _unquote(quoted)
    elif quoted is None and text[:1] in ("'", '"'):
        raise _WrongWords(line, f"the quote {text[0]} is not closed")
    _assign_value(values, chosen, text.strip())
    return before


def _unquote(word: re.Match[str]) -> str:
    """Return a word without the quotes around it, read as a shell reads it."""
    return word[word.lastindex or 0] if word[2] is None else re.sub(r'\\(["\\$`])', r"\1", word[2])


def _read_rest(word: re.Match[str]) -> str:
    """Return the line from a word on."""
    return word.string[word.start() :]


def _assign_value(values: dict[str, Any], chosen: VerbParameter, text: str) -> None:
    """Read the value of a parameter, and add it to `values`."""
    if chosen.kind is bool:
        if text:
            raise _WrongWords(f"{chosen.flag}={text}", "takes no value", f"Use {chosen.flag}")
        values[chosen.name] = True
        return
    label, least = chosen.flag, chosen.option.least
    if not text.strip() and least:
        raise _WrongWords(label, "the value is missing")
    if chosen.option.is_argument and chosen.option.values:
        text = text.casefold()
        if text not in chosen.option.values:
            raise _WrongWords(text, f"must be one of {', '.join(chosen.option.values)}")
    if chosen.kind in TEXTS:
        values[chosen.name] = [*values.get(chosen.name, ()), text] if chosen.kind in LISTS else text
        return
    kind = next((argument for argument in get_args(chosen.kind) if argument is not type(None)), chosen.kind)
    text = text.removeprefix("#")
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not (least <= value <= chosen.option.most if kind is int else 0 < value < math.inf):
        bound = f" of at least {least}" if least >= 0 else ""
        expected = f"a whole number{bound}" if kind is int else "a number above 0"
        raise _WrongWords(text, f"{label} must be {expected}")
    values[chosen.name] = value


def _assign_words(
    verb: Verb, values: dict[str, Any], arguments: Sequence[VerbParameter], free_words: list[re.Match[str]]
) -> None:
    """Give the words that are no options to a positional number, the arguments, a positional text, then to flags."""
    positional = [parameter for parameter in verb.parameters if parameter.option.is_positional]
    last = [parameter for parameter in positional if not parameter.is_first]
    numbers = [parameter for parameter in positional if parameter.is_first and parameter.name not in values]
    if numbers and free_words and _INTEGER.fullmatch(_unquote(free_words[0])):
        _assign_value(values, numbers[0], _unquote(free_words.pop(0)))
    for argument in arguments[: len(free_words)]:
        if argument is arguments[-1] and argument.kind in TEXTS and not last:
            if argument.kind in LISTS and not argument.option.is_text:
                for word in free_words:
                    _assign_value(values, argument, _unquote(word))
                return
            is_text = argument.option.is_text and len(free_words) > 1
            _assign_value(
                values, argument, _read_rest(free_words[0]) if is_text else " ".join(map(_unquote, free_words))
            )
            return
        _assign_value(values, argument, _unquote(free_words.pop(0)))
    for word in free_words:
        text = _unquote(word)
        flag = f"--{text.casefold()}"
        flags = [parameter for parameter in verb.parameters if parameter.kind is bool and parameter.flag == flag]
        chosen = next((parameter for parameter in (*flags, *last) if parameter.name not in values), None)
        if chosen is None:
            raise _WrongWords(_read_rest(word), "unexpected argument")
        _assign_value(values, chosen, "" if chosen in flags else text)


def _usage(verbs: Sequence[Verb]) -> str:
    """Return the arguments of a command in the form of `/help`."""
    named_verbs = [verb for verb in verbs if verb.name]
    if not named_verbs:
        return verbs[0].usage
    default = _find_default(verbs)
    first = default.parameters if default else ()
    alone = [
        parameter.label.strip("[]") for parameter in first if parameter.option.is_argument or parameter.option.is_text
    ]
    words = "|".join(verb.name for verb in named_verbs)
    forms = [" ".join(alone)] if alone else []
    return f"[{' | '.join([*forms, words if len(named_verbs) > 1 else named_verbs[0].usage])}]"


def _describe(noun: Noun, verbs: Sequence[Verb]) -> str:
    """Return the help of a command: its summary, what it does alone, the first paragraph of each verb, further ones."""
    is_told = not verbs[0].name and verbs[0].help.startswith(noun.summary)
    parts, is_one = [] if is_told else [noun.summary], len(verbs) == 1
    for verb in verbs:
        text = verb.help if is_one or not verb.name else verb.help.partition("\n\n")[0]
        parts.append(f"{verb.name}: {text}" if verb.name else text)
    more = (
        f"/help {noun.name} SUBCOMMAND explains a subcommand and its options." if verbs[-1].name and not is_one else ""
    )
    return "\n\n".join(filter(None, (*parts, noun.details, more)))


def _complete(verbs: Sequence[Verb], context: CommandContext) -> Sequence[str]:
    """Return the verbs, their flags, and possible values of their arguments."""
    words: list[str] = []
    flags: list[str] = []
    source: Source | CommandContext | None = None
    with suppress(NexusError):
        source = context if verbs[0].at_terminal else SessionSource(context)

    @cache  # several verbs offer the same
    def list_values(complete: Callable[[Any], Sequence[str]]) -> Sequence[str]:
        return () if source is None else complete(source)

    default = _find_default(verbs)
    for verb in verbs:
        arguments = (parameter.option for parameter in verb.parameters if parameter.option.is_argument)
        values = [word for option in arguments for word in option.values]
        values += list_values(verb.complete) if callable(verb.complete) else verb.complete
        words += values if verb is default and verb.name else ()
        words += filter(None, (verb.name, *(f"{verb.name} {value}".strip() for value in values)))
        flags += [
            f"{verb.name} {parameter.flag}".strip() for parameter in verb.parameters if not parameter.option.is_argument
        ]
    return [*words, *flags]
