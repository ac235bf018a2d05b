"""Acts: operations on a session other than a turn. Each is a function that returns an `Act`.

`Session.act` runs an act like a turn: with events, and stopped by `cancel`. An act changes the session through its
conversation and records memos.
"""
