"""What does the job run on, as numbers that broadcast: GPUs, the links inside a node and the network between nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimator.precision import MatrixRate
from estimator.sustained import sustained_fraction, watts_per_tflop
from estimator.terms import LinkKind, NicKind

if TYPE_CHECKING:
    from benchmarks_db.gpus import Gpu

Figure = float | NDArray[np.float64]
Code = int | NDArray[np.int64]

NVL72 = 72.0
"""GPUs of one NVLink domain in an NVL72 rack, which spans 18 hosts of 4 GPUs."""

TPU_SLICE = 256.0
"""Chips that the inter-chip interconnect of a TPU slice usually reaches."""

_PCIE_GBPS = {2: 8.0, 3: 15.75, 4: 31.5, 5: 63.0, 6: 126.0}
"""PCIe x16, GB/s and direction, by generation (PCI-SIG raw rates less encoding)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Hardware of n candidates; every field a scalar or an array of shape (n,).

    Rates are datasheet figures (dense, fp32 accumulation); sustained fractions belong to `performance`.
    `gpu` holds canonical names and is used for evidence, never for arithmetic.
    """

    gpu: str | NDArray[np.str_]
    matmul_tflops: Figure  # peak of the matrix work at the workload's precision on this GPU
    half_tflops: Figure  # peak at 16 bit (attention and everything fp8 leaves in 16 bit)
    issue_ghz: Figure  # multiprocessors x boost clock, GHz: the pace of code that no memory bounds; NaN where unknown
    memory_gbps: Figure  # device memory, GB/s
    capacity_gib: Figure  # what software can allocate per GPU, GiB
    tdp_w: Figure  # board power limit, W; NaN where unknown
    gpus_per_node: Figure  # fractions allowed for shared cards
    nodes: Figure
    link_gbps: Figure  # inside a node, per GPU and direction, GB/s
    link_kind: Code  # terms.LinkKind
    nic_gbps: Figure  # between nodes, per GPU and direction, GB/s; 0 when there is one node
    nic_kind: Code  # terms.NicKind
    vcpus_per_gpu: Figure  # NaN where unknown
    sustained: Figure = 1.0  # share of matmul_tflops held at the power limit (estimator.sustained)
    domain_gpus: Figure = 0.0  # GPUs that the in-node link reaches; 0: those of one node (72 in an NVL72 rack)

    @property
    def gpus(self) -> Figure:
        """GPUs of the whole job."""
        return self.gpus_per_node * self.nodes


@dataclass(frozen=True, slots=True)
class Links:
    """What a description of the machine says of its links; None where it says nothing."""

    link_kind: LinkKind | None = None
    node_gbit: float | None = None  # between nodes, Gbit/s a node
    gpu_gbit: float | None = None  # between nodes, Gbit/s a GPU
    nic_kind: NicKind | None = None
    rack: bool = False  # an NVLink domain across hosts


LONGEST = 300
"""Characters of a description of links that are read; the longest of the published ones has 105."""


def parse_links(text: str) -> Links:
    """Read `nvswitch+ib-hdr200x8`, `pcie`, `efa400`, `nvlink; net: 8x ConnectX-7 IB NDR 400Gb/s`, `eth100`.

    >>> parse_links("nvswitch+ib-ndr400x8").node_gbit
    3200.0
    """
    low = text[:LONGEST].strip().lower()  # the patterns look back from every place of it
    if not low:
        return Links()
    kind: LinkKind | None = None
    if "nvl72" in low or "nvswitch" in low or "infinity" in low or "xgmi" in low or low.startswith("ici"):
        kind = LinkKind.NVSWITCH
    elif "no nvlink" in low or "pcie" in low.split("net:")[0]:
        kind = LinkKind.PCIE
    elif "nvlink" in low:
        kind = LinkKind.NVLINK
    nic: NicKind | None = None
    if "tcpx" in low:
        nic = NicKind.TCPX
    elif "efa" in low:
        nic = NicKind.EFA
    elif re.search(r"\bib\b|infiniband|rdma|roce|opa|\bndr|\bhdr|\bedr", low):
        nic = NicKind.RDMA
    elif re.search(r"eth|gbe", low):
        nic = NicKind.ETHERNET
    per_node, per_gpu = _network_gbit(low)
    return Links(kind, per_node, per_gpu, nic, "nvl72" in low)


def _network_gbit(low: str) -> tuple[float | None, float | None]:
    """(Gbit/s a node, Gbit/s a GPU) of the compute network, the fastest one the text names."""
    if found := re.search(r"(\d+)\s*gbps-per-gpu", low):
        return None, float(found[1])
    if found := re.search(r"(\d+)\s*gbps-per-node", low):
        return float(found[1]), None
    rates: list[float] = []
    parts = [part for part in low.split(";") if not re.match(r"\s*(net:)?\s*(storage|management)[\w +]*:", part)]
    low = ";".join(parts)
    for count, each in re.findall(r"(\d+)\s*x\s*[a-z0-9 /\-\[\]()]*?(\d{2,3})\s*gb", low):
        rates.append(float(count) * float(each))
    for each, count in re.findall(r"(?:ib|hdr|ndr|edr|opa|rdma|roce|efa|eth)-?[a-z]*(\d{2,4})(?:x(\d+))?", low):
        rates.append(float(each) * float(count or 1))
    return (max(rates), None) if rates else (None, None)


def link_of(gpu: Gpu, links: Links = Links()) -> tuple[float, LinkKind]:
    """Rate per direction in GB/s and kind of the link inside a node, stated or else the usual one for the card.

    NVLink rates are datasheet totals of both directions, halved. SXM and OAM boards sit on NVSwitch or a full mesh,
    except V100-SXM2 and P100 (hybrid cube mesh). NVLink bridges between PCIe cards pair two cards only, so a box of
    them is taken as PCIe unless the source says NVLink. The PCIe of a board is its link to the host, not between GPUs.
    GeForce cards since Turing have no peer-to-peer over PCIe.
    """
    pcie = _PCIE_GBPS.get(int(gpu.pcie_gen or 4), 31.5)
    nvlink = (gpu.nvlink_gbps or 0.0) / 2.0
    board = any(
        tag in gpu.name
        for tag in ("SXM", "GH200", "GB200", "GB300", "B300", "MI2", "MI3", "H800", "A800", "TPU", "Trainium")
    )
    kind = links.link_kind
    if kind is None or (board and kind == LinkKind.PCIE):
        if board:
            kind = LinkKind.NVLINK if gpu.name.startswith(("V100-SXM2", "P100", "MI2")) else LinkKind.NVSWITCH
        else:
            kind = LinkKind.PCIE
    if kind >= LinkKind.NVLINK:
        if nvlink == 0.0:
            nvlink = {"amd": 350.0, "google": 200.0, "aws": 100.0}.get(gpu.vendor, 0.0)
        if nvlink > 0.0:
            return nvlink, kind
        kind = LinkKind.PCIE
    if not gpu.pcie_p2p:
        return pcie, LinkKind.PCIE_NO_P2P
    return pcie, LinkKind.PCIE


def memory_gbps(gpu: Gpu) -> float | None:
    """Device memory bandwidth, GB/s; where unknown 4 GB/s a TFLOP/s of 16 bit (3.4 of an H100 to 6.5 of an A100)."""
    half = gpu.bf16_tflops or gpu.fp16_tflops
    return gpu.memory_bandwidth_gbps or (4.0 * half if half else None)


FP32_LANES = 128.0
"""fp32 lanes of a multiprocessor of every GPU since 2020 but GA100's, whose number of multiprocessors is known."""


