"""All comparisons of a report together: what they show, the order of metrics, and the runs that failed.

Reading order: ``findings``, ``failed_runs``.
"""
