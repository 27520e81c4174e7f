"""Speed of the baselines and of compiled networks."""
