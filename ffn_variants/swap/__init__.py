"""Feed-forward networks of a pretrained model replaced by a variant, fitted to them, and measured."""
