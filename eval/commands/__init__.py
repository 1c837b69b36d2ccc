"""The commands ``python -m eval.NAME`` that have no folder of that name."""
