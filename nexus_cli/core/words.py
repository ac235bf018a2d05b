"""The former name of `typed_text.split_attachments`."""

from __future__ import annotations

from nexus_cli.core.typed_text import split_attachments

apart = split_attachments
