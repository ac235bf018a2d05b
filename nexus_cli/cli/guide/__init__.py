"""A newcomer's walk through the real engine: its scenes, its folder, what is printed, the process that is killed."""
