"""What trained models hold inside: their FFNs, and what their classifiers read."""
