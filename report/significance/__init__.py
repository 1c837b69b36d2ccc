"""What is compared, the tests, and the verdict."""
