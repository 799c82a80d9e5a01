"""The binary files of KenLM: their header, and their tables by hashing or as a trie."""
