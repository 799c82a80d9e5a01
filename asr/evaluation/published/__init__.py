"""Published error rates of test sets, beside which reports show their own."""
