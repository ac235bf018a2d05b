"""Make the trigger of a turn from the blocks of an editor's prompt: text, files that it quotes or links, images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from nexus_cli.core.attachment import TEXT, AttachedFile, Part, Trigger
from nexus_cli.core.errors import UsageError
from nexus_cli.core.image_check import decode_image
from nexus_cli.core.message import replace_surrogates

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def make_trigger(blocks: Sequence[Block], folder: Path) -> Trigger:
    """Return the trigger; raise `UsageError` for a block that cannot be sent."""
    texts: list[str] = []
    quoted: list[str] = []
    parts: list[Part] = []
    files: list[AttachedFile] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock(text=text):
                texts.append(text)
            case schema.ResourceContentBlock(uri=uri, name=name):
                texts.append(uri_to_path(uri, folder) or f"{name} ({uri})")
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(uri=uri, text=text)):
                path = uri_to_path(uri, folder) or uri
                safe = path.replace('"', "'").replace("\n", " ")
                quoted.append(f'<file path="{safe}">\n{text.removesuffix(chr(10))}\n</file>')
                files.append(AttachedFile(path, TEXT, len(text.encode(errors="replace")), 1, text.count("\n") + 1))
            case schema.ImageContentBlock(data=data, uri=uri):
                try:
                    part = decode_image(data, Path(uri_to_path(uri or "", folder)).name)
                except ValueError as error:
                    raise UsageError("the image", str(error), "Attach another image, or a smaller copy") from None
                parts.append(part)
                files.append(AttachedFile(part.name or "image", part.media_type, len(part.data)))
            case _:
                kind = str(getattr(block, "type", "unknown"))
                raise UsageError(
                    f"the {kind} block",
                    "nexus accepts text, images, links to files and embedded text files",
                    "Remove it",
                )
    typed = "".join(texts)
    text = "\n\n".join(filter(None, (typed.rstrip() if quoted else typed, *quoted)))
    expands = typed.startswith("/") or "$" in typed or "@" in typed
    return Trigger(replace_surrogates(text), "client", tuple(parts), tuple(files), expands=expands)


def uri_to_path(uri: str, folder: Path) -> str:
    """Return the path of a `file:` address, relative to `folder` if inside it; "" for any other address."""
    try:
        parsed = urlsplit(uri)
    except ValueError:  # `http://[`
        return ""
    if parsed.scheme != "file":
        return ""
    path = Path(unquote(parsed.path))
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
