"""HTTP: the routes, what stands before them, the dashboard, the processes that serve."""
