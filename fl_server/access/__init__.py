"""Who may call, for what, and how often."""
