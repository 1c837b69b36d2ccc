"""The figures of a look inside, a file a kind; every one gives a figure and its alt text, or nothing."""
