"""The federated server, its devices, and the secure aggregation between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_server.http.app import create_app
    from fl_server.settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # Late, so that the protocol and the device side work without the web framework.
    if name == "create_app":
        from fl_server.http.app import create_app

        return create_app
    if name == "Settings":
        from fl_server.settings import Settings

        return Settings
    raise AttributeError(f"module 'fl_server' has no attribute {name!r}")
