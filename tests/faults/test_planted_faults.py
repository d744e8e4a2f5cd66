"""Wrong versions of the library, one or more per property and module: all are noticed.

Each row plants one fault in a living function (see ``tools/mutation.py``) and names the
test that must fail. A row whose text is no longer in the module, or whose test passes
without noticing, is a failure: a test that cannot fail proves nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import mutation
import pytest

TESTS = Path(__file__).resolve().parents[1]


class Fault(NamedTuple):
    """Replace ``right`` by ``wrong`` in ``module``; ``killer`` must fail."""

    module: str
    right: str
    wrong: str
    killer: str


def faults(module: str, *rows: tuple[str, str, str]) -> list[Fault]:
    """Rows of one module; a killer without a folder is in the module's own test file."""
    part, topic = module.split(".")
    own = f"{part}/test_{topic}.py"
    return [
        Fault(
            f"transformer_lib.{module}",
            right,
            wrong,
            killer if "::" in killer else f"{own}::{killer}",
        )
        for right, wrong, killer in rows
    ]


FAULTS = [
    *faults(
        "reference.lookup",
        (
            "numerators = np.exp(scores - highest)",
            "numerators = np.exp(scores)",
            "test_softmax",
        ),
        (
            "weights * (d_weights - mean)",
            "weights * d_weights",
            "test_softmax_backward",
        ),
    ),
    *faults(
        "reference.attention",
        (
            "scores = Q @ K.swapaxes(-1, -2) / np.sqrt(K.shape[-1])",
            "scores = Q @ K.swapaxes(-1, -2) / K.shape[-1]",
            "test_agrees_with_torch",
        ),
        (
            "dK = d_scores.swapaxes(-1, -2) @ Q * scale",
            "dK = d_scores.swapaxes(-1, -2) @ Q",
            "test_backward_agrees_with_autograd",
        ),
    ),
    *faults(
        "reference.masks",
        (
            "place_of_key <= place_of_query",
            "place_of_key < place_of_query",
            "test_a_square_causal_mask_is_the_lower_triangle_with_its_diagonal",
        ),
        (
            "place_of_key <= place_of_query",
            "place_of_key <= place_of_query + 1",
            "test_changing_a_later_token_leaves_earlier_outputs_alone",
        ),
        (
            "np.arange(n_queries)[:, None] + (n_keys - n_queries)",
            "np.arange(n_queries)[:, None]",
            "test_the_last_query_sees_every_key_and_each_earlier_one_sees_one_less",
        ),
        (
            "ids[..., None, None, :] != pad_id",
            "ids[..., None, None, :] == pad_id",
            "test_padding_is_hidden_as_key_from_every_query_and_never_as_query",
        ),
        (
            "ids[..., None, None, :] != pad_id",
            "ids[..., None, :, None] != pad_id",
            "test_more_padding_changes_nothing",
        ),
    ),
    *faults(
        "reference.positions",
        (
            "np.arange(length)[:, None] * _frequencies",
            "(1 + np.arange(length)[:, None]) * _frequencies",
            "test_sinusoids_equal_the_formula_written_with_exponentials",
        ),
        (
            "positions[:, 1::2] = np.cos(angles)[:, : d_model // 2]",
            "positions[:, 1::2] = np.cos(angles)",
            "test_sinusoids_equal_the_formula_written_with_exponentials",
        ),
        (
            "[[cos, -sin], [sin, cos]]",
            "[[cos, sin], [-sin, cos]]",
            "test_a_shift_of_sinusoids_is_one_rotation_for_all_places",
        ),
        (
            "return index_positions(length, d_model) / max(length, 1)",
            "return index_positions(length, d_model) / max(length - 1, 1)",
            "test_the_index_and_the_index_divided_by_the_length",
        ),
        (
            "d_positions.reshape(-1, length, d_model).sum(axis=0)",
            "d_positions.reshape(-1, length, d_model).mean(axis=0)",
            "test_gradient_of_learned_positions",
        ),
        (
            "even * np.sin(angles) + odd * np.cos(angles)",
            "even * np.sin(angles) - odd * np.cos(angles)",
            "test_scores_after_rope_depend_on_the_distance_only",
        ),
        (
            "_rotate(d_rotated, -_rope_angles(d_rotated, start, base))",
            "_rotate(d_rotated, _rope_angles(d_rotated, start, base))",
            "test_gradient_of_rope",
        ),
        (
            "places = start + np.arange(n)",
            "places = np.arange(n)",
            "test_rope_from_a_start_continues_the_sequence",
        ),
        (
            "first, second = X[..., :half], X[..., half:]",
            "first, second = X[..., 0::2], X[..., 1::2]",
            "test_halved_rope_is_rope_with_its_columns_reordered",
        ),
        (
            "distances.clip(-largest, largest) + largest",
            "distances.clip(0, largest) + largest",
            "test_relative_bias_looks_up_the_clipped_distance",
        ),
        (
            "2.0 ** (-8.0 * np.arange(1, lower + 1) / lower)",
            "2.0 ** (-8.0 * np.arange(lower) / lower)",
            "test_alibi_slopes_are_the_published_ones",
        ),
        (
            "np.abs(_signed_distances(n_queries, n_keys))",
            "(_signed_distances(n_queries, n_keys))",
            "test_alibi_falls_by_the_slope_with_each_place",
        ),
        (
            "scores = scores + np.broadcast_to(bias, scores.shape)",
            "scores = scores * np.broadcast_to(bias, scores.shape)",
            "test_biased_attention_equals_torch",
        ),
        (
            "return dQ, dK, dV, masked_softmax_backward(d_weights, weights)",
            "return dQ, dK, dV, d_weights",
            "test_gradient_of_biased_attention",
        ),
    ),
    *faults(
        "reference.feed_forward",
        (
            "hidden = bend(X @ W_1 + b_1)",
            "hidden = bend(X) @ W_1 + b_1",
            "test_the_bend_comes_between_the_layers_and_nowhere_else",
        ),
        (
            "output: np.ndarray = hidden @ W_2 + b_2",
            "output: np.ndarray = hidden @ W_2 + b_2 - (hidden @ W_2).mean(axis=0)",
            "test_every_token_is_treated_alone_and_alike",
        ),
        ("np.where(X > 0, d_output, 0.0)", "d_output + 0.0", "test_gradients_of_bends"),
        (
            "(_normal_cdf(X) + X * density)",
            "_normal_cdf(X)",
            "test_gradients_of_bends",
        ),
        ("0.044715 * np", "0.04 * np", "test_bends_equal_torch"),
        (
            "db_1 = d_before.sum(axis=0)",
            "db_1 = d_before.mean(axis=0)",
            "test_equals_torch_and_its_gradients",
        ),
    ),
    *faults(
        "reference.normalization",
        (
            "np.square(centred).mean(axis=axes, keepdims=True) + eps",
            "np.square(centred).sum(axis=axes, keepdims=True) / (X.shape[-1] - 1) + eps",
            "test_layer_norm_equals_torch_and_its_gradients",
        ),
        (
            "np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + eps)",
            "np.sqrt(np.square(centred).mean(axis=axes, keepdims=True)) + eps",
            "test_layer_norm_equals_torch_and_its_gradients",
        ),
        (
            "normalised, _ = _normalise(X, axes=(-1,), eps=eps)",
            "normalised, _ = _normalise(X, axes=(-2,) if X.ndim > 1 else (-1,), eps=eps)",
            "test_layer_norm_looks_at_one_token_only",
        ),
        (
            "dX = (d_normalised - mean - normalised * along) / scale",
            "dX = (d_normalised - mean) / scale",
            "test_gradients_equal_central_differences",
        ),
        (
            "axes = _token_axes(X)\n    normalised, _",
            "axes = (-1,)\n    normalised, _",
            "test_batch_norm_lets_a_later_token_change_an_earlier_one",
        ),
        (
            "/ np.sqrt(variance + eps) + beta",
            "/ (variance + eps) + beta",
            "test_batch_norm_in_evaluation_mode_equals_torch",
        ),
        (
            "Y: np.ndarray = X + _same_shape(sublayer(normalised), X)",
            "Y: np.ndarray = normalised + _same_shape(sublayer(normalised), X)",
            "test_the_two_orders_with_a_sublayer_that_adds_nothing",
        ),
        (
            "return layer_norm(X + _same_shape(sublayer(X), X), gamma, beta, eps)",
            "return X + layer_norm(_same_shape(sublayer(X), X), gamma, beta, eps)",
            "test_the_two_orders_with_a_sublayer_that_gives_back_its_input",
        ),
        (
            "return d_output + d_through, gradients, dgamma, dbeta",
            "return d_through, gradients, dgamma, dbeta",
            "test_gradients_of_residuals",
        ),
        (
            "return d_total + d_through, gradients, dgamma, dbeta",
            "return d_output + d_through, gradients, dgamma, dbeta",
            "test_gradients_of_residuals",
        ),
    ),
    *faults(
        "reference.multi_head",
        (
            "    blocks = X.reshape(*batch, n, num_heads, d_model // num_heads)\n"
            "    return blocks.swapaxes(-3, -2)",
            "    return X.reshape(*batch, num_heads, n, d_model // num_heads)",
            "test_splitting_cuts_columns_and_merging_undoes_it",
        ),
        (
            "heads.swapaxes(-3, -2).reshape(*batch, n, num_heads * d_head)",
            "heads.reshape(*batch, n, num_heads * d_head)",
            "test_splitting_cuts_columns_and_merging_undoes_it",
        ),
        (
            "output = _affine(merge_heads(heads), parameters.W_O, parameters.b_O)",
            "output = merge_heads(heads)",
            "test_equals_torch_and_its_gradients",
        ),
        (
            "K = split_heads(_affine(source, parameters.W_K, parameters.b_K), num_heads)",
            "K = split_heads(_affine(source, parameters.W_Q, parameters.b_K), num_heads)",
            "test_each_head_reads_its_own_columns_and_scales_by_its_own_width",
        ),
        (
            "return dX, d_by_keys + d_by_values, gradients",
            "return dX, d_by_keys, gradients",
            "test_equals_torch_and_its_gradients",
        ),
        (
            "    if mask.ndim != len(scores_shape):",
            "    if False:",
            "test_bad_input_is_named",
        ),
    ),
    *faults(
        "reference.encoder_decoder",
        (
            "X: np.ndarray = table[ids] * np.sqrt(d_model) + sinusoidal_positions(n, d_model)",
            "X: np.ndarray = (table[ids] + sinusoidal_positions(n, d_model)) * np.sqrt(d_model)",
            "test_embedding_scales_rows_and_adds_positions",
        ),
        (
            "    X = residual(X, attend, *parameters.norm_1)\n"
            "    return residual(X, think, *parameters.norm_2)",
            "    X = residual(X, attend, *parameters.norm_1)\n"
            "    return residual(X, think, *parameters.norm_1)",
            "test_encoder_layer_equals_torch_and_its_gradients",
        ),
        (
            "            Z, memory, parameters.cross_attention, num_heads, memory_mask\n"
            "        )[0]",
            "            Z, memory, parameters.cross_attention, num_heads, None\n"
            "        )[0]",
            "test_decoder_layer_equals_torch_and_its_gradients",
        ),
        (
            "    residual = residual_pre if norm_first else residual_post\n"
            "    mask = causal_mask(X.shape[-2]) if mask is None else mask",
            "    residual = residual_pre if norm_first else residual_post",
            "test_changing_a_later_target_leaves_earlier_logits_alone",
        ),
        (
            "        dmemory = dmemory + share",
            "        dmemory = share",
            "test_stacks_equal_torch_and_their_gradients",
        ),
        (
            "d_target_table + d_head.T if tied else d_target_table",
            "d_target_table",
            "test_gradients_of_the_whole_model_equal_central_differences",
        ),
        (
            "        embed(source_ids, parameters.source_embedding),\n"
            "        parameters.encoder,\n"
            "        num_heads,\n"
            "        source_mask,",
            "        embed(source_ids, parameters.source_embedding),\n"
            "        parameters.encoder,\n"
            "        num_heads,\n"
            "        None,",
            "test_more_source_padding_changes_nothing",
        ),
    ),
    *faults(
        "reference.training",
        (
            ") * one_hot + label_smoothing / vocab_size",
            ") * one_hot + label_smoothing / (vocab_size - 1)",
            "test_smoothed_targets_are_a_distribution_over_the_whole_vocabulary",
        ),
        (
            "float(np.where(real, surprise, 0.0).sum() / max(real.sum(), 1))",
            "float(np.where(real, surprise, 0.0).mean())",
            "test_more_padding_changes_nothing",
        ),
        (
            "shifted = logits - logits.max(axis=-1, keepdims=True)",
            "shifted = logits",
            "test_large_logits_do_not_overflow",
        ),
        (
            "np.where(real[..., None], difference, 0.0)",
            "difference",
            "test_equals_torch_and_its_gradient",
        ),
        (
            "float(sums.sum() / max(counts.sum(), 1))",
            "float((sums / counts).mean())",
            "test_the_loss_of_micro_batches_is_the_loss_of_one_batch",
        ),
        (
            "min(step**-0.5, step * warmup**-1.5)",
            "max(step**-0.5, step * warmup**-1.5)",
            "test_inverse_square_root_is_the_papers_formula",
        ),
        (
            "float(d_model**-0.5 * min",
            "float(d_model**-1 * min",
            "test_the_base_model_of_2017_reaches_seven_ten_thousandths",
        ),
        (
            "done = min((step - warmup) / (steps - warmup), 1.0)",
            "done = min(step / steps, 1.0)",
            "test_warmup_cosine_equals_torchs_schedulers_in_a_row",
        ),
        (
            "float(final + (1.0 - final) * 0.5",
            "float(final + 0.5",
            "test_warmup_cosine_rises_to_1_and_falls_to_the_final_share",
        ),
        (
            "unbiased_mean = mean / (1.0 - betas[0] ** step)",
            "unbiased_mean = mean",
            "test_the_first_step_is_as_long_as_the_rate_however_large_the_gradient",
        ),
        (
            "unbiased_square = square / (1.0 - betas[1] ** step)",
            "unbiased_square = square / (1.0 - betas[0] ** step)",
            "test_adamw_equals_torch_for_many_steps",
        ),
        (
            "mean = betas[0] * mean + (1.0 - betas[0]) * gradient",
            "gradient = gradient + weight_decay * weights\n"
            "    weight_decay = 0.0\n"
            "    mean = betas[0] * mean + (1.0 - betas[0]) * gradient",
            "test_decay_does_not_pass_through_the_moments",
        ),
        (
            "    mean = betas[0] * mean + (1.0 - betas[0]) * gradient",
            "    mean *= betas[0]\n    mean += (1.0 - betas[0]) * gradient",
            "test_adamw_leaves_its_arguments_alone",
        ),
        (
            "return [factor * gradient for gradient in gradients], norm",
            "return [\n        min(1.0, largest / (np.sqrt(np.square(g).sum()) + 1e-6)) * g\n"
            "        for g in gradients\n    ], norm",
            "test_clipping_equals_torch",
        ),
        (
            "factor = min(1.0, largest / (norm + 1e-6))",
            "factor = largest / (norm + 1e-6)",
            "test_clipping_keeps_the_direction_and_leaves_short_gradients_alone",
        ),
        (
            "return sentence[: ends[0] + 1] if len(ends) else sentence",
            "return sentence",
            "test_exact_match_looks_up_to_the_first_end_and_no_further",
        ),
        (
            "return sentence[: ends[0] + 1] if len(ends) else sentence",
            "return sentence[: ends[-1] + 1] if len(ends) else sentence",
            "test_exact_match_counts_sentences_that_are_equal_as_lists",
        ),
        (
            "(len(batches[-1]) + 1) * lengths[place] > max_tokens",
            "sum(lengths[p] for p in batches[-1]) + lengths[place] > max_tokens",
            "test_batches_hold_every_sentence_once_within_the_budget",
        ),
        (
            "(len(batches[-1]) + 1) * lengths[place] > max_tokens",
            "(len(batches[-1]) + 1) * lengths[place] >= max_tokens",
            "test_batches_hold_every_sentence_once_within_the_budget",
        ),
        (
            "key=lambda pair: (-pairs[pair], pair)",
            "key=lambda pair: -pairs[pair]",
            "test_the_order_of_the_words_does_not_matter_and_pieces_spell_the_word",
        ),
        (
            "pairs[pair] += count",
            "pairs[pair] += 1",
            "test_merges_are_those_that_the_tokenizers_library_learns",
        ),
        (
            "for pair in pairs:\n        pieces = _join(pieces, pair)",
            "for pair in reversed(pairs):\n        pieces = _join(pieces, pair)",
            "test_pieces_are_those_of_the_tokenizers_library",
        ),
    ),
    *faults(
        "reference.cost",
        (
            "return 2 * a * b * c",
            "return a * b * c",
            "test_a_product_counts_each_triple_twice",
        ),
        (
            "by_key = 2 * matmul_flops(n_keys, d_model, d_model)",
            "by_key = matmul_flops(n_keys, d_model, d_model)",
            "test_attention_costs_the_same_for_any_number_of_heads",
        ),
        (
            "return 3 * forward if training else forward",
            "return 2 * forward if training else forward",
            "test_the_whole_model_costs_what_torch_counts_and_training_three_times_that",
        ),
    ),
    *faults(
        "nn.masks",
        (
            "everything.tril(n_keys - n_queries)",
            "everything.tril()",
            "test_causal_mask_equals_the_reference",
        ),
        (
            "(ids != pad_id)[:, None, None, :]",
            "(ids != pad_id)[:, None, :, None]",
            "test_padding_mask_equals_the_reference",
        ),
        (
            "mask.ndim == len(scores_shape) and all(\n"
            "        have in (1, want) for have, want in zip(mask.shape, scores_shape, strict=True)",
            "all(\n"
            "        have in (1, want)\n"
            "        for have, want in zip(mask.shape[::-1], scores_shape[::-1], strict=False)",
            "test_masks_whose_axes_would_meet_the_wrong_ones_are_refused",
        ),
        (
            "    if mask.dtype != torch.bool:",
            "    if False:",
            "test_masks_of_numbers_are_refused_with_the_conversion",
        ),
    ),
    *faults(
        "nn.attention",
        (
            "by_flag = is_causal and fused and n_q == n_k and",
            "by_flag = is_causal and fused and",
            "test_the_last_query_sees_the_last_key",
        ),
        (
            "        output = output.masked_fill(~alive, 0.0)",
            "        output = output",
            "test_dead_rows_give_zeros_and_zero_gradients",
        ),
        (
            "        mask = mask | ~alive",
            "        mask = mask",
            "test_dead_rows_give_zeros_and_zero_gradients",
        ),
        (
            "past if mask is None else mask & past",
            "past if mask is None else mask | past",
            "test_equals_the_reference",
        ),
        (
            "(q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)",
            "q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])",
            "test_scores_beyond_half_precision_do_not_overflow",
        ),
        (
            "mask = bias if mask is None else torch.where(mask, bias, -math.inf)",
            "mask = bias",
            "test_a_bias_is_added_to_the_scores_and_learns",
        ),
        (
            "    return not short_half_training_on_cpu",
            "    return True",
            "test_the_one_rule_of_the_dispatch",
        ),
        (
            "F.dropout(weights, dropout) @ v, weights",
            "F.dropout(weights, dropout) @ v, F.dropout(weights, dropout)",
            "test_dropout_acts_on_the_weights_and_keeps_their_mean",
        ),
        (
            "    weights = torch.softmax(scores, dim=-1)",
            "    weights = torch.softmax(scores, dim=-2)",
            "test_weights_sum_to_one_so_outputs_lie_between_values",
        ),
    ),
    *faults(
        "nn.positions",
        (
            "dtype = torch.promote_types(self.table.dtype, torch.float32)",
            "dtype = self.table.dtype",
            "test_half_precision_tokens_stay_half_precision",
        ),
        (
            "        self._fill()\n        return self",
            "        return self",
            "test_tables_are_rounded_once_whatever_precision_came_before",
        ),
        (
            "return (x + self.table[start : start + n]).to(x.dtype)",
            "return (x + self.table[:n]).to(x.dtype)",
            "test_positions_can_start_later",
        ),
        (
            "[even * cos - odd * sin, even * sin + odd * cos]",
            "[even * cos + odd * sin, even * cos - odd * sin]",
            "test_rope_equals_the_reference",
        ),
        (
            "torch.arange(n_keys - n_queries, n_keys, device=device)",
            "torch.arange(n_queries, device=device)",
            "test_biases_equal_the_reference",
        ),
        (
            "distance.clamp(-largest, largest) + largest",
            "distance.clamp(-largest, largest).abs()",
            "test_relative_bias_learns",
        ),
    ),
    *faults(
        "nn.feed_forward",
        (
            'bend = F.relu if self.activation == "relu" else F.gelu',
            "bend = F.relu",
            "test_equals_the_reference_and_its_gradients",
        ),
    ),
    *faults(
        "nn.linear",
        (
            "            nn.init.uniform_(parameter, -bound, bound, generator=generator)",
            "            nn.init.uniform_(parameter, -bound, bound)",
            "nn/test_feed_forward.py::test_first_values_are_those_of_a_linear_layer_and_come_from_the_generator",
        ),
        (
            "return as_array(layer.weight.T), as_array(layer.bias)",
            "return as_array(layer.weight), as_array(layer.bias)",
            "nn/test_feed_forward.py::test_equals_the_reference_and_its_gradients",
        ),
    ),
    *faults(
        "nn.checks",
        (
            "    if not 0.0 <= value < 1.0:",
            "    if value < 0.0 or value >= 1.0:",
            "nn/test_config.py::test_bad_values_are_named",
        ),
        (
            "    if least < 0 or most >= vocab_size:",
            "    if least < 0 or most > vocab_size + 99:",
            "nn/test_encoder_decoder.py::test_bad_input_is_named",
        ),
    ),
    *faults(
        "nn.normalization",
        (
            "self.gamma.shape, self.gamma, self.beta, self.eps",
            "self.gamma.shape, self.gamma, self.beta, 1e-5",
            "test_layer_norm_equals_the_reference_and_its_gradients",
        ),
        (
            "return x + output if self.norm_first else self.norm(x + output)",
            "return self.norm(x + output)",
            "test_residual_equals_the_reference",
        ),
        (
            "self.dropout(sublayer(self.norm(x) if self.norm_first else x))",
            "sublayer(self.norm(x) if self.norm_first else x)",
            "test_dropout_falls_on_the_sublayer_and_never_on_the_skip",
        ),
    ),
    *faults(
        "nn.multi_head",
        (
            "x.view(batch, n, num_heads, d_head).transpose(1, 2)",
            "x.reshape(batch, num_heads, n, d_head)",
            "test_splitting_and_merging_equal_the_reference",
        ),
        (
            "heads.transpose(1, 2).flatten(2)",
            "heads.reshape(heads.shape[0], heads.shape[2], -1)",
            "test_splitting_and_merging_equal_the_reference",
        ),
        (
            "start = 0 if cache is None else cache.length",
            "start = 0",
            "test_a_cache_gives_what_the_whole_sequence_gives",
        ),
        (
            "        self._keys[:, :, :n] = keys",
            "        self._keys[:, :, :n] = values",
            "test_a_cache_follows_its_rows",
        ),
        (
            "        self.length = end\n",
            "        self.length = n\n",
            "test_a_cache_gives_what_the_whole_sequence_gives",
        ),
        (
            "self.keys_and_values(x if source is None else source)",
            "self.keys_and_values(x)",
            "test_equals_torch_with_its_weights",
        ),
        (
            "q, k = self.positions(q, start), self.positions(k, start)",
            "q = self.positions(q, start)",
            "test_positions_act_between_queries_and_keys",
        ),
        (
            "dropout = self.dropout if self.training else 0.0",
            "dropout = self.dropout",
            "test_attention_dropout_acts_in_training_only",
        ),
        (
            "attend(q, k, v, mask, is_causal, return_weights, bias, dropout)",
            "attend(q, k, v, mask, False, return_weights, bias, dropout)",
            "test_changing_a_later_token_leaves_earlier_outputs_alone",
        ),
        (
            "attend(q, k, v, mask, is_causal, return_weights, bias, dropout)",
            "attend(q, k, v, mask, is_causal and mask is None, return_weights, bias, dropout)",
            "test_padding_and_causality_together_equal_torch",
        ),
        (
            "attend(q, k, v, mask, is_causal, return_weights, bias, dropout)",
            "attend(q, k, v + k.mean(0), mask, is_causal, return_weights, bias, dropout)",
            "test_sentences_of_a_batch_do_not_meet",
        ),
        (
            "q = split_heads(self.W_Q(x), self.num_heads)",
            "q = split_heads(self.W_Q(x + torch.arange(x.shape[1]).to(x)[:, None]), "
            "self.num_heads)",
            "test_reordering_the_tokens_reorders_the_outputs",
        ),
    ),
    *faults(
        "nn.training",
        (
            "shares = real.to(full) if late else real / count.to(full)",
            "shares = real.to(full)",
            "test_the_fused_loss_equals_the_reference_and_its_gradients",
        ),
        (
            "            d_hidden[these] = d_logits @ matrix",
            "            d_hidden[:step] = d_logits @ matrix",
            "test_the_fused_loss_equals_the_reference_and_its_gradients",
        ),
        (
            "d_logits -= share * (label_smoothing / vocab)",
            "d_logits -= 0.0",
            "test_the_fused_loss_equals_the_reference_and_its_gradients",
        ),
        (
            "right += label_smoothing * logits.mean(dim=-1, keepdim=True)",
            "right += label_smoothing * logits.sum(dim=-1, keepdim=True)",
            "test_the_fused_loss_equals_the_reference_and_its_gradients",
        ),
        (
            "            logits -= logits.amax(dim=-1, keepdim=True)",
            "            pass",
            "test_a_hopeless_token_costs_what_it_should",
        ),
        (
            "d_hidden, d_weight = d_hidden * scale, d_weight * scale",
            "d_hidden, d_weight = d_hidden, d_weight",
            "test_the_fused_loss_equals_the_reference_and_its_gradients",
        ),
        (
            "late = half == torch.float16",
            "late = False",
            "test_float16_gradients_over_many_tokens_do_not_vanish",
        ),
        (
            "ignored = -100 if pad_id is None else pad_id",
            "ignored = -100",
            "test_cross_entropy_equals_the_reference",
        ),
    ),
    *faults(
        "nn.config",
        (
            "return self.norm_first if self.final_norm is None else self.final_norm",
            "return True",
            "test_pre_norm_ends_in_a_normalisation_and_post_norm_does_not",
        ),
        (
            '"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3',
            '"d_model": 1024, "num_heads": 16, "d_ff": 4096',
            "test_presets_are_the_published_sizes_and_can_be_changed",
        ),
    ),
    *faults(
        "nn.encoder_decoder",
        (
            "        x = table(ids) * math.sqrt(self.config.d_model)",
            "        x = table(ids)",
            "test_equals_the_reference",
        ),
        (
            "inputs, labels = target_ids[:, :-1], target_ids[:, 1:]",
            "inputs, labels = target_ids[:, 1:], target_ids[:, 1:]",
            "test_loss_and_gradients_equal_the_reference",
        ),
        (
            "        memory = self.encode(source_ids, source_mask)\n"
            "        return F.linear(self.decode(target_ids, memory, source_mask), self.head)",
            "        memory = self.encode(source_ids, None)\n"
            "        return F.linear(self.decode(target_ids, memory, source_mask), self.head)",
            "test_more_padding_changes_nothing",
        ),
        (
            "        return F.linear(self.decode(target_ids, memory, source_mask), self.head)",
            "        return F.linear(self.decode(target_ids, memory, None), self.head)",
            "test_a_source_of_nothing_but_padding",
        ),
        (
            "        memory = self.encode(source_ids, source_mask, maps.encoder)",
            "        memory = self.encode(source_ids, None, maps.encoder)",
            "test_attention_maps_are_taken_on_the_models_own_path",
        ),
        (
            '            "ids", ids[:, None], self.target_embedding, positions, state.length',
            '            "ids", ids[:, None], self.target_embedding, positions, 0',
            "test_steps_give_what_the_whole_target_gives",
        ),
        (
            "            self.memory = [KeysAndValues(k[rows], v[rows]) for k, v in self.memory]",
            "            self.memory = list(self.memory)",
            "test_a_state_follows_its_rows_within_and_across_sentences",
        ),
        (
            "            x = layer(x, source, mask, memory_mask, is_causal, cache, maps, cross_maps)",
            "            x = layer(x, x, mask, None, is_causal, cache, maps, cross_maps)",
            "test_the_stacks_equal_torch",
        ),
        (
            "self.own_source_embedding = (\n"
            "            nn.Embedding(config.source_vocabulary, d_model)\n"
            "            if config.vocab_size is None\n"
            "            else None\n"
            "        )",
            "self.own_source_embedding = nn.Embedding(config.source_vocabulary, d_model)",
            "test_the_published_numbers_of_parameters",
        ),
        (
            "return sum(parameter.numel() for parameter in self.parameters())",
            "return sum(p.numel() for p in self.parameters() if p.ndim > 1)",
            "test_the_published_numbers_of_parameters",
        ),
    ),
    *faults(
        "decoding.step",
        (
            "            module.training = mode",
            "            module.training = True",
            "decoding/test_sampling.py::test_each_module_has_its_mode_back_even_after_an_error",
        ),
        (
            "        self.target_ids = self.target_ids[rows]",
            "        self.target_ids = self.target_ids",
            "decoding/test_beam.py::test_with_cache_without_cache_and_packed_the_sentences_are_the_same",
        ),
    ),
    *faults(
        "decoding.sampling",
        (
            "choose(logits).masked_fill_(ended, pad_id)",
            "choose(logits)",
            "test_a_row_is_left_alone_after_its_end",
        ),
        (
            "below_best / max(temperature, least)",
            "below_best * max(temperature, least)",
            "test_temperature_divides_the_scores",
        ),
        (
            "before = chances.cumsum(dim=-1) - chances",
            "before = chances.cumsum(dim=-1)",
            "test_top_p_keeps_the_token_that_crosses_it_and_no_more",
        ),
        (
            "        chances[..., top_k:] = 0.0",
            "        chances[..., top_k + 1 :] = 0.0",
            "test_top_k_keeps_k_tokens_and_of_equals_the_first",
        ),
        (
            "chances = chances.masked_fill(before >= top_p, 0.0)\n"
            "        chances = chances / chances.sum(dim=-1, keepdim=True)",
            "chances = chances.masked_fill(before >= top_p, 0.0)",
            "test_chances_sum_to_one_and_keep_the_order_of_the_scores",
        ),
        (
            "torch.multinomial(chances, 1, generator=generator)",
            "torch.multinomial(chances, 1)",
            "test_chance_comes_from_the_generator_alone",
        ),
    ),
    *faults(
        "decoding.beam",
        (
            "norm: float = ((5 + length) / 6) ** length_penalty",
            "norm: float = ((5 + length) / 6) ** -length_penalty",
            "test_a_length_penalty_favours_longer_sentences",
        ),
        (
            "        total[:, :1] = 0.0",
            "        total[:, :] = 0.0",
            "test_with_places_for_all_it_finds_the_best_of_all_sentences",
        ),
        (
            "                total[i, place] = -math.inf\n            _stop",
            "                pass\n            _stop",
            "test_a_finished_sentence_is_not_extended",
        ),
        (
            "            state.select((first_row + parent).flatten())",
            "            pass",
            "test_scores_are_those_of_the_sentences_and_fall",
        ),
        (
            "            settled = total[i] / largest_norm <= worst[n_best - 1]",
            "            settled = total[i] < 1.0",
            "test_it_stops_when_nothing_can_overtake_and_not_before",
        ),
        (
            "            settled = total[i] / largest_norm <= worst[n_best - 1]",
            "            settled = total[i] > 1.0",
            "test_it_stops_when_nothing_can_overtake_and_not_before",
        ),
        (
            "        total[i, number:] = -math.inf",
            "        pass",
            "test_a_finished_sentence_keeps_its_place",
        ),
        (
            "            *sorted(of_finished, key=lambda sentence: -sentence.score),\n"
            "            *sorted(of_cut_off, key=lambda sentence: -sentence.score),",
            "            *sorted(\n"
            "                of_finished + of_cut_off, key=lambda sentence: -sentence.score\n"
            "            )",
            "test_sentences_cut_off_come_only_where_too_few_ended",
        ),
    ),
    *faults(
        "decoding.packed",
        (
            "self._layout(0, lambda matrix, _: matrix.T.contiguous())",
            "self._layout(0, lambda matrix, _: 2 * matrix.T.contiguous())",
            "decoding/test_sampling.py::test_packed_layers_multiply_as_the_layers_do_for_any_number_of_rows",
        ),
        (
            "self._weight = weight.detach().to(dtype)",
            "self._weight = weight.detach()",
            "decoding/test_sampling.py::test_bfloat16_weights_between_full_precision_layers",
        ),
        (
            "key = n if self._half else 16",
            "key = n",
            "decoding/test_sampling.py::test_one_layout_serves_any_number_of_rows_above_one_off_intel",
        ),
        (
            "and self.out_features >= self.in_features",
            "and self.out_features <= self.in_features",
            "decoding/test_sampling.py::test_a_single_row_reads_the_longer_runs",
        ),
    ),
]


