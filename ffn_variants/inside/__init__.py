"""A look into trained feed-forward networks: the functions of one number that they are made of."""
