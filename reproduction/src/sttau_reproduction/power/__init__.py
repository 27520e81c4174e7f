"""Regression: electric power an hour ahead and a day ahead."""
