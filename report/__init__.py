"""From scores to ``report.md``, its figures, tables and numbers; it never loads a model.

Reading order: ``command`` reads the flags into a ``Request``, ``inputs`` reads the scores into a ``Source``,
``analyse`` computes every number into an ``Analysis``: ``significance`` compares and corrects, with functions
of arrays from ``statistics``, and ``verdicts`` sums up. Each part in ``parts`` adds its result. ``page`` puts
their sections into one page, ``exports`` draws figures and tables, ``document`` writes the files, ``write``
calls them in this order.
"""
