"""Classification of heartbeats and reviews: Tables 1 to 3 of the paper, its ablations and figures."""
