"""Writes the HTML pages about runs and evaluations, and their comparisons; imports no TensorFlow."""
