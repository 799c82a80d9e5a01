"""Make HTML pages: their shell, charts, histograms and pictures."""