def issue_ghz(gpu: Gpu) -> float | None:
    """Multiprocessors x boost clock, GHz; where unknown from the fp32 rate, 2 FLOPs a lane and clock."""
    if gpu.sms and gpu.boost_mhz:
        return gpu.sms * gpu.boost_mhz / 1e3
    return gpu.fp32_tflops * 1e3 / (2.0 * FP32_LANES) if gpu.fp32_tflops else None


def usual_nic_gbps(gpu: Gpu) -> float:
    """GB/s a GPU between nodes where nobody states it: what clusters of the card are usually built with.

    DGX-1 and DGX-2 (V100): 4 to 8 x 100 Gb for 8 to 16 GPUs; DGX A100: 200 Gb a GPU; H100, H200, B200: 400 Gb a GPU;
    GB300: 800 Gb a GPU; MI250X: 4 x 200 Gb for 4 (Frontier, LUMI); cards on PCIe: 100 Gb for 8 of them.
    """
    name = gpu.name
    if name.startswith(("GB300", "B300")):
        return 100.0
    if name.startswith(("H100-SXM", "H200-SXM", "B200", "GB200", "GH200", "H800", "MI3")):
        return 50.0
    if name.startswith(("A100", "A800", "TPU", "H100", "MI250")):
        return 25.0
    if name.startswith(("V100-SXM", "P100-SXM", "V100")):
        return 6.25
    return 1.5625


