"""Every label that separates one use of a key, hash or signature from all others.

A label is never reused and never changed: a change of meaning is a new label.
"""

from __future__ import annotations

SESSION = b"fl-sa/1"
MODEL = b"fl-sa/1 model"
MERKLE_LEAF = b"\x00"
MERKLE_NODE = b"\x01"

# Signatures of Ed25519.
ADVERT = b"fl-sa/1 advert"
AGREE = b"fl-sa/1 agree"
CERTIFICATE = b"fl-sa/1 certificate"
REVOCATION = b"fl-sa/1 revocation"
ENROL = b"fl-sa/1 enrolment"
HANDOVER = b"fl-sa/1 handover"
REQUEST = b"fl-sa/1 request"

# `info` of HKDF; the salt is the session id.
SHARE_KEY = b"share"
MASK_KEY = b"mask"
SELF_KEY = b"self"
CHECKSUM_KEY = b"checksum"
ROUNDING_KEY = b"rounding"
NOISE_KEY = b"noise"

# Hashes.
TOKEN = b"fl-sa/1 token"
COMMITMENT = b"fl-sa/1 commitment"
SHARE_DIGEST = b"fl-sa/1 share digest"
SHARED_SET = b"fl-sa/1 U2"
SURVIVOR_SET = b"fl-sa/1 U3"
TRANSCRIPT = b"fl-sa/1 transcript"
RING = b"fl-sa/1 ring\x00"
SHARD = b"fl-sa/1 shard"
COHORT = b"fl-sa/1 cohort"
PLAN = b"fl-sa/1 plan"
COORDINATES = b"fl-sa/1 coordinates"

# The one masked vector of a round.
VECTOR_NAME = b"update"
