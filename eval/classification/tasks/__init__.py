"""The classification tasks: a YAML file each, what such a file may say, and how examples are read by it."""
