"""Five tasks written twice, with MindSpan and in PyTorch: how many statements each takes."""
