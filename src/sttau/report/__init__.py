"""HTML reports and their figures."""
