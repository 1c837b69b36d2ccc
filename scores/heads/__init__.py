"""The heads of classifiers by name, as rows and studies name them."""
