"""Experiments: declarations of what is trained and measured, and the results they leave."""
