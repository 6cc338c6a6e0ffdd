"""The dividing half: on which servers the chosen options run."""
