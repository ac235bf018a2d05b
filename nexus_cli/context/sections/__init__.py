"""Sections: the pieces of text that we add to a request, and which of them are sent. See README.md."""
