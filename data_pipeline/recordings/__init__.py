"""Audio files: converted, cut, joined and synthesized."""
