#include "base/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/descriptor.hpp"
#include "base/log.hpp"

namespace ferrule {
namespace {

constexpr std::size_t kMostEvents = 2'000'000;
constexpr std::string_view kOpening = "[\n";
constexpr std::string_view kClosing = "\n]\n";

std::string_view name_of(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::collective:
      return "all_reduce";
    case Trace::Kind::encode:
      return "encode";
    case Trace::Kind::decode:
      return "decode";
    case Trace::Kind::wait:
      return "wait";
    case Trace::Kind::send:
      return "wire";
  }
  return "unknown";
}

std::string expand(std::string file, std::int32_t rank) {
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  for (const auto& [word, value] :
       {std::pair<std::string, std::string>{"%r", std::to_string(rank)}, {"%h", host}}) {
    for (std::size_t at = file.find(word); at != std::string::npos; at = file.find(word, at + value.size())) {
      file.replace(at, word.size(), value);
    }
  }
  return file;
}

std::int64_t realtime_offset_ns() {
  using std::chrono::nanoseconds;
  const auto real = std::chrono::system_clock::now().time_since_epoch() / nanoseconds(1);
  return real - Trace::Clock::now().time_since_epoch() / nanoseconds(1);
}

Status failed(const std::string& file, const char* what) {
  return Status(ErrorCode::system,
                fmt::format("FERRULE_TRACE: {} '{}': {}", what, file, std::strerror(errno)));
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Trace::Trace(std::string file, std::int32_t rank, std::uint64_t communicator)
    : file_(expand(std::move(file), rank)),
      rank_(rank),
      communicator_(communicator),
      realtime_offset_ns_(realtime_offset_ns()) {}

Trace::~Trace() {
  const Status status = write();
  if (!status.ok()) log::warn("{}", status.text());
}

void Trace::add(const Event& event) {
  if (events_.size() < kMostEvents) {
    events_.push_back(event);
  } else {
    ++dropped_;
  }
}

std::string Trace::to_json() const {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank_,
                 rank_);
  for (const Event& event : events_) {
    const auto begin_ns = event.begin.time_since_epoch() / std::chrono::nanoseconds(1) + realtime_offset_ns_;
    const double us = 1e-3 * static_cast<double>((event.end - event.begin) / std::chrono::nanoseconds(1));
    // Messages overlap each other, so they have a row for each peer.
    const bool is_send = event.kind == Kind::send;
    fmt::format_to(
        out,
        ",\n"
        R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{:.3f},"args":{{"sequence":{},)"
        R"("slice":{},"chunk":{},"bytes":{},"communicator":"{:016x}"{}}}}})",
        name_of(event.kind), rank_,
        is_send                          ? 2 + event.peer
        : event.kind == Kind::collective ? 0
                                         : 1,
        begin_ns / 1000, begin_ns % 1000, us, event.sequence, event.slice, event.chunk, event.bytes,
        communicator_, is_send ? fmt::format(R"(,"peer":{})", event.peer) : "");
  }
  return fmt::to_string(text);
}

// The file holds "[ events ]". Ours go in front of the closing bracket of those who came before.
Status Trace::write() {
  if (!on() || events_.empty()) return {};
  if (dropped_ != 0) {
    log::warn("FERRULE_TRACE: '{}' lacks {} later events of rank {}: trace a shorter run", file_, dropped_,
              rank_);
  }
  const Descriptor file(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return failed(file_, "cannot open");
  if (::flock(file.get(), LOCK_EX) != 0) return failed(file_, "cannot lock");
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  const auto closing = static_cast<off_t>(kClosing.size());
  char tail[kClosing.size()];
  const bool follows = size >= closing && ::pread(file.get(), tail, sizeof tail, size - closing) == closing &&
                       std::string_view(tail, sizeof tail) == kClosing;
  if (size != 0 && !follows) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("FERRULE_TRACE: '{}' is there already and is no trace: name a new file", file_));
  }
  if (follows && ::ftruncate(file.get(), size - closing) != 0) return failed(file_, "cannot continue");
  ::lseek(file.get(), 0, SEEK_END);
  std::string text(follows ? ",\n" : kOpening);
  text += to_json();
  text += kClosing;
  if (!write_all(file.get(), text)) return failed(file_, "cannot write");
  events_.clear();
  dropped_ = 0;
  return {};
}

}  // namespace ferrule
