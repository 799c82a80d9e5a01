"""Statistics of manifests."""
