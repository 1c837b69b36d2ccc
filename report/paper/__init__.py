"""What a paper takes from a report: a LaTeX table, PDF figures, a paragraph on methods, references."""
