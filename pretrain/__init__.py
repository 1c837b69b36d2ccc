"""Pretraining: from a corpus to a saved model with its metrics and provenance."""
