"""Pages as data, and their one writer: Markdown, HTML, JSON, figures and tables.

Reading order: ``document``, ``markdown`` (numbers and tables as text), ``html``.
"""
