"""Archives of a study: what its report reads, small enough for a repository, and back."""
