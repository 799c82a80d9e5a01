"""What an evaluation tells: rates, their certainty, kinds of errors, doubtful labels. No TensorFlow here."""
