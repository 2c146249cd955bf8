"""GPU facts of EC2: what is a GPU machine, which card, how many; checked against moto's real table too."""

from __future__ import annotations

from typing import Any

import boto3
from moto import mock_aws

from pricing.instances import instance_types
from pricing.sources.accelerators import canonical_gpu
from pricing.sources.aws_machines import GPU_FAMILY, GpuCatalogue, gpu_machine
from tests.pricing.sources.world_aws import INSTANCE_TYPES, described


def test_the_shipped_table_knows_better_than_the_api() -> None:
    catalogue = GpuCatalogue(INSTANCE_TYPES)
    assert catalogue.gpu_of("p5en.48xlarge") == ("H200-SXM-141GB", 8.0), "EC2 has called it NVIDIA"
    assert catalogue.gpu_of("g6f.large") == ("L4", 0.125)
    assert catalogue.gpu_of("p4d.24xlarge") == ("A100-SXM4-40GB", 8.0)
    assert catalogue.gpu_of("p4de.24xlarge") == ("A100-SXM4-80GB", 8.0)


def test_neuron_and_plain_machines_have_no_gpu_whatever_the_price_list_says() -> None:
    catalogue = GpuCatalogue(INSTANCE_TYPES)
    for kind in ("inf2.xlarge", "m5.large"):
        assert catalogue.gpu_of(kind, GPU_FAMILY) is None


def test_a_machine_that_nobody_described_is_judged_by_its_family() -> None:
    catalogue = GpuCatalogue()
    assert catalogue.gpu_of("p4d.24xlarge") == ("A100-SXM4-40GB", 8.0)
    assert catalogue.gpu_of("p99.48xlarge", GPU_FAMILY) == (None, None)
    assert catalogue.gpu_of("c5.large", "Compute optimized") is None
    assert catalogue.gpu_of("trn1.32xlarge", GPU_FAMILY) is None, "Trainium is no GPU"


def test_an_unknown_card_stays_unknown_and_keeps_the_cloud_s_word() -> None:
    machine = gpu_machine(described("p9x.48xlarge", "Z900", 8, 393216))
    assert machine is not None
    assert (machine.gpu, machine.gpus, machine.gpu_mem_gib) == (None, 8.0, 384.0)
    assert "Z900" in machine.notes
    assert [m.instance_type for m in GpuCatalogue(INSTANCE_TYPES).new_machines()] == ["p9x.48xlarge"]


def test_a_new_machine_with_a_known_card_is_read_from_the_api() -> None:
    big, small = (
        gpu_machine(described("p4x.8xlarge", "A100", 4, 81920)),
        gpu_machine(described("p4y.large", "A100", 4, 40960)),
    )
    assert big is not None
    assert small is not None
    assert (big.gpu, small.gpu) == ("A100-SXM4-80GB", "A100-SXM4-40GB"), "the memory decides"
    part = gpu_machine(described("g6z.large", "L4", 0, 2861, LogicalGpuCount=2, GpuPartitionSize=0.125))
    assert part is not None
    assert (part.gpu, part.gpus) == ("L4", 0.25)


def test_odd_entries_are_no_machines() -> None:
    odd: list[Any] = [None, 5, {}, {"InstanceType": 7}, {"InstanceType": "x", "GpuInfo": []},
                      {"InstanceType": "x", "GpuInfo": {"Gpus": "many"}}]  # fmt: skip
    assert [gpu_machine(row) for row in odd] == [None] * len(odd)
    strange = gpu_machine({"InstanceType": "x", "GpuInfo": {"Gpus": [{"Count": -3, "MemoryInfo": {"SizeInMiB": "8"}}]}})
    assert strange is not None
    assert (strange.gpu, strange.gpus, strange.gpu_mem_gib) == (None, None, None)


@mock_aws
def test_every_gpu_machine_of_the_real_table_is_recognised() -> None:
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    rows = client.describe_instance_types()["InstanceTypes"]
    catalogue = GpuCatalogue(rows)
    real = {row["InstanceType"] for row in rows if row.get("GpuInfo", {}).get("Gpus")}
    assert set(catalogue.gpu_types()) == real
    assert len(real) > 50
    for row in rows:
        name = row["InstanceType"]
        for card in row.get("GpuInfo", {}).get("Gpus", []):
            shipped = instance_types().get(("aws", name))
            word = canonical_gpu("aws", card["Name"], card["MemoryInfo"]["SizeInMiB"] / 1024)
            assert shipped is None or word == shipped.gpu, f"{name}: {card['Name']} is {word}, shipped {shipped}"
