"""The exceptions of the converter; each message is one line that says where, what, and what was wanted."""


class ConvertError(Exception):
    """A model that cannot be converted, or that does not agree with its source."""


class UnsupportedError(ConvertError):
    """Operators, attributes or types of the source model that have no counterpart; lists them all."""
