"""Classification heads: from what a backbone makes of a text to the logits of its labels."""
