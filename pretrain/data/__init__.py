"""From text to batches: corpus, tokenizer, shards, packing, masking."""
