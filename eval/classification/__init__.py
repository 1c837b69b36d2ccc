"""Fine-tuning of classifiers on a task: its examples, a backbone and a head, training, metrics."""
