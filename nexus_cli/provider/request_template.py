"""Templates of requests: what litellm puts around the messages, learned from the bytes that it sent.

A template is a request with places for what differs from one to the next: messages, output cap, cache key, API key. It
belongs to one set of inputs (`digest_inputs`): the arguments of the call, the tools, the environment, and every
installed package. It is trusted for the kinds of messages with which it was equal to a request of litellm. Where the
provider's form is another one than ours, it has places for the texts of a first request instead of the messages.
`head_start` sends by it. No key is ever in a template.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import ModelInfo, Request
from nexus_cli.provider.call_arguments import build_arguments
from nexus_cli.provider.endpoint import Endpoint, is_provider_key

MAX_FILES = 64
"""Templates that are kept; the oldest leave first."""
LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"})
"""Names of the output cap in a body."""
VOLATILE = re.compile(
    r"_|PATH|PWD|OLDPWD|SHLVL|PS1|SHELL|EDITOR|COLORTERM|COLUMNS|LINES|STY|DISPLAY|MFLAGS|INVOCATION_ID|JOURNAL_STREAM"
    r"|(TERM|WINDOW|WAYLAND|XDG_|SSH_|TMUX|DBUS|VSCODE|GIT_|MAKE|npm_|NEXUS_|PYTEST|SYSTEMD|VIRTUAL_ENV|LESS|LS_).*"
    r"|(ITERM|KITTY|ALACRITTY|WEZTERM|GHOSTTY|GNOME_TERMINAL|KONSOLE|ZELLIJ|VTE|STARSHIP|DIRENV|PRE_COMMIT).*"
)
"""Variables that differ from terminal to terminal, and that litellm does not read for these providers."""
_PLACE = re.compile(r'"\\u0000(\w+)\\u0000"')


@dataclass(frozen=True, slots=True)
class Template:
    """A request with places: texts at even positions, names of places at odd ones. Without a body: requests with these
    inputs have no template."""

    head: list[str]
    body: list[str]
    dense: bool
    """True if the body has no spaces and is no ASCII."""
    proven: list[str] = field(default_factory=list)
    """The kinds of neighbouring messages in requests of litellm that were equal to it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a request that its template lacks."""

    key: str = field(repr=False)
    cache_key: str
    max_output: int
    messages: Sequence[JsonObject]
    """With cache marks, without null fields."""

    @property
    def pairs(self) -> list[str]:
        """Return the kinds of neighbouring messages."""
        return [f"{before} > {after}" for before, after in pairwise(["", *self.kinds, ""])]

    @property
    def kinds(self) -> list[str]:
        """Return the kind of each message."""
        return [_kind(message) for message in self.messages]

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts of a first request by the names of their places; empty if it is none, or if two texts are
        the same."""
        texts = [m.get("content") for m in self.messages if m.get("role") in ("system", "user")]
        texts_by_place = {
            f"text{number}": text for number, text in enumerate(texts) if isinstance(text, str) and text.strip()
        }
        return texts_by_place if len(set(texts_by_place.values())) == len(self.messages) else {}


def digest_inputs(request: Request, endpoint: Endpoint, info: ModelInfo) -> str:
    """Return a digest of everything that the envelope of a request may depend on, and of nothing that has a place:
    `request` is without its messages."""
    plain = replace(request, max_output=0, cache_key="key" if request.cache_key else "")
    keyless = replace(endpoint, key="key" if endpoint.key else None)
    arguments = build_arguments(plain, keyless, info, walk=False)
    variables = {n: "" if is_provider_key(n) else v for n, v in copy_environ().items() if not VOLATILE.fullmatch(n)}
    ours = sorted((e.name, e.stat().st_mtime_ns) for e in os.scandir(Path(__file__).parent) if e.is_file())
    folders = [folder for folder in sys.path if os.path.isdir(folder)]
    packages = [sorted(name for name in os.listdir(folder) if name.endswith("-info")) for folder in folders]
    around = [sys.version, packages, ours, sorted(variables.items())]
    return sha256(json.dumps([arguments, request.stall_seconds, around], default=str).encode()).hexdigest()


