"""The words behind ms-serve that are not about serving."""
