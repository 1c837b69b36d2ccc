"""The report: from scores to ``report.md``, its figures, tables and numbers."""
