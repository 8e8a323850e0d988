"""Many devices on one machine: which examples each of them has, and where they train."""
