"""The pages without a browser: what they say, what they refuse, and that nothing a person types becomes markup."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook

from api.routes.page import FILES, SAFE
from api.web.sources import link_of
from api.web.state import LISTS, TEXTS, VIEW

ATTACK = """"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"""


class Markup(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def markup(text: str) -> Markup:
    found = Markup()
    found.feed(text)
    return found


def ask(client: TestClient, **state: object) -> str:
    answer = client.get("/?" + urlencode(state, doseq=True))
    assert answer.status_code == 200
    return answer.text


def test_the_first_view_answers_an_example(client: TestClient) -> None:
    text = client.get("/").text
    assert 'name="compare"' in text
    heading = re.search(r'<h2 id="lead-title".*?</h2>', text, re.DOTALL)
    assert heading
    said = " ".join(re.sub(r"<[^>]+>", "", heading[0]).split())
    interval = r"[\d,.]+ (?:h|min|d) \([\d,.]+ to [\d,.]+\)"
    assert re.fullmatch(
        rf"Recommended llama3-8b, LoRA on 50M tokens: {interval}, \$[\d.]+ \([\d.]+ to [\d.]+\) "
        r"on \d+ × [\w-]+, [\w ]+ [\w-]+, (?:spot|on-demand), (?:over )?\d+% to meet 24 h",
        said,
    )


def test_where_nothing_fits_the_memory_of_what_came_nearest_is_drawn(client: TestClient) -> None:
    text = ask(client, model="llama3-8b", method="full", amount="50M", gpu="T4:8", max_nodes="1")
    assert "No plan satisfies this: it does not fit in memory" in text
    assert re.search(r"8 × T4 comes nearest: [\d.]+ GiB a GPU", text)
    limit = re.search(r'<rect class="limit" x="([\d.]+)" width="4" height="26"', text)
    assert limit
    assert 0 < float(limit[1]) < 990  # the parts reach beyond what one GPU holds
    assert re.search(r"<b>Method: LoRA</b> would fit \([\d.]+ of [\d.]+ GiB on each of \d GPUs\)", text)
    assert "method=lora" in text


def test_a_plan_on_spot_says_what_interruptions_do_and_what_else_could_be_done(client: TestClient) -> None:
    text = ask(client, model="llama3-8b", method="lora", amount="5B", gpu="H100:8", deadline="48h")
    assert re.search(r"[\d.]+ interruptions are expected in a run", text)
    for policy in ("wait for spot", "on demand after 1", "on demand after 3", "never use spot"):
        assert policy in text


def test_a_bill_with_several_parts_is_drawn(client: TestClient) -> None:
    config = "bill: {fixed_usd: 20, tax_percent: 19, energy: true}"
    text = ask(client, model="llama3-8b", method="lora", amount="50M", config=config)
    assert 'aria-label="The bill by part"' in text
    for part in ("machines", "fixed costs", "tax"):
        assert f"<span>{part}</span>" in text
    assert re.search(r"[\d.]+ kWh", text)


def test_a_workbook_of_the_plans_can_be_taken_along(client: TestClient) -> None:
    answer = client.get("/answer.xlsx", params={"model": "llama3-8b", "method": "lora", "tokens": "50M"})
    assert answer.headers["content-disposition"] == 'attachment; filename="plans.xlsx"'
    book = load_workbook(io.BytesIO(answer.content))
    assert "Plans" in book.sheetnames


def test_html_may_run_nothing_from_elsewhere_and_nothing_inline(client: TestClient) -> None:
    for path in ("/", "/accuracy", "/catalogue"):
        answer = client.get(path)
        assert SAFE.items() <= answer.headers.items()
        assert "unsafe" not in answer.headers["content-security-policy"]
        found = markup(answer.text)
        assert not {"style", "iframe", "object", "base"} & set(found.tags)
        assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
        loaded = [value for name, value in found.attributes if name == "src"]
        assert all(value and value.startswith("/static/") for value in loaded)


@pytest.mark.parametrize("name", [*TEXTS, *VIEW, *LISTS])
def test_nothing_typed_becomes_markup(client: TestClient, name: str) -> None:
    text = ask(client, **({"model": "llama3-8b", "amount": "50M"} | {name: ATTACK}))
    found = markup(text)
    assert "img" not in found.tags
    assert found.tags.count("script") == 3
    assert "alert(1)</script>" not in text
    assert "49" not in re.findall(r"'&gt;[^<]*?(49)", text)


def test_nothing_typed_becomes_markup_in_the_catalogue(client: TestClient) -> None:
    text = client.get("/catalogue?" + urlencode({"table": ATTACK, "name": ATTACK, "after": ATTACK})).text
    assert "img" not in markup(text).tags


@given(pairs=st.lists(st.tuples(st.sampled_from([*TEXTS, *VIEW, *LISTS]), st.text(max_size=40)), max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_query_is_answered(client: TestClient, pairs: list[tuple[str, str]]) -> None:
    assert client.get("/?" + urlencode(pairs, errors="replace")).status_code == 200


def test_a_wrong_field_is_named_beside_it(client: TestClient) -> None:
    text = ask(client, model="llama3-8b", amount="5x", deadline="never")
    assert 'id="amount-wrong"' in text
    assert 'id="deadline-wrong"' in text
    assert text.count('aria-invalid="true"') == 2


def test_an_unknown_gpu_of_ones_own_is_named_beside_its_own_field(client: TestClient) -> None:
    text = client.get("/", params={"model": "llama3-8b", "amount": "50M", "own_gpu": "RTX-390"}).text
    assert 'id="own_gpu-wrong"' in text
    assert 'id="gpu-wrong"' not in text


def test_an_unknown_model_offers_the_nearest(client: TestClient) -> None:
    text = ask(client, model="lama3-8b", amount="50M")
    assert re.search(r'class="chip" href="\?model=llama3[^"]*">llama3', text)


def test_what_fits_nowhere_says_what_stands_in_the_way(client: TestClient) -> None:
    text = ask(client, model="llama3-8b", method="full", amount="50M", gpu="T4:1")
    assert "does not fit in memory" in text
    assert "What would help" in text
    assert "Try it" in text


def test_a_paste_is_read_into_the_form_by_a_relative_redirect(client: TestClient) -> None:
    query = urlencode({"config": "model: llama2-7b\ntokens: 2B\nmethod: lora", "read": "1"})
    answer = client.get(f"/?{query}", follow_redirects=False, headers={"host": "evil.example"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("?model=llama2-7b")


def test_figures_of_the_page_are_those_of_the_api(client: TestClient) -> None:
    body = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"deadline": "24h"}}
    plan = client.post("/v1/plan", json=body).json()["plans"][0]
    answer = client.get(
        "/answer.json", params={"model": "llama3-8b", "method": "lora", "tokens": "50M", "deadline": "24h"}
    )
    mine = answer.json()["plans"][0]
    assert (mine["hours"], mine["cost_usd"], mine["instance_type"]) == (
        plan["hours"],
        plan["cost_usd"],
        plan["instance_type"],
    )
    assert answer.headers["content-disposition"] == 'attachment; filename="plan.json"'


def test_the_table_downloads_as_csv(client: TestClient) -> None:
    answer = client.get("/answer.csv", params={"model": "llama3-8b", "tokens": "50M"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) > 5
    assert float(rows[0]["cost_usd_p10"]) <= float(rows[0]["cost_usd_p50"]) <= float(rows[0]["cost_usd_p90"])
    assert rows[0]["price_source"]


def test_a_download_of_nonsense_is_a_problem_document(client: TestClient) -> None:
    answer = client.get("/answer.json", params={"model": "llama3-8b", "tokens": "5x"})
    assert answer.status_code == 422
    assert answer.json()["field"] == "tokens"


@pytest.mark.parametrize("order", ["cost", "-cost", "hours", "gpus", "price", "memory", "-age"])
def test_headings_sort_the_table_on_the_server(client: TestClient, order: str) -> None:
    text = ask(client, model="llama3-8b", amount="50M", order=order)
    assert f'aria-sort="{"descending" if order.startswith("-") else "ascending"}"' in text


def test_up_to_four_plans_stand_side_by_side(client: TestClient) -> None:
    keys = re.findall(r'name="compare" value="([^"]+)"', client.get("/").text)[:5]
    text = ask(client, model="llama3-8b", method="lora", amount="50M", deadline="24h", compare=keys)
    assert "Side by side" in text
    assert len(re.findall(r'<th scope="col"><svg', text)) == 4


def test_a_point_of_the_front_beyond_the_table_can_be_looked_at(client: TestClient) -> None:
    text = client.get("/").text
    listed = set(re.findall(r'name="compare" value="([^"]+)"', text))
    beyond = next(key for key in re.findall(r'data-pick="([^"]+)"', text) if key not in listed)
    chosen = ask(client, model="llama3-8b", method="lora", amount="50M", deadline="24h", pick=beyond)
    assert "<em>Chosen</em> llama3-8b" in chosen


@pytest.mark.parametrize("table", ["gpus", "prices", "measurements", "models", "machines"])
def test_every_table_of_the_catalogue_pages_and_filters(client: TestClient, table: str) -> None:
    first = client.get("/catalogue", params={"table": table}).text
    assert len(re.findall(r'<th scope="row">', first)) > 10
    following = re.search(r'href="(\?table=[^"]*after=[^"]*)"', first)
    assert following
    second = client.get("/catalogue" + following[1].replace("&amp;", "&")).text
    assert first.split("<tbody>")[1] != second.split("<tbody>")[1]


def test_the_catalogue_finds_what_holds_the_text(client: TestClient) -> None:
    text = client.get("/catalogue", params={"table": "gpus", "name": "h100"}).text
    names = re.findall(r'<th scope="row">([^<]+)', text)
    assert names
    assert all("H100" in name for name in names)


def test_the_catalogue_resolves_gpus_as_everywhere_and_offers_the_nearest(client: TestClient) -> None:
    def gpus(**filters: str) -> set[str]:
        text = client.get("/catalogue", params=filters).text
        return set(re.findall(r"<td[^>]*>((?:[AH]\d+|GH200|RTX)[\w-]*)</td>", text))

    assert gpus(table="prices", gpu="a100 80gb") == {"A100-SXM4-80GB", "A100-PCIE-80GB"}
    assert gpus(table="machines", gpu="A10") == {"A10"}
    assert gpus(table="machines", gpu="A10*") > {"A10", "A10G"}
    named = client.get("/catalogue", params={"table": "gpus", "name": "a100 80gb"}).text
    assert re.findall(r'<th scope="row">([^<]+)', named) == ["A100-PCIE-80GB", "A100-SXM4-80GB"]
    named = client.get("/catalogue", params={"table": "gpus", "name": "rtx-30"}).text
    assert all(name.startswith("RTX-30") for name in re.findall(r'<th scope="row">([^<]+)', named))
    for table, name in (("gpus", "name"), ("prices", "gpu"), ("machines", "gpu"), ("measurements", "gpu")):
        text = client.get("/catalogue", params={"table": table, name: "H10O"}).text
        assert "unknown GPU" in text
        assert "did you mean H100" in text


def test_files_of_the_page_are_kept_for_ever_and_nothing_else_is_served(client: TestClient) -> None:
    address = re.search(r'href="(/static/page\.css\?v=\w+)"', client.get("/").text)
    assert address
    assert "immutable" in client.get(address[1]).headers["cache-control"]
    for name in ("../state.py", "%2e%2e/state.py", "vendor/README", "nothing.js"):
        assert client.get(f"/static/{name}").status_code == 404


def test_every_vendored_library_has_its_licence() -> None:
    vendored = [path for path in (FILES / "vendor").iterdir() if path.suffix == ".js"]
    assert len(vendored) == 3
    for path in vendored:
        assert path.with_name(f"{path.name}.LICENSE").read_text()
        assert path.name in (FILES / "vendor" / "README").read_text()


@given(st.text())
def test_a_source_leads_to_a_safe_address_or_nowhere(text: str) -> None:
    link = link_of(text)
    assert link is None or re.fullmatch(r"https://[\w.-]+(/[^\s\"'<>]*)?", link)


def test_the_methods_are_compared_on_a_page_of_their_own_too(client: TestClient) -> None:
    text = client.get("/methods", params={"model": "llama3-8b", "method": "lora", "tokens": "50M"}).text
    assert re.findall(r'<th scope="row"><a href="/\?[^"]*"[^>]*>([^<]+)', text) == ["full fine-tuning", "LoRA", "QLoRA"]
    assert text.count("GiB") == 3
