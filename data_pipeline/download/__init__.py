"""Downloads, checks and unpacks corpora."""
