/* The fused operations of libopenmanus_torch. openmanus_torch.h includes this file; its conventions apply here.
 *
 * Each operation has kernels for float32, float64 and bfloat16 on the CPU, which compute in float32 (float64 for
 * float64), and uses ATen's operations for other types and devices. Gradients are implemented in C++. Unless stated
 * otherwise, a result does not depend on the number of threads. */
#ifndef OPENMANUS_TORCH_FUSED_H
#define OPENMANUS_TORCH_FUSED_H

#include "openmanus_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x / sqrt(mean(x²) + eps), rounded to x's type, times w. x [...,D], w [D] of x's type. */
const char *om_rmsnorm(om_tensor x, om_tensor w, double eps, om_tensor *out);

/* The rotation of om_rope_heads of q [N,Hq,Dh], and of k [N,Hkv,Dh], which is written to the cache kc with v to vc, as om_cache_write does. No
 * gradient. */
const char *om_rope_write(om_tensor q, om_tensor k, om_tensor v, om_tensor cos, om_tensor sin, om_tensor kc, om_tensor vc,
                          const int64_t *slots, int64_t n, om_tensor *out);

/* out = om_rmsnorm(x, w), and residual = x. On a GPU one operation of the backward pass adds the gradients of both. */
const char *om_rmsnorm_residual(om_tensor x, om_tensor w, double eps, om_tensor *out, om_tensor *residual);

/* Linear layers of x [...,I]: out[i] = x · weights[i] [O_i,I]ᵀ + biases[i] [O_i] or NULL. On a GPU, layers whose weights lie one after
 * another in memory are one product for x [N,I], and the backward pass adds to the gradients of leaves in place. */
const char *om_linears(om_tensor x, om_tensor *weights, om_tensor *biases, int64_t n, om_tensor *out);

/* x [N,O] + h [N,I] · w [O,I]ᵀ. On a GPU the backward pass adds to the gradient of w in place if it is a leaf. */
const char *om_linear_residual(om_tensor x, om_tensor h, om_tensor w, om_tensor *out);

/* out[0] and out[1] are q [N,Hq,Dh] and k [N,Hkv,Dh] with the pairs (q[i], q[i+Dh/2]) of every head rotated by the token's angles, cos and
 * sin [N,Dh/2]; out[2] is v [N,Hkv,Dh]. It is one operation on a GPU. q_norm and k_norm [Dh], if not NULL, are the weights of an
 * om_rmsnorm of every head before its rotation. */
const char *om_rope_heads(om_tensor q, om_tensor k, om_tensor v, om_tensor cos, om_tensor sin, om_tensor q_norm, double q_eps,
                          om_tensor k_norm, double k_eps, om_tensor *out);

/* x / (1-p), or 0 for the share p of the elements that the draws of torch/dropout.go select, for n sequences of rows of x: sequence i has
 * keys[i] and the rows [offsets[i], offsets[i+1]). Only on a GPU in float32 and bfloat16; else out is NULL. */
const char *om_dropout(om_tensor x, double p, const uint64_t *keys, const int64_t *offsets, int64_t n, uint64_t index,
                       om_tensor *out);

/* silu(gate) · up. */
const char *om_swiglu(om_tensor gate, om_tensor up, om_tensor *out);

/* Causal attention inside each of the packed sequences [offsets[i], offsets[i+1]), i < n_offsets-1.
 * q [N,Hq,Dh]; k, v [N,Hkv,Dh]; head h of q reads head h / (Hq/Hkv) of k and v. out [N,Hq,Dh]. A sequence's result
 * does not depend on the other sequences. */
const char *om_attention_packed(om_tensor q, om_tensor k, om_tensor v, const int64_t *offsets, int64_t n_offsets,
                                double scale, om_tensor *out);

/* om_attention_packed of sequences that may continue another one: parents[i], i < n_offsets-1, is -1 or an earlier sequence
 * whose parent is -1. The tokens of sequence i attend to all tokens of its parent, and to its own as above. */
const char *om_attention_shared(om_tensor q, om_tensor k, om_tensor v, const int64_t *offsets, const int64_t *parents,
                                int64_t n_offsets, double scale, om_tensor *out);

/* Writes k[i], v[i] (of k, v [N,Hkv,Dh]) to place slots[i] = block · blockSize + offset of the paged caches
 * kc, vc [blocks, blockSize, Hkv, Dh], in their type. */
