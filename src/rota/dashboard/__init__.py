"""A page about a live cluster, served on loopback with the rights of whoever started it, and what `rota top` shows.

`watching` keeps a picture of the cluster up to date, `picture` has the values in it, `past_rounds` those of earlier
ones, `differences` says what a viewer does not know yet, `gateway` serves the page (`assets/`) to who has its key.
"""
