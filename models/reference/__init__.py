"""The independent reference: models, attention operations and measurements in PyTorch."""
