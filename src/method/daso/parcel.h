/* Parcels: a mean over a group, sent in 16 bits and summed in f32.
 *
 *   member r      rounds its vector once, sends chunk k to member k        ((q-1)/q of it)
 *   member k      sums what it received for chunk k in f32, in the group's order, divides by q, rounds once
 *                 and sends the chunk to all members
 *
 * A ring would round at every hop, and its partial sums grow: with four members its error is 1.5 times the bound of two
 * roundings, and more with more members.  Here each element is rounded exactly twice for any number of members, and all
 * members get the same bits.
 *
 * If the members share a common vector, the difference to it is sent: rounding is then relative to the change and not
 * to the value, so small updates are not lost.
 *
 * Blocking: for the phases of DASO without overlap (docs/methods/daso.md). */
#ifndef SHOAL_METHOD_DASO_PARCEL_H
#define SHOAL_METHOD_DASO_PARCEL_H
#include "comm/exchange.h"
#include "tensor/backend.h"
#include <stdbool.h>

typedef struct shoal_parcels shoal_parcels;
/** Plans means of `n` elements of the backend's memory.  Collective over `g`.  @param wire  BF16 or F16.  Memory: 8 n bytes and a little
 *  more. */
shoal_status shoal_parcels_create(shoal_backend *b, shoal_group *g, size_t n, shoal_wire wire, shoal_parcels **out);
void shoal_parcels_destroy(shoal_parcels *p); /* accepts NULL */
/** x ← common + mean over members of (x - common), the same bits on all members; |error| <= 2^-7 (bf16) or 2^-10 (f16,
 *  in its range) of the largest |x - common| among the members.  Collective; blocks.
 *  @param common  [n] the same on all members; NULL: zeros
 *  @return ERR_NUMERIC if x - common holds NaN, infinity, or a value out of the format's range; nothing was sent then
 *                      and
 *          the other members wait, so end the run */
shoal_status shoal_parcels_mean(shoal_parcels *p, const float *common, float *x);
/** Payload bytes, by formula, that the caller sends in a mean of `n` elements over `g`, into out[link]: 2 (n - n_r) to
 *  the owners of the other chunks and 2 (q - 1) n_r of its own chunk of n_r elements; 4 (q - 1) n over all members. */
void shoal_parcels_bytes(const shoal_group *g, size_t n, uint64_t out[SHOAL_LINK_COUNT]);
#endif
