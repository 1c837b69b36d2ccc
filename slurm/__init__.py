"""Studies: families x variants x seeds, expanded into cells, run here or on a cluster, and reported.

To be read in this order: ``study/`` (from a YAML file to cells), ``cell_state`` (where cells stand, in
small files, corrected by the queue), ``worker`` (what is done with a cell), ``todo``
(which cells are to be run: nobody else decides it), ``launch`` and ``run_study``, then where these hand them:
``local`` or ``jobs``. ``next_stage`` is what follows when they have ended: a round of tuning,
the report.
"""
