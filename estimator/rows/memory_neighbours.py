"""What do measured memories nearby say: of the account's error, and of models whose activations nobody counted?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from estimator.memory import DEFAULT, Z80, MemoryConstants
from estimator.rows.arrays import Prepared, prepare
from estimator.rows.memory import KNOWN_LABORATORY, Question, RowMemory, complete, question, rests_on_size

Array = NDArray[np.float64]
HeldOut = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Codes of the asked and of the known rows: a known row has no say about an asked row of the same code."""


@dataclass(frozen=True, slots=True)
class Features:
    """What makes two rows alike, arrays of shape (m,)."""

    lab: NDArray[np.str_]
    names: NDArray[np.str_]  # (m, k): model, adapters, framework, format, GPU
    figures: Array  # (m, 4): recomputation, sharding, log tokens of a micro-batch, log parameters
    group: NDArray[np.str_]  # laboratory, model, GPU and adapters: what counts as one independent measurement


NAME_WEIGHTS = np.array([0.7, 1.0, 0.7, 0.3, 0.2])
FIGURE_WEIGHTS = np.array([0.7, 0.5, 0.4, 0.4])
REACH = 0.35
"""Distance over which the say of a measurement falls by e."""
DOUBT = 0.05
"""Weight of "no correction" against a measurement at distance 0, where the residuals nearby agree."""
AGREEMENT = 0.2
"""Standard deviation of the log residuals nearby at which that doubt doubles (as its square)."""
ENOUGH_GROUPS = 5
"""Groups of a laboratory from which it can be seen whether they foretell each other."""
LARGEST_CORRECTION = 0.8
"""Log residual beyond which a measurement says no more (its row is misread or its habits are unknown)."""


def features_of(prepared: Prepared) -> Features:
    """The features of rows; figures beyond 3 units apart count as 3."""
    rows = prepared.rows
    lab = np.array([row.lab.split(":")[0] for row in rows], str)
    names = np.array(
        [[row.model.name, row.peft or "none", row.framework, row.format, row.gpu.name] for row in rows], str
    ).reshape(len(rows), len(NAME_WEIGHTS))
    layout = prepared.layout
    tokens = np.asarray(layout.micro_batch, float) * np.asarray(prepared.work.tokens, float)
    figures = np.stack(
        [
            np.minimum(np.asarray(layout.recompute, float), 1.0),
            np.minimum(np.asarray(layout.sharding, float), 1.0),
            np.log(tokens),
            np.log(np.asarray(prepared.work.params, float)),
        ],
        axis=1,
    )
    group = np.array([f"{a}|{n[0]}|{n[4]}|{n[1]}" for a, n in zip(lab, names, strict=True)], str)
    return Features(lab, names, figures, group)


def correction(
    asked: Features, known: Features, residual: Array, *, held_out: HeldOut | None = None, chunk: int = 512
) -> Array:
    """Log factor by which the account is off near each asked row, shape (m,): to be subtracted from its log.

    `residual`: log(account / measured) of the `known` rows. Only rows of the same laboratory have a say, the nearer the
    more; a group counts by the square root of its rows; far from everything the correction fades to 0. Where a
    laboratory's groups do not foretell each other (tried by leaving each out), a row hears its own group only, and
    where not even the rows of a group do, none.
    """
    shift = np.zeros(len(asked.lab))
    held = np.clip(residual, -LARGEST_CORRECTION, LARGEST_CORRECTION)
    for lab in np.unique(asked.lab):
        theirs = np.nonzero((known.lab == lab) & np.isfinite(residual))[0]
        if len(theirs) == 0:
            continue
        mine = np.nonzero(asked.lab == lab)[0]
        shared = _foretell(known, theirs, held)
        own = shared or _own_foretell(known, theirs, held)
        for start in range(0, len(mine), chunk):
            part = mine[start : start + chunk]
            say = _say(asked, part, known, theirs)
            if not own:
                say = 0.0 * say
            elif not shared:
                say = say * (asked.group[part][:, None] == known.group[theirs][None, :])
            if held_out is not None:
                say = say * (held_out[0][part][:, None] != held_out[1][theirs][None, :])
            shift[part] = _mean(say, held[theirs])
    return shift


def _foretell(known: Features, rows: NDArray[np.int64], held: Array) -> bool:
    """Whether the groups of one laboratory foretell each other's residuals; taken for granted with few groups."""
    groups, code = np.unique(known.group[rows], return_inverse=True)
    if len(groups) < ENOUGH_GROUPS:
        return True
    say = _say(known, rows, known, rows) * (code[:, None] != code[None, :])
    left = held[rows] - _mean(say, held[rows])
    before, after = (
        np.median([np.median(np.abs(logs[code == one])) for one in range(len(groups))]) for logs in (held[rows], left)
    )
    return bool(after < before)


