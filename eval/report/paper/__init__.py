"""What a paper takes from a report: PDF figures, LaTeX tables, methods with references, checklists."""
