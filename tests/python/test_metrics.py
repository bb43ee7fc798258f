"""Checks metrics on numbers worked out by hand; goldens check them on random models."""

import math

import torch
from sinkscope import metrics
from torch import Tensor


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def assert_equal(actual: Tensor, *expected: object) -> None:
    torch.testing.assert_close(actual, torch.tensor(*expected, dtype=actual.dtype), equal_nan=True)


def test_alpha_divides_by_the_queries_that_see_a_token() -> None:
    att = matrix([1.0, 0, 0], [0.75, 0.25, 0], [0.5, 0.25, 0.25])
    assert_equal(metrics.alpha(att), [0.75, 0.25, 0.25])
    assert_equal(metrics.alpha(att, "window"), [0.75, 0.25, 0.25])
    assert_equal(metrics.alpha(att, "bidirectional"), [0.75, 0.5 / 3, 0.25 / 3])
    # The bias key adds a row of its own with weight 1, to four in all.
    assert_equal(metrics.alpha_bias(matrix([0.5, 0.25, 0.25])[0]), [0.5])


def test_a_head_has_a_sink_where_alpha_exceeds_eps() -> None:
    alphas = matrix([0.5, 0.25], [0.75, 0.75]).reshape(1, 2, 2)
    assert_equal(metrics.sink(alphas, 0.5).double(), [50.0, 50.0])
    assert_equal(metrics.sink(alphas, 0.25).double(), [100.0, 50.0])
    assert metrics.sink(matrix([0.29, 0.31])).tolist() == [0.0, 100.0]
    # "Near" means within 0.002, by default of 0.3.
    assert_equal(metrics.near(matrix([0.2979, 0.2981, 0.3021], [0.3019, 0.5, 0.9])), [1.0, 1.0, 0.0])
    assert_equal(metrics.near(matrix([0.0019, 0.002]), 0.0), [1.0, 0.0])


def test_shares_of_a_row_use_magnitudes() -> None:
    att = matrix([1.0, -3.0], [0.0, 0.0])
    assert_equal(metrics.part_of_row(att), [[0.25, 0.75], [0.0, 0.0]])
    assert_equal(metrics.row_mass(att), [-2.0, 0.0])


def test_entropy_is_a_share_of_the_largest_and_undefined_without_weight() -> None:
    share = matrix([0.5, 0.5, 0, 0], [0.25] * 4, [0.9, 0, 0, 0], [0.0] * 4)
    assert_equal(metrics.entropy(share, torch.tensor([4, 4, 1, 4])), [0.5, 1.0, 0.0, math.nan])


def test_cosines_with_the_first_key_and_with_others_are_separate() -> None:
    """Vectors are given by their angle in steps of 60 degrees; lengths do not matter."""

    def vectors_at(*steps: int) -> Tensor:
        angle = torch.tensor(steps, dtype=torch.float64) * math.pi / 3
        return torch.stack([angle.cos(), angle.sin()], -1) * (1 + torch.arange(3)[:, None])

    q, k = vectors_at(0, 0, 1), vectors_at(0, 1, 3)
    # Cosines with the first key: 1, 1 and 1/2, one a query. Cosines with the other visible keys: none for the first
    # query, 1/2 for the second, 1 and -1/2 for the third.
    assert_equal(metrics.cos_gap(q, k, torch.arange(3)), 2.5 / 3 - 1 / 3)
    # With the second key as the first: 1/2, 1/2 and 1, also for the query that does not see it. With the other visible
    # keys: 1 for the first query, 1 for the second, 1/2 and -1/2 for the third.
    assert_equal(metrics.cos_gap(q, k, torch.arange(3), 1), 2 / 3 - 2 / 4)
    result = metrics.geometry(q[None, None], k[None, None], torch.ones(3, 3, dtype=torch.bool).tril())
    assert_equal(result["qk_norm"][0, 0], [[1, math.nan, math.nan], [2, 4, math.nan], [3, 6, 9]])
    assert_equal(result["qk_cos"][0, 0], [[1, math.nan, math.nan], [1, 0.5, math.nan], [0.5, 1, -0.5]])
    assert_equal(result["qk_dot"][0, 0], [[1, math.nan, math.nan], [2, 2, math.nan], [1.5, 6, -4.5]])
    assert_equal(result["cos_gap"], [[0.5]])


