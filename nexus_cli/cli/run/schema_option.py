"""Read the value of `--schema`: a file, or JSON on the command line."""

from __future__ import annotations

import os

from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.errors import NexusError

_FORMS = "Give a file, or the schema itself"


def load_schema(value: str) -> str:
    """Return the JSON Schema that `--schema` names, as JSON on one line. Raises `NexusError("usage", ...)`."""
    from nexus_cli.session.answer_schema import AnswerSchema  # noqa: PLC0415  (with --schema only)

    named = f"--schema {cut_at_word(one_line(value), 60)}"
    return AnswerSchema(_read_text(value, named, AnswerSchema.most_bytes), named).text


def _read_text(value: str, named: str, most: int) -> str:
    if value.lstrip()[:1] in ("{", "[", '"') or value.strip() in ("true", "false"):
        return value
    try:
        with open(os.path.expanduser(value), "rb") as file:
            return file.read(most + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NexusError("usage", named, "not UTF-8 text", _FORMS) from error
    except (FileNotFoundError, ValueError) as error:
        raise NexusError("usage", named, "there is no such file", _FORMS) from error
    except OSError as error:
        raise NexusError("usage", named, error.strerror or "cannot be read", _FORMS) from error
