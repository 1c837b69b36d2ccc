"""The pilot of a study: a few runs of two variants under several recipes, before the study is run."""
