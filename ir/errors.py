"""The exceptions of `ir`: each says where, what is wrong with its values, what was wanted."""


class IrError(Exception):
    """The root of this package's exceptions."""


class ShapeError(IrError, ValueError):
    """Sizes that do not fit an operator."""


class DTypeError(IrError, TypeError):
    """Element types that do not fit an operator."""


class AttrError(IrError, TypeError):
    """An attribute that an operator does not have, or a value that it does not take."""


class GraphError(IrError, ValueError):
    """A graph that breaks a rule of the IR; found by the verifier or the text parser."""


class FormatError(IrError, ValueError):
    """A model file that is damaged, hostile or of another version."""


class EvaluationError(IrError, RuntimeError):
    """A graph that cannot be run to its end: a recursion too deep, a value from nowhere."""
