"""Figures that several parts draw, and the style of all; other figures are drawn in their part."""
