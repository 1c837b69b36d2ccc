"""Where the cells of a study stand, from its files and the queue."""
