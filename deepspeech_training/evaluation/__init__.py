"""How well a model does on test sets: error rates, how sure they are, what is confused, and reports of it."""
