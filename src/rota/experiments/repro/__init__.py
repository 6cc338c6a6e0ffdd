"""Published results by name: what was run, what was printed, what comes out here.

See docs/reproductions.md.
"""
