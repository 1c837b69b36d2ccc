"""What a study's file says, and the cells that it makes."""
