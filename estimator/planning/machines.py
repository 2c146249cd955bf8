"""Which machines, how many of each: the distinct kinds of hardware on offer, times the node counts worth a look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.gpus import Gpu, gpus
from estimator.hardware import Hardware, Links, hardware_of
from estimator.job import Job
from estimator.precision import resolve
from estimator.records import pick
from estimator.terms import LinkKind, NicKind
from pricing.offers import InstanceTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DEFAULT_MAX_NODES = 128
FEWEST_PER_NODE = 4  # a total that the user names may take more than that many nodes, if each has so many GPUs
# More nodes are not looked at once half as many would end the run this soon (hours, at `TYPICAL_MFU`): start-up and
# communication eat the rest. It does not depend on the deadline: a later one must not hide a plan.
SHORT_RUN_HOURS = 0.5
TYPICAL_MFU = 0.4
# ... and hold this many times the weights, gradients and optimizer states: a job may need nodes for their memory alone.
AMPLE_MEMORY = 4.0

_LINKS = {
    "pcie": LinkKind.PCIE,
    "nvlink": LinkKind.NVLINK,
    "nvswitch": LinkKind.NVSWITCH,
    "infinity-fabric": LinkKind.NVSWITCH,
}
_NICS = {
    "efa": NicKind.EFA,
    "infiniband": NicKind.RDMA,
    "roce": NicKind.RDMA,
    "gpudirect-tcpx": NicKind.TCPX,
    "": NicKind.ETHERNET,
}


@dataclass(frozen=True, slots=True)
class Kinds:
    """Distinct hardware among instance types; `of_type` is (types,) with -1 where a type cannot be planned."""

    hardware: Hardware  # one row a kind, nodes = 1; a share of a card is a slower, smaller card
    share: Floats  # the part of a card that a machine has; 1 for whole cards
    of_type: Ints
    refused: Mapping[int, tuple[str, str]]  # type row -> (reason code, words)

    def __len__(self) -> int:
        return len(self.share)


def reads_input(job: Job) -> bool:
    """Whether the work has an input pipeline, which the host's processors run."""
    return float(np.max(np.asarray(job.work.decode_ms))) > 0.0


def kinds_of(types: InstanceTable, wanted: NDArray[np.bool_], job: Job) -> Kinds:
    """Group the `wanted` instance types (a mask over `types`) by what matters to a step.

    Host processors count only for work that has an input pipeline, so that one GPU with 4 or 64 vCPUs is one kind
    for a language model.
    """
    table = gpus()
    reads = reads_input(job)
    places: dict[tuple[object, ...], int] = {}
    members: list[tuple[Gpu, float, Links, float, float]] = []
    of_type = np.full(len(types), -1, dtype=np.int64)
    refused: dict[int, tuple[str, str]] = {}
    for row in np.flatnonzero(wanted):
        name, per_node = types.texts["gpu"][row], types.numbers["gpus"][row]
        gpu = table.get(name)
        if gpu is None or not per_node > 0:
            refused[int(row)] = ("unknown-gpu", f"{types.texts['instance_type'][row]}: its accelerator is not known")
            continue
        rate = resolve(job.workload.precision, gpu)
        if rate.refused or rate.peak_tflops is None:
            refused[int(row)] = ("precision", rate.refused or f"{gpu.name} has no known {rate.name} rate")
            continue
        if gpu.memory_bandwidth_gbps is None or gpu.usable_gib is None:
            refused[int(row)] = ("unknown-gpu", f"{gpu.name}: memory size or bandwidth is not known")
            continue
        vcpus = types.numbers["vcpus"][row] if reads else math.nan
        network = types.numbers["network_gbps"][row]
        wire = (types.texts["gpu_interconnect"][row], types.texts["rdma"][row])
        # of a machine that no cloud rents and nobody describes: the network that clusters of its card usually have
        unsaid = types.texts["cloud"][row] == "own" and math.isnan(network) and not wire[1]
        key = (name, per_node, *wire, repr(network), repr(vcpus), unsaid)
        if key not in places:
            places[key] = len(places)
            links = Links(
                link_kind=_LINKS.get(wire[0]), nic_kind=None if unsaid else _NICS.get(wire[1], NicKind.ETHERNET)
            )
            members.append((gpu, float(per_node), links, float(network), float(vcpus)))
        of_type[row] = places[key]
    share = np.array([min(1.0, member[1]) for member in members])
    return Kinds(_hardware(members, share, job), share, of_type, refused)


def _hardware(members: Sequence[tuple[Gpu, float, Links, float, float]], share: Floats, job: Job) -> Hardware:
    cards = [member[0] for member in members]
    whole = hardware_of(
        cards,
        [resolve(job.workload.precision, card) for card in cards],
        gpus_per_node=np.array([max(1.0, member[1]) for member in members]),
        links=[member[2] for member in members],
        network_gbps=np.array([member[3] for member in members]),
        vcpus=np.array([member[4] for member in members]),
    )
    # Partitions of a card (g6f, NVads A10 v5) get their part of its units, bandwidth and memory.
    return replace(
        whole,
        matmul_tflops=whole.matmul_tflops * share,
        half_tflops=whole.half_tflops * share,
        issue_ghz=whole.issue_ghz * share,
        memory_gbps=whole.memory_gbps * share,
        capacity_gib=whole.capacity_gib * share,
    )


