"""The rounds of all tasks: what comes in is checked, kept, added up; deadlines move things on."""
