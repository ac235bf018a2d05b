"""Text for terminals: its width in cells, and a sanitizer."""
