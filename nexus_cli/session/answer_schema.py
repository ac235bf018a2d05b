"""The JSON Schema of an answer (`--schema`): parse it, find the JSON document in an answer, and validate that.

Reads nothing but its arguments: a reference to another document is refused. What a turn does about a wrong answer is in
`answer_rounds`.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import CannotDetermineSpecification, NoSuchAnchor, Unresolvable
from referencing.jsonschema import DRAFT202012, Schema, SchemaResource

from nexus_cli.core.bounded_call import call_in_fork
from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonObject, parse_nested
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.core.wire import canonical, json_text

MAX_DIGITS = 1000
"""Most digits of a whole number."""
MAX_PROBLEMS = 5
"""Most problems of an answer that the model is told."""
MAX_COUNTED = 100
"""Problems after which an answer is not validated further."""
LONGEST = 200
"""Most characters of one problem."""
SECONDS = 3.0
"""Time limit for a schema with patterns."""
ENDLESS = "a $ref refers to itself without end"

_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_PROBES: tuple[Any, ...] = (None, {}, [], "", 0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer, as far as it matches the schema."""

    text: str
    """Its JSON document on one line; the answer itself if there is none in it."""
    data: Any
    problems: tuple[str, ...]
    """At most `MAX_PROBLEMS`; none if it matches."""
    distance: float
    """The number of problems; infinite without a JSON document."""

    @property
    def is_prose(self) -> bool:
        """True if no JSON document even begins in it, as in a refusal."""
        return math.isinf(self.distance) and {"{", "["}.isdisjoint(self.text)

    @property
    def problem(self) -> str:
        """The problems in one line."""
        return "; ".join(self.problems)


class AnswerSchema:
    """A valid schema without references to other documents."""

    most_bytes: ClassVar = 65_536
    """Most bytes of a schema. It is part of the request: this is about 16,000 tokens."""

    def __init__(self, text: str, label: str = "--schema") -> None:
        """Parse a schema. Raises `UsageError`, which calls it `label`, if it cannot be used."""
        if len(text.encode("utf-8", "replace")) > self.most_bytes:
            why = f"the schema exceeds the maximum of {self.most_bytes // 1024} KiB"
            raise UsageError(label, why, "Remove unneeded parts")
        try:
            self.schema: Any = parse_json(text)
            if not isinstance(self.schema, Mapping | bool):
                raise ValueError("not an object")
            kind = validator_for(self.schema, default=Draft202012Validator)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # about patterns; it goes to stderr
                kind.check_schema(self.schema)
            root: SchemaResource = Resource.from_contents(self.schema, default_specification=DRAFT202012)
            registry: Registry[Schema] = Registry().with_resource(root.id() or "", root)
            _check_references(root, registry.resolver_with_root(root))
            self._validator = kind(self.schema, registry=registry)
            for probe in _PROBES:
                next(self._validator.iter_errors(probe), None)
        except SchemaError as error:
            why = f"not a valid JSON Schema: {_describe(error)}"
            raise UsageError(label, why, "See https://json-schema.org") from error
        except (CannotDetermineSpecification, ValueError, OverflowError) as error:
            raise UsageError(label, f"not a JSON Schema: {error}", "See https://json-schema.org") from error
        except RecursionError:
            raise UsageError(label, ENDLESS, "Use a recursive $ref only below `properties` or `items`") from None

    @property
    def text(self) -> str:
        """The schema on one line."""
        return canonical(self.schema).decode()

    @property
    def has_brackets(self) -> bool:
        """True if each answer is an object or an array: a bare word is no attempt at one, as it is at a string."""
        return isinstance(self.schema, Mapping) and self.schema.get("type") in ("object", "array")

    def read_answer(self, answer: str) -> Attempt:
        """Find the JSON document in `answer` and validate it. Never raises."""
        try:
            data = _find_document(answer)
        except ValueError as error:
            return Attempt(answer, None, (cut_at_word(one_line(str(error)), LONGEST),), math.inf)
        result = call_in_fork(lambda: self._find_problems(data), SECONDS) if self._has_patterns else None
        if self._has_patterns and result is None:
            result = ([f"checking the schema's patterns took longer than {SECONDS:g} s; shorter strings may help"], 1)
        problems, count = result or self._find_problems(data)
        return Attempt(json_text(data, escaped=False), data, tuple(problems), count)

    def _find_problems(self, data: Any) -> tuple[list[str], int]:
        """Return the first problems of an answer, and their number."""
        try:
            errors = list(islice(self._validator.iter_errors(data), MAX_COUNTED))
        except RecursionError:
            return [f"the schema cannot be applied: {ENDLESS}"], 1
        return [_describe(error) for error in errors[:MAX_PROBLEMS]], len(errors)

    @cached_property
    def _has_patterns(self) -> bool:
        """True if the schema has regular expressions: one can take longer than the world exists."""
        return '"pattern' in self.text


def parse_json(text: str) -> Any:
    """Parse one JSON document (RFC 8259). Raises `ValueError` also for NaN, numbers without a finite value, an object
    with one key twice, and a document that is nested too deeply. Lone surrogates become U+FFFD."""
    try:
        data = parse_nested(_DECODER.decode, text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        why = error.msg.removesuffix(" at")  # such as "Unterminated string starting at"
        raise ValueError(f"not JSON: {why} at line {error.lineno}, column {error.colno}") from None
    written = json.dumps(data, ensure_ascii=False)
    stored = replace_surrogates(written)
    return data if stored is written else json.loads(stored)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"not JSON: {name} is not allowed")


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {cut_at_word(text, 40)} is too large")
    return value


def _read_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _read_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {cut_at_word(repr(twice), 60)} twice")
    return result


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_read_float,
    parse_int=_read_integer,
    object_pairs_hook=_read_object,
)


def _find_document(answer: str) -> Any:
    """Return the JSON document of an answer: the whole, else the last fenced block that is one, else the text from the
    first bracket to the last. Raises `ValueError` with the problem of the last of these."""
    problem = ValueError("the answer contains no JSON document")
    for text in _candidates(answer):
        try:
            return parse_json(text)
        except ValueError as error:
            problem = error
    raise problem


def _candidates(answer: str) -> Iterator[str]:
    if not (answer := answer.strip()):
        return
    yield answer
    yield from reversed(_FENCED.findall(answer))
    starts = [position for position in (answer.find("{"), answer.find("[")) if position >= 0]
    end = max(answer.rfind("}"), answer.rfind("]"))
    if starts and end > min(starts):
        yield answer[min(starts) : end + 1]


def _check_references(resource: SchemaResource, resolver: Any) -> None:
    """Raise `UsageError` for a reference that is not to a part of the schema."""
    contents = resource.contents
    for key in ("$ref", "$dynamicRef"):
        reference = contents.get(key) if isinstance(contents, Mapping) else None
        if not isinstance(reference, str):
            continue
        try:
            resolver.lookup(reference)
        except (Unresolvable, NoSuchAnchor):
            what = f"the schema refers to {cut_at_word(one_line(reference), LONGEST)!r}"
            why = "the definition does not exist, and nexus does not download schemas"
            raise UsageError(what, why, "Put the definition into the schema, under $defs") from None
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part))


def _describe(error: Any) -> str:
    value = repr(error.instance)  # what a message begins with: it must not push out the rest
    message = error.message.replace(value, cut_at_word(one_line(value), LONGEST // 3))
    return cut_at_word(one_line(f"{error.json_path}: {message}"), LONGEST)
