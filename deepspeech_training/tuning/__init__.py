"""Finding the weights of a language model: the model's output kept, decoded again and again, by optuna's choice."""
