"""The acoustic model: features, networks, loss."""
