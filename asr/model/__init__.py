"""Define the acoustic model: its features, networks and loss."""
