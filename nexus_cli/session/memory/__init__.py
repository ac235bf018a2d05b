"""The memory of a session: its facts, and whose words a fact rests on."""
