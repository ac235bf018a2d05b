"""Text forms of reports: values of `nexus_cli.session.reports` as lines for people. `forms` names them all."""
