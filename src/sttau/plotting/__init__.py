"""Figures from values."""
