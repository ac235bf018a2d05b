"""Find the commands inside a command: those that `sudo`, `env`, `xargs`, `find -exec` and shells run.

Each wrapper has a table of its own options, because the first word that is not an option is the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nexus_cli.rules.command_line import Word, Words
from nexus_cli.rules.foreign_code import find_code


class Wrapper(NamedTuple):
    """The options of a program that runs its arguments."""

    valued: str = ""
    """Letters of short options that take a value."""
    long_valued: str = ""
    """Long options that take a value as the next word."""
    operands: int = 0
    """Words before the program."""
    takes_variables: bool = False
    """`A=b` before the program sets a variable."""
    is_transparent: bool = False
    """It changes nothing but time, priority or buffering: rules and the read-only list look through it."""


WRAPPERS: Mapping[str, Wrapper] = {
    "command": Wrapper(is_transparent=True),
    "nice": Wrapper("n", "adjustment", is_transparent=True),
    "stdbuf": Wrapper("ioe", "input output error", is_transparent=True),
    "time": Wrapper("of", "output format", is_transparent=True),
    "timeout": Wrapper("ks", "kill-after signal", operands=1, is_transparent=True),
    "builtin": Wrapper(),
    "busybox": Wrapper(),
    "caffeinate": Wrapper("tw"),
    "chroot": Wrapper("", "userspec groups", operands=1),
    "chrt": Wrapper("TPD", "", operands=1),
    "coproc": Wrapper(),
    "doas": Wrapper("uC"),
    "docker compose exec": Wrapper("euw", "env user workdir index", operands=1),
    "docker compose run": Wrapper("euvwp", "env user volume workdir name entrypoint", operands=1),
    "docker exec": Wrapper("euw", "env user workdir env-file detach-keys", operands=1),
    "docker run": Wrapper("euvwpl", "env user volume workdir name network mount entrypoint", operands=1),
    "direnv exec": Wrapper(operands=1),
    "bundle exec": Wrapper(),
    "env": Wrapper("uCS", "unset chdir split-string", takes_variables=True),
    "exec": Wrapper("a"),
    "git bisect run": Wrapper(),
    "git submodule foreach": Wrapper(),
    "flock": Wrapper("wEc", "timeout conflict-exit-code command", operands=1),
    "ionice": Wrapper("cnpPu", "class classdata"),
    "nocorrect": Wrapper(),
    "noglob": Wrapper(),
    "nohup": Wrapper(),
    "nsenter": Wrapper("tSG", "target setuid setgid"),
    "parallel": Wrapper("jIan", "jobs max-args colsep arg-file"),
    "pipenv run": Wrapper(),
    "poetry run": Wrapper(),
    "prlimit": Wrapper("p", "pid"),
    "rlwrap": Wrapper(),
    "setarch": Wrapper(operands=1),
    "setpriv": Wrapper("", "reuid regid groups"),
    "setsid": Wrapper(),
    "strace": Wrapper("eopsuEPISXabO", "trace output"),
    "sudo": Wrapper("ugpCcDhRTrtU", "user group prompt close-from chdir host role type other-user", 0, True),
    "systemd-run": Wrapper("pEtuH", "property setenv unit slice uid gid"),
    "taskset": Wrapper("", "", operands=1),
    "toybox": Wrapper(),
    "unbuffer": Wrapper(),
    "unshare": Wrapper("SG", "setuid setgid root wd"),
    "uv run": Wrapper("p", "python with project directory extra group env-file with-requirements"),
    "xargs": Wrapper("IinLlPsdEa", "max-args max-procs max-lines max-chars delimiter arg-file replace eof"),
}
GIT_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
"""Options of git before a subcommand that change nothing."""
GIT_VALUED = frozenset(
    {
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--super-prefix",
        "--config-env",
        "--attr-source",
    }
)
"""Options of git before a subcommand that take a value as the next word."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "pwsh"})
SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/opt/homebrew/bin/")
_TEXT_AFTER_C = frozenset({"su", "runuser", "script", "flock", "sg"})
"""They run the text behind `-c` in a shell."""
ARGUMENT_READERS = frozenset({"eval", "ssh", "watch", "find", "fd", "fdfind"})
"""Programs whose arguments are read here, each in its own way."""
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_KEYWORDS = frozenset({"!", "{", "(", "function", "if", "then", "else", "elif", "while", "until", "do"})
_RUNS_LATER: Mapping[str, str] = {
    "alias": "",
    "trap": "",
    "bind": "",
    "compgen": "",
    "complete": "",
    "enable": "-f",
    "hash": "-p",
    "mapfile": "-C",
    "readarray": "-C",
}
"""Builtins that store or call code, with the option that makes them ("": any argument)."""
_EVALUATES = frozenset(
    """
    let declare typeset local export readonly read printf test [ [[ unset wait getopts mapfile readarray
    """.split()
)
"""Builtins that evaluate the subscript of a variable's name, also a quoted one."""
_SUBSCRIPT = re.compile(r"\[[^\[\]]*?(?:\$\(|`|\$\{)")
_SPLIT = re.compile(r"-[^-uCS]*S|--split-string=?|--split-s\w*=?")
_REPLACED = re.compile(r"\0(?:-\w*I\0?|--replace=)([^\0]+)")
"""The sign that lines replace in the words of xargs, which NUL joins."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


@dataclass(slots=True)
class InnerCommands:
    """Commands that one command runs besides itself."""

    commands: list[Words] = field(default_factory=list)
    guesses: list[Words] = field(default_factory=list)
    """Words that may be a command: an option of the wrapper is not known."""
    texts: list[str] = field(default_factory=list)
    """Shell code."""
    codes: list[str] = field(default_factory=list)
    """Text that another program runs: it is searched for the words of a rule, not read."""
    reads_code: bool = False
    """It runs its input, in another language."""
    is_hidden: bool = False
    """It runs code that does not stand in the line."""


def program_name(word: Word) -> str:
    """Return the name of the program as deny rules compare it: without its folder."""
    return word.text.rpartition("/")[2] if "/" in word.text else word.text


def system_name(word: Word) -> str:
    """Return the name of a program found by PATH or in a system folder; "" for one of any other folder."""
    if not word.is_plain:
        return ""
    folder, slash, name = word.text.rpartition("/")
    return name if not slash or f"{folder}/" in SYSTEM_FOLDERS else ""


def find_inner(words: Words, reads_pipe: bool = False) -> InnerCommands:
    """Return the commands that `words` runs; one level, the caller goes on."""
    inner = InnerCommands()
    if not words or not words[0].is_known:
        return inner
    name = program_name(words[0])
    inner.is_hidden = _hides_code(name, words)
    inner.codes, inner.reads_code = find_code(name, [word.text for word in words[1:]])
    if name in _KEYWORDS or _VARIABLE.match(words[0].text):  # the parser took it for a word
        inner.commands.append(words[1:])
        inner.commands += [words[place + 1 :] for place, word in enumerate(words) if word.text == "{"][:1]
    elif name in SHELLS:
        _read_shell(words, reads_pipe, inner)
    elif name == "eval":
        _add_text(words[1:], inner)
    elif name == "ssh":
        _read_ssh(words, inner)
    elif name == "watch":
        operands = skip_options(words, Wrapper("nd", "interval"))[0]
        _add_text(operands, inner)
    elif name in ("find", "fd", "fdfind"):
        _read_find(words, inner)
    if name in _TEXT_AFTER_C:
        for place, word in enumerate(words[:-1]):
            if word.text in ("-c", "--command"):
                _add_text(words[place + 1 : place + 2], inner)
    wrapper, head = find_wrapper(words)
    if wrapper is not None:
        _unwrap(words, wrapper, head, inner)
    return inner


def _hides_code(name: str, words: Words) -> bool:
    """Return True if a builtin runs what is stored elsewhere, or text that looks like data."""
    texts = [word.text for word in words[1:]]
    if _VARIABLE.match(words[0].text):
        return True
    if name in _RUNS_LATER:
        prefix = _RUNS_LATER[name]
        return any(text.startswith(prefix) for text in texts) if prefix else bool(texts)
    if name in ("source", "."):
        return not words[1:2] or not words[1].is_known or texts[0].startswith("/dev/")
    return name in _EVALUATES and any(_SUBSCRIPT.search(text.removeprefix("[")) for text in texts)


def find_wrapper(words: Words) -> tuple[Wrapper | None, int]:
    """Return the table of the wrapper that `words` begins with, and the number of words of its name."""
    name = program_name(words[0])
    for count in (3, 2, 1):
        if len(words) >= count and (wrapper := WRAPPERS.get(" ".join([name, *(w.text for w in words[1:count])]))):
            return wrapper, count
    return None, 0


def skip_options(words: Words, wrapper: Wrapper, head: int = 1) -> tuple[Words, bool]:
    """Return the words behind the options and operands of a wrapper, and False if one of them is not known."""
    place, sure = head, True
    long_valued = {f"--{name}" for name in wrapper.long_valued.split()}
    while place < len(words):
        text = words[place].text
        if text == "--":
            place += 1
            break
        if not words[place].is_known:
            name, sign, value = text.partition("=")
            if wrapper.takes_variables and sign and name.isidentifier() and Word(value, False).is_single:
                place += 1
                continue
            sure = False
            break
        if text.startswith("--"):
            place += 1 + (text in long_valued)
            sure = sure and ("=" in text or text in long_valued or not wrapper.long_valued)
        elif text.startswith("-") and len(text) > 1:
            valued = next((index for index, letter in enumerate(text[1:], 1) if letter in wrapper.valued), 0)
            place += 1 + (valued == len(text) - 1 and valued > 0)
        elif wrapper.takes_variables and (_VARIABLE.match(text) or text == "-"):
            place += 1
        else:
            break
    return words[place + wrapper.operands :], sure


def _unwrap(words: Words, wrapper: Wrapper, head: int, inner: InnerCommands) -> None:
    if words[0].text == "command" and words[1:2] and re.fullmatch(r"-p?[vV]", words[1].text):
        return
    if program_name(words[0]) == "env":
        for place, word in enumerate(words[1:], 1):
            split = _SPLIT.match(word.text)
            if split is not None:
                _add_text((Word(word.text[split.end() :], word.is_known), *words[place + 1 :]), inner)
    inner_words, sure = skip_options(words, wrapper, head)
    feeds = program_name(words[0]) in ("xargs", "parallel")
    if inner_words:
        before = "\0".join(word.text for word in words[: len(words) - len(inner_words)])
        sign = match[1] if feeds and (match := _REPLACED.search(before)) else "{}"
        inner.commands.append((*_with_unknown(inner_words, sign), Word("$@", False)) if feeds else inner_words)
        inner.is_hidden = inner.is_hidden or (
            feeds and program_name(inner_words[0]) in SHELLS and len(inner_words) == 1
        )
    if words[0].text == "coproc" and any("{" in word.text for word in words):  # the parser knows no such group
        inner.is_hidden = True
    if not sure:
        inner.guesses += [words[place:] for place in range(head, min(len(words), 40))]


def _read_shell(words: Words, reads_pipe: bool, inner: InnerCommands) -> None:
    place = 1
    has_text = False
    while place < len(words):
        text = words[place].text
        if not words[place].is_known:
            inner.is_hidden = True
            if has_text:
                _add_text(words[place : place + 1], inner)
            return
        if text in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            place += 2
        elif text.startswith(("-", "+")) and text not in ("-", "--"):
            has_text = has_text or (not text.startswith("--") and "c" in text) or text == "--command"
            place += 1
        else:
            place += text in ("-", "--")
            break
    if has_text:
        _add_text(words[place : place + 1], inner)
        inner.is_hidden = inner.is_hidden or place >= len(words)
    elif (place >= len(words) and reads_pipe) or (place < len(words) and words[place].text in ("-", "/dev/stdin")):
        inner.is_hidden = True


def _read_ssh(words: Words, inner: InnerCommands) -> None:
    operands, _ = skip_options(words, Wrapper("BbcDEeFIiJLlmOopQRSWw", "", operands=1))
    if operands:
        _add_text(operands, inner)


def _read_find(words: Words, inner: InnerCommands) -> None:
    runs = _FIND_RUNS if program_name(words[0]) == "find" else {"-x", "-X", "--exec", "--exec-batch"}
    for place, word in enumerate(words):
        if word.text in runs:
            arguments = words[place + 1 :]
            end = next((index for index, token in enumerate(arguments) if token.text in (";", "+")), len(arguments))
            if arguments[:end]:
                inner.commands.append(_with_unknown(arguments[:end]))


def _with_unknown(words: Words, sign: str = "{}") -> Words:
    """Return the words of a command, those in which file names or lines replace `sign` as not known."""
    return tuple(Word(word.text.replace(sign, "{}"), False) if sign in word.text else word for word in words)


def _add_text(words: Words, inner: InnerCommands) -> None:
    if all(word.is_known for word in words):
        inner.texts.append(" ".join(word.text for word in words))
    else:
        inner.is_hidden = True
        inner.texts.append(" ".join(word.text if word.is_known else word.text.strip('"') for word in words))
