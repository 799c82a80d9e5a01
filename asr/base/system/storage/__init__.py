"""Files that are not on a disk of this machine: in object storage, or wherever fsspec reads."""
