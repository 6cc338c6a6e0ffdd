"""Questions about a live deployment: why a job waits, when it will start, what if, and who had how much.

They are answered by a process of its own that reads the journal, never by the thread that decides.
"""