def hardware_of(
    gpus: Sequence[Gpu],
    rates: Sequence[MatrixRate],
    *,
    gpus_per_node: Figure,
    nodes: Figure = 1.0,
    links: Sequence[Links] | None = None,
    network_gbps: Figure = float("nan"),
    vcpus: Figure = float("nan"),
) -> Hardware:
    """Hardware arrays of n candidates, shape (n,), from their GPUs and the matrix rate of the workload on each.

    `network_gbps` is Gbit/s of a node as clouds list it (NaN: what `links` says, else the usual network of the card);
    `vcpus` of a node. GPUs and rates of a planner repeat: pass one entry a candidate, or build once per distinct
    instance type and index the result with `take`.
    """
    n = len(gpus)
    links = links if links is not None else [Links()] * n
    per_node = np.broadcast_to(np.asarray(gpus_per_node, float), (n,))
    network = np.broadcast_to(np.asarray(network_gbps, float), (n,))
    link, kind, nic, nic_kind, domain = (np.zeros(n) for _ in range(5))
    for i, (gpu, said) in enumerate(zip(gpus, links, strict=True)):
        link[i], kind[i] = link_of(gpu, said)
        gbit = said.gpu_gbit if said.gpu_gbit else (said.node_gbit or network[i]) / max(per_node[i], 1.0)
        nic[i] = gbit / 8.0 if np.isfinite(gbit) and gbit > 0.0 else usual_nic_gbps(gpu)
        if said.nic_kind is not None:
            nic_kind[i] = said.nic_kind
        else:
            nic_kind[i] = NicKind.RDMA if usual_nic_gbps(gpu) > 2.0 else NicKind.ETHERNET
        domain[i] = NVL72 if said.rack or gpu.name.startswith(("GB200", "GB300")) else 0.0
        if gpu.kind == "tpu":
            domain[i] = TPU_SLICE
    return Hardware(
        gpu=np.array([gpu.name for gpu in gpus]),
        matmul_tflops=_figures([r.peak_tflops for r in rates]),
        half_tflops=_figures([r.half_tflops for r in rates]),
        issue_ghz=_figures([issue_ghz(gpu) for gpu in gpus]),
        memory_gbps=_figures([memory_gbps(gpu) for gpu in gpus]),
        capacity_gib=_figures([g.usable_gib for g in gpus]),
        tdp_w=_figures([g.tdp_w for g in gpus]),
        gpus_per_node=np.array(per_node),
        nodes=np.broadcast_to(np.asarray(nodes, float), (n,)),
        link_gbps=link,
        link_kind=kind.astype(np.int64),
        nic_gbps=nic,
        nic_kind=nic_kind.astype(np.int64),
        vcpus_per_gpu=np.broadcast_to(np.asarray(vcpus, float), (n,)) / per_node,
        sustained=_sustained(gpus, rates),
        domain_gpus=domain,
    )


def _sustained(gpus: Sequence[Gpu], rates: Sequence[MatrixRate]) -> NDArray[np.float64]:
    watts = np.array([watts_per_tflop(g.arch, r.name) for g, r in zip(gpus, rates, strict=True)])
    peaks, limits = _figures([r.peak_tflops for r in rates]), _figures([g.tdp_w for g in gpus])
    return np.asarray(sustained_fraction(peaks, watts, limits), float)


def _figures(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if v is None else float(v) for v in values])
