"""From a traced graph to a program of the runtime: passes, programs, and what they save."""
