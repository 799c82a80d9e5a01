"""Every check of manifests, recordings and labels that can be made before the first step."""
