#include "codec/level_list.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ferrule::codec {
namespace {

class LevelList final : public Codec {
 public:
  explicit LevelList(std::vector<std::shared_ptr<const Codec>> levels) : levels_(std::move(levels)) {
    for (const auto& level : levels_) {
      spec_ += (spec_.empty() ? "" : "/") + level->spec();
      block_ = std::lcm(block_, level->block());
    }
  }

  std::span<const std::shared_ptr<const Codec>> levels() const override { return levels_; }
  const std::string& spec() const override { return spec_; }
  std::size_t block() const override { return block_; }
  bool exact() const override {
    return std::all_of(levels_.begin(), levels_.end(), [](const auto& level) { return level->exact(); });
  }
  bool identity() const override { return last().identity(); }
  bool supports(DType dtype, ReduceOp op) const override {
    return std::all_of(levels_.begin(), levels_.end(),
                       [&](const auto& level) { return level->supports(dtype, op); });
  }
  std::size_t encoded_bytes(std::size_t count, DType dtype) const override {
    return last().encoded_bytes(count, dtype);
  }
  void encode(const EncodeArgs& args) const override { last().encode(args); }
  bool decode(const DecodeArgs& args) const override { return last().decode(args); }
  double relative_bound() const override { return last().relative_bound(); }
  double absolute_bound() const override { return last().absolute_bound(); }

 private:
  const Codec& last() const { return *levels_.back(); }

  std::vector<std::shared_ptr<const Codec>> levels_;
  std::string spec_;
  std::size_t block_ = 1;
};

}  // namespace

std::unique_ptr<const Codec> make_level_list(std::vector<std::shared_ptr<const Codec>> levels) {
  return std::make_unique<LevelList>(std::move(levels));
}

}  // namespace ferrule::codec
