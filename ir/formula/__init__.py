"""Formulas over indices: domains of whole numbers, expressions, their derivatives, loop programs."""
