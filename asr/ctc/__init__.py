"""Decodes logits into hypotheses: greedily, or by beam search with a language model and hot words."""
