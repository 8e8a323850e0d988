"""Python of the FlatBuffers compiler: `make gen` writes it from ir/model.fbs."""
