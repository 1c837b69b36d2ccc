"""Score trained models: minimal pairs, perplexity, tasks of lm-eval, and fine-tuning on classification tasks.

Reading order: ``command`` reads the flags into an ``EvalConfig`` (``config``, made of ``protocol`` and
``finetuning``), ``work_units`` lists what a run has no scores for, ``evaluate`` measures it and stores rows
and items. Texts are scored by ``zero_shot`` and ``scoring``, labels by ``classification``. ``push`` and
``model_card`` publish a run. What the scores say about variants is the subject of ``report``.
"""
