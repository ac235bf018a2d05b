"""Sections: the pieces of text that we add to a request, and their selection. See README.md."""
