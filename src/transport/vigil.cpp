#include "transport/vigil.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace ferrule::transport {

std::vector<std::int32_t> Vigil::children_of(std::int32_t rank, std::int32_t size) {
  std::vector<std::int32_t> children;
  const std::int64_t first = std::int64_t{rank} * kBranches + 1;
  for (std::int64_t child = first; child < std::min<std::int64_t>(size, first + kBranches); ++child) {
    children.push_back(static_cast<std::int32_t>(child));
  }
  return children;
}

Vigil::~Vigil() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  for (Neighbour& neighbour : neighbours_) send_to(neighbour, VigilWord::Kind::farewell, membership_.rank);
}

std::vector<std::int32_t> Vigil::take() {
  const std::lock_guard lock(mutex_);
  std::uint64_t times = 0;
  [[maybe_unused]] const auto bytes = ::read(news_.get(), &times, sizeof(times));
  return std::exchange(fresh_, {});
}

// ---- the thread

void Vigil::keep() {
  log::set_thread_rank(membership_.rank);
  while (true) {
    std::vector<pollfd> entries = {{stop_.get(), POLLIN, 0}};
    std::vector<Neighbour*> polled;
    for (Neighbour& neighbour : neighbours_) {
      if (!neighbour.socket) continue;
      entries.push_back({neighbour.socket.get(), POLLIN, 0});
      polled.push_back(&neighbour);
    }
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    if (entries[0].revents != 0) return;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (entries[i + 1].revents != 0) look_at(*polled[i]);
    }
  }
}

void Vigil::look_at(Neighbour& neighbour) {
  auto* const to = reinterpret_cast<char*>(&neighbour.word) + neighbour.bytes;
  const ssize_t got = ::recv(neighbour.socket.get(), to, sizeof(VigilWord) - neighbour.bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end_of(neighbour);
  neighbour.bytes += static_cast<std::size_t>(got);
  if (neighbour.bytes < sizeof(VigilWord)) return;
  neighbour.bytes = 0;
  take_word(neighbour);
}

void Vigil::take_word(Neighbour& from) {
  const VigilWord& word = from.word;
  const bool ours = word.magic == VigilWord::kMagic && word.communicator == membership_.communicator;
  if (ours && word.kind == VigilWord::Kind::farewell) {
    from.left = true;
  } else if (ours && word.kind == VigilWord::Kind::lost && word.subject >= 0 &&
             word.subject < membership_.size()) {
    note(word.subject, from.rank);
  } else {
    log::warn("vigil: {} sent something that means nothing here; it is not listened to any more",
              membership_.describe(from.rank));
    from.socket = Descriptor();
  }
}

void Vigil::end_of(Neighbour& neighbour) {
  neighbour.socket = Descriptor();
  if (!neighbour.left) note(neighbour.rank, neighbour.rank);
}

void Vigil::note(std::int32_t dead, std::int32_t told_by) {
  if (dead == membership_.rank) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(known_[static_cast<std::size_t>(dead)], 1) != 0) return;
    fresh_.push_back(dead);
  }
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.rank != told_by) send_to(neighbour, VigilWord::Kind::lost, dead);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(news_.get(), &one, sizeof(one));
}

/// A neighbour that does not read for so long that its buffer is full hears nothing; words are small and few.
void Vigil::send_to(Neighbour& to, VigilWord::Kind kind, std::int32_t subject) const {
  if (!to.socket) return;
  VigilWord word;
  word.kind = kind;
  word.communicator = membership_.communicator;
  word.source = membership_.rank;
  word.subject = subject;
  [[maybe_unused]] const auto sent =
      ::send(to.socket.get(), &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace ferrule::transport
