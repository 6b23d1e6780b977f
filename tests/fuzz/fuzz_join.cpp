// A rank that joins through a store in which everything but its own word was written by strangers.
#include <map>
#include <string>
#include <vector>

#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "rendezvous/fields.hpp"
#include "rendezvous/join.hpp"
#include "rendezvous/store_protocol.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::rendezvous;
using ferrule::fuzz::Input;

// Never waits: what is not there is a timeout at once.
class HostileStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    own_ = value;
    values_.try_emplace(std::string(key), value);
    return {};
  }
  Result<std::string> get(std::string_view key, Deadline) override {
    const auto found = values_.find(std::string(key));
    if (found != values_.end()) return found->second;
    if (all_ && key.ends_with("/all/0") && !own_.empty()) return answer_of_rank_zero();
    return Status(ErrorCode::timeout, "not there");
  }
  std::string describe() const override { return "hostile"; }

  void plant(std::string key, std::string value) { values_.emplace(std::move(key), std::move(value)); }
  /// Rank 0's answer, well formed, with this rank's own word in its place and these in the others.
  void answer_with(std::vector<std::string> hellos, std::size_t rank, std::string verdict) {
    hellos_ = std::move(hellos);
    rank_ = rank;
    verdict_ = std::move(verdict);
    all_ = true;
  }

 private:
  std::string answer_of_rank_zero() {
    if (rank_ < hellos_.size()) hellos_[rank_] = own_;
    return encode_u64(1) + pack({verdict_, pack(hellos_)});
  }

  std::map<std::string, std::string> values_;
  std::string own_;
  bool all_ = false;
  std::vector<std::string> hellos_;
  std::size_t rank_ = 0;
  std::string verdict_;
};

std::string any_field(Input& input) { return std::string(input.text(input.pick(24))); }

// What a rank says of itself, with some of its fields as they should be.
std::string any_hello(Input& input, std::int32_t size) {
  if (input.pick(8) == 0) return any_field(input);
  std::vector<std::string> fields = {
      "1", std::to_string(size), "host", "id", "4711", "10.0.0.1", "net", "99", "1", "1", "mem"};
  const std::uint16_t wrong = input.take<std::uint16_t>();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (((wrong >> i) & 1U) != 0) fields[i] = any_field(input);
  }
  if (input.pick(16) == 0) fields.push_back(any_field(input));
  return pack(fields);
}

std::string any_verdict(Input& input) {
  if (input.flag()) return pack({"0", ""});
  return input.flag() ? pack({any_field(input), any_field(input)}) : any_field(input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  JoinRequest request;
  request.size = 1 + static_cast<std::int32_t>(input.pick(4));
  request.rank = static_cast<std::int32_t>(input.pick(static_cast<std::uint32_t>(request.size)));
  request.address = "10.0.0.2";
  request.version = "1";
  HostileStore store;
  std::vector<std::string> hellos;
  for (std::int32_t rank = 0; rank < request.size + static_cast<std::int32_t>(input.pick(32) == 0); ++rank) {
    hellos.push_back(any_hello(input, request.size));
    if (rank != request.rank && input.pick(8) != 0)
      store.plant("hello/" + std::to_string(rank), hellos.back());
  }
  switch (input.pick(4)) {
    case 0:
      store.plant("hello/problem", any_verdict(input));
      break;
    case 1:
      store.plant("hello/all/0", encode_u64(input.pick(3)) + std::string(input.rest()));
      break;
    default:
      store.answer_with(hellos, static_cast<std::size_t>(request.rank), any_verdict(input));
  }
  const auto membership = join(store, request, Deadline::after(std::chrono::nanoseconds(0)));
  if (!membership.ok()) {
    FERRULE_REQUIRE(!membership.status().ok());
    return 0;
  }
  FERRULE_REQUIRE(membership->size() == request.size && membership->rank == request.rank);
  return 0;
}
