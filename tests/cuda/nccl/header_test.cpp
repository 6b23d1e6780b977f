// Our declarations of NCCL against those of the nccl.h that was found.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "transport/nccl/nccl_api.hpp"

namespace ferrule::transport::nccl {
namespace {

static_assert(std::is_same_v<Comm, ncclComm_t>);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(Code::in_progress) == ncclInProgress);
static_assert(static_cast<int>(Code::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(Code::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(Code::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(Code::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(sizeof(Code) == sizeof(ncclResult_t));
static_assert(kUint8 == ncclUint8 && sizeof(int) == sizeof(ncclDataType_t));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));

// Same arguments, but for enumerations that are int here and pointers that are void here.
template <class Mine, class Theirs>
constexpr bool alike = false;
template <class R, class... A, class S, class... B>
constexpr bool alike<R (*)(A...), S(B...)> = sizeof(R) == sizeof(S) && sizeof...(A) == sizeof...(B) &&
                                             ((sizeof(A) == sizeof(B)) && ...);

static_assert(alike<decltype(Api::get_version), decltype(ncclGetVersion)>);
static_assert(alike<decltype(Api::get_unique_id), decltype(ncclGetUniqueId)>);
static_assert(alike<decltype(Api::comm_init_rank_config), decltype(ncclCommInitRankConfig)>);
static_assert(alike<decltype(Api::comm_destroy), decltype(ncclCommDestroy)>);
static_assert(alike<decltype(Api::comm_abort), decltype(ncclCommAbort)>);
static_assert(alike<decltype(Api::comm_get_async_error), decltype(ncclCommGetAsyncError)>);
static_assert(alike<decltype(Api::comm_count), decltype(ncclCommCount)>);
static_assert(alike<decltype(Api::comm_user_rank), decltype(ncclCommUserRank)>);
static_assert(alike<decltype(Api::send), decltype(ncclSend)>);
static_assert(alike<decltype(Api::recv), decltype(ncclRecv)>);
static_assert(alike<decltype(Api::all_gather), decltype(ncclAllGather)>);

TEST(NcclHeader, KnowsTheMagicOfOurConfiguration) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config().magic, theirs.magic);
  EXPECT_LE(Config().version, theirs.version);
}

}  // namespace
}  // namespace ferrule::transport::nccl
