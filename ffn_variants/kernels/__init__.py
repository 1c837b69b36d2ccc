"""Fused elementwise functions and products of a basis with weights."""
