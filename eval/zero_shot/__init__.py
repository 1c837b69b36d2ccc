"""Suites that are scored without training: minimal pairs, other choices, perplexity, tasks of lm-eval.

Reading order: ``text_task`` (what all suites share), ``pairs_and_choices``, ``perplexity``,
``lm_eval_tasks``; ``during_training`` scores minimal pairs while a model trains.
"""
