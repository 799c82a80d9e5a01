"""Corpora from the internet: fetched, checked, unpacked."""
