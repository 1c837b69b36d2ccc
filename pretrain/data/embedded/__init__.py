"""The embedded corpus: stories, minimal pairs and classification tasks from a seeded grammar of this project.

It lets the whole pipeline run without network and without data, and see scores rise above chance in a minute.
Nothing here is copied from a corpus; everything is a pure function of its arguments.

- ``lexicon``: the words and their classes; ``grammar``: phrases and agreement
- ``holdout``: which combinations of words the stories never use
- ``stories``: the training text; ``paradigms`` and ``pairs``: minimal pairs in the BLiMP schema
- ``tasks``: acceptability and entailment in the GLUE schema
"""

from __future__ import annotations

from pretrain.data.embedded.pairs import minimal_pairs
from pretrain.data.embedded.stories import stories
from pretrain.data.embedded.tasks import classification_tasks

__all__ = ["classification_tasks", "minimal_pairs", "stories"]
