"""Check that an awk script only computes and prints. Reads it once; asks wherever versions of awk disagree.

Words by which awk runs, reads or writes something are refused wherever they stand. `|` and `>` have harmless meanings:
for them strings and expressions are told from code.
"""

from __future__ import annotations

import re

LONGEST = 2000
_NEVER = re.compile(r"system|getline|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARG[VC]|@|[^\x20-\x7e\n\t]")
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<word>\$?\w+)|(?P<comment>#[^\n]*)|(?P<blank>[ \t]+)'
    r"|(?P<sign>\|\||&&|>=|<=|==|!=|!~|[-+*%^]=|\+\+|--|[-+*%^?:,;(){}\[\]!~<>=$\n.])"
)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]|\\[^\n]|\[\^?[^\]\[/\\\n]+\])*/")
_BEFORE_EXPRESSION = frozenset({"", "(", ",", "!", "~", "!~", "{", "}", ";", "\n", "&&", "||"})
"""Behind these no value stands that could be divided."""
_DIVIDED = re.compile(r"\]|\$?\w+")
_NEVER_DIVIDED = frozenset(
    """
    print printf return in else do delete exit case if while for function func switch length next nextfile break
    continue BEGIN END BEGINFILE ENDFILE default
    """.split()
)
"""Behind these some awk sees a pattern where another one sees a division."""


class _LoopHeader:
    """The parentheses behind `for`, read token by token."""

    def __init__(self) -> None:
        self._depth, self._parts = 0, [""]

    def is_bounded(self, text: str, last: str) -> bool:
        """Take the next token; return False at a `for` without parenthesis, or without condition or update."""
        if self._depth == 0:
            self._depth, self._parts = int(last == "for"), [""]
            return last != "for" or text == "("
        self._depth += (text == "(") - (text == ")")
        if text == ";":
            self._parts.append("")
        else:
            self._parts[-1] += text.strip()
        has_step = self._parts[-1] not in ("", ")")
        return self._depth > 0 or len(self._parts) == 1 or (all(self._parts) and has_step)


def is_plain_script(script: str) -> bool:
    """Return True if `script` is sure to run nothing, to write no file and to read none but its operands.

    A loop needs a bound: a variable that doubles takes all memory within the time limit of a command.
    """
    if len(script) > LONGEST or _NEVER.search(script):
        return False
    place, last, prints, loop = 0, "", False, _LoopHeader()
    while place < len(script):
        is_expression = script[place] == "/" and last in _BEFORE_EXPRESSION
        found = _EXPRESSION.match(script, place) if is_expression else _TOKEN.match(script, place)
        if found is None and script[place] == "/" and last not in _NEVER_DIVIDED and _DIVIDED.fullmatch(last):
            place, last = place + 1, "/"  # a division
            continue
        if found is None:
            return False
        place, text = found.end(), found[0]
        if found.lastgroup in ("blank", "comment"):
            continue
        if text in ("while", "do") or not loop.is_bounded(text, last):
            return False
        prints = text in ("print", "printf") or (prints and text not in (";", "{", "}"))
        if text == ">" and prints:
            return False
        last = "/x/" if is_expression else text
    return True
