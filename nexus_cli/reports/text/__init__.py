"""Text forms of reports: values of `nexus_cli.reports` as lines for people. `forms` names them all."""
