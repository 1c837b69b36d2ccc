"""What is compared with what, by which test, and how comparisons are corrected for each other.

Reading order: ``data_checks`` (rows), ``factor`` and ``axes`` (what is compared), ``arms`` (the runs of each
side), ``comparison`` (difference, interval, p, verdict), ``multiple_comparisons`` (the correction).
"""
