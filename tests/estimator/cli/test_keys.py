"""`keys`: issued once, listed without secrets, rotated, revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from estimator.cli.main import run
from pricing.store_keys import parts_of


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("ESTIMATOR_DATABASE_URL", raising=False)


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert run(["keys", "list", "--format", "json"]) == 0
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)["keys"]
    return found


def added(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["keys", "add", *words]) == 0
    return capsys.readouterr().out.strip()


def test_a_key_is_printed_once_and_listed_without_its_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys) == []
    text = added(capsys, "team", "--scope", "read", "--expires", "90d")
    key_id, secret = parts_of(text) or ("", "")
    (row,) = listed(capsys)
    assert (row["id"], row["name"], row["scopes"], row["state"]) == (key_id, "team", "read", "active")
    assert row["expires_at"] > row["created_at"]
    assert secret not in str(row)


def test_a_rotated_key_has_a_successor_and_a_revoked_one_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    key_id = (parts_of(added(capsys, "team")) or ("", ""))[0]
    assert run(["keys", "rotate", key_id, "--grace", "1h"]) == 0
    new_id = (parts_of(capsys.readouterr().out.strip()) or ("", ""))[0]
    assert run(["keys", "revoke", new_id]) == 0
    capsys.readouterr()
    assert {row["id"]: row["state"] for row in listed(capsys)} == {key_id: "active", new_id: "revoked"}
    assert run(["keys", "rotate", new_id]) == 2
    assert "revoked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "team", "--scope", "root"], "scope"),
        (["add", " "], "name"),
        (["add", "a\nb"], "name"),
        (["revoke", "nothing"], "unknown key"),
        (["add", "team", "--expires", "soon"], "--expires"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", *words]) == 2
    assert said in capsys.readouterr().err
