"""A look into trained feed-forward networks: the functions of one number that they are made of."""

from ffn_variants.inside import kan_edges as kan_edges
