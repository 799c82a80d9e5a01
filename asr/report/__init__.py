"""Pages that a person reads about a run, an evaluation, or two of them. No TensorFlow here."""
