"""B-splines and truncated-power splines: bases, grids, knots, pruning."""
