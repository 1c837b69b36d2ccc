"""What is scored without training: minimal pairs, entity tracking, wug, perplexity, tasks of lm-eval."""
