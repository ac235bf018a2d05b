"""Whether an awk script only computes and prints: read once, and asked about wherever versions of awk disagree.

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


def is_plain_script(script: str) -> bool:
    """Return True if `script` is sure to run nothing, to write no file and to read none but its operands."""
    if len(script) > LONGEST or _NEVER.search(script):
        return False
    place, last, prints = 0, "", False
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
        prints = text in ("print", "printf") or (prints and text not in (";", "{", "}"))
        if text == ">" and prints:
            return False
        last = "/x/" if is_expression else text
    return True
