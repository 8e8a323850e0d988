"""The address of a server."""

from __future__ import annotations

import httpx

from fl_server.errors import SettingsError


def url_of(server: str) -> httpx.URL:
    """The URL that everything of a server lies under.     raises SettingsError"""
    try:
        url = httpx.URL(server)
    except (httpx.InvalidURL, ValueError) as error:
        raise SettingsError(f"server {server!r}: {error}; want http://HOST:PORT") from None
    if url.scheme not in ("http", "https") or not url.host or (url.port or 1) > 65535:
        raise SettingsError(f"server {server!r}: want http://HOST:PORT or https://HOST:PORT")
    return url
