"""Templates of requests: what litellm puts around the messages, learned from the bytes that it sent.

A template is a request with places for what differs from one to the next: messages, tools, output cap, cache key, API
key. It belongs to one set of inputs (`digest_inputs`): the arguments of the call, the environment, and every installed
package. It is trusted once a request of litellm was equal to it, and only for kinds of messages that were. Where the
provider's form is another one than ours, it has places for the texts of a first request instead of the messages.
`head_start` sends by it. No key is ever in a template.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.request import ModelInfo, Request
from nexus_cli.provider.call_arguments import build_arguments
from nexus_cli.provider.endpoint import Endpoint, is_provider_key
from nexus_cli.provider.prompt_cache import add_cache_marks

MOST_FILES = 64
"""Templates that are kept; the oldest leave first."""
UNUSABLE = -1
"""The value of `Template.proven` for a request that no template can make."""
LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"})
"""Names of the output cap in a body."""
VOLATILE = re.compile(
    r"_|PWD|OLDPWD|SHLVL|COLORTERM|COLUMNS|LINES|STY|DISPLAY|MFLAGS|INVOCATION_ID|JOURNAL_STREAM"
    r"|(TERM|WINDOW|WAYLAND|XDG|SSH|TMUX|DBUS|VSCODE|GIT|MAKE|npm|NEXUS|PYTEST|GITHUB|RUNNER|SYSTEMD).*"
)
"""Variables that differ from terminal to terminal and that neither litellm nor a library under it reads."""
_PLACE = re.compile(r'"\\u0000(\w+)\\u0000"')


@dataclass(frozen=True, slots=True)
class Template:
    """A request with places: texts at even positions, names of places at odd ones."""

    head: list[str]
    body: list[str]
    dense: bool
    """True if the body has no spaces and is no ASCII."""
    proven: int = 0
    """The number of requests of litellm that were equal to it."""
    pairs: list[str] = field(default_factory=list)
    """The kinds of neighbouring messages in these requests."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a request has that its template has not."""

    key: str = field(repr=False)
    cache_key: str
    max_output: int
    messages: Sequence[Mapping[str, Any]]
    """With cache marks, without null fields."""
    tools: Sequence[Mapping[str, Any]]

    @property
    def pairs(self) -> list[str]:
        """Return the kinds of neighbouring messages, sorted."""
        kinds = ["", *map(_kind, self.messages), ""]
        return sorted({f"{before}>{after}" for before, after in pairwise(kinds)})

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts of a first request by the names of their places; empty if it is none, or if two texts are
        the same."""
        texts = [m.get("content") for m in self.messages if m.get("role") in ("system", "user")]
        named = {f"text{number}": text for number, text in enumerate(texts) if isinstance(text, str) and text.strip()}
        return named if len(set(named.values())) == len(self.messages) else {}

    def values(self) -> dict[str, Any]:
        """Return the values of all places."""
        fixed = {"messages": self.messages, "tools": self.tools, "cache_key": self.cache_key}
        return {**fixed, **self.texts, "max_output": self.max_output}


def read_parts(request: Request, where: Endpoint, key: str) -> Parts:
    """Return the parts of `request`; `key` is the API key that goes with it."""
    messages, tools = add_cache_marks(request, where.provider)
    plain = [{name: value for name, value in message.items() if value is not None} for message in messages]
    return Parts(key, request.cache_key, request.max_output, plain, tools)


def digest_inputs(request: Request, where: Endpoint, info: ModelInfo, environ: Mapping[str, str]) -> str:
    """Return a digest of everything that the envelope of a request may depend on, and of nothing that has a place."""
    plain = replace(request, max_output=0, cache_key="key" if request.cache_key else "")
    keyless = replace(where, key="key" if where.key else None)
    made = build_arguments(plain, keyless, info, walk=False)
    made.pop("extra_body")
    variables = {n: "" if is_provider_key(n) else v for n, v in environ.items() if not VOLATILE.fullmatch(n)}
    ours = sorted((e.name, e.stat().st_mtime_ns) for e in os.scandir(Path(__file__).parent) if e.name.endswith(".py"))
    inputs = [made, request.stall_seconds, sys.version, sorted(_package_names()), ours, sorted(variables.items())]
    return sha256(json.dumps(inputs, default=str).encode()).hexdigest()


def _package_names() -> Iterator[str]:
    """Yield the names of the folders in which installed packages state their versions."""
    for folder in sys.path:
        with suppress(OSError):
            yield from (name for name in os.listdir(folder) if name.endswith("-info"))


class TemplateFile:
    """The template of one request in the folder `folder`."""

    def __init__(self, folder: Path, digest: str, parts: Parts) -> None:
        """Look for the template for all messages, then for the one for the texts of this first request."""
        tools = [digest, [_kind(message) for message in parts.messages], parts.tools]
        shaped = sha256(json.dumps(tools).encode()).hexdigest()
        self._names = {True: folder / f"{digest[:40]}.json", False: folder / f"{shaped[:40]}.json"}
        self._parts = parts
        self.template = next(filter(None, map(_load, self._names.values())), None)

    def render(self) -> bytes:
        """Return the request that the template makes; b"" if there is none."""
        usable = self.template is not None and self.template.proven != UNUSABLE
        return render(self.template, self._parts) if usable and self.template else b""

    def is_proven(self) -> bool:
        """True if a request of litellm with the same kinds of messages was equal to the one that the template makes."""
        known = self.template
        return known is not None and known.proven > 0 and set(self._parts.pairs) <= set(known.pairs)

    def note_sent(self, sent: bytes) -> None:
        """Learn from a request that litellm sent: confirm the template, or make a new one."""
        known = self.template
        if known is not None and known.proven == UNUSABLE:
            return
        if known is not None and render(known, self._parts) == sent:
            pairs = sorted({*known.pairs, *self._parts.pairs})
            self._save(replace(known, proven=known.proven + 1, pairs=pairs))
        elif (made := learn(sent, self._parts)) is not None:
            self._save(made)

    def refuse(self) -> None:
        """Use no template for such requests any more."""
        self._save(replace(self.template or Template([], [], dense=False), proven=UNUSABLE))

    def _save(self, template: Template) -> None:
        """Write `template`; if that fails, the next process learns it."""
        path = self._names["messages" in template.body[1::2] or not template.body]
        with suppress(OSError):
            replace_private_file(path, json.dumps(asdict(template)).encode())
            files = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
            for old in files[:-MOST_FILES]:
                old.unlink(missing_ok=True)


def _load(path: Path) -> Template | None:
    try:
        return Template(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def learn(sent: bytes, parts: Parts) -> Template | None:
    """Return a template that makes the request `sent` of `parts`, or None if there is none of this form."""
    head, _, body = sent.partition(b"\r\n\r\n")
    try:
        tree = json.loads(body)
        heading = head.decode("ascii")
    except ValueError:
        return None
    dense = next((dense for dense in (True, False) if _encode(tree, dense) == body), None)
    if dense is None or not isinstance(tree, dict):
        return None
    opened = _open_whole(tree, parts) or _open_texts(tree, parts)
    made = Template(
        _PLACE.split(_open_head(heading, parts)), _PLACE.split(_encode(opened, dense).decode()), dense, 0, parts.pairs
    )
    literals = "".join(made.head[::2] + made.body[::2])
    holds = opened and render(made, parts) == sent and not (parts.key and parts.key in literals)
    return made if holds else None


def render(template: Template, parts: Parts) -> bytes:
    """Return the request that `template` makes of `parts`; b"" if it cannot be made."""
    values = parts.values()
    try:
        body = "".join(
            _encode(values[text], template.dense).decode() if number % 2 else text
            for number, text in enumerate(template.body)
        ).encode()
        raw = {"key": parts.key, "cache_key": parts.cache_key, "length": str(len(body))}
        head = "".join(raw[text] if number % 2 else text for number, text in enumerate(template.head))
        return head.encode("ascii") + b"\r\n\r\n" + body
    except (KeyError, ValueError):
        return b""


def _encode(value: Any, dense: bool) -> bytes:
    """Encode as the openai SDK does (`dense`), or as litellm's own client does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) if dense else json.dumps(value)
    return text.encode()


