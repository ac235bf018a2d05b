"""The page of `nexus export --html`: one self-contained HTML file of a session and its requests."""
