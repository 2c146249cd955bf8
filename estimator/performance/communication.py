"""How long do the GPUs talk, over which link, and how much of it hides behind compute?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance.constants import Constants
from estimator.terms import LinkKind, NicKind, Recompute, Sharding
from estimator.work import Work

Seconds = NDArray[np.float64]

NIC_SHARE = np.array([0.55, 0.75, 0.9, 1.0])
"""Rate by `NicKind` over what RDMA reaches on the same line: sockets on Ethernet, GPUDirect-TCPX, EFA, InfiniBand.

All-reduce over 4 nodes on 3.2 Tbit/s reaches 365 (H200) to 382 GB/s (B200) of 400 (benchmarks_db run facts)."""

STAGED_EFA = 0.2
"""EFA without GPUDirect, on cards without NVLink: about 3 GB/s a node between g6e instances (aws-ofi-nccl #547)."""


TABLES = 0.7
"""Rate of exchanges of all with all over NVLink's datasheet rate: large messages at once, where gradients come in
buckets while the network is computed."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Seconds a step on the wire; arrays of shape (n,)."""

    blocking: Seconds  # adds to compute: tensor parallel, expert exchange, collectives that contend with it
    hidden: Seconds  # runs beside compute: gradients, sharded weights, context parallel


def rates(hardware: Hardware, c: Constants) -> tuple[Seconds, Seconds]:
    """(in-node link, network) in bytes/s a GPU and direction, as software reaches them."""
    kind = np.asarray(hardware.link_kind)
    share = np.where(kind >= LinkKind.NVLINK, c.link, np.where(kind == LinkKind.PCIE, c.pcie, c.staged))
    network = np.maximum(hardware.nic_gbps, 1e-3)  # 0 where there is one node: nothing crosses it then
    nic = np.asarray(hardware.nic_kind)
    reached = np.take(NIC_SHARE, nic) * np.where((kind <= LinkKind.PCIE) & (nic == NicKind.EFA), STAGED_EFA, 1.0)
    return np.asarray(hardware.link_gbps * share * 1e9), np.asarray(network * reached * c.nic * 1e9)


def traffic(
    work: Work,
    hardware: Hardware,
    layout: Layout,
    stored_bytes: float | Seconds,
    c: Constants,
    *,
    tuned: float | Seconds = 0.0,
) -> Traffic:
    """Bytes over links, seconds a step; `stored_bytes` of a weight, less than its values take for a 4-bit base.

    Tensor parallel: 2 all-reduces a layer forward, 2 backward, 2 more when recomputed; ring factor 2 (t-1)/t.
    Experts: 2 exchanges a layer forward and backward of (experts a token) x width, to `e` ranks alike: those of the
    node over its link, the others over the network. Groups of experts lie across the tensor-parallel ranks where the
    replicas suffice (Megatron's expert-tensor-parallel default), else on neighbouring GPUs.
    Pipeline: one activation plane between stages, forward and backward, for each micro-batch and virtual stage. Ranks
    lie as Megatron lays them (tensor, context, data, pipeline from near to far): stages of a job of several nodes talk
    over the network, replicas of a stage inside the node first.
    Context parallel: keys and values go round the ring, forward and twice backward.
    A ring over nodes crosses each node's network once, which the GPUs of the node that are in it share.
    Data parallel: gradients once a step (ring all-reduce, 2 (d-1)/d x 4 bytes, `wire` of them where `tuned` is 1, as
    vendors exchange 16 bit); FSDP: weights gathered forward and backward of every micro-batch and gradients scattered.
    Inside a node collectives run on the multiprocessors and the memory that compute uses: the share `contend` of their
    time adds to it; network cards move what crosses nodes by themselves.
    Tables that the GPUs share out (recommendation): every looked-up value is sent to the GPU of its sample in 16 bit,
    its gradient back, and compute waits for both.
    """
    link, nic = rates(hardware, c)
    domain = np.where(np.asarray(hardware.domain_gpus) > 0, hardware.domain_gpus, hardware.gpus_per_node)
    domain = np.maximum(domain, 1.0)
    t, d = np.asarray(layout.tensor, float), np.asarray(layout.data, float)
    cp, e, p = np.asarray(layout.context, float), np.asarray(layout.expert, float), np.asarray(layout.pipeline, float)
    micros = layout.grad_accum
    layers = work.layers / p
    again = (np.asarray(layout.recompute) == Recompute.FULL).astype(float)
    plane = layout.micro_batch * work.tokens / cp * work.hidden * 2.0  # bytes of one activation plane
    latency = c.latency_us * 1e-6

    inside = np.where(t <= domain, link, 1.0 / (1.0 / link + 1.0 / (nic * domain)))
    reduces = layers * (4.0 + 2.0 * again) * micros
    tensor = np.where(t > 1, reduces * (plane * 2.0 * (t - 1.0) / t / inside + latency), 0.0)

    stride = np.where(e <= d * cp, t, 1.0)  # an expert's matrices are cut like the others where there are replicas
    near = np.clip(domain / stride, 1.0, e)  # ranks of an expert group on one node or rack
    width = np.where(np.asarray(work.expert_hidden) > 0, work.expert_hidden, work.hidden)
    parcel = layout.micro_batch * work.tokens / cp * width * 2.0 * work.experts_per_token / t
    exchanged = parcel * ((near - 1.0) / link + (e - near) / nic) / e
    expert = np.where(e > 1, layers * (4.0 + 2.0 * again) * micros * (exchanged + latency), 0.0)

    inside = np.where(t * cp * d * p <= domain, link, nic)
    sends = micros * layout.virtual_stages * 2.0 * (plane / t / inside + latency)
    sent = np.where(p > 1, sends, 0.0)

    kv = 2.0 * plane * work.kv_heads / np.maximum(work.heads, 1.0)
    inside = np.where(t * cp <= domain, link, np.minimum(link, nic * np.clip(domain / t, 1.0, cp)))
    context = np.where(cp > 1, layers * 3.0 * micros * kv * (cp - 1.0) / t / inside, 0.0)

    cut = t * p
    dense = (work.trainable_params - np.minimum(work.expert_params, work.trainable_params)) / cut
    routed = np.minimum(work.expert_params, work.trainable_params) / (cut * e)
    ring = d * cp
    here = np.clip(domain / t, 1.0, ring)  # ranks of one data-parallel group on one node or rack
    away = ring > here
    grads = (dense + routed) * work.wire_ratio * 4.0 * np.where(tuned, c.wire, 1.0) * 2.0 * (ring - 1.0) / ring
    reduce = grads * (1.0 / link + np.where(away, 1.0 / (nic * here), 0.0)) + latency
    units = work.gathered_units / p
    frozen = (work.params - work.expert_params * (1.0 - 1.0 / e)) / cut * stored_bytes
    gathered = micros * (2.0 * frozen + 2.0 * (dense + routed)) * (ring - 1.0) / ring
    sharded = gathered * (1.0 / link + np.where(away, 1.0 / (nic * here), 0.0)) + micros * units * 3.0 * latency
    full = np.asarray(layout.sharding) == Sharding.ZERO3
    data = np.where(ring > 1, np.where(full, sharded, reduce), 0.0)
    beside = c.contend * np.where(ring > 1, np.where(full, gathered, grads), 0.0) / link
    direct = np.where(np.asarray(hardware.link_kind) >= LinkKind.NVLINK, TABLES * 1e9 * hardware.link_gbps, link)
    near = (here - 1.0) / np.maximum(ring - 1.0, 1.0)  # share of the other ranks that the in-node link reaches
    tables = 4.0 * layout.micro_batch * micros * work.exchanged_values * (ring - 1.0) / ring
    tables = tables * (near / direct + (1.0 - near) / nic)
    blocking = c.tensor * tensor + c.exchange * expert + c.send * sent + beside + tables
    return Traffic(np.asarray(blocking), data - beside + context)
