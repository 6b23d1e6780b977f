#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <string>

#include "base/descriptor.hpp"
#include "transport/ucx/orphans.hpp"

namespace ferrule::transport::ucx {
namespace {

TEST(UcxOrphans, SharedMemoryThatNobodyHasOpenIsRemoved) {
  const std::string orphan = "/dev/shm/ucx_shm_posix_ferrule_test_" + std::to_string(::getpid());
  const std::string used = orphan + "_used";
  const std::int64_t now = ::time(nullptr);
  const Descriptor closed(::open(used.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!closed) GTEST_SKIP() << "/dev/shm cannot be written to";
  ASSERT_TRUE(Descriptor(::open(orphan.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)));
  remove_orphaned_shared_memory(now + 1000);  // made long before: somebody else's
  EXPECT_EQ(::access(orphan.c_str(), F_OK), 0);
  EXPECT_GE(remove_orphaned_shared_memory(now - 1), 1);
  EXPECT_NE(::access(orphan.c_str(), F_OK), 0);
  EXPECT_EQ(::access(used.c_str(), F_OK), 0);
  ::unlink(used.c_str());
}

}  // namespace
}  // namespace ferrule::transport::ucx
