"""Formulas over indices: domains of whole numbers, expressions, derivatives, loop programs."""
