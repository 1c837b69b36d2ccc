"""From a task's texts to batches of token ids: chunks, segments, layout."""
