"""TFLite models: files checked byte by byte, one rule an operator."""
