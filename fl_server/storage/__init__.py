"""What outlasts the process: tables, files, weights, and records whose lines are chained."""
