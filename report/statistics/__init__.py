"""Statistics of run scores: plain functions of arrays that know of no table and no file."""
