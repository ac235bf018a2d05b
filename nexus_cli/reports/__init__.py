"""Reports: one file each, returning the value that `--json` prints. The text forms are in `nexus_cli.reports.text`."""
