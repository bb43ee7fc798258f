"""Compares every attention operation of the reference in F32 with its formula in F64."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sentences import refused

from models.reference.model import _map_features
from models.reference.operations import OPERATIONS, Parameters

Row = Callable[[np.ndarray, dict[str, float]], np.ndarray]
PARAMETER_VALUES = {"bias": -1.5, "sum": 0.3, "p": 0.5, "eps": 1e-3, "zeta": 1.1, "gamma": -0.05, "logit": 0.7}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def elu1(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def softmax_clipped(x: np.ndarray, p: dict[str, float]) -> np.ndarray:
    return np.clip((p["zeta"] - p["gamma"]) * np.exp(x) / np.exp(x).sum() + p["gamma"], 0, 1)


# The formulas of the README's table, from a row of visible scores to its weights. Operations with a kernel map q and k
# before.
FORMULAS: dict[str, Row] = {
    "softmax": lambda x, p: np.exp(x) / np.exp(x).sum(),
    "sigmoid": lambda x, p: sigmoid(x + p["bias"]),
    "sigmoid_log_n": lambda x, p: sigmoid(x - np.log(len(x))),
    "sigmoid_norm": lambda x, p: sigmoid(x) / (sigmoid(x).sum() + 1e-8),
    "softmax1": lambda x, p: np.exp(x) / (1 + np.exp(x).sum()),
    "sink_logit": lambda x, p: np.exp(x) / (np.exp(p["logit"]) + np.exp(x).sum()),
    "relu": lambda x, p: np.maximum(x, 0) / len(x),
    "elu1": lambda x, p: elu1(x + p["bias"]),
    "identity": lambda x, p: x,
    "softmax_scaled": lambda x, p: p["sum"] * np.exp(x) / np.exp(x).sum(),
    "softmax_p": lambda x, p: np.exp(x) / np.power(np.exp(p["p"] * x).sum(), 1 / p["p"]),
    "softpick": lambda x, p: np.maximum(np.expm1(x), 0) / (np.abs(np.expm1(x)).sum() + p["eps"]),
    "softmax_clipped": softmax_clipped,
    "elu1_norm": lambda x, p: elu1(x) / (elu1(x).sum() + 1e-8),
    "identity_norm": lambda x, p: x / max(abs(x.sum()), 1),
    "elu1_kernel": lambda x, p: x,
    "elu1_kernel_norm": lambda x, p: x / (x.sum() + 1e-8),
    "mlp_kernel": lambda x, p: x,
    "mlp_kernel_norm": lambda x, p: x / max(abs(x.sum()), 1),
}


def test_every_operation_has_a_formula_and_a_value_of_each_parameter_in_this_file() -> None:
    assert FORMULAS.keys() == OPERATIONS.keys(), "FORMULAS needs the formula of each operation"
    parameters = {name for operation in OPERATIONS.values() for name in operation.defaults}
    assert not parameters - PARAMETER_VALUES.keys(), "PARAMETER_VALUES needs a value of each parameter"


@pytest.mark.parametrize("scale", [1, 10, 60])
@pytest.mark.parametrize("id", OPERATIONS)
def test_weights_in_f32_equal_the_formula_in_f64(id: str, scale: float) -> None:
    """Scores are up to a few hundred. Masked scores are large; they must have weight 0 and not change other weights."""
    operation, T = OPERATIONS[id], 24
    x = np.random.default_rng(7).normal(size=(T, T)).astype(np.float32) * scale
    if operation.features == "elu1":
        x = abs(x)  # products of positive features
    visible = np.tril(np.ones((T, T), bool))
    x[~visible] = 300.0
    arguments = {name: PARAMETER_VALUES[name] for name in operation.defaults}
    parameters = Parameters(arguments, torch.tensor([PARAMETER_VALUES["logit"]]))
    result = operation.weights(torch.from_numpy(x)[None], torch.from_numpy(visible), parameters)[0]
    expected = np.zeros((T, T))
    for i in range(T):
        expected[i, : i + 1] = FORMULAS[id](x[i, : i + 1].astype(np.float64), arguments | PARAMETER_VALUES)
    # In F32 the difference of two scores of 200 has an error of 2e-5, so its exponential has this relative error.
    rtol = 2**-22 * max(scale * 10, 20)
    is_difference = id in ("softmax_clipped", "softpick")  # of two numbers below 1
    atol = 2**-23 if is_difference else 2**-116
    np.testing.assert_allclose(result.numpy(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("id", OPERATIONS)
def test_shares_sum_to_1(id: str) -> None:
    operation = OPERATIONS[id]
    weights = torch.linspace(0.01, 2, 12).reshape(3, 4)
    if operation.normalizes:
        weights = weights / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(operation.to_shares(weights).sum(-1), torch.ones(3))


def test_elu1_is_accurate_far_below_zero() -> None:
    x = torch.tensor([-80.0, -20.0, -1e-4, 0.0, 2.0, 1e4], requires_grad=True)
    y = _map_features(None, 0, "elu1", x)
    np.testing.assert_allclose(y.detach().numpy(), elu1(x.detach().double().numpy()), rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(np.minimum(x.detach().double().numpy(), 0)), rtol=1e-6)


@pytest.mark.parametrize("matrix", ["kernel_in.weight", "kernel_out.weight"])
def test_an_mlp_kernel_needs_both_of_its_matrices(matrix: str) -> None:
    model: Any = SimpleNamespace(layer_weight=lambda layer, name: torch.eye(2) if name == matrix else None)
    with refused(ValueError):
        _map_features(model, 0, "mlp", torch.ones(1, 2))
