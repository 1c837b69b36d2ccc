"""The functions of one number that feed-forward networks are made of, for whoever inspects a model."""

from ffn_variants.inside import kan_edges as kan_edges
