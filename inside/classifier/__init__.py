"""What a fine-tuned classifier looks at: explanations by segments, and whether those suffice."""
