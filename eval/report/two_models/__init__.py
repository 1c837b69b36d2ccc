"""Two models, one training each, item by item: what can be said of them, and what cannot."""
