"""The closed vocabularies of a request and a plan, each defined once (the docs list them, a test compares)."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Method(StrEnum):
    """What is trained: everything from scratch, everything from a checkpoint, or low-rank adapters."""

    PRETRAIN = "pretrain"
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class Precision(StrEnum):
    """Number format of the matrix work; `fp16` and `bf16` are mixed precision with fp32 master weights."""

    AUTO = "auto"  # bf16 where the GPU has it, else fp16
    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    PURE_BF16 = "pure-bf16"
    FP8 = "fp8"


class Optimizer(StrEnum):
    """The optimizer, as far as its state and traffic differ."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"
    SGD = "sgd"
    ADAFACTOR = "adafactor"
    LION = "lion"


class ActivationCheckpointing(StrEnum):
    """Which activations are recomputed in the backward pass instead of stored."""

    AUTO = "auto"
    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class ShardingKind(StrEnum):
    """How the data-parallel group shares optimizer states (zero1), gradients (zero2) and weights (zero3 = FSDP)."""

    AUTO = "auto"
    NONE = "none"
    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"


class Software(StrEnum):
    """`ordinary`: what a competent user gets; `tuned`: what vendors reach in MLPerf."""

    ORDINARY = "ordinary"
    TUNED = "tuned"


class Verdict(StrEnum):
    """Does it fit: `tight` is within the uncertainty of the memory model."""

    YES = "yes"
    TIGHT = "tight"
    NO = "no"
    UNKNOWN = "unknown"


class EvidenceKind(StrEnum):
    """How near the nearest measurements are, nearest first; the widest interval among those that apply is used."""

    OWN = "own"
    GROUP = "group"
    LAB = "lab"
    UNSEEN_MODEL = "unseen-model"
    UNSEEN_GPU = "unseen-gpu"
    UNSEEN_LAB = "unseen-lab"


class BoundBy(StrEnum):
    """The term that takes most of the step."""

    COMPUTE = "compute"
    MEMORY_BANDWIDTH = "memory-bandwidth"
    LAUNCH = "launch"
    COMMUNICATION = "communication"
    PIPELINE = "pipeline"
    INPUT = "input"


class Sharding(IntEnum):
    """`ShardingKind` as a number, for arrays of candidates; the order is the order of what is shared."""

    NONE = 0
    DDP = 0  # one GPU and plain replicas hold the same states
    ZERO1 = 1
    ZERO2 = 2
    ZERO3 = 3


class Recompute(IntEnum):
    """`ActivationCheckpointing` as a number, for arrays of candidates."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2


class LinkKind(IntEnum):
    """What GPUs of one node talk over, slowest first."""

    PCIE_NO_P2P = 0  # GeForce: every byte goes through host memory
    PCIE = 1
    NVLINK = 2  # bridges and partial meshes
    NVSWITCH = 3  # every pair at full rate (also AMD Infinity Fabric meshes)


class NicKind(IntEnum):
    """What nodes talk over, slowest first."""

    ETHERNET = 0
    TCPX = 1
    EFA = 2
    RDMA = 3  # InfiniBand and RoCE
