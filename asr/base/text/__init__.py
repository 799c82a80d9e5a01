"""Text: pinyin, hanzi, units of labels, and the wording of messages."""
