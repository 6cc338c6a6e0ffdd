"""From events to numbers: metrics, tables of jobs, figures and reports."""
