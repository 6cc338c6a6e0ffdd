"""One HTML file about a sweep or some runs.

Tables, figures, Gantt charts and differences, without a network.
"""
