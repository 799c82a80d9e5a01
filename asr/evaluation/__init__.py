"""Evaluates models: error rates, their confidence intervals, kinds of errors, labels that may be wrong."""
