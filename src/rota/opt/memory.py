"""What a policy finds again from its last allocation: a first guess for the solver, never part of the answer."""

from __future__ import annotations

from typing import Any

from rota.core.view import View


def recalled(view: View, name: str) -> Any:
    """The remembered value of that name, or None."""
    return None if view.previous is None else view.previous.state.get(name)
