"""A sheet by POST comes back as the same kind of file, filled, in order."""

from __future__ import annotations

import csv
import io

import openpyxl
import pytest
from fastapi.testclient import TestClient

from estimator.sheets.columns import RESULTS
from estimator.sheets.template import template_workbook

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ROWS = "name,model,method,tokens,gpu\na,llama3-8b,lora,50M,H100:1\nb,llama3-8bb,lora,50M,H100:1\n"


def test_rows_of_a_csv_come_back_filled_in_order(client: TestClient) -> None:
    answer = client.post("/v1/sheet", content=ROWS, headers={"content-type": "text/csv"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert (answer.headers["x-rows"], answer.headers["x-rows-with-error"]) == ("2", "1")
    first, second = csv.DictReader(io.StringIO(answer.text, newline=""))
    cell = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "gpu": "H100:1"}
    assert first["cost_usd_p50"] == client.get("/v1/cell", params=cell).text
    assert first["hours_p50"] == client.get("/v1/cell", params={**cell, "value": "hours"}).text
    assert (first["name"], second["name"]) == ("a", "b")
    assert "llama3-8bb" in second["error"]


def test_a_workbook_comes_back_as_a_workbook(client: TestClient) -> None:
    answer = client.post("/v1/sheet", content=template_workbook(), headers={"content-type": XLSX})
    assert answer.headers["content-type"] == XLSX
    sheet = openpyxl.load_workbook(io.BytesIO(answer.content))["Runs"]
    assert [cell.value for cell in sheet[1]][-len(RESULTS) :] == list(RESULTS)
    assert answer.headers["x-rows"] == "3"


def test_what_was_not_read_is_said_beside_the_file(client: TestClient) -> None:
    text = "model,images,Budget (€)\nresnet50,1M,5\n"
    answer = client.post("/v1/sheet", content=text.encode(), headers={"content-type": "text/csv"})
    assert answer.headers["x-notes"].startswith("the column 'Budget (?)' was not read")


def test_a_mapping_and_a_sheet_can_be_named(client: TestClient) -> None:
    text = "Was,Wieviel\nresnet50,1M\n"
    params = {"map": ["Was=model", "Wieviel=images"]}
    answer = client.post("/v1/sheet", content=text, params=params, headers={"content-type": "text/csv"})
    assert answer.headers["x-rows-with-error"] == "0"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"x", "application/json", 415),
        (b"PK\x03\x04", XLSX, 422),
        (b"nothing,here\n1,2\n", "text/csv", 422),
        (b"a" * 9 * 2**20, "text/csv", 413),
    ],
)
def test_what_cannot_be_read_is_a_problem_document(client: TestClient, content: bytes, kind: str, status: int) -> None:
    answer = client.post("/v1/sheet", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
