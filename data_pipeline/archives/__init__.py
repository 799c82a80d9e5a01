"""Archives that are unpacked with care: nothing leaves the folder, nothing is written through a link."""