@dataclass(frozen=True, slots=True)
class Fleet:
    """h rows: a kind of hardware and a number of nodes; rows of one kind are neighbours, nodes ascending."""

    kind: Ints
    hardware: Hardware
    gpus: Floats  # (h,) cards of the whole job, shares counted as such

    @property
    def nodes(self) -> Floats:
        """Instances of each row."""
        return np.asarray(self.hardware.nodes)


def fleet_of(kinds: Kinds, job: Job, *, gpu_counts: Mapping[int, frozenset[float]], limits: Mapping[int, int]) -> Fleet:
    """Kinds times node counts: 1, 2, 4, ... while more nodes can still shorten the run or are needed for their memory.

    `gpu_counts` gives the totals asked for ("H100:8") by kind, `limits` the nodes that exist of a kind (own machines).
    A total asked for is not held to `DEFAULT_MAX_NODES`.
    """
    asked = job.workload.constraints
    low, high = asked.min_nodes or 1, asked.max_nodes or max(DEFAULT_MAX_NODES, asked.min_nodes or 1)
    per_node = np.asarray(kinds.hardware.gpus_per_node, float) * kinds.share
    alone = _hours_alone(kinds, job)
    ample = _ample_nodes(kinds, job)
    most_gpus = math.inf if asked.max_gpus is None else asked.max_gpus * (1 + 1e-9)
    rows: list[tuple[int, int]] = []
    for kind in range(len(kinds)):
        most = min(high, limits.get(kind, high)) if per_node[kind] >= 1 else 1
        if asked.max_gpus is not None:
            most = min(most, math.floor(asked.max_gpus / float(per_node[kind]) + 1e-9))
        if kind in gpu_counts:
            totals = [g for g in gpu_counts[kind] if _divides(g, float(per_node[kind])) and g <= most_gpus]
            if asked.max_nodes is None and totals:
                most = max(most, int(min(limits.get(kind, math.inf), max(totals) / FEWEST_PER_NODE)))
            rows += [(kind, n) for n in sorted({round(g / per_node[kind]) for g in totals}) if low <= n <= most]
            continue
        useful = max(alone[kind] / SHORT_RUN_HOURS, ample[kind])
        rows += [(kind, n) for n in _counts(low, most) if n == low or n / 2 < useful]
    index = np.array([kind for kind, _ in rows], dtype=np.int64)
    hardware = pick(kinds.hardware, index)
    nodes = np.array([float(n) for _, n in rows])
    return Fleet(index, _with_nodes(hardware, nodes), per_node[index] * nodes)


def _divides(total: float, per_node: float) -> bool:
    nodes = total / per_node
    return nodes >= 1 - 1e-9 and abs(nodes - round(nodes)) < 1e-6


def _counts(low: int, most: int) -> list[int]:
    """Powers of two within [low, most], and both ends.

    >>> _counts(1, 6)
    [1, 2, 4, 6]
    """
    powers = [1 << k for k in range(most.bit_length()) if low <= 1 << k <= most]
    return sorted({*powers, *((low, most) if low <= most else ())})


def _hours_alone(kinds: Kinds, job: Job) -> Floats:
    """A rule-of-thumb time on one node, hours: three forward passes of FLOPs at `TYPICAL_MFU` of the peak."""
    work = job.work
    forward = work.matmul_flops + work.expert_flops + work.attention_flops + work.grouped_flops
    total = float(np.asarray(forward)) * 3.0 * job.steps * job.training.global_batch
    peak = np.asarray(kinds.hardware.matmul_tflops) * 1e12 * np.asarray(kinds.hardware.gpus_per_node)
    return np.atleast_1d(np.asarray(total / (peak * TYPICAL_MFU) / 3600.0, float))


def _ample_nodes(kinds: Kinds, job: Job) -> Floats:
    """Nodes that hold `AMPLE_MEMORY` times what training keeps: 18 bytes a trained parameter, 2 a frozen one."""
    work = job.work
    kept = 16.0 * float(np.asarray(work.trainable_params)) + 2.0 * float(np.asarray(work.params))
    node = np.asarray(kinds.hardware.capacity_gib, float) * np.asarray(kinds.hardware.gpus_per_node, float)
    return np.atleast_1d(np.asarray(AMPLE_MEMORY * kept / 2.0**30 / node, float))


def _with_nodes(hardware: Hardware, nodes: Floats) -> Hardware:
    alone = nodes <= 1
    return replace(
        hardware,
        nodes=nodes,
        nic_gbps=np.where(alone, 0.0, np.asarray(hardware.nic_gbps)),
    )
