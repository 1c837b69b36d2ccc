"""Scores as rows: the table, the store, one number a run.

Reading order: ``suites`` with ``suites.yaml`` (what is measured), ``rows`` (the table), ``store`` (where a
run keeps it), ``run_scores`` (one number a run), ``metrics`` and ``declarations`` (direction, unit, margin:
of the suite, the user, or by the name). ``items`` grades the stored items, ``head_descriptions``
has the heads as data; ``stages``, ``tuning_grid`` and ``tuning_trials`` are a study's record of decisions.
"""
