"""What a process has after importing litellm: a program for child processes, `imported_litellm.py plain|light CALLS`.

CALLS is a JSON object of models and their addresses. Each is called once; then every name of the listed packages is
resolved, and every model of pydantic's is built. Writes a JSON object to stdout: `replies` by model, `names` with what
each leads to, `models` with whether it can be built and its fields, `lazy` with whether it was built before, and
`elsewhere`, the same for classes of other packages.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any

from nexus_cli.provider import light_import, litellm_backend


def reply_of(model: str, base: str) -> str:
    """The text of one reply of a model."""
    from provider.talk import hear, request

    async def run() -> str:
        backend = litellm_backend.LitellmBackend(api_base=base, api_key="sk-test-0123456789")
        heard = await hear(backend, request(model))
        await backend.aclose()
        return str(heard.error or heard.reply.message.content)

    return asyncio.run(run())


def identity(value: Any) -> str:
    """What a name leads to, in words that are the same in another process."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if type(value).__module__.startswith("openai._extras"):  # a package that is not installed
        return type(value).__name__
    where, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    return f"{where} {name}" if name else f"{type(value).__name__} {value!r}".partition(" at 0x")[0]


def fixed(value: Any) -> list[str]:
    """The words of a value's text in a fixed order: `typing` gives the members of a union in any. No random id."""
    return sorted(
        re.findall(r"[\w.]+", re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+", "", repr(value)))
    )


def names_of(package: str) -> Iterator[str]:
    """Every name that the `__init__` of a package imports, by its code."""
    spec = import_module(package).__spec__
    assert spec is not None and spec.loader is not None
    code = spec.loader.get_code(package)  # type: ignore[attr-defined]
    yield from (name for name in code.co_names if name.isidentifier() and not name.startswith("__"))


def models() -> dict[str, Any]:
    """Every class of pydantic's models, by its full name."""
    from pydantic import BaseModel

    found, rest = {}, [BaseModel]
    while rest:
        for child in rest.pop().__subclasses__():
            rest.append(child)
            if "[" not in child.__name__:
                found[f"{child.__module__}.{child.__qualname__}"] = child
    return found


def is_complete(model: Any) -> bool:
    """True if its validator was built."""
    return bool(vars(model)["__pydantic_complete__"])


def main() -> None:
    """Import, call, resolve, build, print."""
    if sys.argv[1] == "plain":
        setattr(litellm_backend, "light_imports", nullcontext)  # noqa: B010
    litellm_backend.litellm()
    lazy = {name: is_complete(model) for name, model in models().items()}
    replies = {model: reply_of(model, base) for model, base in json.loads(sys.argv[2]).items()}
    names = {}
    for package in sorted(light_import.read_table()[1]):
        module = import_module(package)
        for name in names_of(package):
            names[f"{package}.{name}"] = identity(getattr(module, name, None))
    built = {}
    for name, model in models().items():
        model.model_rebuild(raise_errors=False)
        fields = {key: fixed(field) for key, field in model.model_fields.items()}
        built[name] = [is_complete(model), fixed(model.model_config), fields]
    own = {name for name in built if name.partition(".")[0] in light_import.LIBRARIES}
    noted = {
        "replies": replies,
        "names": names,
        "models": {name: built[name] for name in own},
        "lazy": {name: lazy[name] for name in own & lazy.keys()},
        "elsewhere": {name: lazy[name] for name in lazy.keys() - own},
    }
    print(json.dumps(noted))


if __name__ == "__main__":
    main()
