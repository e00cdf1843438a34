/* Parcels: a mean over a group whose parts travel in 16 bits and are added in 32.
 *
 *   member r      rounds its vector once, sends chunk k to member k        ((q-1)/q of it)
 *   member k      adds what came for chunk k in f32, in the group's order, divides by q, rounds once
 *                 and sends the chunk to everybody
 *
 * The ring of the exchanges would round at every hop, and its partial sums grow: with four members its error is half
 * as large again as the bound of two roundings, with more it grows on.  Here each element is rounded twice, wherever it
 * is and however many members there are, and all members end with the same bits.
 *
 * What travels is the difference to a vector that all members share, if there is one: then the rounding is relative to
 * the change and not to the value, so that small steps are not rounded away for ever.
 *
 * It blocks: for the phases of DASO in which nothing else could be done (docs/methods/daso.md). */
#ifndef SHOAL_METHOD_DASO_PARCEL_H
#define SHOAL_METHOD_DASO_PARCEL_H
#include "comm/exchange.h"
#include <stdbool.h>

typedef struct shoal_parcels shoal_parcels;
/** Plan means of `n` elements.  Collective over `g`.  @param wire  BF16 or F16.  Memory: 8 n bytes and a little more. */
shoal_status shoal_parcels_create(shoal_group *g, size_t n, shoal_wire wire, shoal_parcels **out);
void shoal_parcels_destroy(shoal_parcels *p); /* NULL is fine */
/** x ← common + mean over members of (x - common), the same bits everywhere; |error| <= 2^-7 (bf16) or 2^-10 (f16, in
 *  its range) of the largest |x - common| among the members.  Collective; blocks.
 *  @param common  [n] the same on all members; NULL: zeros
 *  @return ERR_NUMERIC if x - common holds what the format cannot: NaN, infinity, or beyond its largest number; nothing
 *          has been sent then, and the others wait: end the run */
shoal_status shoal_parcels_mean(shoal_parcels *p, const float *common, float *x);
/** The formula: payload bytes the caller sends in a mean of `n` elements over `g`, into out[link]: 2 (n - n_r) to the owners
 *  of the other chunks and 2 (q - 1) n_r of its own chunk of n_r elements; 4 (q - 1) n over all members. */
void shoal_parcels_bytes(const shoal_group *g, size_t n, uint64_t out[SHOAL_LINK_COUNT]);
#endif
