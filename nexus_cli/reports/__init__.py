"""Reports: one file each, giving the value that `--json` prints. Their text form is in `nexus_cli.reports.text`."""
