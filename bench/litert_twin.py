"""FashionNet as LiteRT's own converter quantizes it: PYTHON bench/litert_twin.py DATA.npz

Runs in an environment of TensorFlow's, for `bench.quantization --litert PYTHON`. DATA holds `x`,
`label`, `calibration` (channels last) and the net's weights as PyTorch names them. Prints a line of
JSON for each file: name, size_bytes, accuracy, ms of one example on one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

LAYERS = (  # number in the Sequential, kind, stride
    (0, "conv", 1), (1, "norm", 1), (3, "depthwise", 2), (4, "norm", 1), (6, "conv", 1),
    (7, "norm", 1), (9, "depthwise", 1), (10, "norm", 1), (12, "conv", 1), (13, "norm", 1),
    (15, "depthwise", 2), (16, "norm", 1), (18, "conv", 1), (19, "norm", 1), (21, "depthwise", 1),
    (22, "norm", 1), (24, "conv", 1), (25, "norm", 1), (27, "depthwise", 2), (28, "norm", 1),
    (30, "conv", 1), (31, "norm", 1),
)  # fmt: skip
INTEGERS = {
    "int8": tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
    "int16": tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
}
ROUNDS = 300


def main(path: str) -> None:
    data = dict(np.load(path))
    net = twin(data)
    for name in ("float32", "fp16", "int8-weights", *INTEGERS):
        file = converted(net, name, data["calibration"])
        print(json.dumps({"name": name, "size_bytes": len(file), **measured(file, data)}))


def twin(data: Mapping[str, np.ndarray]) -> Any:
    """The net in Keras, with PyTorch's weights."""
    layers = tf.keras.layers
    x = first = layers.Input((28, 28, 1))
    for number, kind, stride in LAYERS:
        w = data[f"{number}.weight"]
        if kind == "norm":
            layer = layers.BatchNormalization(epsilon=1e-5)
            x = layers.ReLU()(layer(x))
            rest = [data[f"{number}.{n}"] for n in ("bias", "running_mean", "running_var")]
            layer.set_weights([w, *rest])
            continue
        if w.shape[2] == 3:
            x = layers.ZeroPadding2D(1)(x)
        if kind == "conv":
            layer = layers.Conv2D(w.shape[0], w.shape[2], stride, use_bias=False)
            x = layer(x)
            layer.set_weights([w.transpose(2, 3, 1, 0)])
        else:
            layer = layers.DepthwiseConv2D(3, stride, use_bias=False)
            x = layer(x)
            layer.set_weights([w.transpose(2, 3, 0, 1)])
    x = layers.GlobalAveragePooling2D()(x)
    head = layers.Dense(10)
    y = head(x)
    head.set_weights([data["35.weight"].T, data["35.bias"]])
    return tf.keras.Model(first, y)


def converted(net: Any, name: str, calibration: np.ndarray) -> bytes:
    converter = tf.lite.TFLiteConverter.from_keras_model(net)
    if name != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if name == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    if name in INTEGERS:

        def samples() -> Iterator[list[np.ndarray]]:
            yield from ([x[None]] for x in calibration)

        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [INTEGERS[name]]
    return bytes(converter.convert())


def measured(file: bytes, data: Mapping[str, np.ndarray]) -> dict[str, float]:
    run = tf.lite.Interpreter(model_content=file, num_threads=1)
    run.allocate_tensors()
    (given,), (result,) = run.get_input_details(), run.get_output_details()

    def answer(x: np.ndarray) -> int:
        run.set_tensor(given["index"], x[None])
        run.invoke()
        return int(np.argmax(run.get_tensor(result["index"])))

    right = np.mean([answer(x) == y for x, y in zip(data["x"], data["label"], strict=True)])
    best = np.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer(data["x"][0])
        best = min(best, time.perf_counter() - start)
    return {"accuracy": float(right), "ms": 1e3 * best}


if __name__ == "__main__":
    main(sys.argv[1])