def _own_foretell(known: Features, rows: NDArray[np.int64], held: Array) -> bool:
    """Whether the rows of a group foretell one another; taken for granted where few groups have more than one row."""
    _, code = np.unique(known.group[rows], return_inverse=True)
    several = np.bincount(code)[code] > 1
    if len(np.unique(code[several])) < ENOUGH_GROUPS:
        return True
    say = _say(known, rows, known, rows) * (code[:, None] == code[None, :])
    np.fill_diagonal(say, 0.0)
    left = held[rows] - _mean(say, held[rows])
    before, after = (
        np.median([np.median(np.abs(logs[code == one])) for one in np.unique(code[several])])
        for logs in (held[rows], left)
    )
    return bool(after < before)


def _say(asked: Features, part: NDArray[np.int64], known: Features, rows: NDArray[np.int64]) -> Array:
    """Weight of each of `rows` of the known for each of `part` of the asked, shape (part, rows)."""
    differ = asked.names[part][:, None, :] != known.names[rows][None, :, :]
    apart = np.minimum(np.abs(asked.figures[part][:, None, :] - known.figures[rows][None, :, :]), 3.0)
    distance = differ @ NAME_WEIGHTS + np.nan_to_num(apart, nan=3.0) @ FIGURE_WEIGHTS
    _, code = np.unique(known.group[rows], return_inverse=True)
    return np.asarray(np.exp(-distance / REACH) / np.sqrt(np.bincount(code)[code])[None, :], float)


def _mean(say: Array, held: Array) -> Array:
    """Weighted mean of what is said, drawn to 0 by doubt, the more the less the sayings agree."""
    total = say.sum(axis=1)
    mean = say @ held / np.maximum(total, 1e-300)
    scatter = np.maximum(say @ held**2 / np.maximum(total, 1e-300) - mean**2, 0.0)
    return np.asarray(mean * total / (total + DOUBT * (1.0 + scatter / AGREEMENT**2)), float)


# Activations that only a measured memory tells


def implied_values(asked: Question, stated: Array, constants: MemoryConstants = DEFAULT) -> Array:
    """Values a sample keeps that make the account equal to the `stated` GiB of each row; NaN where nothing is left."""
    unit = 1e9

    def used(values: float) -> Array:
        kept = np.full(len(stated), values)
        work = replace(
            asked.work, stored_values=kept, stored_values_selective=0.0 * kept, stored_values_full=0.0 * kept
        )
        return replace(asked, work=work).account(constants).used

    nothing = used(1.0)
    left = stated - nothing
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(left > 0.02 * stated, left / (used(unit) - nothing) * unit, np.nan)


def with_activations(
    asked: Question,
    prepared: Prepared,
    known: Question,
    known_prepared: Prepared,
    stated: Array,
    *,
    held_out: HeldOut | None = None,
) -> Question:
    """`asked` with the activations of models that rest on their size alone taken from measured memories.

    Within a laboratory the log of what a sample keeps is a sum of what the parts of the model's name add
    (`maskrcnn`, `resnet101`, `fpn`), of the format and of the micro-batch, by ridge regression on its measured rows;
    where it has none of the kind (the first part of the name), the activations stay what the throughput implies.
    """
    mine = np.nonzero([rests_on_size(row) for row in prepared.rows])[0]
    theirs = np.nonzero([rests_on_size(row) for row in known_prepared.rows])[0]
    if len(mine) == 0 or len(theirs) == 0:
        return asked
    logs = np.log(implied_values(known, stated)[theirs])
    ours, others = features_of(prepared), features_of(known_prepared)
    stored = np.array(np.broadcast_to(asked.work.stored_values, (len(prepared.rows),)), float)
    for lab in np.unique(ours.lab[mine]):
        place = np.nonzero((others.lab[theirs] == lab) & np.isfinite(logs))[0]
        kinds = {_kind(known_prepared, int(k)) for k in theirs[place]}
        part = mine[(ours.lab[mine] == lab) & np.array([_kind(prepared, int(i)) in kinds for i in mine])]
        parts = sorted({word for k in theirs[place] for word in known_prepared.rows[k].model.name.split("-")})
        have, want = _design(known_prepared, theirs[place], parts), _design(prepared, part, parts)
        group = others.group[theirs[place]]
        asks, says = (held_out[0][part], held_out[1][theirs[place]]) if held_out else (part * 0, place * 0 - 1)
        for code in np.unique(asks):
            use, to = says != code, asks == code
            if use.any():
                stored[part[to]] = np.exp(_ridge(have[use], logs[place][use], group[use], want[to]))
    return replace(asked, work=replace(asked.work, stored_values=stored))


def _kind(prepared: Prepared, row: int) -> str:
    """The first part of a model's name: `maskrcnn` of `maskrcnn-resnet50-fpn`."""
    return prepared.rows[row].model.name.split("-")[0]


RIDGE = 0.2
"""Pull of the effects of name parts, format and batch to zero, against one group of measurements."""


