"""How much more (or less) than a supervised sample is one image of self-supervised training?

A sample stays one image: views add up in its work, its activations and its decoding, an averaged teacher adds forward
passes alone, a masked encoder sees a part of the patches (`benchmarks_db.objectives`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks_db.objectives import Objective
from estimator.architectures.vision import DECODE_MS
from estimator.work import Work

PILLOW_DECODE_MS, STRONG_VIEW_MS = 15.0, 9.0
"""One core's milliseconds to decode a photograph with Pillow, and for every full-size view to crop, jitter and blur it.

From the times of 26 M images with 12 workers (lightly-ai/lightly, imagenet100): 2 views 1,208 min, 4 views 1,856 min,
2 and 6 small ones 1,569 min."""


def under(work: Work, objective: Objective, *, pixels: float = 1.0) -> Work:
    """Work of one image under `objective`, from that of one supervised sample of the same network.

    With v trained views, t teacher views and the backward ratio r, forward work is v + t and backward work v r; traffic
    counts a third for a forward pass, as everywhere. `pixels` of the image over those of 224 x 224, for the decoder.

    >>> from benchmarks_db.objectives import objectives
    >>> one = Work(params=1e6, active_params=1e6, matmul_flops=3e9, decode_ms=7.0)
    >>> byol = under(one, objectives()["byol"])
    >>> byol.matmul_flops, byol.backward_ratio, byol.decode_ms
    (12000000000.0, 1.0, 33.0)
    """
    trained, teacher = objective.trained_area, objective.teacher_views
    forward = trained + teacher
    decoder = 2e9 * objective.decoder_gmacs * pixels
    supervised = np.asarray(work.matmul_flops, float)
    dense = supervised * forward
    ratio = np.asarray(work.backward_ratio, float) * (trained * supervised + decoder)
    traffic = trained + teacher / 3.0
    # A decoder moves about as many values per multiply-add as the network itself
    traffic += decoder / np.maximum(supervised, 1.0)
    passes = 1.0 + (objective.local_views > 0) + (teacher > 0) / 3.0
    augmented = PILLOW_DECODE_MS + (STRONG_VIEW_MS * objective.augmented_area if objective.pictures > 1.0 else 0.0)
    augmented *= min(pixels, 1.0) / DECODE_MS  # data sets of small pictures are stored small
    averaged = np.asarray(work.params, float) if teacher > 0 else 0.0
    stored = {
        name: np.asarray(getattr(work, name), float) * (traffic - teacher / 3.0)
        for name in ("stored_values", "stored_values_selective", "stored_values_full", "score_values")
    }
    return replace(
        work,
        params=work.params + averaged,
        matmul_flops=_plain(dense + decoder),
        grouped_flops=_plain(np.asarray(work.grouped_flops, float) * forward),
        attention_flops=_plain(np.asarray(work.attention_flops, float) * forward),
        backward_ratio=_plain(ratio / np.maximum(dense + decoder, 1.0)),
        elementwise_values=_plain(np.asarray(work.elementwise_values, float) * traffic),
        score_values_moved=_plain(np.asarray(work.score_values_moved, float) * traffic),
        kernels=_plain(np.asarray(work.kernels, float) * passes),
        decode_ms=_plain(np.asarray(work.decode_ms, float) * augmented),
        **{name: _plain(value) for name, value in stored.items()},
    )


def _plain(value: np.ndarray) -> float | np.ndarray:
    return float(value) if np.ndim(value) == 0 else value
