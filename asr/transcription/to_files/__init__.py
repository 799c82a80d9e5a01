"""Transcribes many recordings into files, which an interrupted command or the jobs of an array complete."""
