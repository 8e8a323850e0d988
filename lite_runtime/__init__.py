"""The runtime for devices: opens model files, runs their entries, trains and saves their weights.

session = lite_runtime.load("model.ms")
y = session.run(x)
loss = session.run({"image": x, "label": t}, entry="train")["loss"]
"""

from lite_runtime._core import LiteError, __version__
from lite_runtime.session import Session, TensorInfo, load

__all__ = ["LiteError", "Session", "TensorInfo", "__version__", "load"]
