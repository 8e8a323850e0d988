"""What a token may be good for."""

SCOPES = {
    "rounds:read": "tasks, rounds and the dashboard",
    "tasks:write": "make, stop and roll back tasks",
    "models:read": "download weights",
    "models:write": "upload models and weights",
    "clients:write": "revoke clients",
    "enrol": "let devices enrol, as their enrolment token",
    "ca": "fetch requests for certificates, and hand certificates in",
    "tokens": "make, list and revoke tokens",
    "audit:read": "the audit log",
    "metrics": "the metrics",
}

# These are of the whole server, and so of no token of a tenant's.
OF_ALL_TENANTS = ("ca", "audit:read")
