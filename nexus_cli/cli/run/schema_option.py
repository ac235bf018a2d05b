"""Read the value of `--schema`: a file, JSON on the command line, or a pydantic model of the person's own code."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.errors import UsageError

SECONDS = 60.0
"""Time limit for importing a model."""
_CLASS = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)[.:](?P<name>[^\W\d]\w*)")
_FORMS = "Give a file, the schema itself, or a pydantic model (MODULE:CLASS)"
_PRINT_SCHEMA = """\
import json, os, sys
out = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
from importlib import import_module
made = getattr(import_module(sys.argv[1]), sys.argv[2])
if not hasattr(made, "model_json_schema"):
    sys.exit("not a pydantic model")
with open(out, "w", encoding="utf-8") as stream:
    json.dump(made.model_json_schema(), stream)
"""
"""What the module prints goes to stderr."""


def load_schema(value: str) -> str:
    """Return the JSON Schema that `--schema` names, as JSON on one line. Raises `UsageError`."""
    from nexus_cli.session.answer_schema import AnswerSchema  # noqa: PLC0415  (with --schema only)

    label = f"--schema {cut_at_word(one_line(value), 60)}"
    return AnswerSchema(_read_text(value, label, AnswerSchema.most_bytes), label).text


def _read_text(value: str, label: str, byte_limit: int) -> str:
    if value.lstrip()[:1] in ("{", "[", '"') or value.strip() in ("true", "false"):
        return value
    try:
        with open(os.path.expanduser(value), "rb") as file:
            return file.read(byte_limit + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(label, "not UTF-8 text", _FORMS) from error
    except (FileNotFoundError, ValueError) as error:
        match = None if value.endswith(".json") else _CLASS.fullmatch(value)
        if match is None:
            raise UsageError(label, "there is no such file", _FORMS) from error
        return _import_schema(match["module"], match["name"], label)
    except OSError as error:
        raise UsageError(label, error.strerror or "cannot be read", _FORMS) from error


def _import_schema(module: str, name: str, label: str) -> str:
    """Return the schema of a class. Imports it in a process of its own, by the active virtual environment's Python:
    the person's code and its packages do not mix with ours."""
    from nexus_cli.config.programs import run_program  # noqa: PLC0415  (as above)

    activated = os.path.join(os.environ.get("VIRTUAL_ENV", ""), "bin", "python")
    python = activated if os.path.isabs(activated) and os.access(activated, os.X_OK) else sys.executable
    try:
        result = run_program(
            [python, "-c", _PRINT_SCHEMA, module, name], env=os.environ, stdin=subprocess.DEVNULL, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(label, f"importing the module took more than {SECONDS:g} s", _FORMS) from error
    except OSError as error:
        raise UsageError(label, f"{python} cannot be started", _FORMS) from error
    if result.returncode or not result.stdout:
        lines = result.stderr.decode("utf-8", "replace").split("\n")
        why = next((line for line in reversed(lines) if line.strip()), f"exit status {result.returncode}")
        raise UsageError(label, f"{python} could not read the schema: {cut_at_word(why, 300)}", _FORMS)
    return result.stdout.decode()
