"""What loss does over steps, costs and sizes."""
