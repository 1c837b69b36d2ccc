"""Scoring saved models on minimal pairs and GLUE, and what the scores say about the variants."""
