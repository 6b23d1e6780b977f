/* The collectives beside ferruleAllReduce, and sends and receives; included by ferrule.h.
 *
 * As for ferruleAllReduce: options may be NULL, counts may be 0 (then pointers may be NULL), all ranks issue
 * the collectives of a communicator in the same order and with the same arguments (root, counts, dtype), and
 * options.work makes a call asynchronous. Counts are elements. Where all parts are alike, `count` is that of
 * one rank; the functions that end in V take `counts`, one for each rank, the same on all ranks.
 *
 * Codecs: ferruleReduceScatter and ferruleAllGather take them (float sum and avg; the residual has as many
 * elements as the rank hands over). ferruleAllGather compresses only if the call names a codec, not by a
 * communicator's default. All others are exact, take every dtype as bytes, and refuse a lossy codec.
 *
 * In place: reduce and broadcast with equal pointers; where one buffer has the parts of all ranks, the other
 * may be the rank's own part of it (as in NCCL). ferruleAllToAll is never in place.
 */
#ifndef FERRULE_COLLECTIVES_H
#define FERRULE_COLLECTIVES_H

#include "ferrule/ferrule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* recv (count elements) = this rank's part of op over all ranks of send (count * nranks elements). With a
 * lossy codec each contribution but the rank's own is encoded once; the sum is not. */
FERRULE_API ferruleResult_t ferruleReduceScatter(const void* send, void* recv, size_t count,
                                                 ferruleDataType_t dtype, ferruleRedOp_t op,
                                                 const ferruleOptions_t* options, ferruleComm_t comm,
                                                 ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleReduceScatterV(const void* send, void* recv, const size_t* counts,
                                                  ferruleDataType_t dtype, ferruleRedOp_t op,
                                                  const ferruleOptions_t* options, ferruleComm_t comm,
                                                  ferruleStream_t stream);

/* recv (count * nranks elements) = the send (count elements) of all ranks, by rank; the same bits on all of
 * them, also with a lossy codec: then a rank's own part is as the others see it. */
FERRULE_API ferruleResult_t ferruleAllGather(const void* send, void* recv, size_t count,
                                             ferruleDataType_t dtype, const ferruleOptions_t* options,
                                             ferruleComm_t comm, ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleAllGatherV(const void* send, void* recv, const size_t* counts,
                                              ferruleDataType_t dtype, const ferruleOptions_t* options,
                                              ferruleComm_t comm, ferruleStream_t stream);

/* recv = the root's send, on all ranks. The others' send is not looked at, and may be NULL. */
FERRULE_API ferruleResult_t ferruleBroadcast(const void* send, void* recv, size_t count,
                                             ferruleDataType_t dtype, int root,
                                             const ferruleOptions_t* options, ferruleComm_t comm,
                                             ferruleStream_t stream);

/* The root's recv = op over all ranks of send, added in rank order. The others' recv may be NULL. */
FERRULE_API ferruleResult_t ferruleReduce(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                          ferruleRedOp_t op, int root, const ferruleOptions_t* options,
                                          ferruleComm_t comm, ferruleStream_t stream);

/* The root's recv (count * nranks elements) = the send of all ranks, by rank. */
FERRULE_API ferruleResult_t ferruleGather(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                          int root, const ferruleOptions_t* options, ferruleComm_t comm,
                                          ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleGatherV(const void* send, void* recv, const size_t* counts,
                                           ferruleDataType_t dtype, int root, const ferruleOptions_t* options,
                                           ferruleComm_t comm, ferruleStream_t stream);

/* recv (count elements) = this rank's part of the root's send (count * nranks elements). */
FERRULE_API ferruleResult_t ferruleScatter(const void* send, void* recv, size_t count,
                                           ferruleDataType_t dtype, int root, const ferruleOptions_t* options,
                                           ferruleComm_t comm, ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleScatterV(const void* send, void* recv, const size_t* counts,
                                            ferruleDataType_t dtype, int root,
                                            const ferruleOptions_t* options, ferruleComm_t comm,
                                            ferruleStream_t stream);

/* Part d of send goes to rank d, part s of recv comes from rank s; count elements each. V: send_counts[d] go
 * to rank d and recv_counts[s] come from rank s, each rank with counts of its own. */
FERRULE_API ferruleResult_t ferruleAllToAll(const void* send, void* recv, size_t count,
                                            ferruleDataType_t dtype, const ferruleOptions_t* options,
                                            ferruleComm_t comm, ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleAllToAllV(const void* send, const size_t* send_counts, void* recv,
                                             const size_t* recv_counts, ferruleDataType_t dtype,
                                             const ferruleOptions_t* options, ferruleComm_t comm,
                                             ferruleStream_t stream);

/* Ends when all ranks have begun it. */
FERRULE_API ferruleResult_t ferruleBarrier(const ferruleOptions_t* options, ferruleComm_t comm,
                                           ferruleStream_t stream);

/* ---- point to point */

/* ferruleRecv takes from any rank; see ferruleWorkSource. */
#define FERRULE_ANY_RANK (-1)

/* A send meets the first receive, in the order of the calls, with its rank and tag; lengths must be equal
 * (ferruleMismatch on both sides otherwise). They run beside collectives and in no order with them. Always
 * exact: of the options only timeout_ns and work count. A send of at most 4 KiB may end before it is
 * received; a longer one ends when its bytes have been handed over. A rank cannot send to itself. */
FERRULE_API ferruleResult_t ferruleSend(const void* data, size_t count, ferruleDataType_t dtype, int peer,
                                        uint32_t tag, const ferruleOptions_t* options, ferruleComm_t comm,
                                        ferruleStream_t stream);
FERRULE_API ferruleResult_t ferruleRecv(void* data, size_t count, ferruleDataType_t dtype, int peer,
                                        uint32_t tag, const ferruleOptions_t* options, ferruleComm_t comm,
                                        ferruleStream_t stream);
/* Whose bytes a receive took; valid when done. */
FERRULE_API ferruleResult_t ferruleWorkSource(ferruleWork_t work, int* rank);

/* Names registered for "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
 * "all_to_all" or "barrier", separated by commas; NULL for another word. Valid for ever. */
FERRULE_API const char* ferruleCollectiveAlgorithmNames(const char* collective);

#ifdef __cplusplus
}
#endif

#endif /* FERRULE_COLLECTIVES_H */
