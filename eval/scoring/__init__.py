"""Log-likelihoods of texts: how probable a model finds a sentence, as a protocol defines it.

Reading order: ``scored_tokens`` (text to tokens), ``text_batches``, ``log_likelihood``, then ``causal`` and
``masked`` (the same with shared work computed once), ``scorers`` (the three kinds of models).
"""
