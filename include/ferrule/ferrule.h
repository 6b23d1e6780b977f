/* Ferrule's C API: a compressed all-reduce, and the other collectives (collectives.h). Shaped like NCCL's.
 *
 * Errors: every function returns ferruleResult_t; ferruleGetLastError() has the full text (what was wrong,
 * where, what to do) for the calling thread. No function aborts or throws because of its input.
 *
 * Threads: different communicators may be used from different threads at the same time. Calls on one
 * communicator are serialised inside; all ranks must issue the collectives of a communicator in the same
 * order.
 *
 * Ownership: handles are the caller's until the matching Destroy. Buffers are the caller's, and must stay
 * valid (send: unchanged) until the collective has completed.
 *
 * Waiting: every wait has a deadline; nothing waits for ever.
 */
#ifndef FERRULE_FERRULE_H
#define FERRULE_FERRULE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FERRULE_API
#else
#define FERRULE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller can do about it; see ferrule/status.hpp for the meaning of each. */
typedef enum {
  ferruleSuccess = 0,
  ferruleInvalidArgument = 1,
  ferruleUnsupported = 2,
  ferruleMismatch = 3,
  ferruleTimeout = 4,
  ferrulePeerLost = 5,
  ferruleAborted = 6,
  ferruleCorrupt = 7,
  ferruleSystemError = 8,
  ferruleInternalError = 9,
  ferruleInProgress = 10 /* ferruleWorkTest only: not an error */
} ferruleResult_t;

typedef enum {
  ferruleFloat32 = 0,
  ferruleFloat64 = 1,
  ferruleFloat16 = 2,
  ferruleBfloat16 = 3,
  ferruleInt32 = 4,
  ferruleInt64 = 5,
  ferruleUint8 = 6,
  ferruleDataTypeReserved =
      0x7fffffff /* makes it as wide as int, so that any int is a value that can be refused */
} ferruleDataType_t;

typedef enum {
  ferruleSum = 0,
  ferruleAvg = 1,
  ferruleMin = 2,
  ferruleMax = 3,
  ferruleProd = 4
} ferruleRedOp_t;

typedef struct ferruleComm* ferruleComm_t; /* a group of ranks */
typedef struct ferruleWork* ferruleWork_t; /* one collective under way */
typedef struct ferruleResidual*
    ferruleResidual_t;                       /* what lossy encodes have left behind, one fp32 an element */
typedef struct ferruleCodec* ferruleCodec_t; /* a wire format with its parameters */
typedef void* ferruleStream_t; /* cudaStream_t; NULL for host memory, or CUDA's default stream */

/* Where tensors are. */
typedef enum {
  ferruleHostMemory = 0,
  ferruleDeviceMemory = 1, /* of a CUDA device: cudaMalloc, cudaMallocAsync, torch's allocator. Managed and
                              pinned memory are host memory. */
  ferruleMemoryReserved = 0x7fffffff
} ferruleMemory_t;

/* "0.1.0" */
FERRULE_API const char* ferruleVersion(void);
/* The stable name of a code, e.g. "peer_lost". Never NULL. */
FERRULE_API const char* ferruleGetResultName(ferruleResult_t result);
/* Full text of the calling thread's last failed call; "" if there was none. Valid until this thread's next
 * call. */
FERRULE_API const char* ferruleGetLastError(void);
/* Names registered in this build, separated by commas. */
FERRULE_API const char* ferruleCodecNames(void);
FERRULE_API const char* ferruleAlgorithmNames(void);
FERRULE_API const char* ferruleTransportNames(void);
/* A multi-line text for bug reports: version, build, features, SIMD target, settings in effect. */
FERRULE_API const char* ferruleInfo(void);

/* ---- communicators
 * ------------------------------------------------------------------------------------------- */

/* Start with FERRULE_CONFIG_INIT. Empty strings (NULL) and zeros mean: from the FERRULE_* settings. */
typedef struct {
  size_t struct_bytes;
  const char* transport; /* "auto", "ucx", "loopback" */
  const char*
      codec; /* default codec of this communicator, e.g. "int4:block=128"; used only for float sum and avg */
  const char* algorithm; /* default algorithm, e.g. "auto", "direct" */
  const char* link;      /* throttle, e.g. "1gbit,1ms"; NULL: none unless FERRULE_LINK says so */
  const char* fault;     /* planted faults, for tests; see docs/errors.md */
  int64_t timeout_ns;    /* deadline of a collective, and of making the communicator */
} ferruleConfig_t;
#define FERRULE_CONFIG_INIT \
  { sizeof(ferruleConfig_t), NULL, NULL, NULL, NULL, NULL, 0 }

