"""What every package and every light command needs: errors, files, command lines, tables."""
