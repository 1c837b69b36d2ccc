"""What the FFNs of trained models learned: measured beside their start, pruned, and drawn."""
