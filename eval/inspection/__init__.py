"""What the learned functions of trained models became: measured, held against controls, and drawn."""
