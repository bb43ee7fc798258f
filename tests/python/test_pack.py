"""Decodes the files of a timeline, independently of the page's decoder."""

import numpy as np
import pytest

from models.train import pack

Shapes = dict[str, tuple[int, ...]]


def decode(
    raw: bytes, previous: pack.Arrays | None, shapes: Shapes, scales: list[float], from_previous: list[bool]
) -> pack.Arrays:
    result, offset, matrices = {}, 0, [name for name, shape in shapes.items() if len(shape) == 2]
    for name, scale, is_predicted in zip(matrices, scales, from_previous, strict=True):
        steps = np.frombuffer(raw, np.int8, int(np.prod(shapes[name])), offset).reshape(shapes[name])
        offset += steps.size
        result[name] = steps.astype(np.float32) * np.float32(scale)
        if is_predicted:
            result[name] = previous[name] + result[name]
    for name, shape in shapes.items():
        if len(shape) != 2:
            result[name] = np.frombuffer(raw, "<f4", int(np.prod(shape)), offset).reshape(shape)
            offset += result[name].nbytes
    assert offset == len(raw)
    return result


@pytest.fixture
def run() -> list[pack.Arrays]:
    """Returns five checkpoints in which one matrix drifts, one is redrawn each time, and one has an outlier."""
    random = np.random.default_rng(0)
    drifting_matrix = random.normal(size=(8, 16)).astype(np.float32)
    result = []
    for _ in range(5):
        drifting_matrix = drifting_matrix + random.normal(size=(8, 16)).astype(np.float32) * np.float32(0.1)
        spike = random.normal(size=(4, 4096)).astype(np.float32)
        spike[1, 2] = 1000.0
        result.append(
            {
                "drifting": drifting_matrix,
                "new": random.normal(size=(6, 6)).astype(np.float32),
                "gain": random.normal(size=16).astype(np.float32),
                "spike": spike,
            }
        )
    return result


def test_decoding_gives_the_bits_that_encode_returned(run: list[pack.Arrays]) -> None:
    shapes = {name: array.shape for name, array in run[0].items()}
    expected = decoded = None
    for arrays in run:
        raw, scales, from_previous, expected = pack.encode(arrays, expected)
        decoded = decode(raw, decoded, shapes, scales, from_previous)
        assert all(np.array_equal(decoded[name], expected[name]) for name in shapes)
        assert decoded["gain"].tobytes() == arrays["gain"].tobytes()


def test_the_error_is_half_a_step_and_does_not_add_up(run: list[pack.Arrays]) -> None:
    decoded = None
    for i, arrays in enumerate(run):
        _, scales, from_previous, decoded = pack.encode(arrays, decoded)
        for name, scale in zip(("drifting", "new", "spike"), scales, strict=True):
            assert np.abs(decoded[name] - arrays[name]).max() <= scale * 0.5001
        assert from_previous[0] == (i > 0)  # a slowly changing matrix is predicted
        assert from_previous[1] is False


def test_every_step_fits_into_a_byte(run: list[pack.Arrays]) -> None:
    raw, scales, _, decoded = pack.encode(run[0], None)
    assert scales[2] == pytest.approx(1000 / 127)
    assert abs(decoded["spike"]).max() == pytest.approx(1000.0)
    assert np.frombuffer(raw, np.int8, 128 + 36 + 4 * 4096).max() == 127


def test_a_number_that_127_steps_can_hold_does_not_enlarge_the_step() -> None:
    array = np.zeros((1, 10_322), np.float32)
    array[0, 0] = 1  # 1.25 sqrt(10,322) = 126.997 steps
    raw, [scale], _, _ = pack.encode({"one": array}, None)
    assert scale == np.float32(np.sqrt(np.square(array).mean()) / pack.OTHER_STEPS_PER_RMS) != np.float32(1 / 127)
    assert np.frombuffer(raw, np.int8).max() == 127


def test_a_step_of_128_does_not_wrap_around() -> None:
    # The largest weight is 128 steps, of a size that follows from the root mean square of the matrix.
    weights = np.ones((128, 128), np.float32)
    weights[0, 0] = 0.0
    scale = np.float32(np.sqrt(np.square(weights).mean()) / pack.OTHER_STEPS_PER_RMS)
    for _ in range(200):  # the largest weight changes the root mean square, and so the scale
        weights[0, 0] = 128 * scale
        scale = np.float32(np.sqrt(np.square(weights).mean()) / pack.OTHER_STEPS_PER_RMS)
    assert np.rint(weights / scale).max() == 128
    raw, scales, from_previous, expected = pack.encode({"matrix": weights}, None)
    decoded = decode(raw, None, {"matrix": weights.shape}, scales, from_previous)
    assert np.array_equal(decoded["matrix"], expected["matrix"])
    assert abs(decoded["matrix"][0, 0] - weights[0, 0]) <= scales[0] * 0.5001
