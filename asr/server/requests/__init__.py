"""What a request may cost, who may send it, and how it is received or refused."""
