"""How far is a plan? Its stages, told to whoever listens; a listener that raises stops the work there."""

from __future__ import annotations

from collections.abc import Callable

STAGES = {
    "offers": "offers that the filters leave",
    "layouts": "machines to divide the job over",
    "evidence": "machines with a layout that fits, their times corrected by measurements",
    "chance": "ways to run the job, with interruptions and failures",
    "plans": "plans written down, with their reasons",
    "estimates": "machines of an estimate",
}
"""Each stage and what is counted there, in the order in which a plan reaches them; the last is that of an estimate."""

Told = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is; what it raises ends the plan."""


def silently(stage: str, done: int, whole: int) -> None:
    """Nobody listens."""
