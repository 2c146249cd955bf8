"""Who may ask a shared server? API keys: shown once, kept as a hash, with scopes, an end and a successor.

A key reads `est_ID_SECRET`. The secret has 256 random bits, so one round of SHA-256 keeps it; the id finds the row.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from benchmarks_db.errors import UnknownName, WorkloadError
from pricing.store import Row, Store, utc

KEY = re.compile(r"est_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
COLUMNS = "id, name, scopes, digest, created_at, expires_at, revoked_at"


class Scope(StrEnum):
    """What an API key may do; each includes the ones before it."""

    READ = "read"
    PLAN = "plan"
    ADMIN = "admin"

    def includes(self, other: Scope) -> bool:
        """Whether a key of this scope may do what needs `other`."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key as it is kept; its secret is nowhere."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def opens(self, secret: str, now: datetime) -> bool:
        """Whether the secret is this key's and the key still holds; the comparison takes the same time for any."""
        return hmac.compare_digest(digest_of(secret), self.digest) and self.state(now) == "active"

    def allows(self, scope: Scope) -> bool:
        """Whether the key may do what needs `scope`."""
        return any(own.includes(scope) for own in self.scopes)


def digest_of(secret: str) -> str:
    """The hash of a secret, as kept."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret of a key; None for what is none."""
    found = KEY.fullmatch(text)
    return (found[1], found[2]) if found else None


def scopes_of(texts: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes by name; UnknownName for others."""
    found = []
    for text in texts:
        if text not in list(Scope):
            raise UnknownName("scope", text, list(Scope))
        found.append(Scope(text))
    if not found:
        raise WorkloadError("a key needs a scope", field="scope", nearest=list(Scope))
    return tuple(dict.fromkeys(found))


def add_key(
    store: Store, name: str, scopes: Iterable[Scope], *, now: datetime, expires_at: datetime | None = None
) -> tuple[ApiKey, str]:
    """A new key and its text, which is shown this once."""
    from sqlalchemy import text

    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise WorkloadError("a name has 1 to 200 printable characters", field="name", value=name)
    if expires_at is not None and expires_at <= now:
        raise WorkloadError("the end lies in the past", field="expires", value=expires_at.isoformat())
    secret = secrets.token_urlsafe(32)
    key = ApiKey(secrets.token_hex(6), name, tuple(scopes), digest_of(secret), now, expires_at, None)
    values = {
        "id": key.id, "name": name, "scopes": ",".join(key.scopes), "digest": key.digest, "created": now.timestamp(),
        "expires": None if expires_at is None else expires_at.timestamp(),
    }  # fmt: skip
    with store.writing() as connection:
        sql = f"INSERT INTO api_keys ({COLUMNS}) VALUES (:id, :name, :scopes, :digest, :created, :expires, NULL)"
        connection.execute(text(sql), values)
    return key, f"est_{key.id}_{secret}"


def keys(store: Store) -> list[ApiKey]:
    """Every key, oldest first."""
    if not store.exists():
        return []
    with store.reading() as ask:
        return [_key(row) for row in ask(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id")]


def find_key(store: Store, key_id: str) -> ApiKey | None:
    """The key of an id, whatever its state."""
    if not store.exists():
        return None
    with store.reading() as ask:
        rows = ask(f"SELECT {COLUMNS} FROM api_keys WHERE id = :id", id=key_id)
    return _key(rows[0]) if rows else None


def revoke_key(store: Store, key_id: str, *, now: datetime) -> ApiKey:
    """End a key at once; UnknownName where there is none of this id."""
    known = _known(store, key_id)
    _set(store, "revoked_at", key_id, now)
    return find_key(store, key_id) or known


def rotate_key(store: Store, key_id: str, *, now: datetime, grace: timedelta) -> tuple[ApiKey, str]:
    """A successor with the same name and scopes; the old key holds for `grace` longer, so that users can change."""
    old = _known(store, key_id)
    if old.state(now) != "active":
        raise WorkloadError(f"the key is {old.state(now)}; add a new one", field="id", value=key_id)
    successor = add_key(store, old.name, old.scopes, now=now)
    end = now + grace if old.expires_at is None else min(old.expires_at, now + grace)
    _set(store, "expires_at", key_id, end)
    return successor


def _known(store: Store, key_id: str) -> ApiKey:
    known = {key.id: key for key in keys(store)}
    if key_id not in known:
        raise UnknownName("key", key_id, known, field="id")
    return known[key_id]


def _set(store: Store, column: str, key_id: str, moment: datetime) -> None:
    from sqlalchemy import text

    with store.writing() as connection:
        sql = f"UPDATE api_keys SET {column} = :at WHERE id = :id AND revoked_at IS NULL"
        connection.execute(text(sql), {"at": moment.timestamp(), "id": key_id})


def _key(row: Row) -> ApiKey:
    key_id, name, scopes, digest, created, expires, revoked = row
    made = utc(created)
    assert made is not None
    return ApiKey(
        key_id, name, tuple(Scope(scope) for scope in scopes.split(",")), digest, made, utc(expires), utc(revoked)
    )
