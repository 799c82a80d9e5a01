"""The version of Polyphone, which runs, journals and evaluations are stamped with."""

__version__ = "0.1.0"
