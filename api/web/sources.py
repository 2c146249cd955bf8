"""Where does a source lead? The name of a file in a public repository, or a page, as a link a browser may follow."""

from __future__ import annotations

import re
from urllib.parse import quote

_FILE = re.compile(
    r"^(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)@(?P<commit>[0-9a-f]{6,40})(?::(?P<path>[^\s(]+))?(?P<rest>.*)$", re.DOTALL
)
_PAGE = re.compile(r"^https://[\w.-]+(?:/[^\s\"'<>]*)?")


def link_of(source: str | None) -> str | None:
    """An https address, or None where the source names none.

    >>> link_of("huggingface/peft@0a1b2c3:docs/a b.md")
    'https://github.com/huggingface/peft/blob/0a1b2c3/docs/a'
    >>> link_of("javascript:alert(1)"), link_of("exxactcorp.com blog")
    (None, None)
    """
    if not source:
        return None
    found = _FILE.match(source)
    if found:
        root = f"https://github.com/{found['owner']}/{found['repo']}"
        if not found["path"]:
            return f"{root}/tree/{found['commit']}"
        path, hash_, line = found["path"].partition("#L")
        line = f"#L{line}" if hash_ and re.fullmatch(r"[\d\-L]+", line) else ""
        return f"{root}/blob/{found['commit']}/{quote(path.rstrip(',;'), safe='/')}{line}"
    page = _PAGE.match(source)
    return page[0] if page else None
