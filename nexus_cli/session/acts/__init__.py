"""Acts: operations on a session other than a turn. Each is an `Act`, or a function that returns one.

`Session.act` runs an act like a turn: with events, and stopped by `cancel`. An act changes the session through its
conversation and records memos.
"""
