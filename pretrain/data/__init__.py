"""From text to batches.

To be read in this order: ``corpus`` (documents of a split), ``tokenizer`` (documents to tokens), ``packing``
(tokens to rows), ``prepare`` (all of it once, into a cache), ``step_batches`` (which rows a step reads),
``shapes`` (room for them on a GPU). ``text_summary`` is what is said of a text before training;
``embedded`` writes one where there is none.
"""
