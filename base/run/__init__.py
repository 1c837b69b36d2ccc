"""What lies in the folder of a run, and whose it is."""
