import numpy as np
import pytest

from benchmarks_db.gpus import gpu
from estimator.hardware import hardware_of, link_of, parse_links
from estimator.precision import rate
from estimator.records import pick
from estimator.sustained import sustained_fraction, watts_per_tflop
from estimator.terms import LinkKind, NicKind


@pytest.mark.parametrize(
    ("text", "link", "node_gbit", "gpu_gbit", "nic"),
    [
        ("nvswitch+ib-hdr200x8", LinkKind.NVSWITCH, 1600, None, NicKind.RDMA),
        ("nvlink+ib-800gbps-per-node", LinkKind.NVLINK, 800, None, NicKind.RDMA),
        ("nvlink+rdma400gbps-per-gpu", LinkKind.NVLINK, None, 400, NicKind.RDMA),
        ("pcie", LinkKind.PCIE, None, None, None),
        ("efa400", None, 400, None, NicKind.EFA),
        ("eth100", None, 100, None, NicKind.ETHERNET),
        ("nvswitch; net: 8x ConnectX-7 IB NDR 400Gb/Sec", LinkKind.NVSWITCH, 3200, None, NicKind.RDMA),
        (
            "nvlink; net: Storage+Management: 1x DPU 100Gb/s; Compute: 8x IB ND",
            LinkKind.NVLINK,
            None,
            None,
            NicKind.RDMA,
        ),
        ("nvswitch+gcp-a3-tcpx-800gbps-per-node", LinkKind.NVSWITCH, 800, None, NicKind.TCPX),
        ("", None, None, None, None),
    ],
)
def test_descriptions_of_links_are_read(text, link, node_gbit, gpu_gbit, nic):
    found = parse_links(text)
    assert (found.link_kind, found.node_gbit, found.gpu_gbit, found.nic_kind) == (link, node_gbit, gpu_gbit, nic)


def test_boards_sit_on_nvlink_and_geforce_cards_copy_through_the_host():
    assert link_of(gpu("H100-SXM5-80GB")) == (450.0, LinkKind.NVSWITCH)
    assert link_of(gpu("V100-SXM2-16GB"))[1] == LinkKind.NVLINK
    assert link_of(gpu("RTX-4090"))[1] == LinkKind.PCIE_NO_P2P
    assert link_of(gpu("RTX-A6000"))[1] == LinkKind.PCIE
    host = parse_links("pcie")  # of a board: its link to the host
    assert link_of(gpu("A100-SXM4-40GB"), host) == link_of(gpu("A100-SXM4-40GB"))


def test_a_stated_network_wins_over_the_usual_one_and_is_shared_by_the_gpus_of_a_node():
    cards = [gpu("A100-SXM4-80GB")] * 2
    made = hardware_of(
        cards, [rate("bf16", g) for g in cards], gpus_per_node=8.0, network_gbps=np.array([400.0, np.nan])
    )
    assert made.nic_gbps[0] == pytest.approx(400 / 8 / 8)
    assert made.nic_gbps[1] == pytest.approx(25.0)


def test_taking_rows_spreads_instance_types_over_candidates():
    cards = [gpu("A100-SXM4-80GB"), gpu("L4")]
    made = hardware_of(cards, [rate("bf16", g) for g in cards], gpus_per_node=np.array([8.0, 1.0]))
    spread = pick(made, np.array([1, 1, 0]))
    assert spread.gpu.tolist() == ["L4", "L4", "A100-SXM4-80GB"]
    assert spread.gpus.tolist() == [1.0, 1.0, 8.0]


@pytest.mark.parametrize(
    ("name", "form", "measured"),
    [("H100-SXM5-80GB", "bf16", 0.80), ("L4", "fp32", 0.29), ("T4", "fp32", 0.48), ("V100-PCIE-32GB", "fp32", 0.97)],
)
def test_power_limited_cards_hold_the_share_of_their_peak_that_was_measured(name, form, measured):
    card = gpu(name)
    share = sustained_fraction(rate(form, card).peak_tflops, watts_per_tflop(card.arch, form), card.tdp_w)
    assert float(share) == pytest.approx(measured, abs=0.03)


def test_a_card_of_unknown_power_is_taken_at_its_datasheet_rate():
    assert float(sustained_fraction(100.0, 0.0, 300.0)) == 1.0
    assert float(sustained_fraction(100.0, 1.0, np.nan)) == 1.0
