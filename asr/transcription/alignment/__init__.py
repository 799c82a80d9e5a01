"""Times the tokens of a known text: intervals, places where text and recording differ, file formats."""
