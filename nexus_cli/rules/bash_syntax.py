"""Read a bash command line into simple commands, with everything in it that is more than plain words.

tree-sitter parses; what this file trusts is an allow-list of node kinds and operators. Everything else is a doubt, and
so is a place where the tree and the text disagree. Nothing is expanded and nothing is run.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING

from nexus_cli.rules.command_line import Binding, CommandLine, Redirect, SimpleCommand, Word, WordPiece

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

LONGEST = 10_000
"""Characters of a line that may run unasked."""
MAX_READ = 64_000
"""Characters that are parsed at all; a longer line is unclear."""
MAX_NODES = 150_000
MAX_SECONDS = 0.3
"""Of CPU, for the parser."""
_PIECE = 8192
_LONGEST_UNKNOWN = 2_000

_KINDS = frozenset(
    """
    program command command_name word string string_content raw_string ansi_c_string concatenation number pipeline
    list redirected_statement file_redirect file_descriptor comment variable_assignment variable_name
    negated_command subshell test_command unary_expression test_operator
    """.split()
)
_TOKENS = frozenset({";", "&&", "||", "|", "|&", "\n", "!", '"', ">", ">>", "&>", ">&", "<", "=", "(", ")", "[", "]"})
_FORMS = frozenset(
    {
        "command_substitution",
        "process_substitution",
        "simple_expansion",
        "special_variable_name",
        "for_statement",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "compound_statement",
        "binary_expression",
        "extglob_pattern",
    }
)
"""Kinds that a line may have whose commands all only read; every word that they make is checked where it is used."""
_FORM_TOKENS = frozenset(
    """
    for in do done if then elif else fi { } $( <( $ ? == !=
    """.split()
)
VARIABLE = "a variable"
_NAMES = {
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
    "simple_expansion": VARIABLE,
    "expansion": VARIABLE,
    "arithmetic_expansion": "an arithmetic expansion",
    "brace_expression": "a brace expansion",
    "heredoc_redirect": "a here-document",
    "herestring_redirect": "a here-string",
    "function_definition": "a function",
    "&": "a command in the background",
    "declaration_command": "a declaration",
    "if_statement": "a condition",
    "for_statement": "a loop",
    "while_statement": "a possibly endless loop",
    "c_style_for_statement": "a possibly endless loop",
    "compound_statement": "a group",
    "case_statement": "a case statement",
    "elif_clause": "a condition",
    "else_clause": "a condition",
    "binary_expression": "a comparison",
    "extglob_pattern": "a pattern",
    "special_variable_name": VARIABLE,
    ">|": "a redirect that overwrites a file (>|)",
    "ERROR": "a part that cannot be parsed",
}
_PIECES = frozenset(
    {
        "word",
        "number",
        "test_operator",
        "file_descriptor",
        "raw_string",
        "ansi_c_string",
        "string",
        "translated_string",
        "extglob_pattern",
    }
)
"""Nodes whose value may stand in the text."""
_META = frozenset(" \t\n|&;()<>$`\"'")
_GLOB = frozenset("*?[")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|([ntrabfveE])|([\\'\"?]))"
)
_LIVE = re.compile(r"(?:[^\\]|\\.)*?(?:`|\"|\$[\w({\[@*#?$!'-])", re.DOTALL)
"""The first sign in a double-quoted text that bash expands."""
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_]\w*\+?=(?:.*:)?~", re.DOTALL)
"""A word of this form has its tilde expanded, as in an assignment."""
_DATA = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content", "heredoc_start"})
_BACKTICK = re.compile(rb"(?:^|[^\\])(?:\\\\)*`")
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*")
_DASH = re.compile(rb"[ \t]+-[ \t]+")
"""A word that the parser loses before `<<`."""
PLAIN_PAGERS = frozenset({"GIT_PAGER=cat", "PAGER=cat", "GIT_PAGER=", "PAGER="})
"""Assignments for one command that keep their value in `SimpleCommand.assignments`: they start no other program."""
_RUN_VARIABLES = frozenset({"BASH_ENV", "ENV", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND"})
_NO_TARGETS = frozenset(
    {
        "file_descriptor",
        "heredoc_body",
        "heredoc_end",
        "pipeline",
        "list",
        "command",
        "file_redirect",
        "herestring_redirect",
        "heredoc_redirect",
    }
)
_BLANKS = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_REDIRECT = re.compile(rb"[<>]")
_BRACES = re.compile(r"(?!.*\.\.)([\w./~-]*)\{([\w./*-]*(?:,[\w./*-]*)+)\}([\w./*-]*)")
"""One group of braces in a word, whose words are plain or globs."""
_LOWER = re.compile(r"[a-z][a-z0-9_]*")
"""Variables that a read-only line may set: those of programs and of bash itself are in capitals."""
_NAME = re.compile(r"[A-Za-z_]\w*|\?")
_WALKED_FIRST = frozenset({"program", "list", "redirected_statement"})


@cache
def _grammar() -> tuple[type[Parser], Language]:
    # Both libraries take 40 ms: only a session that decides on a command pays for them.
    import tree_sitter  # noqa: PLC0415
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser, tree_sitter.Language(tree_sitter_bash.language())


def read_command_line(text: str) -> CommandLine:
    """Return the content of `text`. Never raises; what cannot be read in bounded time is unclear."""
    if len(text) > MAX_READ or "\0" in text:
        return CommandLine(doubts={f"more than {MAX_READ:,} characters or a NUL": None}, is_unclear=True)
    source = text.encode("utf-8", "replace")
    parser, language = _grammar()
    end = thread_time() + MAX_SECONDS
    try:
        tree = parser(language).parse(
            lambda start, point: source[start : start + _PIECE], progress_callback=lambda *_: thread_time() > end
        )
    except ValueError:  # it takes too long: some nonsense takes quadratic time
        return CommandLine(doubts={"a part that cannot be parsed": None}, is_unclear=True)
    reader = _Reader(source)
    reader.read(tree.root_node)
    if len(text) > LONGEST:
        reader.line.is_long = True
        reader.line.doubts[f"more than {LONGEST:,} characters"] = None
    return reader.line


class _Reader:
    """One walk over one tree, without recursion: nesting may be deep."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.line = CommandLine()
        self.end = 0
        self.extras: dict[int, list[Node]] = {}
        """Words of a command that stand behind its redirects, by the command's node."""
        self.fed: dict[int, list[str]] = {}
        """Texts of redirects that stand behind a command, by the command's node."""

    def read(self, root: Node) -> None:
        if root.has_error:
            self._mark_unclear("a part that cannot be parsed")
        stack: list[tuple[Node, bool, int, bool, bool]] = [(root, True, -1, False, False)]
        for _ in range(MAX_NODES):
            if not stack:
                break
            node, certain, piped, nested, within_doubt = stack.pop()
            is_doubt = self._check_kind(node, within_doubt)
            children = node.children
            self._collect(node, children, certain, piped, nested)
            if not children:
                self._check_gap(node)
            first = certain and node.type in _WALKED_FIRST
            is_pipeline = node.type == "pipeline"
            flow = node.type in ("list", "redirected_statement", "negated_command", "subshell", "command", "pipeline")
            nested = nested or node.type in _FORMS
            for place in range(len(children) - 1, -1, -1):
                inner_certain = first and (place == 0 or node.type == "program")
                start = node.start_byte if is_pipeline and place > 0 else -1
                inner_piped = piped if flow and piped >= 0 else start
                stack.append((children[place], inner_certain, inner_piped, nested, is_doubt))
        if stack or _GAP.fullmatch(self.source[self.end :]) is None:
            self._mark_unclear("a part that nexus cannot parse")

    def _mark_unclear(self, why: str) -> None:
        self.line.is_unclear = True
        self.line.doubts[why] = None

    def _check_kind(self, node: Node, within_doubt: bool) -> bool:
        """Note a node that is no plain word or command, and return True if it is a doubt; its direct parts, such as
        `until`, are not named again."""
        kind = node.type
        if kind in (_KINDS if node.is_named else _TOKENS) and not node.is_missing:
            return False
        if kind in (_FORMS if node.is_named else _FORM_TOKENS) and not node.is_missing:
            if node.is_named and kind != "do_group" and not within_doubt:  # `do` is a part of a loop
                self.line.forms[_NAMES.get(kind, f"`{kind}`")] = None
            return within_doubt and kind == "binary_expression"
        if kind == "ERROR" or node.is_missing:
            self.line.is_unclear = True
        elif within_doubt:
            return True
        self.line.doubts[_NAMES.get(kind, f"`{kind}`")] = None
        return True

    def _check_gap(self, leaf: Node) -> None:
        """Doubt text between two leaves that is no blank: the parser skipped it."""
        start, end = leaf.start_byte, leaf.end_byte
        if leaf.type == "word" and self.source[start : start + 1].isspace():
            self._mark_unclear("a line that begins with a backslash")  # the parser joins it to the line before
        if leaf.type not in _DATA and leaf.is_named and _BACKTICK.search(self.source[start:end]):
            self._mark_unclear("a backtick in a word")
        gap = self.source[self.end : start]
        if start > self.end and _GAP.fullmatch(gap) is None and not (leaf.type == "<<" and _DASH.fullmatch(gap)):
            self._mark_unclear("a part that nexus cannot parse")
        self.end = max(self.end, end)

    def _collect(self, node: Node, children: list[Node], certain: bool, piped: int, nested: bool) -> None:
        """Add what a node of the tree is; `piped` is the place of the pipeline whose output it reads, -1 for none."""
        kind = node.type
        if kind == "command":
            inputs = (*self._inputs(children), *self.fed.pop(node.id, []), *self._piped(piped))
            command = self._read_command(children, self.extras.pop(node.id, []), inputs)
            command = replace(
                command, is_certain=certain, reads_pipe=piped >= 0, is_nested=nested, place=node.start_byte
            )
            self.line.commands.append(command)
        elif kind == "for_statement":
            self._bind_loop(children)
        elif kind in ("declaration_command", "unset_command"):
            words = [Word(children[0].type)] + [self._word(part) for part in children[1:] if part.is_named]
            if any(word.text[:1] in "-+" and "n" in word.text for word in words[1:]):
                self._mark_unclear("a reference to another variable")
            self.line.commands.append(SimpleCommand(tuple(words)))
        elif kind == "test_command":
            self._add_test(node, children, nested)
        elif kind == "file_redirect":
            operator = next((part.type for part in children if not part.is_named), "")
            targets = _targets(node)
            target = self._word(targets[0]) if targets else Word("", False)
            self.line.redirects.append(Redirect(operator, target, node.start_byte))
        elif kind == "redirected_statement":
            self._find_extras(children)
        elif kind == "heredoc_redirect":
            self._add_heredoc(node, children)
        elif kind == "herestring_redirect":
            self.line.inputs += self._inputs([node])
        elif kind == "variable_assignment" and children and self._stores_code(children):
            self._mark_unclear("code in a variable")
        if kind not in ("command", "declaration_command"):
            for child in children:
                if child.type == "variable_assignment":
                    self._bind(child, is_sure=kind == "program")
        if kind != "case_item" and any(child.type in (";;", ";&", ";;&") for child in children):
            self._mark_unclear("`;;` outside of a case")

    def _bind(self, node: Node, *, is_sure: bool) -> None:
        """Note an assignment by a command of its own; it surely holds behind it at the top of a line."""
        parts = node.children
        if len(parts) != 3 or parts[1].type != "=" or not _LOWER.fullmatch(self._text(parts[0])):
            self.line.doubts["an assignment to a variable"] = None
            return
        self.line.forms["an assignment to a variable"] = None
        end = len(self.source) if is_sure else 0
        self.line.bindings.append(Binding(self._text(parts[0]), (self._word(parts[2]),), node.end_byte, end))

    def _bind_loop(self, children: list[Node]) -> None:
        kinds = [child.type for child in children]
        is_plain = kinds[:3:2] == ["for", "in"] and kinds[-1] == "do_group"
        if not is_plain or not _LOWER.fullmatch(self._text(children[1])):
            self.line.doubts["a loop"] = None
            return
        words = tuple(self._word(node) for node in children[3:-1] if node.is_named and node.type != "comment")
        body = children[-1]
        self.line.bindings.append(Binding(self._text(children[1]), words, body.start_byte, body.end_byte))

    def _find_extras(self, children: list[Node]) -> None:
        """Note the words and the input of a command that stand behind it, where the parser leaves them."""
        extras = [target for child in children[1:] for target in _targets(child)[1:]]
        owner: Node | None = children[0]
        while extras and owner is not None and owner.type != "command":
            owner = owner.named_children[-1] if owner.named_children else None
        if owner is not None and extras:
            self.extras[owner.id] = extras
        elif extras:
            self._mark_unclear("words after a redirect")
        # In `a <<END | b` the parser leaves `b` in the redirect.
        later = [node for child in children[1:] for part in child.children for node in (part, *part.children)]
        for node in [owner, *(node for node in later if node.type == "command")]:
            if node is not None:
                self.fed[node.id] = self._inputs(children[1:])

    def _inputs(self, redirects: list[Node]) -> list[str]:
        """Return the texts of here-documents and here-strings; of the former not the parser's text, which loses blanks
        and a backslash at its beginning."""
        texts = []
        for node in redirects:
            if node.type == "heredoc_redirect":
                texts.append(self._text(node).partition("\n")[2])
            elif node.type == "herestring_redirect" and node.children:
                texts.append(self._word(node.children[-1]).text)
        return texts

    def _piped(self, start: int) -> list[str]:
        """Return the words that `echo` and `printf` put out in the pipeline that begins at `start`, -1 for none."""
        commands = [command.words for command in self.line.commands if command.place >= start] if start >= 0 else []
        return [" ".join(word.text for word in words[1:]) for words in commands if words[0].text in ("echo", "printf")]

    def _add_heredoc(self, node: Node, children: list[Node]) -> None:
        """Add the text of a here-document, and the commands in backticks in it."""
        (body,) = self._inputs([node])
        self.line.inputs.append(body)
        start = next((self._text(child) for child in children if child.type == "heredoc_start"), "")
        if not {"'", '"', "\\"} & set(start):
            codes = re.findall(r"`((?:[^`\\]|\\.)*)`", body, re.DOTALL)
            self.line.codes += [re.sub(r"\\([\\`$])", r"\1", code).replace("\\\n", "") for code in codes]

    def _stores_code(self, children: list[Node]) -> bool:
        """Return True if the value of a variable may be run: by its name, or by an expansion later."""
        if self._text(children[0]) in _RUN_VARIABLES:
            return True
        value = children[-1]
        pieces = value.children if value.type == "concatenation" else [value]
        words = [self._word(piece) for piece in pieces]
        return any(word.is_known and {"$", "`"} & set(word.text) for word in words)

    def _read_command(self, children: list[Node], extras: list[Node], inputs: tuple[str, ...]) -> SimpleCommand:
        words: list[Word] = []
        names: list[str] = []
        nodes: list[Node] = []
        for child in children:
            if child.type == "variable_assignment":
                text = self._text(child)
                if text in PLAIN_PAGERS:
                    names.append(text)
                else:
                    names.append(text.partition("=")[0] if child.children else "?")
                if len(child.children) > 2 and not self._word(child.children[-1]).is_plain:
                    names.append("?")
            elif child.type.endswith("_redirect"):
                nodes += _targets(child)[1:]
            elif child.is_named and child.type != "comment":
                nodes.append(child)
        nodes += extras
        end = -1
        for node in nodes:
            word = self._word(node.children[0] if node.type == "command_name" and node.children else node)
            gap = self.source[end : node.start_byte]
            if words and not gap:  # the parser splits 'r'\m, bash does not
                before = words.pop()
                is_known = before.is_known and word.is_known
                globs = before.has_glob or word.has_glob
                word = Word(before.text + word.text, is_known, globs, before.has_tilde)
            elif words and not _BLANKS.fullmatch(gap) and not _REDIRECT.search(gap):
                self._mark_unclear("words that bash may join or split")
            words.append(word)
            end = node.end_byte
        return SimpleCommand(tuple(words), tuple(names), inputs=inputs)

    def _add_test(self, node: Node, children: list[Node], nested: bool) -> None:
        """Add `[ -f x ]` as `test -f x`, likewise `! -f x` and `x = y`; any other test has unknown words."""
        inner = children[1] if len(children) == 3 and children[0].type == "[" else None
        words = [Word("test")]
        while inner is not None and inner.type == "unary_expression" and len(inner.children) == 2:
            words.append(Word(self._text(inner.children[0])))
            inner = inner.children[1]
        if inner is not None and inner.type == "binary_expression" and len(inner.children) == 3 and len(words) == 1:
            left, operator, right = inner.children
            words += [self._word(left), Word(self._text(operator)), self._word(right)]
        elif inner is not None and 1 < len(words) < 4:
            words.append(self._word(inner))
        else:
            words = [Word(children[0].type if children else "["), Word(self._text(node, _LONGEST_UNKNOWN), False)]
        self.line.commands.append(SimpleCommand(tuple(words), is_nested=nested, place=node.start_byte))

    def _text(self, node: Node, most: int = MAX_READ * 4) -> str:
        """Return the source of a node; if it is longer than `most` bytes its beginning with a `\\`, so that it is not
        taken for a word that ends there."""
        source = self.source[node.start_byte : node.end_byte]
        return source[:most].decode("utf-8", "replace") + "\\" * (len(source) > most)

    def _word(self, node: Node) -> Word:
        """Return the word of `node`, which may be a concatenation."""
        pieces = node.children if node.type == "concatenation" else [node]
        value: list[str] = []
        bare: list[str] = []
        end = node.start_byte
        for piece in pieces:
            if piece.start_byte != end:
                self._mark_unclear("words that bash may join or split")
            read = self._piece(piece)
            end = piece.end_byte
            if read is None:
                return Word(self._text(node, _LONGEST_UNKNOWN), False, pieces=self._computed(pieces))
            value.append(read[0])
            bare.append(read[1])
        text = "".join(value)
        shape = "".join(bare)
        inside = shape[shape.find("{") : shape.rfind("}")] if "{" in shape else ""
        if "," in inside or ".." in inside:
            return Word(self._text(node, _LONGEST_UNKNOWN), False, pieces=self._expand_braces(node))
        if _ASSIGNMENT_LIKE.match(shape):
            return Word(text, False)
        return Word(text, True, bool(_GLOB & set(shape)), shape.startswith("~"))

    def _expand_braces(self, node: Node) -> tuple[WordPiece, ...]:
        """Return a variable with the words that bash makes of one group of braces; () for more than that, a doubt."""
        match = _BRACES.fullmatch(self._text(node))
        if match is None:
            self.line.doubts["a brace expansion"] = None
            return ()
        self.line.forms["a brace expansion"] = None
        expanded = [match[1] + part + match[3] for part in match[2].split(",")]
        words = tuple(Word(text, has_glob="*" in text, has_tilde=text.startswith("~")) for text in expanded)
        self.line.bindings.append(Binding(match[0], words, 0, len(self.source)))
        return (WordPiece(match[0], is_variable=True),)

    def _computed(self, nodes: list[Node]) -> tuple[WordPiece, ...]:
        """Return the pieces of a word that bash computes, or () where one is more than a variable or a substitution."""
        pieces: list[WordPiece] = []
        for node in nodes:
            read = self._piece(node)
            if read is not None:
                pieces.append(WordPiece(*read))
                continue
            is_string = node.type == "string"
            place = node.start_byte + is_string
            for child in [child for child in node.children if child.type in _FORMS] if is_string else [node]:
                # The parser counts blanks between two of them to the second one.
                source = self.source[child.start_byte : child.end_byte]
                start = child.end_byte - len(source.lstrip(b" \t\n"))
                text = self.source[place:start].decode("utf-8", "replace")
                pieces += [WordPiece(text, "\0" * len(text)), self._expansion(child)]
                place = child.end_byte
            text = self.source[place : node.end_byte - is_string].decode("utf-8", "replace")
            pieces.append(WordPiece(text, "\0" * len(text)))
        if any({"$", "`", "\\", '"'} & set(piece.text) for piece in pieces if not piece.is_variable):
            return ()
        shapes = "".join(piece.shape for piece in pieces)
        is_read = all(
            word_piece.is_variable or word_piece.is_output or word_piece.shape or not word_piece.text
            for word_piece in pieces
        )
        is_read = is_read and not {"{", "~"} & set(shapes)
        return tuple(piece for piece in pieces if piece != WordPiece()) if is_read else ()

    def _expansion(self, node: Node) -> WordPiece:
        """Return the piece of a variable or a substitution; for any other one that stands for nothing known."""
        text = self._text(node, _LONGEST_UNKNOWN).lstrip(" \t\n")
        if node.type == "simple_expansion" and _NAME.fullmatch(text[1:]):
            return WordPiece(text[1:], is_variable=True)
        is_output = node.type.endswith("_substitution") and text.startswith(("$(", "<("))
        return WordPiece(is_output=True) if is_output else WordPiece("$")

    def _piece(self, node: Node) -> tuple[str, str] | None:
        """Return value and unquoted signs of one piece (quoted ones are NUL), or None if bash computes it."""
        if node.type not in _PIECES:
            return None
        text = self._text(node)
        match node.type:
            case "word" | "number" | "test_operator" | "file_descriptor" | "extglob_pattern":
                return _unescape(text)
            case "raw_string" if text[:1] == text[-1:] == "'" and text.count("'") == 2:
                value = text[1:-1]
            case "ansi_c_string" if text.startswith("$'") and text.endswith("'"):
                decoded = _decode_ansi(text[2:-1])
                if decoded is None:
                    return None
                value = decoded
            case "string" if text[:1] == text[-1:] == '"' and len(text) > 1 and not _LIVE.match(text[1:-1]):
                value = re.sub(r'\\(["$`\\\n])', lambda m: "" if m[1] == "\n" else m[1], text[1:-1])
            case "translated_string":
                return self._piece(node.children[-1])
            case _:
                return None
        return value, "\0" * len(value) or "\0"


def _targets(redirect: Node) -> list[Node]:
    """Return the words of a redirect: its target, and what the parser took for a second one."""
    if not redirect.type.endswith("_redirect"):
        return []
    return [child for child in redirect.children if child.is_named and child.type not in _NO_TARGETS]


def _unescape(text: str) -> tuple[str, str] | None:
    value: list[str] = []
    bare: list[str] = []
    signs = iter(text)
    for sign in signs:
        if sign == "\\":
            escaped = next(signs, "\\")
            if escaped != "\n":
                value.append(escaped)
                bare.append("\0")
        elif sign in _META:
            return None
        else:
            value.append(sign)
            bare.append(sign)
    return "".join(value), "".join(bare)


def _decode_ansi(text: str) -> str | None:
    """Return the value of `$'...'`, or None for an escape that is not decoded here."""
    parts: list[str] = []
    place = 0
    while place < len(text):
        if text[place] != "\\":
            parts.append(text[place])
            place += 1
            continue
        match = _ANSI.match(text, place)
        if match is None:
            return None
        hexadecimal = match[1] or match[2] or match[3]
        if hexadecimal or match[4]:
            code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8) & 0xFF
            if not 0 < code < 0x110000:
                return None
            parts.append(chr(code))
        else:
            parts.append(_ESCAPES.get(match[5] or "", "") or match[6])
        place = match.end()
    return "".join(parts)