/* A key-value store of the caller's (e.g. torch's). Called from the thread that makes the communicator.
 * get waits until the key exists: it copies at most `capacity` bytes and stores the value's size. Both return
 * 0 on success. */
typedef struct {
  void* context;
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  int (*get)(void* context, const char* key, void* value, size_t capacity, size_t* bytes, int64_t timeout_ns);
} ferruleStore_t;

/* Rank `rank` of `nranks` meets the others at `rendezvous`: "tcp://host:port" (rank 0 serves it) or
 * "file:///path". Blocks until all ranks are there, or the timeout. config may be NULL. */
FERRULE_API ferruleResult_t ferruleCommInitRank(ferruleComm_t* comm, int nranks, const char* rendezvous,
                                                int rank, const ferruleConfig_t* config);
/* Rank, size and rendezvous from the launcher (torchrun, Open MPI, MPICH, Slurm, or plain RANK and
 * WORLD_SIZE). */
FERRULE_API ferruleResult_t ferruleCommInitFromEnv(ferruleComm_t* comm, const ferruleConfig_t* config);
/* Through the caller's store; `group` must be the same on all ranks and new for each communicator. */
FERRULE_API ferruleResult_t ferruleCommInitStore(ferruleComm_t* comm, int nranks, int rank, const char* group,
                                                 const ferruleStore_t* store, const ferruleConfig_t* config);
/* nranks ranks in this process, each to be driven by a thread of its own. comms[nranks]. */
FERRULE_API ferruleResult_t ferruleCommInitLocal(ferruleComm_t* comms, int nranks,
                                                 const ferruleConfig_t* config);

/* The ranks of `parent` that give the same `color` become a communicator, ordered by (key, rank in parent). A
 * negative color takes no part: *child is NULL then. A collective of the parent: all its ranks call it, in
 * the same place among its other collectives. The child has the parent's settings and a life of its own: both
 * may be used at the same time, and closed in any order. */
FERRULE_API ferruleResult_t ferruleCommSplit(ferruleComm_t parent, int color, int key, ferruleComm_t* child);

/* What becomes of residuals in a communicator that a shrink has made. */
typedef enum {
  ferruleKeepResiduals = 0,  /* each rank's own go on; those of the dead are lost */
  ferruleResetResiduals = 1, /* this rank's are zeroed at their first use in it */
  ferruleResidualPolicyReserved = 0x7fffffff
} ferruleResidualPolicy_t;

/* After ferrulePeerLost, ferruleTimeout, ferruleAborted or ferruleCorrupt: those that are left go on without
 * the dead, in their old order. All survivors call it, within the timeout of the communicator. Ends what is
 * pending on `broken`, which must still be destroyed (afterwards: a rank that has destroyed it counts as
 * gone). An error, e.g. because another rank has died meanwhile, leaves all as it was: call it again. */
FERRULE_API ferruleResult_t ferruleCommShrink(ferruleComm_t broken, ferruleComm_t* smaller,
                                              ferruleResidualPolicy_t residuals);

FERRULE_API ferruleResult_t ferruleCommRank(ferruleComm_t comm, int* rank);
FERRULE_API ferruleResult_t ferruleCommSize(ferruleComm_t comm, int* nranks);
/* "loopback", "ucx", "ucx+throttle", ...; valid while the communicator lives. */
FERRULE_API ferruleResult_t ferruleCommTransport(ferruleComm_t comm, const char** name);
/* Waits for pending work up to the timeout, then frees everything. NULL is fine. */
FERRULE_API ferruleResult_t ferruleCommDestroy(ferruleComm_t comm);
/* Ends all pending and later work with ferruleAborted, from any thread. The communicator must still be
 * destroyed. */
FERRULE_API ferruleResult_t ferruleCommAbort(ferruleComm_t comm);

