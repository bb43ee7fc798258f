"""The training recipes of the models in models/zoo."""
