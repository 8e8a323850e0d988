"""ONNX models: read from their nodes, one rule an operator."""
