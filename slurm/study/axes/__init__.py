"""The axes along which the runs of a study differ: variants with options, sizes, tokens, fields."""
