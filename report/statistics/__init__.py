"""Statistics of run scores: plain functions of arrays that know of no table and no file.

Reading order: ``welch`` (one difference), ``joint_null`` and ``corrections`` (many), ``looks`` (interim
analyses), ``power``, ``tuning_curves``.
"""
