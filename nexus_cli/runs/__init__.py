"""Work that outlives processes: runs that wait, and plans and services that start runs."""
