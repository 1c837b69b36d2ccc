"""Talking to SLURM: what jobs run, handing them over, and what the queue says of them."""