const char *om_cache_write(om_tensor kc, om_tensor vc, om_tensor k, om_tensor v, const int64_t *slots, int64_t n);

/* Attention of new tokens over their paged contexts; no gradient. Sequence s has the tokens
 * [q_offsets[s], q_offsets[s+1]) of q [N,Hq,Dh], the last of its lens[s] cached places; place p is in block
 * blocks[block_offsets[s] + p / blockSize]. On the CPU a token's result depends only on its own context and on whether
 * its sequence has more than OM_ATTENTION_ONE_QUERY new tokens. */
#define OM_ATTENTION_ONE_QUERY 8
const char *om_attention_cached(om_tensor q, om_tensor kc, om_tensor vc, int64_t n_seqs, const int64_t *q_offsets,
                                const int64_t *lens, const int64_t *block_offsets, const int32_t *blocks, double scale,
                                om_tensor *out);

/* Sets out to 1 if t is on a device other than the CPU that has the kernels of shim/cuda for t's type. The functions from here to
 * om_attention_paged need them. */
const char *om_has_gpu_kernels(om_tensor t, int64_t *out);

/* om_rope_write with tables cos, sin [positions,Dh/2], from int32 arrays on the device: token i is at position positions[i], its
 * key and value belong to slots[i]. q_norm and k_norm are those of om_rope_heads. The caller has checked the arrays of this function
 * and of the next one. */
const char *om_rope_write_paged(om_tensor q, om_tensor k, om_tensor v, om_tensor q_norm, double q_eps, om_tensor k_norm, double k_eps,
                                om_tensor cos, om_tensor sin, om_tensor kc, om_tensor vc, om_tensor positions, om_tensor slots,
                                om_tensor *out);

/* om_attention_cached from int32 arrays on the device, for Dh up to OM_PAGED_MAX_DIM: the context of token i is the first lens[i]
 * places of the blocks blocks[starts[i]], blocks[starts[i] + 1], …. It computes the tokens listed in `tokens`, whose longest
 * context has `longest` places, and those in the tiles [t,2]: the first token and the number of tokens, at most OM_ATTENTION_TILE, of
 * one sequence. */
#define OM_ATTENTION_TILE 16
#define OM_PAGED_MAX_DIM 256
const char *om_attention_paged(om_tensor q, om_tensor kc, om_tensor vc, om_tensor tokens, om_tensor lens, om_tensor starts,
                               om_tensor blocks, om_tensor tiles, int64_t longest, double scale, om_tensor *out);

/* The logits [R,V] of hidden [R,D] and weight [V,D] of one type, with bias [V] or NULL, in float32, or in float64 for float64.
 * No gradient. */
const char *om_logits(om_tensor hidden, om_tensor weight, om_tensor bias, om_tensor *out);

/* log softmax(z/T)[target] and the entropy of softmax(z/T), z = hidden [N,D] · weight [V,D]ᵀ + bias [V] or NULL, without
 * storing all of z at once. Both are [N] float32 (float64 for float64) and differentiable; a target below 0 gives 0 and no
 * gradient. entropy may be NULL.
 * The softmax of row r is over the tokens kept[kept_offsets[r]] … kept[kept_offsets[r+1]-1], which include its target, or
 * over the whole vocabulary if the row has no kept tokens or kept_offsets is NULL. */
const char *om_token_logprobs(om_tensor hidden, om_tensor weight, om_tensor bias, const int64_t *targets, int64_t n,
                              const int64_t *kept_offsets, const int32_t *kept, double temperature, om_tensor *logp,
                              om_tensor *entropy);

/* The sampling parameters of one row. */
typedef struct {
  uint64_t key;
  uint64_t position;
  double temperature; /* at most 0: greedy, with log-probs at temperature 1 */
  double top_p;       /* 1 or more: off */
  int64_t top_k;      /* 0 or less: off */
  int64_t greedy;
} om_sample_row;

/* ids[r] = argmax over v of logits[r,v]/T + Gumbel(key, position, v); logps[r] is its log-prob under softmax(logits[r]/T).
 * top_k, then top_p among the remaining tokens, restrict both. kept [K] int32 receives the kept tokens of all rows, ascending
 * in each row, and kept_counts [R] their number per row, 0 if no token was excluded. logits [R,V]. Error: a row with a NaN or
 * +inf, or without a finite logit. */
