"""What a GPU is asked to do: counted without one, and measured with one."""