/* Totals of this communicator, as counted at the transport, headers included. */
typedef struct {
  size_t struct_bytes;
  uint64_t collectives;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t messages_sent;
  uint64_t messages_received;
  uint64_t encode_ns; /* time spent in encodes and reduces ... */
  uint64_t decode_ns; /* ... in decodes ... */
  uint64_t
      wait_ns; /* ... and waiting for the wire, while a caller or the progress thread drove the collective */
  uint64_t scratch_bytes; /* held for wire bytes: grown to the largest need so far, then reused. Residuals are
                             not in it. No total. */
} ferruleStats_t;
FERRULE_API ferruleResult_t ferruleCommStats(ferruleComm_t comm, ferruleStats_t* stats);

/* ---- collectives
 * --------------------------------------------------------------------------------------------- */

/* Start with FERRULE_OPTIONS_INIT. */
typedef struct {
  size_t struct_bytes;
  const char*
      codec; /* NULL: the communicator's. "none" is exact. An explicit lossy codec with an integer or
                f64 tensor, or an operation other than sum and avg, is ferruleUnsupported. "none/int4":
                one for each level of the topology, innermost first (inside a node, between nodes); the
                algorithm is "hierarchical" then. One alone with "hierarchical": exact inside a node. */
  const char* algorithm;      /* NULL: the communicator's */
  ferruleResidual_t residual; /* error feedback; NULL: none */
  uint64_t seed; /* stochastic rounding: random bits are a function of (seed, step, tensor, rank, element) */
  uint64_t step;
  uint64_t tensor;
  int64_t timeout_ns;  /* 0: the communicator's */
  ferruleWork_t* work; /* not NULL: return at once, the handle must be waited for or tested, then destroyed */
  ferruleMemory_t
      memory; /* where send, recv and the residual are; a stream that is not NULL says device, too */
  const double* weight; /* not NULL: recv = sum of weight * send / sum of weights. With ferruleAvg of floats
                           in host memory, on all ranks or on none; finite, not negative, not all 0. Read
                           before the call returns. */
} ferruleOptions_t;
#define FERRULE_OPTIONS_INIT \
  { sizeof(ferruleOptions_t), NULL, NULL, NULL, 0, 0, 0, 0, NULL, ferruleHostMemory, NULL }

/* Device memory: the collective begins when `stream` has come as far as at the time of the call, and what
 * comes into `stream` after the call has returned (without `work`), or after ferruleWorkTest or
 * ferruleWorkWait has told success, comes after the result. The host waits for the wire, never for the
 * stream. Ranks of one collective may be on devices and on hosts, and get the same bits. A stream that is
 * being captured is ferruleUnsupported. */
/* recv = op over all ranks of send. send == recv is in place; partial overlap is an error. count elements, 0
 * allowed (then pointers may be NULL). options may be NULL. Afterwards recv holds the same bits on every
 * rank. If it fails, the residual is as it was before and the content of recv is undefined. */
FERRULE_API ferruleResult_t ferruleAllReduce(const void* send, void* recv, size_t count,
                                             ferruleDataType_t dtype, ferruleRedOp_t op,
                                             const ferruleOptions_t* options, ferruleComm_t comm,
                                             ferruleStream_t stream);

/* ferruleSuccess: done well. ferruleInProgress: not yet. Else: how it failed. Never waits. */
FERRULE_API ferruleResult_t ferruleWorkTest(ferruleWork_t work);
/* Waits until it is done, at most timeout_ns (< 0: until the collective's own deadline); then ferruleTimeout,
 * and the collective goes on. The waiting thread drives communication itself. */
FERRULE_API ferruleResult_t ferruleWorkWait(ferruleWork_t work, int64_t timeout_ns);
/* Wire bytes that this rank sent for it, headers included; valid when done. */
FERRULE_API ferruleResult_t ferruleWorkBytesSent(ferruleWork_t work, uint64_t* bytes);
/* What it runs: the algorithm, and the codec's canonical text, that were chosen where the call left the
 * choice
 * ("auto", "auto:int4", a tensor that compression would not shrink). Valid at once, while the handle lives.
 */
FERRULE_API ferruleResult_t ferruleWorkAlgorithm(ferruleWork_t work, const char** name);
FERRULE_API ferruleResult_t ferruleWorkCodec(ferruleWork_t work, const char** spec);
/* Frees the handle, not the collective: that goes on. NULL is fine. */
FERRULE_API ferruleResult_t ferruleWorkDestroy(ferruleWork_t work);

