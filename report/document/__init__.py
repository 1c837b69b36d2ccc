"""Markdown and HTML: tables, numbers with signs, pages."""
