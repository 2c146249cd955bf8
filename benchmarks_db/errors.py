"""What went wrong with what the user gave us: the root of the small error family of all floors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class EstimatorError(Exception):
    """A failure that a person can act on: names the field, the value, and what would help.

    The CLI and the API render it in one place each (exit code, problem+json); nothing else may.
    """

    def __init__(
        self, message: str, *, field: str | None = None, value: object = None, nearest: Iterable[str] = ()
    ) -> None:
        self.message = message
        self.field = field
        self.value = value
        self.nearest = tuple(nearest)
        super().__init__(self.__str__())

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        hint = f" (did you mean {' or '.join(self.nearest)}?)" if self.nearest else ""
        return f"{where}{self.message}{hint}"


class WorkloadError(EstimatorError):
    """Bad input: a field or value of the request (or a file it names) cannot be used. CLI exit 2, HTTP 422."""


CLOSE = 0.6  # of difflib's ratio: below, a short name has neighbours that nobody meant (`foo` bloom)
FEW = 6  # names that a hint can list whole: clouds, markets


class UnknownName(WorkloadError):  # noqa: N818  (reads as what happened)
    """A name that no table knows: carries the nearest names that do exist, or all of them where they are few.

    `spellings` maps further spellings (lower case) to the names that a hint should print.
    """

    def __init__(
        self,
        kind: str,
        value: str,
        known: Iterable[str],
        *,
        field: str | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        from difflib import get_close_matches  # 2 ms that only a slip pays for

        names = dict(spellings or {}) | {name.casefold(): name for name in known}
        text = value.strip().casefold()
        same = get_close_matches(text, names, n=6, cutoff=0.8)
        begin = sorted((key for key in names if key.startswith(text)), key=len) if len(text) > 1 else []
        close = get_close_matches(text, names, n=6, cutoff=CLOSE)
        nearest = list(dict.fromkeys(names[key] for key in (*same, *begin[:6], *close)))[:3]
        if not nearest and len(every := dict.fromkeys(names.values())) <= FEW:
            nearest = list(every)
        super().__init__(f"unknown {kind} {value!r}", field=field or kind, value=value, nearest=nearest)


class NoFeasiblePlan(EstimatorError):  # noqa: N818
    """No plan satisfies the request; `field` is the binding limit. CLI exit 3, HTTP 200 with `plans: []`."""


class PricesUnavailable(EstimatorError):  # noqa: N818
    """No usable price at all, or all of them older than the age allowed. CLI exit 4, HTTP 503."""
