"""How a server turns the survivors' mean update into the next global weights."""