def test_among_equal_activations_the_first_token_comes_first() -> None:
    hidden = matrix([1.0, -7, 2], [7, 0, -6]).reshape(1, 2, 3)
    result = metrics.massive(hidden)
    assert_equal(result["massive"], [[7.0, 7, 6, 2]])  # the median of six is the third
    assert_equal(result["massive_at"], [[[1.0, 0], [0, 1], [2, 1]]])


def test_losses_and_ranks_are_of_the_next_token() -> None:
    logits = matrix([0.0, 0, math.log(2)], [1, 1, 1], [9, 9, 0], [0, 0, 0])
    tokens = torch.tensor([1, 2, 1, 2])
    assert_equal(metrics.loss(logits, tokens), [math.log(2), math.log(3), 9 + math.log(2 + math.exp(-9))])
    ranks = metrics.rank(logits, tokens)
    assert ranks.tolist() == [0, 1, 2]  # the lower id wins a tie
    assert_equal(metrics.accuracy(ranks), 1 / 3)


def test_a_norm_is_compared_with_the_mean_of_the_others() -> None:
    vectors = matrix([3.0, 4], [0, 1], [6, 8])
    assert_equal(metrics.first_to_others(vectors), 5 / 5.5)
    assert_equal(metrics.first_to_others(vectors, 1), 1 / 7.5)


def test_a_contribution_is_the_share_of_absolute_weight_times_value_length() -> None:
    att = matrix([1.0, 0, 0], [0.5, -0.25, 0], [0.0, 0, 0])
    visible = torch.ones(3, 3, dtype=torch.bool).tril()
    result = metrics.contributions(att[:2], matrix([1.0, 2, 4])[0], visible[:2])
    assert_equal(result, [(1 + 0.5) / 3, 0.5 / 2, 0.0])
    assert metrics.contributions(att, matrix([1.0, 2, 4])[0], visible).isnan().all()


def test_a_tag_is_a_share_of_squares_or_of_variance() -> None:
    x, direction = matrix([3.0, 4], [3, 0]), matrix([2.0, 0])[0]
    assert_equal(metrics.tag_share(x, direction), 18 / 34)
    assert_equal(metrics.tag_share(x, direction, centered=True), 0.0)
    assert_equal(metrics.tag_share(x, direction.flip(0), centered=True), 1.0)


def test_a_gate_is_the_attention_to_tokens_after_the_first() -> None:
    to_first = matrix([1.0, 0.75, 0.25])
    assert_equal(metrics.head_gate(to_first), [[math.nan, 0.25, 0.75]])
    assert_equal(metrics.head_gate(to_first, 1), [[math.nan, math.nan, 0.75]])
    assert_equal(metrics.head_load(metrics.head_gate(to_first)), [0.5])
    # The weight of the bias key goes to no token.
    assert_equal(metrics.head_gate(to_first, to_bias=matrix([0.5, 0.25, 0.125])), [[math.nan, 0.0, 0.625]])
    # The Gini coefficient is the mean difference of 1, 3, 8 over all nine pairs, 28 / 9, divided by twice their mean.
    assert_equal(metrics.head_gini(matrix([8.0, 1, 3], [2, 2, 2], [0, 0, 0])), [28 / 9 / 8, 0.0, math.nan])


def test_a_spike_has_its_row_column_weight_and_token() -> None:
    inputs, outputs = matrix([1.0, -3], [2, 1])[None], matrix([1.0, 0, 2], [-5, 0, 4])[None]
    down = torch.arange(6.0, dtype=torch.float64).reshape(1, 3, 2)
    result = metrics.spikes(inputs, outputs, down)
    assert_equal(result, [[[2.0, 1, 5, -3, 2], [0, 0, 0, 2, -5]]])
    assert_equal(metrics.super_weight(result), [[0.0, 0, 1, 0, 2, -5]])


