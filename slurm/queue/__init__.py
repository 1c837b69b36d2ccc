"""Talking to SLURM: what a site wants to be told, what the queue says, and the code that jobs run."""
