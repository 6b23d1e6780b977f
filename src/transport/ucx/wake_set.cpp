#include "transport/ucx/wake_set.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace ferrule::transport::ucx {
namespace {

// Tags below these are ranks.
constexpr std::uint64_t kEvents = std::uint64_t{1} << 32;
constexpr std::uint64_t kWake = kEvents + 1;
constexpr std::uint64_t kNews = kEvents + 2;
constexpr std::uint64_t kSigns = std::uint64_t{1} << 33;  // this plus a rank

Status system_error(const char* call) {
  return {ErrorCode::system, fmt::format("{} failed: {}", call, std::strerror(errno))};
}

/// Rounded up: waking before the deadline would only mean to sleep again.
int milliseconds_left(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
}

}  // namespace

WakeSet::~WakeSet() {
  for (const auto& process : processes_) ::close(process.pidfd);
  if (wake_ >= 0) ::close(wake_);
  if (poll_ >= 0) ::close(poll_);
}

Status WakeSet::open(int events) {
  poll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (poll_ < 0) return system_error("epoll_create1");
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return system_error("eventfd");
  FERRULE_RETURN_IF_ERROR(add(wake_, kWake));
  return add(events, kEvents);
}

Status WakeSet::add(int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (::epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event) != 0) return system_error("epoll_ctl");
  return {};
}

Status WakeSet::add_process(int pidfd, std::int32_t peer) {
  processes_.push_back({pidfd, peer});
  return add(pidfd, static_cast<std::uint64_t>(peer));
}

Status WakeSet::add_sign(Descriptor sign, std::int32_t peer) {
  signs_.push_back({std::move(sign), peer});
  return add(signs_.back().end.get(), kSigns + static_cast<std::uint64_t>(peer));
}

Status WakeSet::add_news(int descriptor) { return add(descriptor, kNews); }

void WakeSet::forget(std::int32_t peer) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const Process& process) { return process.peer == peer; });
  if (found == processes_.end()) return;
  ::close(found->pidfd);  // which takes it out of the poll set, too
  processes_.erase(found);
}

void WakeSet::wake() {
  const std::uint64_t one = 1;
  // Full is as good as written: a sleeper wakes either way.
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one));
}

Result<WakeSet::Deaths> WakeSet::sleep(Deadline deadline) {
  std::array<epoll_event, 16> events{};
  const int count =
      ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), milliseconds_left(deadline));
  Deaths deaths;
  if (count < 0) {
    if (errno == EINTR) return deaths;
    return system_error("epoll_wait");
  }
  for (const auto& event : std::span(events).first(static_cast<std::size_t>(count))) {
    if (event.data.u64 == kWake) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto bytes = ::read(wake_, &times, sizeof(times));
    } else if (event.data.u64 < kEvents) {
      deaths.ended.push_back(static_cast<std::int32_t>(event.data.u64));
      forget(deaths.ended.back());
    } else if (event.data.u64 >= kSigns) {
      const auto peer = static_cast<std::int32_t>(event.data.u64 - kSigns);
      deaths.dying.push_back(peer);
      std::erase_if(signs_, [&](const Sign& sign) { return sign.peer == peer; });
    }
  }
  return deaths;
}

}  // namespace ferrule::transport::ucx
