"""Whole passes as launches of the kernels beside this folder."""
