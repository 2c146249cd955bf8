"""How much memory does a training step take on each GPU, does it fit, and what would make it fit?"""

from estimator.memory.account import COMPONENTS, MemoryAccount, account
from estimator.memory.constants import BOUNDS, DEFAULT, GIB, PRIOR, Z80, MemoryConstants
from estimator.memory.fit import NO, TIGHT, UNKNOWN, VERDICTS, YES, largest_micro_batch, verdict
from estimator.memory.recipe import Recipe, recipe
from estimator.memory.stack import ORDINARY, Stack, stack_name, stacks_of

__all__ = [
    "BOUNDS",
    "COMPONENTS",
    "DEFAULT",
    "GIB",
    "NO",
    "ORDINARY",
    "PRIOR",
    "TIGHT",
    "UNKNOWN",
    "VERDICTS",
    "YES",
    "Z80",
    "MemoryAccount",
    "MemoryConstants",
    "Recipe",
    "Stack",
    "account",
    "largest_micro_batch",
    "recipe",
    "stack_name",
    "stacks_of",
    "verdict",
]
