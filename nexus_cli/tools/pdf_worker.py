"""Extract the text of a PDF's pages, as a program: a line of JSON and the PDF on stdin, lines of JSON on stdout.

It is a process because a hostile PDF takes any time and memory, and its thread could not be stopped. Each page is
written as soon as it is read, so that what was read before a limit is kept. Imports the standard library and, from the
folder in the job, the library that reads.
"""

from __future__ import annotations

import io
import json
import resource
import sys
from contextlib import suppress
from typing import Any

MOST_MEMORY = 1 << 30
"""Most bytes of address space, where the system can bound it."""
MOST_TEXT = 400_000
"""Characters after which no further page is read."""
LONGEST_HEADING = 100


def main() -> None:
    """Write the number of pages, then each page that the job asks for."""
    job = json.loads(sys.stdin.buffer.readline())
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    sys.path.extend(job["libraries"])
    from pypdf import PdfReader  # noqa: PLC0415  (found in a folder of the job)

    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            _write({"error": "it is encrypted"})
            return
        total = len(reader.pages)
    except Exception as error:  # whatever the library raises for a damaged file
        _write({"error": f"it cannot be read as PDF: {error}"})
        return
    _write({"total": total})
    written = 0
    last = total if job["limit"] is None else min(total, job["first"] + job["limit"] - 1)
    for number in range(job["first"], last + 1):
        try:
            text = reader.pages[number - 1].extract_text().strip()
        except MemoryError:
            raise
        except Exception as error:  # as above: the other pages may be sound
            text = f"[this page cannot be read: {type(error).__name__}]"
        if job["outline"]:
            text = text.partition("\n")[0].strip()[:LONGEST_HEADING]
        _write({"page": number, "text": text})
        written += len(text)
        if written > MOST_TEXT:
            return


def _write(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
