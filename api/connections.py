"""What becomes of a connection that was opened just as its worker is told to end? Its first request is answered.

Uvicorn closes every connection that has no request under way. One that was taken a moment before has its request still
on the wire, and its client would see it cut although nothing was wrong: on a busy machine that moment is long enough to
be met in a renewal of workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    Protocol = AutoHTTPProtocol

FIRST_SECONDS = 2.0  # in which the first request of a connection may still come


class Unhurried(Protocol):
    """Uvicorn's protocol, but for the end of a connection that has not asked anything yet."""

    def shutdown(self) -> None:
        """Called once, when the worker is told to end."""
        if self.cycle is None:
            self.loop.call_later(FIRST_SECONDS, self._end)
        else:
            super().shutdown()

    def _end(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()
