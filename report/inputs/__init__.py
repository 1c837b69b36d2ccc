"""What a report is made of: rows, runs, studies and tables, read and checked."""
