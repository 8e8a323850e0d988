"""Who certifies clients: the enrolment authority, beside the server or apart from it."""