def _design(prepared: Prepared, index: NDArray[np.int64], parts: list[str]) -> Array:
    """Columns of the regression: one a name part, format wider than 16 bit, log micro-batch; shape (len(index), k)."""
    words = [set(prepared.rows[i].model.name.split("-")) for i in index]
    wide = [prepared.rows[i].format in ("fp32", "tf32") for i in index]
    micro = np.log(np.asarray(prepared.layout.micro_batch, float)[index])
    named = np.array([[part in have for part in parts] for have in words], float).reshape(len(index), len(parts))
    return np.column_stack([named, np.array(wide, float), 0.2 * np.nan_to_num(micro)])


def _ridge(have: Array, target: Array, group: NDArray[np.str_], want: Array) -> Array:
    """Ridge regression around the weighted mean, every group weighing the same; predictions for `want`."""
    _, code = np.unique(group, return_inverse=True)
    weight = 1.0 / np.bincount(code)[code]
    middle, level = np.average(have, axis=0, weights=weight), np.average(target, weights=weight)
    x = (have - middle) * np.sqrt(weight)[:, None]
    effects = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ ((target - level) * np.sqrt(weight)))
    return np.asarray(level + (want - middle) @ effects, float)


@cache
def measured() -> tuple[Prepared, Array]:
    """The shipped measurements that state memory: prepared, and the GiB per GPU stated; read once.

    Rows with states or weights outside the GPU stay out.
    """
    from benchmarks_db.measurements import load

    table = load()
    stated = np.asarray(table["mem_gib_per_gpu"], float)
    inside = np.asarray(table["offload"]) == ""  # no column that a prediction reads tells the others apart
    index = np.nonzero((stated > 0) & (np.asarray(table["quality"]) != "unusable") & inside)[0]
    prepared = prepare(table.rows(index), profiles=False)
    return prepared, stated[index][prepared.index]


@cache
def _known() -> tuple[Question, Array, Features]:
    """The measured rows as a question with activations filled, their log residuals and features; computed once."""
    prepared, stated = measured()
    plain = question(prepared)
    asked = with_activations(plain, prepared, plain, prepared, stated)
    with np.errstate(divide="ignore", invalid="ignore"):
        return asked, np.log(asked.account().used / stated), features_of(prepared)


def corrected_memory(prepared: Prepared) -> RowMemory:
    """`row_memory`, with unknown activations and the whole drawn towards what was measured on like rows."""
    known_prepared, stated = measured()
    known, residual, features = _known()
    asked = with_activations(question(prepared), prepared, known, known_prepared, stated)
    asked, guessed = _with_inferred(asked, prepared)
    plain = complete(asked)
    mine = features_of(prepared)
    factor = np.exp(-correction(mine, features, residual))
    account = plain.account.scaled(factor)
    sigma = account.sigma + np.where(guessed, GUESSED_ACTIVATIONS * account.activations, 0.0)
    beyond = _leaves_open(prepared) & (account.used > plain.capacity)
    heard = np.isin(mine.lab, features.lab)
    half = Z80 * sigma * np.where(heard, KNOWN_LABORATORY, 1.0)
    # What a row leaves open can only make it smaller: no reason to rule a card out, nor to widen the interval upwards
    open_ended = np.where(guessed | beyond, np.maximum(DOUBTFUL / asked.doubt, 1.0), 1.0)
    account = replace(account, sigma=sigma * open_ended)
    return RowMemory(account, stated=plain.stated * factor, capacity=plain.capacity, half=half)


DOUBTFUL = 4.0
"""How much farther beyond a card a row must be to be ruled out there, where what it leaves open may make it fit or only
a throughput tells of its activations."""
GUESSED_ACTIVATIONS = 0.75
"""Relative error, one standard deviation, that activations have more where only a throughput tells of them."""


def _leaves_open(prepared: Prepared) -> NDArray[np.bool_]:
    """Whether a row says nothing of recomputation, or of how several GPUs share the states: what could make it fit."""
    return np.array(
        [
            not row.act_ckpt or (row.gpus > 1 and not row.sharding and np.isnan(row.tensor) and np.isnan(row.pipeline))
            for row in prepared.rows
        ],
        bool,
    )


def _with_inferred(asked: Question, prepared: Prepared) -> tuple[Question, NDArray[np.bool_]]:
    """`asked` with activations that nobody counted or measured taken from the work that throughputs imply."""
    n = len(prepared.rows)
    stored = np.array(np.broadcast_to(asked.work.stored_values, (n,)), float)
    inferred = np.broadcast_to(np.asarray(prepared.work.stored_values, float), (n,))
    guessed = np.array([rests_on_size(row) for row in prepared.rows], bool) & ~(stored > 0) & (inferred > 0)
    stored[guessed] = inferred[guessed]
    return replace(asked, work=replace(asked.work, stored_values=stored)), guessed
