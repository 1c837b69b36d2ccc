"""What takes the place of a module of this project where a model's code travels alone."""
