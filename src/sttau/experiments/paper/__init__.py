"""The paper's tables and figures: what is trained, what is shown, and the work behind it."""