/* ---- residuals
 * ----------------------------------------------------------------------------------------------- */

/* A residual for tensors of `count` elements, zero. Used by one collective at a time. */
FERRULE_API ferruleResult_t ferruleResidualCreate(ferruleResidual_t* residual, size_t count);
/* The same in the memory of a device, for tensors there; device < 0: the thread's current one. Like a tensor,
 * it is in stream order: collectives that share it are on one stream, or ordered by the caller. May wait for
 * the device, as its destruction does. */
FERRULE_API ferruleResult_t ferruleResidualCreateOnDevice(ferruleResidual_t* residual, size_t count,
                                                          int device);
FERRULE_API ferruleResult_t ferruleResidualCount(ferruleResidual_t residual, size_t* count);
/* Copies all of its values (`count` must be the residual's) between collectives; for one on a device it waits
 * until all work of the device is done. */
FERRULE_API ferruleResult_t ferruleResidualRead(ferruleResidual_t residual, float* values, size_t count);
FERRULE_API ferruleResult_t ferruleResidualWrite(ferruleResidual_t residual, const float* values,
                                                 size_t count);
/* Its values, to read or change between collectives. The pointer is valid until the next collective that uses
 * it; of a residual on a device it is a device pointer. */
FERRULE_API ferruleResult_t ferruleResidualData(ferruleResidual_t residual, float** data);
FERRULE_API ferruleResult_t ferruleResidualDestroy(ferruleResidual_t residual);

/* ---- codecs by themselves
 * ------------------------------------------------------------------------------------ */

FERRULE_API ferruleResult_t ferruleCodecCreate(ferruleCodec_t* codec, const char* spec);
/* Canonical text; valid while the codec lives. */
FERRULE_API ferruleResult_t ferruleCodecSpec(ferruleCodec_t codec, const char** spec);
FERRULE_API ferruleResult_t ferruleCodecEncodedBytes(ferruleCodec_t codec, size_t count,
                                                     ferruleDataType_t dtype, size_t* bytes);
/* Encodes count elements of `in`; with a residual (of the same count) adds it first and stores the error in
 * it. `out_bytes` must be at least what ferruleCodecEncodedBytes says. */
FERRULE_API ferruleResult_t ferruleCodecEncode(ferruleCodec_t codec, const void* in, size_t count,
                                               ferruleDataType_t dtype, ferruleResidual_t residual,
                                               uint64_t seed, uint64_t step, void* out, size_t out_bytes);
/* `in_bytes` must be exactly what ferruleCodecEncodedBytes says. Any bytes are safe. */
FERRULE_API ferruleResult_t ferruleCodecDecode(ferruleCodec_t codec, const void* in, size_t in_bytes,
                                               void* out, size_t count, ferruleDataType_t dtype);
/* Largest absolute error that encode + decode of these elements may make (finite inputs). */
FERRULE_API ferruleResult_t ferruleCodecErrorBound(ferruleCodec_t codec, const void* in, size_t count,
                                                   ferruleDataType_t dtype, double* bound);
/* Per element: the largest absolute error that an all-reduce (sum or avg) over `nranks` may make, from the
 * sum over ranks of the largest magnitude of each element's block. `magnitudes` and `bounds` hold count
 * doubles; may be equal. Algorithm "auto": the largest bound of those that it may choose. "hierarchical": for
 * the topology of FERRULE_TOPOLOGY; without it, the largest bound of all hosts that the ranks may be on. */
FERRULE_API ferruleResult_t ferruleAllReduceErrorBound(ferruleCodec_t codec, const char* algorithm,
                                                       int nranks, ferruleDataType_t dtype, ferruleRedOp_t op,
                                                       const double* magnitudes, size_t count,
                                                       double* bounds);
FERRULE_API ferruleResult_t ferruleCodecBlock(ferruleCodec_t codec, size_t* elements);
FERRULE_API ferruleResult_t ferruleCodecDestroy(ferruleCodec_t codec);

#ifdef __cplusplus
}
#endif

#include "ferrule/collectives.h"

#endif /* FERRULE_FERRULE_H */
