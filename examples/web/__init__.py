"""A page that knows handwritten digits and learns those of whoever draws on it."""
