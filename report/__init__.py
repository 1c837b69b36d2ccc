"""From scores to ``report.md``, its figures, tables and numbers; it never loads a model.

Reading order: ``command`` reads the flags into a ``Request``, ``inputs`` reads the scores into a ``Source``,
``compute`` makes every number into an ``Analysis``: ``significance`` compares and corrects, with functions
of arrays from ``statistics``, and ``verdicts`` sums up. Each part in ``parts`` adds its result. ``page`` puts
their sections into one page, ``write`` draws figures and tables and writes the files
that ``document`` makes.
"""
