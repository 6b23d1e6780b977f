/* A shared library that looks like NCCL to whoever looks for one: STUB_VERSION, and nothing that works. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int* version) {
  *version = STUB_VERSION;
  return 0;
}
EXPORT const char* ncclGetErrorString(int code) {
  (void)code;
  return "fake";
}
EXPORT const char* ncclGetLastError(void* comm) { return comm == NULL ? "fake" : ""; }

#define REFUSING(name) \
  EXPORT int name(void) { return 3; }
REFUSING(ncclGetUniqueId)
REFUSING(ncclCommInitRankConfig)
REFUSING(ncclCommDestroy)
REFUSING(ncclCommAbort)
REFUSING(ncclCommGetAsyncError)
REFUSING(ncclCommCount)
REFUSING(ncclCommUserRank)
REFUSING(ncclGroupStart)
REFUSING(ncclGroupEnd)
REFUSING(ncclSend)
REFUSING(ncclRecv)
REFUSING(ncclAllGather)
