"""The demo on real data: wrist-watch motion of ten people doing seven shoulder exercises."""
