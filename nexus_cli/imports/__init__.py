"""Import what other coding agents keep: settings, rules, instructions, commands, servers, sessions."""
