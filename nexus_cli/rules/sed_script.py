"""Check that a sed script only prints, deletes and substitutes: a small grammar, read once from left to right.

What lies between two delimiters is harmless whatever it says. All that matters is where it ends, and there versions of
sed disagree about brackets: those with a delimiter, a backslash or another bracket in them are not in the grammar.
"""

from __future__ import annotations

LONGEST = 2000
_COMMANDS = frozenset("pdqQ=nNDPgGhHxl")
_DELIMITERS = frozenset("/|#,:@~%!_+")
_FLAGS = frozenset("gpiI0123456789")
_CLASSES = tuple(
    f"[:{name}:]" for name in ("space", "blank", "alpha", "digit", "alnum", "upper", "lower", "punct", "xdigit")
)


def is_plain_script(script: str) -> bool:
    """Return True if `script` is sure to write no file and to run nothing."""
    if len(script) > LONGEST or not script.isascii():
        return False
    try:
        return _Reader(script).read()
    except IndexError:  # it ends too early
        return False


class _Reader:
    """One pass over one script."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.place = 0

    def read(self) -> bool:
        while True:
            self._skip(" \t\n;")
            if self.place == len(self.script):
                return True
            if not self._read_command():
                return False
            self._skip(" \t")
            if self.place < len(self.script) and self.script[self.place] not in ";\n":
                return False

    def _skip(self, signs: str) -> str:
        start = self.place
        while self.place < len(self.script) and self.script[self.place] in signs:
            self.place += 1
        return self.script[start : self.place]

    def _take(self) -> str:
        self.place += 1
        return self.script[self.place - 1]

    def _read_command(self) -> bool:
        if self._read_address():
            self._skip(" \t")
            if self.script[self.place] == ",":
                self.place += 1
                self._skip(" \t")
                self._skip("+~")
                if not self._read_address():
                    return False
                self._skip(" \t")
        if self._skip("!"):
            self._skip(" \t")
        command = self._take()
        if command in "qQ":
            self._skip(" \t")
            self._skip("0123456789")
        elif command == "s":
            return self._read_substitution()
        return command in _COMMANDS

    def _read_address(self) -> bool:
        """Read an address, if there is one; False also for one that is not in the grammar."""
        sign = self.script[self.place]
        if sign == "/":
            self.place += 1
            if not self._read_until("/", is_expression=True):
                return False
            self._skip("I")
            return True
        if sign == "$":
            self.place += 1
            return True
        digits = self._skip("0123456789")
        if digits and self.script[self.place] == "~":
            self.place += 1
            return bool(self._skip("0123456789"))
        return bool(digits)

    def _read_substitution(self) -> bool:
        delimiter = self._take()
        if delimiter not in _DELIMITERS or not self._read_until(delimiter, is_expression=True):
            return False
        if not self._read_until(delimiter, is_expression=False):
            return False
        while self.place < len(self.script) and self.script[self.place] in _FLAGS:
            self.place += 1
        return True

    def _read_until(self, delimiter: str, *, is_expression: bool) -> bool:
        """Read to behind the next `delimiter`."""
        while (sign := self._take()) != delimiter:
            if sign == "\n" or (sign == "\\" and self._take() == "\n"):
                return False
            if sign == "[" and is_expression and not self._read_brackets(delimiter):
                return False
        return True

    def _read_brackets(self, delimiter: str) -> bool:
        self._skip("^")
        start = self.place
        while self.script[self.place] != "]":
            known = next((one for one in _CLASSES if self.script.startswith(one, self.place)), "")
            if not known and self.script[self.place] in ("[", "\\", "\n", delimiter):
                return False
            if delimiter in known:
                return False
            self.place += len(known) or 1
        self.place += 1
        return self.place > start + 1
