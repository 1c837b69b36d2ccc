"""The Accelerate loop, its optimizer and its checkpoints."""
