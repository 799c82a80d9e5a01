"""Each module declares arguments that several commands share."""
