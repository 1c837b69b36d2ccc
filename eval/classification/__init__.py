"""Fine-tune a model with a head on classification tasks, and measure it.

Reading order: ``schema`` (a task's YAML file), ``find_tasks``, ``examples`` (its rows),
``example_tokens`` and ``data`` (as tokens), ``encoders`` (backbone to vectors), ``heads``, ``classifier``
(both joined), ``finetune`` (the training loop), ``prediction``, ``score_task`` (from a task to its
metrics).
"""