@pytest.mark.parametrize(
    "fault", FAULTS, ids=[f"{f.module[16:]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_the_fault_is_noticed(fault: Fault) -> None:
    right = mutation.source_of(fault.module)
    assert right.count(fault.right) >= 1, "the text is no longer in the module"
    assert right.count(fault.right) == 1, "the text stands in several places"
    wrong = right.replace(fault.right, fault.wrong)
    names = mutation.changed_functions(right, wrong)
    assert names, "nothing that is executed has changed"
    path, name = fault.killer.split("::")
    test = mutation.tests_of(mutation.load_tests(TESTS / path))[name]
    with mutation.planted(fault.module, names, wrong):
        assert mutation.fails(test), f"{fault.killer} passes"


def test_every_module_has_a_fault() -> None:
    """Modules of equations, not the packages' tables of contents."""
    root = TESTS.parent / "transformer_lib"
    wanted = {
        f"transformer_lib.{part}.{path.stem}"
        for part in ("reference", "nn", "decoding")
        for path in (root / part).glob("*.py")
        if path.stem not in ("__init__", "recurrence", "lookup")
    }
    assert wanted <= {fault.module for fault in FAULTS}


def test_planting_leaves_everything_as_it_was() -> None:
    module = "transformer_lib.reference.masks"
    text = mutation.source_of(module)
    function = mutation.living_function(
        __import__(module, fromlist=["x"]), "causal_mask"
    )
    before = function.__code__
    tree = ast.parse(text.replace("<= place_of_query", "> place_of_query"))
    with mutation.planted(module, ["causal_mask"], tree):
        assert function.__code__ is not before
    assert function.__code__ is before


def test_a_test_that_passes_is_not_called_a_failure() -> None:
    path, name = "reference/test_masks.py", "test_masks_combine_by_and"
    assert not mutation.fails(
        mutation.tests_of(mutation.load_tests(TESTS / path))[name]
    )
