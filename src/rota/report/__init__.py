"""One HTML file about a sweep or some runs: tables, figures, Gantt charts and differences, without a network."""
