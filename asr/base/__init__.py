"""What every room uses: types, vocabulary, configuration, files, locks, signals, wording."""