def _place(name: str) -> str:
    return f"\0{name}\0"


def _open_head(head: str, parts: Parts) -> str:
    """Return the lines of the head with places for the length and the values of the request."""
    values = {value: name for name, value in (("key", parts.key), ("cache_key", parts.cache_key)) if value}
    lines = []
    for line in head.split("\r\n"):
        name, _, value = line.partition(": ")
        before, _, last = value.rpartition(" ")
        if name.lower() == "content-length":
            line = f"{name}: {json.dumps(_place('length'))}"
        elif last in values:
            line = f"{name}: {before}{' ' if before else ''}{json.dumps(_place(values[last]))}"
        lines.append(line)
    return "\r\n".join(lines)


def _open_whole(tree: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """Return `tree` with places for all messages and tools; empty if it has them in another form than ours."""
    if tree.get("messages") != parts.messages:
        return {}
    if parts.tools and tree.get("tools") != parts.tools:
        return {}
    opened = {**_open_options(tree, parts), "messages": _place("messages")}
    return {**opened, "tools": _place("tools")} if parts.tools else opened


def _open_texts(tree: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """Return `tree` with a place for each text of a first request; empty if not every text has exactly one."""
    texts = parts.texts
    places = {text: _place(name) for name, text in texts.items()}
    found: list[str] = []

    def walk(value: Any) -> Any:
        if isinstance(value, str) and value in places:
            found.append(value)
            return places[value]
        if isinstance(value, list):
            return [walk(one) for one in value]
        return {n: walk(one) for n, one in value.items()} if isinstance(value, dict) else value

    opened: dict[str, Any] = {n: one if n == "tools" else walk(one) for n, one in _open_options(tree, parts).items()}
    return opened if texts and sorted(found) == sorted(places) else {}


def _open_options(tree: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """Return `tree` with places for the output cap and the cache key, which stand at its top or one level below."""

    def open_one(name: str, value: Any) -> Any:
        if name in LIMITS and value == parts.max_output:
            return _place("max_output")
        return _place("cache_key") if parts.cache_key and value == parts.cache_key else value

    opened: dict[str, Any] = {}
    for name, value in tree.items():
        below = isinstance(value, dict)
        opened[name] = {n: open_one(n, v) for n, v in value.items()} if below else open_one(name, value)
    return opened


def _kind(message: Mapping[str, Any]) -> str:
    """Describe the form of a message: its role, its fields, and what its content consists of."""
    content = message.get("content")
    names = "+".join(sorted(message))
    if isinstance(content, Sequence) and not isinstance(content, str):
        forms = sorted({f"{part.get('type')}:{'+'.join(sorted(part))}" for part in content})
        return f"{message.get('role')} {names} {' '.join(forms)}"
    form = "none" if content is None else "text" if str(content).strip() else "blank"
    return f"{message.get('role')} {names} {form}"