const char *om_sample(om_tensor logits, const om_sample_row *rows, int64_t n, int32_t *ids, float *logps,
                      int64_t *kept_counts, om_tensor *kept);

/* om_sample in steps, for devices other than the CPU that have the kernels of shim/cuda. om_draw_words writes the parameters of n
 * rows to words [n,OM_DRAW_WORDS], from which the caller makes the tensor draws. om_draw draws without a transfer: out [3,R] int32
 * has the ids, or -1 for a row for which om_sample is an error, the bits of the log-probs, and the numbers of kept tokens. cut
 * is 1 if a row has top_k or top_p; cuts is NULL otherwise, and the operand of om_draw_kept, which returns the `total` kept tokens
 * of all rows. A draw differs from that of om_sample only if two scores are closer than 1e-14, or if rounding decides if
 * top_p keeps a token. */
#define OM_DRAW_WORDS 10
const char *om_draw_words(const om_sample_row *rows, int64_t n, int32_t *words);
const char *om_draw(om_tensor logits, om_tensor draws, int64_t cut, om_tensor *out, om_tensor *cuts);
const char *om_draw_kept(om_tensor logits, om_tensor cuts, int64_t total, om_tensor *out);

/* Ten rounds of Philox 4x32, the generator of om_sample, for tests. */
void om_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

typedef struct {
  double lr, beta1, beta2, eps, weight_decay;
  int64_t step;      /* number of the step, from 1 */
  double grad_scale; /* multiplies the gradients, for clipping */
} om_adamw_options;

/* One AdamW step (decoupled weight decay) over n tensors in place. params, m, v are float32 or float64; grads may
 * have any floating type; a NULL gradient skips its parameter. copies is NULL, or has for each parameter NULL or a tensor
 * that receives the new value in its own type. */
const char *om_adamw(om_tensor *params, om_tensor *grads, om_tensor *m, om_tensor *v, om_tensor *copies, int64_t n,
                     const om_adamw_options *options);

/* to[i] = from[i], or to[i] += from[i] if add is not 0, for n tensors of equal shapes, in their types. On a GPU one launch copies
 * all tensors of a type. No gradient. */
const char *om_copy_all(om_tensor *to, om_tensor *from, int64_t n, int add);

/* sqrt of the sum of squares over n tensors, in float64. NULL tensors are skipped. */
const char *om_global_norm(om_tensor *ts, int64_t n, double *out);

/* outs[i] = x [...,K] · ws[i] [M_i,K]ᵀ + biases[i], for x with at most OM_SKINNY_ROWS rows; no gradient. x and w are float32
 * or bfloat16, not necessarily the same; the result has x's type. On the CPU a row's result does not depend on the
 * other rows or on their number. biases or any of them may be NULL. */
#define OM_SKINNY_ROWS 64
const char *om_linear_skinny(om_tensor x, om_tensor *ws, om_tensor *biases, int64_t n, om_tensor *outs);

/* An int8 copy of w [M,K], which is float32 or bfloat16 on the CPU: w[o,i] is about scales[o] · values[o,i], with values [M,K] of
 * type int8 between -127 and 127, and scales [M] in float32. The error is at most scales[o] / 2. A row with a value that is not
 * finite gets the scale NaN. */
const char *om_quantize_int8(om_tensor w, om_tensor *values, om_tensor *scales);

/* outs[i] = x [...,K] · w_iᵀ + biases[i] for int8 copies w_i of weights (om_quantize_int8); no gradient. x is float32 or bfloat16;
 * the result has x's type. The kernels of the CPU round x[r,i] to 16 bits: the error is at most max_i |x[r,i]| / 65534. A row's result
 * does not depend on the other rows or on their number, which is not limited. biases or any of them may be NULL. */
const char *om_linear_int8(om_tensor x, om_tensor *values, om_tensor *scales, om_tensor *biases, int64_t n, om_tensor *outs);

/* Instruction set of the kernels: 4 AMX, 3 AVX-512 with bfloat16 and VNNI, 2 AVX-512, 1 AVX2, 0 baseline; and a limit for it, for
 * tests. Under -1 no kernel is used: every operation computes with ATen's operations, as it does on a GPU. */
int64_t om_cpu_level(void);
void om_set_cpu_level_limit(int64_t level);

#ifdef __cplusplus
}
#endif

#endif
