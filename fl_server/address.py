"""The address of a server, and how it is known over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import cache

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


def tls_context(ca: str | None, certificate: Sequence[str] = ()) -> ssl.SSLContext:
    """How a server is known, and how it knows us.     raises SettingsError

    ca: PEM file of who vouches for the server, else the system's · certificate: PEM files of our
    own certificate and its key, where the server asks for one
    """
    if ca is None and not certificate:
        return _of_the_system()
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(*certificate)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        files = ", ".join([*([ca] if ca else []), *certificate])
        raise SettingsError(f"{files}: no certificates in PEM ({reason})") from None
    return context


@cache
def _of_the_system() -> ssl.SSLContext:
    """One for all: to read the system's certificates takes longer than a connection."""
    return ssl.create_default_context()
