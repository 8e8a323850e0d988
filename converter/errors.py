"""The exceptions of the converter; each message is one line: where, what, what was wanted."""


class ConvertError(Exception):
    """A model that cannot be converted, or that does not agree with its source."""


class UnsupportedError(ConvertError):
    """Operators of the source model that have no counterpart; lists them all."""
