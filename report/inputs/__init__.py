"""Read and check what a report is made of: a study's folder, a rows file, or a table.

Reading order: ``sources`` (the entry), ``study_design`` (what was to be run), ``run_facts`` (cost and curves
of runs), ``study_checks``, ``chosen_rates`` (tuning), ``relabel`` (another factor).
"""
