"""Emulated GPUs: real processes, real data reading, real scheduling.

Only the work of the device is waited for.

Standard library only, so that agents and job processes stay small and start at once. What is
emulated is the time of a step on the device (`catalogue`, `gangs`), the device's memory (`memory`)
and the sharing of a device by several jobs (`device`). The data side is real: `loader` reads bytes
and burns CPU time in processes of its own. See docs/emulation.md.
"""
