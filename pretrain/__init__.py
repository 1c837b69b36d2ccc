"""Pretraining: from a corpus to a saved model with its metrics and provenance.

To be read in this order: ``config`` (what a user may say), ``config_sources`` (where it comes from),
``resolution`` (what is decided for the user), ``data`` (text to batches), ``model`` (what is trained, and
its loss), ``training`` (the loop around both), ``run`` (what a run's folder holds). ``train`` and
``generate`` are the commands.
"""
