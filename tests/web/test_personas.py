"""The people the page is for, in a real browser: what each asks, and that the page answers it."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.end_to_end.conftest import CommandLine
from tests.web.conftest import Open, soon

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the driver's pipes, at the end


def lead(page: Page) -> str:
    return page.locator(".lead").inner_text()


def figures(page: Page) -> list[str]:
    return page.locator(".sentence .figures b").all_inner_texts()


def rows(page: Page) -> list[str]:
    return page.locator(".plans tbody tr").all_inner_texts()


def fill(page: Page, **fields: str) -> None:
    """Type into fields and wait for the answer to all of them."""
    for name, value in fields.items():
        with page.expect_response(lambda answer: "/?" in answer.url):
            page.locator(f"#{name}").fill(value)
    soon(page, "form.htmx-request").to_have_count(0)


def snippet(page: Page, name: str) -> str:
    return page.locator(f"#take-{name} code").text_content() or ""


def test_a_fine_tuner_sees_what_fits_and_what_it_costs(page_at: Open, estimator: CommandLine) -> None:
    page = page_at(model="meta-llama/Meta-Llama-3-8B", method="lora", amount="50k", unit="samples", epochs="3")
    assert "llama3-8b, LoRA on 307.2M tokens" in lead(page)
    assert "fits" in page.locator(".facts").inner_text()
    assert len(rows(page)) >= 5
    soon(page, "#methods tbody tr").to_have_count(3)
    before = figures(page)

    fill(page, seq_len="4096")
    assert figures(page) != before
    assert parse_qs(urlsplit(page.url).query)["seq_len"] == ["4096"]

    page.locator(".segments label", has_text="QLoRA").click()
    soon(page, ".eyebrow").to_contain_text("QLoRA")

    command = shlex.split(snippet(page, "cli").replace("\\\n", " "))
    assert command[:2] == ["estimator", "plan"]
    best = estimator.json(*command[1:])["plans"][0]
    shown = httpx.get(page.url.replace("/?", "/answer.json?"), timeout=60).json()["plans"][0]
    assert (shown["instance_type"], shown["hours"]["p50"]) == (best["instance_type"], best["hours"]["p50"])


def test_a_research_lead_sees_days_layout_and_evidence(page_at: Open) -> None:
    page = page_at(model="llama2-7b", method="pretrain", amount="2T", seq_len="4096", gpu="H100:512", budget="3M",
                   deadline="90 days")  # fmt: skip
    assert "on 512 × H100" in lead(page)
    assert "% to meet 90 d" in lead(page)
    assert "% to stay within $3M" in lead(page)
    assert "data parallel" in page.locator(".layout").inner_text()
    assert re.search("failures|interruptions", page.locator(".pair").first.inner_text())
    sources = [str(link.get_attribute("href")) for link in page.locator(".mini a.src").all()]
    assert sources
    assert all(source.startswith("https://") for source in sources)
    page.locator(".derivation summary").click()
    text = page.locator(".derivation").inner_text()
    assert re.search(r"steps = .* optimizer steps", text)
    assert re.search(r"throughput = .* MFU", text)


def test_an_analyst_takes_a_formula_and_a_table(page_at: Open, tmp_path: Path) -> None:
    page = page_at(model="llama3-8b", method="lora", tokens="50M", market="on-demand")
    page.locator("#take-formula summary").click()
    address = re.search(r'"(http.*)"', snippet(page, "formula"))
    assert address
    cell = float(httpx.get(address[1], timeout=60).text)
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV", exact=True).click()
    started.value.save_as(tmp_path / "plans.csv")
    table = list(csv.DictReader((tmp_path / "plans.csv").open()))
    assert cell == pytest.approx(float(table[0]["cost_usd_p50"]), rel=1e-6)
    assert table[0]["price_source"]
    assert table[0]["price_observed_at"]
    with page.expect_download() as started:
        page.get_by_role("link", name="JSON", exact=True).click()
    started.value.save_as(tmp_path / "plan.json")
    document: dict[str, Any] = json.loads((tmp_path / "plan.json").read_text())
    assert document["plans"][0]["cost_usd"]["p50"] == pytest.approx(cell, rel=1e-6)


def test_a_start_up_compares_spot_and_on_demand(page_at: Open) -> None:
    page = page_at(model="llama2-70b", method="lora", amount="50k", unit="samples", epochs="3", deadline="48h",
                   gpu="H100:8,A100-80GB:8", cloud=["aws", "gcp"])  # fmt: skip
    assert not re.search(r"Azure", " ".join(rows(page)))
    page.get_by_role("button", name="Show all").click()
    soon(page, ".plans tbody tr").not_to_have_count(12)
    spot = page.locator(".plans tbody tr", has=page.locator("td.market", has_text="spot")).first
    bought = page.locator(".plans tbody tr", has=page.locator("td.market", has_text="on-demand")).first
    for row in (spot, bought):
        with page.expect_response(lambda answer: "compare=" in answer.url):
            row.locator("input[name=compare]").check()
        soon(page, "form.htmx-request").to_have_count(0)
    table = page.locator("table.compare")
    soon(page, "table.compare thead th").to_have_count(2)
    text = table.inner_text()
    for line in ("Meets the deadline", "Cost expected, interruptions in", "Interruptions expected", "Checkpoint every"):
        assert line in text
    assert len(parse_qs(urlsplit(page.url).query)["compare"]) == 2
    elsewhere = page.locator("table.mini", has_text="The same machine elsewhere")
    prices = [float(text.replace(",", "")) for text in elsewhere.locator("tbody td.num").all_inner_texts()]
    assert prices == sorted(prices)


def test_a_vision_team_sees_what_bounds_each_card(page_at: Open) -> None:
    page = page_at(model="resnet50", method="pretrain", images="1281167", epochs="90", image_size="224",
                   gpu="T4, L4, A10G, A100, V100")  # fmt: skip
    assert "samples/s" in page.locator(".facts").inner_text()
    with page.expect_response(lambda answer: "order=hours" in answer.url):
        page.get_by_role("button", name="Time").click()
    page.wait_for_selector("th[aria-sort=ascending]")
    names = page.locator(".pick").all()
    before = figures(page)
    with page.expect_response(lambda answer: "pick=" in answer.url):
        names[-1].click()
    soon(page, ".eyebrow").to_contain_text("Chosen")
    assert figures(page) != before
    assert re.search(r"compute|memory bandwidth|input", page.locator(".facts").inner_text())


def test_the_owner_of_a_laptop_sees_their_card_beside_the_clouds(page_at: Open) -> None:
    page = page_at(model="resnet50", method="pretrain", images="50k", epochs="90")
    page.locator("summary", has_text="Your own machine or measurement").click()
    fill(page, own_gpu="RTX-3060")
    assert "not ranked" in lead(page)
    fill(page, own_usd="0.05")
    own = [row for row in rows(page) if "your own" in row]
    assert own
    page.locator(".plans tr", has_text="your own").locator(".pick").click()
    soon(page, ".sentence").to_contain_text("your own")
    assert re.search(r"MFU \d+%", page.locator(".facts").inner_text())
    assert "estimator plan - <<'YAML'" in snippet(page, "cli")

    fill(page, measured="300 images/s on 1xRTX-3060, micro-batch 64")
    assert "your own measurement" in page.locator(".facts").inner_text()
