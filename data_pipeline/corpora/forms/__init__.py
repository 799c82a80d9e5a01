"""Users' own lists and folders, in the formats of other toolkits."""
