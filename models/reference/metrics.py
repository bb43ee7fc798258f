"""The metrics, which are those of the Python package (models/record)."""

from sinkscope.metrics import (
    EPS,
    NEAR,
    alpha,
    alpha_bias,
    contributions,
    divergence,
    entropy,
    first_to_others,
    geometry,
    hidden_change,
    kurtosis,
    loss,
    massive,
    mixing,
    near,
    row_mass,
    sink,
    spikes,
    super_weight,
)

__all__ = ["EPS", "NEAR", "alpha", "alpha_bias", "contributions", "divergence", "entropy",
           "first_to_others", "geometry", "hidden_change", "kurtosis", "loss", "massive", "mixing",
           "near", "row_mass", "sink", "spikes", "super_weight"]
