"""Trained models to the Hugging Face hub, with their scores and the code that loads them."""