class TemplateFile:
    """The template of one request, in a folder."""

    def __init__(self, folder: Path, digest: str, parts: Parts) -> None:
        """Look for the template for all messages, then for the one for the texts of this first request."""
        texts = sha256(json.dumps([digest, parts.kinds]).encode()).hexdigest()
        self._full_path, self._texts = folder / f"{digest[:40]}.json", folder / f"{texts[:40]}.json"
        self._parts = parts
        self._stored = _load(self._full_path) or _load(self._texts)

    def render_proven(self) -> bytes:
        """Return the request that the template makes; b"" if none is proven for these kinds of messages."""
        template = self._stored
        return render(template, self._parts) if template and set(self._parts.pairs) <= set(template.proven) else b""

    def note_sent(self, request: bytes) -> None:
        """Learn from a request that litellm sent: confirm the template, or make a new one."""
        current = self._stored
        if current is not None and render(current, self._parts) == request:
            self._save(replace(current, proven=sorted({*current.proven, *self._parts.pairs})))
        elif (current is None or current.body) and (template := learn(request, self._parts)) is not None:
            self._save(template)

    def refuse(self) -> None:
        """Use and learn no template for these inputs any more."""
        self._save(Template([], [], dense=False))

    def _save(self, template: Template) -> None:
        """Write `template`; if that fails, the next process learns it."""
        path = self._full_path if not template.body or "messages" in template.body[1::2] else self._texts
        with suppress(OSError):
            replace_private_file(path, json.dumps(asdict(template)).encode())
            files = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
            for old in files[:-MAX_FILES]:
                old.unlink(missing_ok=True)


def _load(path: Path) -> Template | None:
    try:
        template = Template(**json.loads(path.read_bytes()))
        "".join((*template.head, *template.body, *template.proven))
    except (OSError, ValueError, TypeError):
        return None
    return template


def learn(sent: bytes, parts: Parts) -> Template | None:
    """Return a template that makes the request `sent` of `parts`, or None if there is none of this form."""
    head, _, body = sent.partition(b"\r\n\r\n")
    try:
        tree, heading = json.loads(body), head.decode("ascii")
    except ValueError:
        return None
    dense = _encode(tree, dense=True) == body
    opened = _encode(_open(tree, parts), dense).decode()
    template = Template(_PLACE.split(_open_head(heading, parts)), _PLACE.split(opened), dense)
    texts = sorted(name for name in template.body[1::2] if name.startswith("text"))
    has_places = texts == sorted(parts.texts) if texts else "messages" in template.body[1::2]
    is_keyless = not parts.key or ("key" in template.head[1::2] and parts.key not in "".join(template.head[::2]))
    return template if has_places and is_keyless and render(template, parts) == sent else None


def render(template: Template, parts: Parts) -> bytes:
    """Return the request that `template` makes of `parts`; b"" if it cannot be made."""
    values = {"messages": parts.messages, "max_output": parts.max_output, "cache_key": parts.cache_key, **parts.texts}
    try:
        body = _fill(template.body, lambda name: _encode(values[name], template.dense).decode())
        raw = {"key": parts.key, "cache_key": parts.cache_key, "length": str(len(body))}
        return _fill(template.head, raw.__getitem__) + b"\r\n\r\n" + body
    except (KeyError, ValueError):
        return b""


def _fill(parted: Sequence[str], value_of: Callable[[str], str]) -> bytes:
    return "".join(value_of(text) if number % 2 else text for number, text in enumerate(parted)).encode()


def _encode(value: Any, dense: bool) -> bytes:
    """Encode as the openai SDK does (`dense`), or as litellm's own client does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) if dense else json.dumps(value)
    return text.encode()


def _place(name: str) -> str:
    return f"\0{name}\0"


def _open_head(head: str, parts: Parts) -> str:
    """Return the lines of the head with places for the values of the request, which end a line, and for the length."""
    values = {"key": re.escape(parts.key), "cache_key": re.escape(parts.cache_key)}
    for name, pattern in {**values, "length": r"(?<=content-length: )\d+"}.items():
        place = json.dumps(_place(name)).replace("\\", "\\\\")
        head = re.sub(rf"(?<= ){pattern}(?=\r\n|\Z)", place, head, flags=re.IGNORECASE) if pattern else head
    return head


def _open(value: Any, parts: Parts, name: str = "") -> Any:
    """Return the value of the field `name` of a body with places for what `parts` has. Tools have none."""
    texts = {text: key for key, text in parts.texts.items()} | {parts.cache_key or None: "cache_key"}
    if name == "messages" and value == parts.messages:
        return _place("messages")
    if name in LIMITS and value == parts.max_output:
        return _place("max_output")
    if isinstance(value, str) and value in texts:
        return _place(texts[value])
    if isinstance(value, list):
        return [_open(item, parts) for item in value]
    if isinstance(value, dict):
        return {key: item if key == "tools" else _open(item, parts, key) for key, item in value.items()}
    return value


def _kind(message: JsonObject) -> str:
    """Describe the form of a message: its role, its fields, and what its content consists of."""
    content = message.get("content")
    names = "+".join(sorted(message))
    if isinstance(content, Sequence) and not isinstance(content, str):
        form = ", ".join(sorted({f"{part.get('type')} {sorted(part)}" for part in content}))
    else:
        form = f"{type(content).__name__} {bool(str(content).strip())}"
    return f"{message.get('role')} {names} {form}"
