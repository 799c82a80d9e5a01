"""The command line: arguments, output, nothing else."""
