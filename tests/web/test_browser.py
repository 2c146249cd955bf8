"""How the page behaves in a real browser: as one types, by keyboard, for a screen reader, scriptless, on a phone."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import Open, soon

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the driver's pipes, at the end

LLAMA = {"model": "llama3-8b", "method": "lora", "amount": "50M", "unit": "tokens", "deadline": "24h"}


def settled(page: Page) -> None:
    soon(page, "form.htmx-request").to_have_count(0)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?model=llama3-8b&amount=5x&own_gpu=none",
        "/?model=llama3-8b&method=full&amount=50M&gpu=T4:1",
        "/?model=llama2-70b&method=lora&amount=50k&unit=samples&precision=bf16&own_gpu=RTX-3090&own_usd=0&show=all",
        "/accuracy",
        "/catalogue?table=prices&gpu=H100",
    ],
)
def test_axe_finds_nothing_wrong(page_at: Open, path: str, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = page_at(path, dark=dark)
    for opened in page.locator("details:not([open]) > summary").all():
        if opened.is_visible():
            opened.click()
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["impact"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


def test_axe_finds_nothing_wrong_on_a_phone_with_plans_compared(page_at: Open) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = page_at(phone=True)
    keys = [box.get_attribute("value") for box in page.locator("input[name=compare]").all()[:2]]
    page = page_at(phone=True, compare=keys, **LLAMA)
    assert page.locator("table.compare").count() == 1
    assert Axe().run(page).response["violations"] == []


def test_the_answer_follows_what_is_typed(page_at: Open) -> None:
    page = page_at()
    field = page.locator("#amount")
    field.click()
    field.press("End")
    field.press_sequentially("0")
    with page.expect_response(lambda answer: "amount=" in answer.url):
        field.fill("500M")
    soon(page, ".eyebrow").to_contain_text("500M tokens")
    assert page.evaluate("document.activeElement.id") == "amount"
    assert "amount=500M" in page.url
    assert "500M tokens" in (page.locator("#live").text_content() or "")


def test_a_stale_answer_never_replaces_a_newer_one(page_at: Open) -> None:
    page = page_at()
    held: list[Route] = []

    def slowly(route: Route) -> None:
        held.append(route) if "amount=1M" in route.request.url else route.continue_()

    page.route("**/?*", slowly)
    page.locator("#amount").fill("1M")
    until = time.monotonic() + 20
    while not held and time.monotonic() < until:
        page.wait_for_timeout(50)
    assert held
    page.locator("#amount").fill("2M")
    soon(page, ".eyebrow").to_contain_text("2M tokens")
    with contextlib.suppress(Exception):  # the browser has cancelled it
        held[0].continue_()
    page.wait_for_timeout(600)
    assert "2M tokens" in page.locator(".eyebrow").inner_text()
    page.unroute_all(behavior="ignoreErrors")


def test_a_server_that_fails_is_told_and_the_next_answer_takes_it_away(page_at: Open) -> None:
    page = page_at(quiet=False)
    page.route(
        "**/?*amount=1M*",
        lambda route: route.fulfill(
            status=503, content_type="application/problem+json", body=json.dumps({"detail": "too many requests wait"})
        ),
    )
    page.locator("#amount").fill("1M")
    soon(page, "#trouble").to_contain_text("The server could not answer (503): too many requests wait.")
    assert "50M tokens" in page.locator(".eyebrow").inner_text()  # the answer before stays
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_role("button", name="Try again").click()
    soon(page, ".eyebrow").to_contain_text("1M tokens")
    soon(page, "#trouble").to_be_hidden()


def test_without_a_connection_the_page_says_so_and_goes_on_later(page_at: Open) -> None:
    page = page_at(quiet=False)
    page.context.set_offline(True)
    page.locator("#amount").fill("3M")
    soon(page, "#trouble").to_contain_text("The server cannot be reached.")
    page.context.set_offline(False)
    page.locator("#amount").fill("4M")
    soon(page, ".eyebrow").to_contain_text("4M tokens")
    soon(page, "#trouble").to_be_hidden()


def test_a_plan_is_made_chosen_compared_and_copied_by_keyboard_alone(page_at: Open) -> None:
    page = page_at()
    keys = page.keyboard

    def to(found: str) -> None:
        for _ in range(150):
            keys.press("Tab")
            if page.evaluate("found => document.activeElement.matches(found)", found):
                return
        raise AssertionError(f"{found} is not reached")

    to("#amount")
    keys.press("Control+a")
    keys.type("80M")
    soon(page, ".eyebrow").to_contain_text("80M tokens")
    to(".scatter.wide a:not([aria-current])")
    keys.press("Enter")
    soon(page, ".eyebrow").to_contain_text("Chosen")
    for count in (1, 2):
        to(f"tr:nth-child({count}) input[name=compare]")
        keys.press("Space")
        soon(page, "table.compare thead th").to_have_count(count)
    to("#take-curl summary")
    keys.press("Enter")
    to("#take-curl [data-copy]")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keys.press("Enter")
    soon(page, "#take-curl [data-copy]").to_have_text("Copied")


def test_on_a_phone_the_answer_is_in_sight_of_the_question(page_at: Open) -> None:
    page = page_at(phone=True)
    peek = page.locator(".peek")
    assert page.locator(".figures b").first.inner_text() in peek.inner_text()
    box = peek.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 844
    peek.click()
    page.wait_for_timeout(200)
    top = page.locator(".eyebrow").bounding_box()
    assert top is not None
    assert 0 <= top["y"] < 300


def test_typing_fast_asks_once(page_at: Open) -> None:
    page = page_at()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#budget").press_sequentially("1234567", delay=20)
    page.wait_for_url(re.compile("budget=1234567"))
    settled(page)
    assert len([url for url in asked if "/?" in url]) <= 2


def test_models_are_suggested_and_chosen_by_keyboard(page_at: Open) -> None:
    page = page_at()
    field = page.locator("#model")
    field.fill("")
    field.press_sequentially("resnet5")
    page.wait_for_selector("#model-list [role=option]")
    assert field.get_attribute("aria-expanded") == "true"
    field.press("ArrowDown")
    name = page.locator("#model-list [aria-selected=true]").get_attribute("data-name")
    assert field.get_attribute("aria-activedescendant")
    field.press("Enter")
    assert field.input_value() == name
    assert page.locator("#model-list").is_hidden()
    page.wait_for_url(re.compile(f"model={re.escape(name or '')}"))


def test_escape_closes_the_suggestions(page_at: Open) -> None:
    page = page_at()
    page.locator("#model").fill("llama")
    page.wait_for_selector("#model-list [role=option]")
    page.locator("#model").press("Escape")
    assert page.locator("#model-list").is_hidden()


def test_the_whole_page_can_be_used_by_keyboard(page_at: Open) -> None:
    page = page_at()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "(e => e.id || e.name || e.dataset.pick && 'point' || e.textContent.trim())(document.activeElement)"
            )
        )
    for place in ("model", "method", "amount", "deadline", "cloud", "point", "order", "compare", "pick"):
        assert place in seen, seen


def test_a_point_of_the_chart_chooses_a_plan(page_at: Open) -> None:
    page = page_at()
    point = page.locator(".scatter.wide a:not([aria-current])").last
    name = point.get_attribute("aria-label") or ""
    point.focus()
    point.press("Enter")
    soon(page, ".eyebrow").to_contain_text("Chosen")
    assert name.split(" x ")[1].split(",")[0] in page.locator(".sentence").inner_text()
    assert "pick=" in page.url
    assert page.locator("form").count() == 1  # woven into the page, not put into itself


def test_what_is_opened_stays_open_while_the_answer_changes(page_at: Open) -> None:
    page = page_at()
    page.locator(".derivation summary").click()
    page.locator("summary", has_text="More about the run").click()
    with page.expect_response(lambda answer: "amount=70M" in answer.url):
        page.locator("#amount").fill("70M")
    soon(page, ".eyebrow").to_contain_text("70M tokens")
    assert page.locator(".derivation").get_attribute("open") is not None
    assert page.locator("#global_batch").is_visible()


def test_a_pasted_training_config_fills_the_form(page_at: Open) -> None:
    page = page_at()
    page.locator("summary", has_text="Paste a config.json").click()
    text = "model: llama2-7b\nmethod: full\ntokens: 300M\nseq_len: 4096\nrun: {evaluation: false}\n"
    page.evaluate(
        """text => { const box = document.getElementById("config"); box.value = text;
        box.dispatchEvent(new ClipboardEvent("paste", { bubbles: true })); }""",
        text,
    )
    soon(page, ".eyebrow").to_contain_text("llama2-7b")
    assert page.locator("#amount").input_value() == "300M"
    assert page.locator("#seq_len").input_value() == "4096"
    assert "evaluation: false" in page.locator("#config").input_value()
    page.wait_for_url(re.compile("model=llama2-7b"))
    assert "read=" not in page.url


def test_a_pasted_hugging_face_config_is_planned(page_at: Open) -> None:
    config = {
        "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True,
    }  # fmt: skip
    page = page_at(config=json.dumps(config), amount="10M", method="full")
    assert "fits" in page.locator(".facts").inner_text()


def test_snippets_name_this_server_and_can_be_copied(page_at: Open) -> None:
    page = page_at()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#take-curl summary").click()
    page.locator("#take-curl [data-copy]").click()
    soon(page, "#take-curl [data-copy]").to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"curl -s {'/'.join(page.url.split('/')[:3])}/v1/plan" in copied


def test_at_most_four_plans_can_be_ticked(page_at: Open) -> None:
    page = page_at()
    for number in range(4):
        with page.expect_response(lambda answer: "compare=" in answer.url):
            page.locator("input[name=compare]").nth(number).check()
        settled(page)
    soon(page, "table.compare thead th").to_have_count(4)
    assert page.locator("input[name=compare]").nth(5).is_disabled()


@pytest.mark.parametrize("phone", [False, True])
def test_nothing_is_wider_than_the_screen(page_at: Open, phone: bool) -> None:
    azure = "/?model=llama2-70b&method=lora&amount=50k&unit=samples&gpu=H100:8,A100-80GB:8&show=all"
    for path in ("/", azure, "/?model=lama3&amount=5x", "/accuracy", "/catalogue?table=measurements"):
        page = page_at(path, phone=phone)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_form_table_and_chart_work_without_scripts(page_at: Open) -> None:
    page = page_at(javascript=False)
    page.locator("#amount").fill("200M")
    page.get_by_role("button", name="Estimate").last.click()
    assert "200M tokens" in page.locator(".eyebrow").inner_text()
    page.get_by_role("button", name="Time").click()
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("Time")
    page.locator(".pick").nth(3).click()
    assert "Chosen" in page.locator(".eyebrow").inner_text()
    for number in (0, 1):
        page.locator("input[name=compare]").nth(number).check()
    page.get_by_role("button", name="Compare the ticked ones").click()
    assert page.locator("table.compare thead th").count() == 2
    assert page.locator(".scatter.wide a").count() > 5
    page.locator("#amount").press("Enter")
    assert "200M tokens" in page.locator(".eyebrow").inner_text()


def test_a_name_that_is_markup_stays_text(page_at: Open) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\">"
    page = page_at(model=attack, amount="50M", gpu=attack, config="", own_gpu=attack)
    assert page.locator("#answer img").count() == 0
    assert page.title() != "owned"
    assert page.locator("#model").input_value() == attack


def test_the_page_speaks_to_no_other_server(page_at: Open) -> None:
    page = page_at()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_load_state("networkidle")
    home = re.match(r"http://[^/]+/", page.url)
    assert home
    assert len(asked) >= 5
    assert all(url.startswith(home[0]) for url in asked)
    assert page.context.cookies() == []
