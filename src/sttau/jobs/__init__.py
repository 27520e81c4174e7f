"""Work in cells, each computed once, by local processes or on a Ray cluster."""
