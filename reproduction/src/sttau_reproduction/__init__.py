"""The experiments that reproduce the paper: networks, trials, tables and figures."""
