"""The command line parses arguments and prints; everything else is in the library."""