def test_mixing_and_kurtosis_equal_values_computed_by_hand() -> None:
    hidden = matrix([1.0, 0], [1, 4])
    assert_equal(metrics.mixing(hidden), 2.0)  # sqrt(8) / sqrt(2)
    # The numbers 1, 0, 1, 4 have the mean 1.5 and the deviations 1/2, 3/2, 1/2, 5/2, so m2 = 9/4 and m4 = 177/16.
    assert_equal(metrics.kurtosis(hidden), (1 + 81 + 1 + 625) / 16 / 4 / (9 / 4) ** 2)


def test_matrix_entropy_counts_directions() -> None:
    one_direction, two_directions = matrix([3.0, 4], [6, 8], [0, 0]), matrix([1.0, 0, 0], [0, 1, 0])
    assert_equal(metrics.matrix_entropy(one_direction), 0.0)
    assert_equal(metrics.matrix_entropy(two_directions), 1.0)
    assert_equal(metrics.matrix_entropy(two_directions.T), 1.0)
    unequal = matrix([math.sqrt(3), 0], [0, 1])
    assert_equal(metrics.matrix_entropy(unequal), 2 - 0.75 * math.log2(3))
    result = metrics.matrix_entropy(
        torch.stack(
            [two_directions, 0 * two_directions, two_directions / 0, torch.full_like(two_directions, torch.inf)]
        )
    )
    assert_equal(result, [1.0, math.nan, math.nan, math.nan])
    assert metrics.matrix_entropy(two_directions[:1]).isnan() and metrics.matrix_entropy(one_direction[:, :1]).isnan()
    assert metrics.matrix_entropy(two_directions.half()).dtype == torch.float16


def test_a_diagonal_head_gives_its_own_key_its_attention() -> None:
    shifted = torch.eye(4, dtype=torch.float64).roll(-1, -1)  # each query gives the key before it everything
    shifted[0], shifted[1:] = torch.eye(4, dtype=torch.float64)[0], torch.eye(4, dtype=torch.float64)[:-1]
    assert_equal(metrics.diagonal(torch.eye(4, dtype=torch.float64)), [1.0, 0, 0])
    assert_equal(metrics.diagonal(shifted), [0.25, 1.0, 0])
    uniform = torch.ones(4, 4, dtype=torch.float64).tril() / torch.arange(1.0, 5, dtype=torch.float64)[:, None]
    means = [(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, (1 / 2 + 1 / 3 + 1 / 4) / 3, (1 / 3 + 1 / 4) / 2]
    assert_equal(metrics.diagonal(uniform), means)
    assert metrics.diagonal(torch.ones(1, 1)).isnan().tolist() == [False, True, True]


def test_the_first_layer_is_the_first_with_a_head_above_eps() -> None:
    alphas = torch.zeros(4, 2)
    assert metrics.first_layer(alphas) is None
    alphas[3, 1] = 0.5
    assert metrics.first_layer(alphas) == 3 and metrics.first_layer(alphas, 0.6) is None
    alphas[1, 0] = 0.5
    assert metrics.first_layer(alphas) == 1
    assert metrics.first_layer(torch.full((2, 2), 0.5), 0.5) is None


def test_the_stable_rank_is_one_of_multiples_of_a_vector_and_n_of_orthogonal_rows() -> None:
    assert_equal(metrics.stable_rank(matrix([3.0, 4], [6, 8], [-3, -4])), 1.0)
    assert_equal(metrics.stable_rank(2 * torch.eye(5, 7, dtype=torch.float64)), 5.0)
    assert_equal(metrics.stable_rank(matrix([2.0, 0], [0, 1])), 1.25)
    assert_equal(metrics.stable_rank(matrix([5.0, 0])), 1.0)
    assert metrics.stable_rank(torch.zeros(3, 2)).isnan()


def test_runs_are_compared_token_by_token() -> None:
    base, logits = matrix([math.log(3), 0], [0, 0], [9, 0]), matrix([0.0, 0], [0, 0], [0, 0])
    assert_equal(metrics.divergence(base, logits), [0.75 * math.log(1.5) + 0.25 * math.log(0.5), 0.0])
    assert_equal(metrics.hidden_change(matrix([3.0, 4], [0, 2]), matrix([3.0, 9], [0, 1])), [1.0, 0.5])
