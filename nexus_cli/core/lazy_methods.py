"""Compile the methods of our data classes when they are first called.

`dataclasses` writes source for up to six methods of a class and compiles each: a quarter of the imports of the REPL.
Most of these methods are never called. Python 3.13 and later compile otherwise and are left alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any


def compile_methods_lazily() -> None:
    """From now on, put off compiling the methods of data classes that modules of this package define."""
    compile_method = vars(dataclasses).get("_create_fn")
    if compile_method is None:
        return

    def compile_late(name: str, *source: Any, globals: dict[str, Any], **options: Any) -> Any:
        if not globals.get("__name__", "").startswith("nexus_cli."):
            return compile_method(name, *source, globals=globals, **options)

        method: Any = None

        def first_call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            nonlocal method
            if method is None:
                method = compile_method(name, *source, globals=globals, **options)
                method.__qualname__ = first_call.__qualname__
                for owner in type(self).__mro__:
                    if vars(owner).get(name) is first_call:
                        setattr(owner, name, method)
            return method(self, *arguments, **keywords)

        first_call.__name__ = name
        return first_call

    vars(dataclasses)["_create_fn"] = compile_late
