"""What does one image cost under a self-supervised objective: how many views of it meet which network?

`data/objectives.csv` holds the published recipe of each. Names of models often begin with it (`dino-vit-s16`,
`swav-resnet50`); `split` takes the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from benchmarks_db.errors import UnknownName
from benchmarks_db.models import resolve_model
from benchmarks_db.names import fold
from benchmarks_db.tables import DATA, number, read

OBJECTIVE_PIXELS = 224.0
"""Side of a full-size view in the published recipes; the counts of a decoder are of this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A published recipe, per image; views count as one each at full size."""

    name: str
    views: float  # full-size views that the network is trained on
    local_views: float = 0.0  # small views that it is trained on besides
    local_side: float = 1.0  # side of a small view over that of a full-size one
    teacher_views: float = 0.0  # full-size views that pass through an averaged copy, without a backward pass
    pictures: float = 1.0  # full-size pictures that the loader augments
    tokens: float = 1.0  # share of a view's patches that the network sees
    decoder_gmacs: float = 0.0  # multiply-adds of a decoder for one view of 224 pixels, forward
    source: str = ""

    @property
    def trained_area(self) -> float:
        """Views that the network is trained on, as full-size views of the same number of pixels.

        >>> round(objectives()["dino"].trained_area, 2), objectives()["mae"].trained_area
        (3.47, 0.25)
        """
        return (self.views + self.local_views * self.local_side**2) * self.tokens

    @property
    def forward_area(self) -> float:
        """Views that pass forward through the network or its averaged copy."""
        return self.trained_area + self.teacher_views

    @property
    def recipe(self) -> str:
        """What happens to an image, in words.

        >>> objectives()["dino"].recipe
        '2 views and 8 small ones trained on, 2 through an averaged copy'
        """
        small = f" and {self.local_views:g} small ones" if self.local_views else ""
        views = f"{self.views:g} view{'s' if self.views > 1 else ''}{small} trained on"
        part = f", {self.tokens:.0%} of the patches encoded" if self.tokens < 1.0 else ""
        return views + part + (f", {self.teacher_views:g} through an averaged copy" if self.teacher_views else "")

    @property
    def augmented_area(self) -> float:
        """Pictures that the loader augments, as full-size ones."""
        return self.pictures + self.local_views * self.local_side**2


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return tuple(read(DATA / "objectives.csv"))


@cache
def objectives() -> Mapping[str, Objective]:
    """All known objectives by name."""
    figures = ("views", "local_views", "local_side", "teacher_views", "pictures", "tokens", "decoder_gmacs")
    return {
        row["objective"]: Objective(
            name=row["objective"],
            source=row["source"],
            **{name: value for name in figures if (value := number(row[name])) is not None},
        )
        for row in _rows()
    }


@cache
def _spellings() -> Mapping[str, str]:
    """Canonical name by folded spelling."""
    found = {}
    for row in _rows():
        for spelling in (row["objective"], *row["aliases"].split(";")):
            if spelling:
                found[fold(spelling)] = row["objective"]
    return found


def resolve_objective(text: str) -> Objective:
    """The objective that a person's text names; UnknownName with near names otherwise.

    >>> resolve_objective("Barlow Twins").name, resolve_objective("MoCo v2").name
    ('barlowtwins', 'moco')
    """
    if name := _spellings().get(fold(text)):
        return objectives()[name]
    raise UnknownName("objective", text, objectives(), field="objective")


@lru_cache(maxsize=4096)  # a table of thousands of rows names a few hundred models
def split(text: str) -> tuple[str, str]:
    """(objective, backbone) of a model's name, the objective "" where none stands in front of a known backbone.

    >>> split("dino-vit-s16"), split("moco v3 resnet50"), split("resnet50"), split("dinov2-small")
    (('dino', 'vit-s16'), ('mocov3', 'resnet50'), ('', 'resnet50'), ('', 'dinov2-small'))
    """
    words = text.strip().casefold().replace("_", "-").replace(" ", "-").split("-")
    for count in range(min(3, len(words) - 1), 0, -1):
        name = _spellings().get(fold("-".join(words[:count])))
        rest = "-".join(words[count:])
        if name and _is_backbone(rest):
            return name, rest
    return "", text


def _is_backbone(text: str) -> bool:
    """A known vision model, named without doubt (`small` alone is none)."""
    try:
        match = resolve_model(text)
    except UnknownName:
        return False
    return match.model.kind == "vision" and not match.loose
