"""Labels that may be wrong: found, reviewed and corrected."""
