"""HTML pages: shell, charts, histograms, pictures."""
