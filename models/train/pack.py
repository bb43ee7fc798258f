"""Packs the checkpoints of a run into a timeline, with about three bits per weight.

Each matrix of a checkpoint is predicted by the previous decoded checkpoint, or by 0 if 0 is nearer. The difference is
rounded to an integer number of steps of size rms / STEPS_PER_RMS, so that a number's error is at most half a step, and
errors do not accumulate over checkpoints. ship.py measures the effect on the sink, and stores it with the measurements
on the exact weights. This module does not need torch.

    timeline/index.json    names, shapes, step sizes, measurements, the log of the run
    timeline/0400.gz       int8 steps of each matrix in order, then the F32 numbers of the other tensors
"""

import numpy as np

STEPS = (0, 10, 30, 100, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 2000, 2400, 3200, 4000)
# Steps per root mean square of a matrix. Coarse steps of the head raise the loss most, then those of the embedding;
# they hardly change the sink.
STEPS_PER_RMS = {"lm_head.weight": 4.0, "model.embed_tokens.weight": 2.0}
OTHER_STEPS_PER_RMS = 1.25

Arrays = dict[str, np.ndarray]


def is_coded(array: np.ndarray) -> bool:
    """Whether a tensor is stored in steps, as matrices are. Vectors (gains, biases) have few numbers and stay exact."""
    return array.ndim == 2


def encode(arrays: Arrays, previous: Arrays | None) -> tuple[bytes, list[float], list[bool], Arrays]:
    """Returns the bytes of a checkpoint, the step size of each matrix, whether the previous checkpoint predicts it, and
    the weights that a reader decodes. Computes in F32, as readers do."""
    codes, exact_tensors = [], []
    scales: list[float] = []
    from_previous: list[bool] = []
    decoded_arrays: Arrays = {}
    for name, array in arrays.items():
        if not is_coded(array):
            exact_tensors.append(array.astype("<f4").tobytes())
            decoded_arrays[name] = array
            continue
        prediction = np.zeros_like(array) if previous is None else previous[name]
        is_predicted = bool(np.square(array - prediction).sum() < np.square(array).sum())
        prediction = prediction if is_predicted else np.zeros_like(array)
        scale = np.float32(np.sqrt(np.square(array).mean()) / STEPS_PER_RMS.get(name, OTHER_STEPS_PER_RMS))
        steps = np.rint((array - prediction) / scale)
        if np.abs(steps).max() > 127:
            scale = np.float32(np.abs(array - prediction).max() / 127)
            steps = np.rint((array - prediction) / scale)
        codes.append(steps.astype(np.int8).tobytes())
        scales.append(float(scale))
        from_previous.append(is_predicted)
        decoded_arrays[name] = prediction + steps.astype(np.float32) * scale
    return b"".join(codes + exact_tensors), scales, from_previous, decoded_arrays
