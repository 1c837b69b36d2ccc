"""Studies: families x variants x seeds, expanded into cells, run here or on a cluster, and reported."""
