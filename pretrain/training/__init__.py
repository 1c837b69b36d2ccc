"""The training of one run.

To be read in this order: ``training_run`` (from a configuration to a finished folder), ``loop`` (its steps),
``update`` (one of them), ``schedule`` (how many), ``checkpoints``, ``metrics_log`` and ``stopping`` (what is
kept, shown, and ends it). ``device`` is where it runs and in which precision, ``knots`` what splines do on
the way, ``seeds`` several runs in turn, ``dry_run`` what a run would be.
"""
