"""Keys: identities (Ed25519), exchanges (X25519), derivation (HKDF-SHA-256), wiping."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fl_server.errors import BadKey, BadSignature, ProtocolError
from fl_server.secagg import labels

RandomBytes = Callable[[int], bytes]
KEY_SIZE = 32
SIGNATURE_SIZE = 64
_FIELD_PRIME = 2**255 - 19


class Identity:
    """A long-term Ed25519 key that signs under a label."""

    def __init__(self, seed: bytes | bytearray) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes(seed))
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, label: bytes, message: bytes) -> bytes:
        """64 bytes over the label and the message."""
        return self._key.sign(label + b"\x00" + message)


def verify(public: bytes, label: bytes, message: bytes, signature: bytes, what: str) -> None:
    """Nothing, if `public` signed the label and the message.     raises BadSignature"""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, label + b"\x00" + message)
    except (InvalidSignature, ValueError):
        raise BadSignature(f"{what}: the signature does not verify") from None


def public_of(secret: bytes | bytearray) -> bytes:
    """The X25519 public key of 32 secret bytes."""
    return X25519PrivateKey.from_private_bytes(bytes(secret)).public_key().public_bytes_raw()


class Exchange:
    """X25519 with one secret and any number of public keys."""

    def __init__(self, secret: bytes | bytearray) -> None:
        self._key = X25519PrivateKey.from_private_bytes(bytes(secret))

    def shared(self, public: bytes) -> bytes:
        """The shared secret.     raises ProtocolError if `public` is of low order"""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise ProtocolError("a public key gives no shared secret") from None


# Clamped secrets are multiples of 8: with a point of low order, any of them gives zero.
_ANY = Exchange(bytes(KEY_SIZE))


def check_canonical(public: bytes, what: str) -> None:
    """Nothing, if this is the one encoding of its point: with a second one a copied key would look
    like another.     raises BadKey"""
    if int.from_bytes(public, "little") >= _FIELD_PRIME:
        raise BadKey(f"{what}: the key is not in its canonical form")


def check_point(public: bytes, what: str) -> None:
    """Nothing, if every secret gives a shared secret with `public`.     raises BadKey"""
    check_canonical(public, what)
    try:
        _ANY.shared(public)
    except ProtocolError:
        raise BadKey(f"{what}: the key is of low order") from None


def derive(secret: bytes | bytearray, session: bytes, info: bytes, size: int) -> bytes:
    """`size` bytes of HKDF-SHA-256 with the session id as salt."""
    return HKDF(SHA256(), size, salt=session, info=info).derive(bytes(secret))


def pair_info(role: bytes, a: int, b: int, tail: bytes = b"") -> bytes:
    """The `info` of a key that two clients share: role, lower id, higher id, and what it is for."""
    low, high = min(a, b), max(a, b)
    return role + b"\x00" + low.to_bytes(4, "little") + high.to_bytes(4, "little") + tail


def hashed(label: bytes, *parts: bytes | bytearray) -> bytes:
    """SHA-256 of the label and the parts. All but the last must be of fixed length."""
    digest = hashlib.sha256(label + b"\x00")
    for part in parts:
        digest.update(part)
    return digest.digest()


def model_digest(model: bytes, weights: bytes) -> bytes:
    """One digest over both that a client trained on: SHA-256 of the model file, of the weights."""
    return hashed(labels.MODEL, model, weights)


def wipe(secrets: Iterable[bytearray]) -> None:
    """Zero in place. Python may have made copies that this cannot reach."""
    for secret in secrets:
        secret[:] = bytes(len(secret))
